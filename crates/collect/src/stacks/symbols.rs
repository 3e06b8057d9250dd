//! Names of addresses: functions, files and lines of a module, from its file and from debug files.
//!
//! Debug information may lie in the file itself, or apart: by the build id under `/usr/lib/debug/.build-id`, or by the
//! name that the file gives (its debug link). Where there is none, the symbol table names functions.
//!
//! Invariant: a file whose build id is not the recorded one is not asked: it is another build.

use addr2line::{Loader, demangle_auto};
use freehold_trace::{Call, Module};
use object::{Object, ReadCache};
use std::borrow::Cow;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Where distributions put debug files.
const DEBUG: &str = "/usr/lib/debug";

/// What can be asked about a module.
pub struct Names {
    /// Those with debug information first.
    loaders: Vec<Loader>,
}

impl Names {
    /// Of a module, as far as its files are here.
    pub fn of(module: &Module) -> Names {
        let own = Path::new(&module.path);
        let is_it = |path: &PathBuf| facts(path).is_some_and(|it| it.build_id == module.build_id);
        let found = Some(own.to_owned()).filter(is_it);
        let by_id = by_build_id(&module.build_id).filter(|path| path.exists());
        let by_link = || linked(own, found.as_deref().and_then(facts)?.link?).find(is_it);
        let apart = by_id.or_else(by_link);
        let files = apart.into_iter().chain(found);
        let load = |path: PathBuf| {
            let alt = facts(&path)?.alt.map(|alt| path.parent().unwrap_or(&path).join(alt));
            Loader::new_with_sup(&path, alt.filter(|alt| alt.exists())).ok()
        };
        Names { loaders: files.filter_map(load).collect() }
    }

    /// The functions at an address of the module's own, the innermost of inlined ones first.
    pub fn calls(&self, address: u64) -> Vec<Call> {
        let mut calls = self.loaders.iter().map(|loader| inlined(loader, address));
        let mut calls = calls.find(|calls| !calls.is_empty()).unwrap_or_default();
        // Debug information without a name, or none at all.
        if calls.last().is_none_or(|call| call.function.is_empty())
            && let Some(function) = self.loaders.iter().find_map(|loader| symbol(loader, address))
        {
            match calls.last_mut() {
                Some(call) => call.function = function,
                None => calls.push(Call { function, file: None, line: None }),
            }
        }
        calls.retain(|call| !call.function.is_empty());
        calls
    }
}

/// What debug information says.
fn inlined(loader: &Loader, address: u64) -> Vec<Call> {
    let mut calls = Vec::new();
    let Ok(mut frames) = loader.find_frames(address) else { return calls };
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|name| name.demangle().ok());
        let place = frame.location;
        calls.push(Call {
            function: name.map(Cow::into_owned).unwrap_or_default(),
            file: place.as_ref().and_then(|place| place.file).map(str::to_owned),
            line: place.and_then(|place| place.line),
        });
    }
    calls
}

/// The symbol that holds the address.
fn symbol(loader: &Loader, address: u64) -> Option<String> {
    let name = loader.find_symbol(address)?;
    Some(demangle_auto(Cow::Borrowed(name), None).into_owned())
}

/// What a file says of itself.
struct Facts {
    build_id: String,
    /// The name of its debug file.
    link: Option<String>,
    /// The name of a file that several debug files share.
    alt: Option<String>,
}

fn facts(path: impl AsRef<Path>) -> Option<Facts> {
    // A pipe or device would wait for its other end.
    if !path.as_ref().is_file() {
        return None;
    }
    let cache = ReadCache::new(BufReader::new(File::open(path).ok()?));
    let file = object::File::parse(&cache).ok()?;
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let id = file.build_id().ok().flatten().unwrap_or_default();
    Some(Facts {
        build_id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
        link: file.gnu_debuglink().ok().flatten().map(|(name, _)| text(name)),
        alt: file.gnu_debugaltlink().ok().flatten().map(|(name, _)| text(name)),
    })
}

fn by_build_id(build_id: &str) -> Option<PathBuf> {
    let (folder, name) = build_id.split_at_checked(2)?;
    (!name.is_empty())
        .then(|| Path::new(DEBUG).join(".build-id").join(folder).join(format!("{name}.debug")))
}

/// Where a debug file of that name may lie.
fn linked(own: &Path, name: String) -> impl Iterator<Item = PathBuf> + use<> {
    let folder = own.parent().unwrap_or(own).to_owned();
    let apart = Path::new(DEBUG).join(folder.strip_prefix("/").unwrap_or(&folder));
    [folder.clone(), folder.join(".debug"), apart].into_iter().map(move |at| at.join(&name))
}
