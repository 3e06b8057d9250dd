//! Source packages of the distribution, fetched once by its own tools into the target folder: they hold the tests
//! that installed packages leave out. The machine's own list of sources is not changed.

use super::Workshop;
use crate::bench::place::must;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the system keeps its own lists.
const SYSTEM_LISTS: &str = "/etc/apt/sources.list.d";

/// The unpacked source of `package`, as it is after `prepare` has run on it (once).
pub fn source(
    workshop: &Workshop,
    package: &str,
    prepare: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    let base = workshop.place.target.join("soak/sources");
    let folder = base.join(package);
    let ready = base.join(format!("{package}.ready"));
    if ready.is_file() {
        return Ok(folder);
    }
    std::fs::create_dir_all(&base)?;
    let _ = std::fs::remove_dir_all(&folder);
    eprintln!("{package}: fetching and preparing its source, once");
    fetch(&base, package)?;
    prepare(&folder)?;
    std::fs::write(ready, "")?;
    Ok(folder)
}

fn fetch(base: &Path, package: &str) -> anyhow::Result<()> {
    let why =
        format!("the source package {package} cannot be fetched (needs Debian's apt and dpkg-dev)");
    let apt = base.join("apt");
    let (lists, cache, sources) = (apt.join("lists"), apt.join("cache"), apt.join("sources.list"));
    std::fs::create_dir_all(lists.join("partial"))?;
    std::fs::create_dir_all(cache.join("archives/partial"))?;
    let first = !sources.is_file();
    std::fs::write(&sources, source_lines()?)?;
    let get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        for (key, value) in [
            ("Dir::Etc::SourceList", &sources),
            ("Dir::State::Lists", &lists),
            ("Dir::Cache", &cache),
        ] {
            command.arg("-o").arg(format!("{key}={}", value.display()));
        }
        command.args([
            "-o",
            "Dir::Etc::SourceParts=/dev/null",
            "-o",
            "APT::Sandbox::User=root",
            "-qq",
        ]);
        command.args(arguments).current_dir(base);
        must(&mut command, &why)
    };
    if first {
        get(&["update"])?;
    }
    get(&["source", "--download-only", package])?;
    let unpack = format!("dpkg-source -x {package}_*.dsc {package}");
    must(Command::new("sh").current_dir(base).args(["-c", &unpack]), &why)
}

/// The system's main list of packages, as a list of sources.
fn source_lines() -> anyhow::Result<String> {
    let file = Path::new(SYSTEM_LISTS).join("debian.sources");
    let text = std::fs::read_to_string(&file).with_context(|| {
        format!("source packages are fetched on Debian only: no {}", file.display())
    })?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).with_context(|| format!("{} has no {name}", file.display()))
    };
    let suite = field("Suites:")?.split_whitespace().next().context("an empty list of suites")?;
    let key = field("Signed-By:")?;
    Ok(format!("deb-src [signed-by={key}] {} {suite} main\n", field("URIs:")?))
}
