//! Debian packages: the command, the library, and what a program needs to link against it.
//!
//! ```text
//!   fill            the package's own files, under a folder of its own
//!   documents       what Debian's policy wants of every package: changelog, copyright, what lintian is told
//!   build           control, sums of all files, dpkg-deb
//! ```

mod documents;

use super::{copy, licences, put, root, run_tool, target, wheel};
use anyhow::Result;
use documents::Revision;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Of the packages: the project's, and the packaging's own.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "-1");
/// Where Debian keeps libraries of this processor, beneath `/usr`.
const LIBDIR: &str = "lib/x86_64-linux-gnu";

/// One package: its name, what its control file says beyond the common fields, and how its folder is filled.
struct Package {
    name: &'static str,
    section: &'static str,
    /// Lines of the control file.
    more: String,
    about: &'static str,
    fill: fn(&Path) -> Result<()>,
}

/// Builds all of them; a commit's packages are the same bytes every time.
pub fn build(out: &Path) -> Result<Vec<PathBuf>> {
    let revision = Revision::of_the_sources()?;
    packages().iter().map(|package| package.build(out, &revision)).collect()
}

fn packages() -> [Package; 3] {
    [
        Package {
            name: "freehold",
            section: "devel",
            more:
                "Depends: libc6 (>= 2.28), libgcc-s1\nSuggests: libjemalloc2, libtcmalloc-minimal4"
                    .to_owned(),
            about: "laboratory for memory allocators\n Freehold records the allocations of any program, replays them under \
                    every\n policy and on every malloc of the machine, and shows what is resident, who has\n it, and what \
                    another allocator would do.",
            fill: fill_command,
        },
        Package {
            name: "libfreehold1",
            section: "libs",
            more: "Depends: libc6 (>= 2.35)\nMulti-Arch: same".to_owned(),
            about: "memory allocator that knows its place - library\n A drop-in malloc for any program, by linking or by \
                    LD_PRELOAD. It gives free\n memory back to the system page by page while the program idles, and has\n \
                    heaps with limits, statistics and a sampled profile.",
            fill: fill_library,
        },
        Package {
            name: "libfreehold-dev",
            section: "libdevel",
            more: format!("Depends: libfreehold1 (= {VERSION})\nMulti-Arch: same"),
            about: "memory allocator that knows its place - development files\n The header, the static library, the pkg-config \
                    file and the CMake\n configuration with which programs in C and C++ use the malloc of Freehold and\n its \
                    heaps.",
            fill: fill_development,
        },
    ]
}

impl Package {
    fn build(&self, out: &Path, revision: &Revision) -> Result<PathBuf> {
        let folder = target().join("package").join(self.name);
        // What an earlier build left is no part of this one.
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(folder.join("DEBIAN"))?;
        (self.fill)(&folder)?;
        documents::add(self.name, &folder, revision)?;
        put(&folder.join("DEBIAN/control"), &self.control())?;
        let sums = "find usr -type f | LC_ALL=C sort | xargs -d '\\n' md5sum > DEBIAN/md5sums";
        run_tool(Command::new("sh").args(["-c", sums]).current_dir(&folder))?;
        // Whatever umask the builder has.
        let modes = "find . -type d -exec chmod 755 {} + && chmod 644 DEBIAN/*";
        run_tool(Command::new("sh").args(["-c", modes]).current_dir(&folder))?;
        let file = out.join(format!("{}_{VERSION}_amd64.deb", self.name));
        run_tool(
            Command::new("dpkg-deb")
                .args(["--build", "--root-owner-group"])
                .args([&folder, &file])
                .env("SOURCE_DATE_EPOCH", &revision.seconds)
                .stdout(Stdio::null()),
        )?;
        Ok(file)
    }

    fn control(&self) -> String {
        let Package { name, section, more, about, .. } = self;
        format!(
            "Package: {name}\nSource: freehold\nVersion: {VERSION}\nSection: {section}\nPriority: optional\n\
             Architecture: amd64\nMaintainer: {}\n{more}\nDescription: {about}\n",
            documents::MAINTAINER
        )
    }
}

fn fill_command(folder: &Path) -> Result<()> {
    let command = folder.join("usr/bin/freehold");
    copy(&wheel::command()?, &command, 0o755)?;
    let pages = folder.join("usr/share/man/man1");
    fs::create_dir_all(&pages)?;
    run_tool(Command::new(&command).args(["man", "--out"]).arg(&pages))?;
    for page in fs::read_dir(&pages)?.flatten() {
        fs::set_permissions(page.path(), fs::Permissions::from_mode(0o644))?;
        compress(&page.path())?;
    }
    let shells = [
        ("bash", "bash-completion/completions/freehold"),
        ("fish", "fish/vendor_completions.d/freehold.fish"),
        ("zsh", "zsh/vendor-completions/_freehold"),
    ];
    for (shell, file) in shells {
        let completions = Command::new(&command).args(["completions", shell]).output()?;
        put(&folder.join("usr/share").join(file), &String::from_utf8(completions.stdout)?)?;
    }
    let documents = folder.join("usr/share/doc/freehold");
    licences::write(&documents)?;
    compress(&documents.join(licences::LIBRARY))
}

fn fill_library(folder: &Path) -> Result<()> {
    let library = folder.join("usr").join(LIBDIR).join("libfreehold.so.1");
    copy(&installed()?.join("usr").join(LIBDIR).join("libfreehold.so.1"), &library, 0o644)?;
    run_tool(
        Command::new("strip").args(["--strip-unneeded", "--remove-section=.comment"]).arg(library),
    )?;
    copy_notices("libfreehold1", folder)?;
    put(&folder.join("DEBIAN/shlibs"), "libfreehold 1 libfreehold1\n")?;
    put(&folder.join("DEBIAN/triggers"), "activate-noawait ldconfig\n")
}

/// All that the installer installs but the library itself.
fn fill_development(folder: &Path) -> Result<()> {
    let stage = installed()?;
    let lib = Path::new("usr").join(LIBDIR);
    let files = [
        Path::new("usr/include/freehold.h").to_owned(),
        lib.join("libfreehold.a"),
        lib.join("pkgconfig/freehold.pc"),
        lib.join("cmake/Freehold/FreeholdConfig.cmake"),
        lib.join("cmake/Freehold/FreeholdConfigVersion.cmake"),
    ];
    for file in files {
        copy(&stage.join(&file), &folder.join(&file), 0o644)?;
    }
    let strip = ["--strip-debug", "--enable-deterministic-archives"];
    run_tool(Command::new("strip").args(strip).arg(folder.join(&lib).join("libfreehold.a")))?;
    copy_notices("libfreehold-dev", folder)?;
    Ok(std::os::unix::fs::symlink("libfreehold.so.1", folder.join(&lib).join("libfreehold.so"))?)
}

/// Those of the code in the library that is not ours, as the installer installs them.
fn copy_notices(package: &str, folder: &Path) -> Result<()> {
    let from = installed()?.join("usr/share/doc/libfreehold").join(licences::LIBRARY);
    let to = folder.join("usr/share/doc").join(package).join(licences::LIBRARY);
    copy(&from, &to, 0o644)?;
    compress(&to)
}

/// What the project's own installer installs under `/usr`.
fn installed() -> Result<PathBuf> {
    let stage = target().join("package/installed");
    run_tool(
        Command::new("sh")
            .arg(root().join("crates/capi/install.sh"))
            .arg("/usr")
            .env("DESTDIR", fs::canonicalize(target())?.join("package/installed"))
            .env("LIBDIR", LIBDIR)
            .stdout(Stdio::null()),
    )?;
    Ok(stage)
}

/// The same bytes from the same file.
fn compress(file: &Path) -> Result<()> {
    run_tool(Command::new("gzip").args(["--best", "--no-name", "--force"]).arg(file))
}
