//! Builds what the command carries inside itself: the recorder's preload libraries, the replayer and the malloc.
//!
//! They are built here, in a target folder of their own, because as ordinary dependencies they would
//! land where nobody finds them, and a library that defines `malloc` would put it into the command.
//! They are compressed; `src/embedded.rs` unpacks them when they are needed.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One thing to build and embed.
struct Part {
    /// The environment variable by which `embedded.rs` finds the file.
    variable: &'static str,
    package: &'static str,
    /// The folders under `crates/` that it is made of; the package's own is the first.
    folders: &'static [&'static str],
    /// What `cargo rustc` is told beyond package and profile.
    arguments: &'static [&'static str],
    /// The target folder: builds of one package with other features do not share it.
    target: &'static str,
    file: &'static str,
}

const CDYLIB: &[&str] = &["--lib", "--features", "preload", "--crate-type", "cdylib"];

/// Stacks that begin in an allocator's own hooks pass through ours, whose frames must be described, too.
const CDYLIB_OF_STACKS: &[&str] = &[
    "--lib",
    "--features",
    "preload,stacks",
    "--crate-type",
    "cdylib",
    "--",
    "-C",
    "force-unwind-tables=yes",
];

const PARTS: &[Part] = &[
    Part {
        variable: "EMBEDDED_RECORD",
        package: "freehold-record",
        folders: &["record"],
        arguments: CDYLIB,
        target: "embedded",
        file: "libfreehold_record.so",
    },
    Part {
        variable: "EMBEDDED_RECORD_STACKS",
        package: "freehold-record",
        folders: &["record"],
        arguments: CDYLIB_OF_STACKS,
        target: "embedded-stacks",
        file: "libfreehold_record.so",
    },
    Part {
        variable: "EMBEDDED_REPLAYER",
        package: "freehold-replayer",
        folders: &["replayer"],
        arguments: &["--bin", "freehold-replayer"],
        target: "embedded",
        file: "freehold-replayer",
    },
    Part {
        variable: "EMBEDDED_MALLOC",
        package: "freehold-capi",
        folders: &["capi", "freehold", "os", "core"],
        arguments: CDYLIB,
        target: "embedded",
        file: "libfreehold_capi.so",
    },
];

fn main() {
    let crates = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("..");
    for part in PARTS {
        let target = PathBuf::from(variable("OUT_DIR")).join(part.target);
        build(part, &crates, &target);
        let file = pack(&target.join("preload").join(part.file));
        println!("cargo::rustc-env={}={}", part.variable, file.display());
        for folder in part.folders {
            watch(&crates.join(folder));
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", crates.join("../Cargo.toml").display());
}

fn build(part: &Part, crates: &Path, target: &Path) {
    let status = Command::new(variable("CARGO"))
        .arg("rustc")
        .args(["--quiet", "--profile", "preload", "--package", part.package])
        .arg("--manifest-path")
        .arg(crates.join(part.folders[0]).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .args(part.arguments)
        // The outer build may be clippy, coverage or fuzzing: none of that is for these.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS")
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("building {} for embedding failed: {status}", part.package),
        Err(error) => panic!("cargo could not be run to build {}: {error}", part.package),
    }
}

/// Compresses a file, to less than half; the result lies beside it.
fn pack(file: &Path) -> PathBuf {
    let packed = file.with_extension("gz");
    let mut bytes = std::fs::File::open(file).expect("it was just built");
    let to = std::fs::File::create(&packed).expect("its folder takes files");
    let mut to = GzEncoder::new(to, Compression::best());
    std::io::copy(&mut bytes, &mut to).and_then(|_| to.finish()).expect("the disk has room");
    packed
}

fn watch(folder: &Path) {
    for part in ["src", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", folder.join(part).display());
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}
