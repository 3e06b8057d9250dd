//! Builds the peers that Debian does not package (or not in a current version) as the override libraries their
//! authors ship: mimalloc 2 and 3 and snmalloc, plain and with all their checks, from the sources inside their crates,
//! rpmalloc and hardened_malloc from clones.

use super::compile;
use super::place::{Place, must};
use super::suite;
use anyhow::Context;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release of rpmalloc that is measured; crates.io only has 1.4.
const RPMALLOC: &str = "2.0.1";

/// The release of hardened_malloc that is measured: the last that GCC 12 compiles.
const HARDENED_MALLOC: &str = "2026050900";

const COMMON: &str = "-O3 -DNDEBUG -shared -fPIC -fvisibility=hidden";
const MIMALLOC: &str = "-ftls-model=initial-exec -fno-builtin-malloc -DMI_SHARED_LIB -DMI_SHARED_LIB_EXPORT -DMI_MALLOC_OVERRIDE";
const MIMALLOC_SECURE: &str = "-DMI_SECURE=4";
const RPMALLOC_FLAGS: &str =
    "-std=gnu17 -D_GNU_SOURCE=1 -fomit-frame-pointer -DENABLE_OVERRIDE=1 -DENABLE_DYNAMIC_LINK=1";

/// A library that was built, and what it is.
pub struct Built {
    /// The preload library.
    pub library: PathBuf,
    /// Its version, as its source states it.
    pub version: String,
}

/// mimalloc, `line` v2 or v3, with the flags of its own release build; `secure` with all that its own secure build adds.
pub fn mimalloc(place: &Place, line: &str, secure: bool) -> anyhow::Result<Built> {
    let package = package("libmimalloc-sys")?;
    let source = package.folder.join("c_src/mimalloc").join(line);
    let (name, flags) = match secure {
        true => ("mimalloc-secure", format!("{MIMALLOC} {MIMALLOC_SECURE}")),
        false => ("mimalloc", MIMALLOC.to_owned()),
    };
    let library = place.lib.join(compile::library(&format!("{name}-{line}-{}", package.version)));
    shared_library(&library, &flags, &source.join("include"), &source.join("src/static.c"))?;
    let header = std::fs::read_to_string(source.join("include/mimalloc.h"))?;
    Ok(Built {
        library,
        version: format!("{} (libmimalloc-sys {})", mimalloc_version(&header)?, package.version),
    })
}

/// `#define MI_MALLOC_VERSION 30302`: one digit major, two minor, two patch.
fn mimalloc_version(header: &str) -> anyhow::Result<String> {
    let line = header.lines().find(|line| line.contains("define MI_MALLOC_VERSION"));
    let number = line.and_then(|line| line.split_whitespace().nth(2)?.parse::<u32>().ok());
    let number = number.context("mimalloc.h does not say its version")?;
    Ok(format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100))
}

/// snmalloc's shim, by its own CMake file; `checks` is the one that checks.
pub fn snmalloc(place: &Place, checks: bool) -> anyhow::Result<Built> {
    let package = package("snmalloc-sys")?;
    let target = if checks { "snmallocshim-checks" } else { "snmallocshim" };
    let name = if checks { "snmalloc-checks" } else { "snmalloc" };
    let library = place.lib.join(compile::library(&format!("{name}-{}", package.version)));
    if !library.is_file() {
        let build = place.sources.join(format!("snmalloc-{}", package.version));
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(package.folder.join("upstream")).arg("-B").arg(&build);
        must(configure.arg("-DCMAKE_BUILD_TYPE=Release"), "snmalloc (packages cmake and g++)")?;
        let mut make = Command::new("cmake");
        must(make.arg("--build").arg(&build).args(["--target", target]), "snmalloc")?;
        std::fs::copy(build.join(format!("lib{target}.so")), &library)?;
    }
    Ok(Built { library, version: format!("{} (snmalloc-sys)", package.version) })
}

/// rpmalloc as its own shared library is built.
pub fn rpmalloc(place: &Place) -> anyhow::Result<Built> {
    let source = place.clones.join("rpmalloc");
    let file = source.join("rpmalloc/rpmalloc.c");
    anyhow::ensure!(
        file.is_file(),
        "rpmalloc's source is missing: git clone --branch {RPMALLOC} https://github.com/mjansson/rpmalloc {}",
        source.display()
    );
    let library = place.lib.join(compile::library(&format!("rpmalloc-{RPMALLOC}")));
    shared_library(&library, RPMALLOC_FLAGS, &source.join("rpmalloc"), &file)?;
    let changes = std::fs::read_to_string(source.join("CHANGELOG")).unwrap_or_default();
    let version = changes.lines().next().unwrap_or(RPMALLOC).trim().to_owned();
    Ok(Built { library, version })
}

/// hardened_malloc, by its own Makefile, but not for this machine's own instructions.
pub fn hardened_malloc(place: &Place) -> anyhow::Result<Built> {
    let source = place.clones.join("hardened_malloc");
    anyhow::ensure!(
        source.join("h_malloc.c").is_file(),
        "hardened_malloc's source is missing: git clone --branch {HARDENED_MALLOC} https://github.com/GrapheneOS/hardened_malloc {}",
        source.display()
    );
    let version = describe(&source);
    let library = place.lib.join(compile::library(&format!("hardened_malloc-{version}")));
    if !library.is_file() {
        let made = place.scratch.join("hardened_malloc");
        let mut make = Command::new("make");
        make.arg("-C").arg(&source).arg(format!("OUT={}", made.display()));
        make.args(["CONFIG_NATIVE=false", "CONFIG_WERROR=false"]);
        must(&mut make, "hardened_malloc (packages make and g++)")?;
        std::fs::copy(made.join("libhardened_malloc.so"), &library)?;
    }
    Ok(Built { library, version })
}

/// The release or commit of a clone.
fn describe(source: &Path) -> String {
    let asked =
        Command::new("git").arg("-C").arg(source).args(["describe", "--tags", "--always"]).output();
    match asked {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "unknown".to_owned(),
    }
}

/// The library to test: `libfreehold.so`, built by Cargo like the one that is shipped.
pub fn freehold(place: &Place) -> anyhow::Result<Built> {
    let target = place.target.join("bench/freehold");
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(crate::sources::root())
        .args(["rustc", "--quiet", "-p", "freehold-capi", "--profile", "preload"])
        .args(["--features", "preload", "--crate-type", "cdylib", "--target-dir"])
        .arg(&target);
    must(&mut command, "libfreehold.so")?;
    let folder = target.join("preload");
    let made = ["libfreehold.so", "libfreehold_capi.so"].map(|name| folder.join(name));
    let made = made.into_iter().find(|file| file.is_file());
    let made = made.with_context(|| format!("no libfreehold.so in {}", folder.display()))?;
    let library = place.scratch.join(compile::library("freehold")); // one copy per invocation: builds go on beside it
    std::fs::copy(made, &library)?;
    Ok(Built { library, version: super::facts::commit() })
}

/// Compiles one file of C to a preload library; one that is there is kept, since its name holds its version.
fn shared_library(library: &Path, flags: &str, include: &Path, file: &Path) -> anyhow::Result<()> {
    if library.is_file() {
        return Ok(());
    }
    let mut command = Command::new("cc");
    command.args(COMMON.split_whitespace()).args(flags.split_whitespace());
    command.arg("-I").arg(include).arg(file).args(["-pthread", "-o"]).arg(library);
    must(&mut command, "a peer does not compile")
}

struct Package {
    version: String,
    folder: PathBuf,
}

/// Where Cargo keeps the source of one of `bench/peers`' dependencies, fetched when it is not there.
fn package(name: &str) -> anyhow::Result<Package> {
    let manifest = suite::folder().join("peers/Cargo.toml");
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["metadata", "--locked", "--format-version", "1", "--manifest-path"])
        .arg(manifest);
    let output = command.output().context("cargo metadata cannot be started")?;
    anyhow::ensure!(
        output.status.success(),
        "the sources of the peers cannot be fetched:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let found = packages.iter().find(|package| package["name"] == name);
    let found = found.with_context(|| format!("{name} is not a dependency of bench/peers"))?;
    let text = |key: &str| found[key].as_str().map(str::to_owned).context("cargo metadata is odd");
    let manifest = PathBuf::from(text("manifest_path")?);
    let folder = manifest.parent().map(Path::to_path_buf).context("a manifest without a folder")?;
    Ok(Package { version: text("version")?, folder })
}

#[cfg(test)]
mod tests {
    #[test]
    fn mimalloc_states_its_version_as_one_number() {
        let header = "#ifndef MIMALLOC_H\n#define MI_MALLOC_VERSION 30302   // major\n";
        assert_eq!(super::mimalloc_version(header).unwrap(), "3.3.2");
    }
}
