//! The files that the command carries inside itself, unpacked by content when they are needed.
//!
//! Invariant: a path handed out names a file whose bytes are exactly those that were embedded. It lies in the
//! user's cache folder (or, where that cannot be written or executed from, the temporary folder),
//! in a folder named by the hash of the contents, so that two versions never meet. `LD_PRELOAD` can
//! name it, and programs may be run from there.

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use std::ffi::CString;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// One embedded file.
pub struct Embedded {
    name: &'static str,
    /// As gzip has it.
    packed: &'static [u8],
}

/// The recorder's preload library.
pub const RECORD: Embedded =
    Embedded { name: "libfreehold_record.so", packed: include_bytes!(env!("EMBEDDED_RECORD")) };

/// The recorder's preload library that records call stacks, too.
pub const RECORD_STACKS: Embedded = Embedded {
    name: "libfreehold_record.so",
    packed: include_bytes!(env!("EMBEDDED_RECORD_STACKS")),
};

/// The program that replays a trace on whatever malloc is preloaded.
pub const REPLAYER: Embedded =
    Embedded { name: "freehold-replayer", packed: include_bytes!(env!("EMBEDDED_REPLAYER")) };

/// Freehold's own malloc.
pub const MALLOC: Embedded =
    Embedded { name: "libfreehold.so", packed: include_bytes!(env!("EMBEDDED_MALLOC")) };

/// The allocators that come with this command, by the names that `--on` takes.
///
/// # Errors
/// As [`Embedded::unpack`].
pub fn allocators() -> Result<Vec<(&'static str, PathBuf)>> {
    Ok(vec![("freehold", MALLOC.unpack()?)])
}

impl Embedded {
    /// The file on disk, unpacked if it is not there yet.
    ///
    /// # Errors
    /// When neither the cache folder nor the temporary folder can hold it.
    pub fn unpack(&self) -> Result<PathBuf> {
        let mut bytes = Vec::new();
        GzDecoder::new(self.packed).read_to_end(&mut bytes).context("the command is damaged")?;
        let mut refusals = String::new();
        for root in roots() {
            match self.put_under(&root, &bytes) {
                Ok(path) => return Ok(path),
                Err(error) => refusals += &format!("\n  {}: {error:#}", root.display()),
            }
        }
        bail!(
            "no folder can hold {}; set XDG_CACHE_HOME to one that can be written:{refusals}",
            self.name
        )
    }

    fn put_under(&self, root: &Path, bytes: &[u8]) -> Result<PathBuf> {
        if !is_one_word(root) {
            bail!("LD_PRELOAD cannot hold a path with spaces or colons");
        }
        // Whoever may write to a folder may swap what is in it: both must be ours. Others may read, for what root starts may
        // run as somebody else.
        make_own(root)?;
        if forbids_programs(root) {
            bail!("programs may not be run from there (noexec)");
        }
        let folder = root.join(format!("{:016x}", fnv1a(bytes)));
        make_own(&folder)?;
        let path = folder.join(self.name);
        if fs::read(&path).is_ok_and(|there| there == bytes) {
            return Ok(path);
        }
        let mut file = tempfile::NamedTempFile::new_in(&folder)?;
        file.write_all(bytes)?;
        file.as_file().set_permissions(Permissions::from_mode(0o755))?;
        file.persist(&path).context("the file could not be put in place")?;
        Ok(path)
    }
}

/// Where files may be unpacked, best first.
fn roots() -> Vec<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .filter(|path| path.is_absolute());
    // A folder shared by all users is safe for us only by our own name in it.
    // SAFETY: geteuid has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    let temporary = std::env::temp_dir().join(format!("freehold-{user}"));
    cache.map(|folder| folder.join("freehold")).into_iter().chain([temporary]).collect()
}

/// Makes the folder (and what leads to it), which only this user can write to; refuses somebody else's.
fn make_own(folder: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    let metadata = fs::symlink_metadata(folder)?;
    // SAFETY: geteuid has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    if !metadata.is_dir() || metadata.uid() != user || metadata.mode() & 0o022 != 0 {
        bail!("{} is not a folder that only this user can write", folder.display());
    }
    Ok(())
}

/// Whether the loader takes the path for one, for it knows no way to quote.
fn is_one_word(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| b": \t\n".contains(byte))
}

/// Whether what lies in the folder may not be executed, nor mapped as code.
fn forbids_programs(folder: &Path) -> bool {
    let Ok(path) = CString::new(folder.as_os_str().as_bytes()) else { return true };
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the kernel writes the structure, which is valid when zero.
    unsafe {
        libc::statvfs(path.as_ptr(), found.as_mut_ptr()) == 0
            && found.assume_init().f_flag & libc::ST_NOEXEC != 0
    }
}

/// The 64-bit FNV-1a hash: a name for the contents, not a defence (the bytes are compared).
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_nothing_can_be_preloaded_from_is_not_taken() {
        assert!(is_one_word(Path::new("/a/.cache")));
        assert!(!is_one_word(Path::new("/a b/.cache")) && !is_one_word(Path::new("/a:b")));
        let folder = tempfile::tempdir().unwrap();
        let file = Embedded { name: "file", packed: b"" };
        assert!(file.put_under(&folder.path().join("in one word"), b"bytes").is_err());
        assert!(!folder.path().join("in one word").exists(), "refused before anything was made");
        let path = file.put_under(&folder.path().join("word"), b"bytes").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
        // Others can preload it, too, unless the user wants none of his folders read.
        let usual = folder.path().join("usual");
        DirBuilder::new().mode(0o755).create(&usual).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let folders = [path.parent().unwrap(), path.parent().unwrap().parent().unwrap()];
        assert_eq!(folders.map(mode), [mode(&usual); 2]);
        // Linux mounts it so wherever it was not told otherwise.
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let told = mounts.lines().find(|line| line.split(' ').nth(1) == Some("/proc")).unwrap();
        assert_eq!(forbids_programs(Path::new("/proc")), told.contains("noexec"));
        assert!(!forbids_programs(Path::new("/")));
    }
}
