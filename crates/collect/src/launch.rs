//! Starts the program with the library preloaded, and explains why it may not be recorded.

use crate::error::RecordError;
use crate::session::Options;
use freehold_record::hello::VARIABLE;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PRELOAD: &str = "LD_PRELOAD";

/// Starts the program. Descriptors, folder and, unless there is one, the environment are the caller's.
pub(crate) fn start(options: &Options, address: &str) -> Result<Child, RecordError> {
    let Some((program, arguments)) = options.command.split_first() else {
        return Err(failure(OsStr::new(""), "no program is named".into(), 127));
    };
    let mut start = Command::new(program);
    start.args(arguments);
    if let Some(environment) = &options.environment {
        start.env_clear().envs(environment.iter().map(|(key, value)| (key, value)));
    }
    start.env(PRELOAD, preload(program, &options.library)?).env(VARIABLE, address);
    if options.mute {
        start.stdout(Stdio::null());
    }
    start.spawn().map_err(|error| explain(program, &error))
}

/// Our library before those that the caller preloads, so that we see what is asked of them.
fn preload(program: &OsStr, library: &Path) -> Result<OsString, RecordError> {
    // The loader knows no way to quote these.
    if library.as_os_str().as_bytes().iter().any(|byte| b": \t\n".contains(byte)) {
        let reason = format!(
            "the recorder's library lies in {}, and LD_PRELOAD cannot hold a path with spaces or \
             colons; set XDG_CACHE_HOME to another folder",
            library.display()
        );
        return Err(failure(program, reason, 126));
    }
    let mut value = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    Ok(value)
}

fn failure(program: &OsStr, reason: String, status: u8) -> RecordError {
    RecordError::Launch { program: program.to_string_lossy().into_owned(), reason, status }
}

/// Why a program could not be started: [`RecordError::Launch`].
pub fn explain(program: &OsStr, error: &io::Error) -> RecordError {
    let found = find(program);
    match (error.kind(), &found) {
        (io::ErrorKind::NotFound, None) if program.as_bytes().contains(&b'/') => {
            failure(program, "there is no such file".into(), 127)
        }
        (io::ErrorKind::NotFound, None) => {
            let reason = "no folder of PATH holds a program of this name";
            failure(program, reason.into(), 127)
        }
        (io::ErrorKind::NotFound, Some(_)) => {
            failure(program, "the interpreter that it names does not exist".into(), 127)
        }
        (io::ErrorKind::PermissionDenied, Some(path)) if path.is_dir() => {
            failure(program, "it is a folder".into(), 126)
        }
        (io::ErrorKind::PermissionDenied, _) => {
            let reason = "it may not be executed; `chmod +x` allows it, or run its interpreter";
            failure(program, reason.into(), 126)
        }
        _ if error.raw_os_error() == Some(libc::ENOEXEC) => {
            let reason = "it is no program that the kernel knows; a script needs a first line \
                          such as #!/bin/sh";
            failure(program, reason.into(), 126)
        }
        _ => failure(program, error.to_string(), 126),
    }
}

/// The file that the name stands for.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|path| path.exists());
    }
    let path = std::env::var_os("PATH")?;
    let candidates = || std::env::split_paths(&path).map(|folder| folder.join(program));
    let executable = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    candidates().find(executable).or_else(|| candidates().find(|path| path.exists()))
}

/// Why a program that ran did not load the library, as far as its file tells.
pub(crate) fn why_unrecorded(program: &OsStr) -> &'static str {
    let Some(path) = find(program) else { return "its file is gone" };
    let privileged = fs::metadata(&path).is_ok_and(|m| m.mode() & 0o6000 != 0);
    if privileged {
        return "it is set-uid or set-gid, for which the loader ignores preloaded libraries";
    }
    match interpreter(&path) {
        Ok(false) => "it is statically linked, so it loads no libraries",
        _ => "it did not load the recorder's library, or ended before it could",
    }
}

/// Whether an ELF file names a loader (PT_INTERP); scripts count as such.
fn interpreter(path: &Path) -> io::Result<bool> {
    const PROGRAM_HEADER: usize = 56;
    const PT_INTERP: u32 = 3;
    let mut bytes = Vec::new();
    File::open(path)?.take(64 << 10).read_to_end(&mut bytes)?;
    let (Some(offset), Some(count)) = (bytes.get(32..40), bytes.get(56..58)) else {
        return Ok(true);
    };
    if !bytes.starts_with(b"\x7fELF\x02") {
        return Ok(true);
    }
    let offset = offset.iter().rev().fold(0usize, |n, &byte| n << 8 | usize::from(byte));
    let count = usize::from(count[0]) | usize::from(count[1]) << 8;
    let headers = bytes.get(offset..).unwrap_or(&[]).chunks_exact(PROGRAM_HEADER).take(count);
    Ok(headers.into_iter().any(|header| header[..4] == PT_INTERP.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_the_loader_would_split_is_refused() {
        let error = preload(OsStr::new("true"), Path::new("/a b/lib.so")).unwrap_err();
        assert!(error.to_string().contains("XDG_CACHE_HOME"), "{error}");
        assert!(preload(OsStr::new("true"), Path::new("/ab/lib.so")).is_ok());
    }

    #[test]
    fn reasons_name_the_way_out() {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        let error = explain(OsStr::new("no-such-program-here"), &missing);
        assert!(matches!(error, RecordError::Launch { status: 127, .. }));
        assert!(error.to_string().contains("PATH"), "{error}");
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = explain(OsStr::new("/etc/passwd"), &denied);
        assert!(matches!(error, RecordError::Launch { status: 126, .. }));
        assert!(error.to_string().contains("chmod"), "{error}");
    }

    #[test]
    fn a_dynamic_program_names_its_loader() {
        let own = std::env::current_exe().unwrap();
        assert!(interpreter(&own).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        assert!(interpreter(&script).unwrap());
    }
}
