//! Memray, which records Python alone: in an environment of its own, outside of the repository, made once for each version of it and of the interpreter.

use super::must;
use anyhow::Context;
use std::path::PathBuf;

/// The version that is measured.
const VERSION: &str = "1.20.0";

/// The interpreter of an environment that has memray, beside `python`; made if it is not there.
///
/// # Errors
/// When it cannot be made: there is no network, or no wheel for the interpreter.
pub fn interpreter(python: &str) -> anyhow::Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    let cache = cache.context("there is no folder for caches: set HOME or XDG_CACHE_HOME")?;
    let of = python.replace('/', "-");
    let folder = cache.join(format!("freehold-bench/memray-{VERSION}{of}"));
    let own = folder.join("bin/python");
    // The last that is made, so that it is there when all is.
    let mark = folder.join("is-whole");
    if !mark.exists() {
        let (path, own) = (folder.display().to_string(), own.display().to_string());
        println!("memray {VERSION} is installed into {path}");
        must(python, &["-m", "venv", "--clear", &path])?;
        let package = format!("memray=={VERSION}");
        must(&own, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &package])?;
        std::fs::write(&mark, "")?;
    }
    Ok(own)
}
