//! The crates that others link, as a registry would get them: packaged, unpacked elsewhere, and used by a project that is no part
//! of this one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Those without `publish = false`, in the order of their publication.
const CRATES: [&str; 5] =
    ["freehold-blocks", "freehold-core", "freehold-os", "freehold-trace", "freehold"];

const PROGRAM: &str = r#"
use allocator_api2::vec::Vec;
use freehold::{Heap, HeapOptions};
use freehold_trace::Trace;
use hashbrown::{DefaultHashBuilder, HashMap};

#[global_allocator]
static MALLOC: freehold::Freehold = freehold::Freehold;

fn main() {
    let heap = Heap::new(HeapOptions { limit: Some(1 << 20), name: "stranger" }).expect("memory");
    let mut map: HashMap<u64, Vec<u64, &Heap>, DefaultHashBuilder, &Heap> = HashMap::new_in(&heap);
    for number in 0..1000 {
        map.entry(number % 10).or_insert_with(|| Vec::new_in(&heap)).push(number);
    }
    let error = Trace::open(std::path::Path::new("/no/such/trace")).err().expect("there is none");
    println!("{} lists, {} blocks, {error}", map.len(), heap.stats().census.blocks());
}
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn cargo(folder: &Path, arguments: &[&str]) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    // The other crates, and where they come from, are this workspace's: no network is needed.
    cargo.args(arguments).arg("--offline").current_dir(folder);
    let output = cargo.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "cargo {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Every crate as a folder with what its package holds.
fn packaged(into: &Path) -> Vec<PathBuf> {
    let built = into.join("built");
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.args(["package", "crates", "--out"]).arg(&built).env("CARGO_NET_OFFLINE", "true");
    let output = xtask.env("CARGO_TARGET_DIR", into).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let unpack = |name: &&str| {
        let folder = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
        let file = built.join(format!("{folder}.crate"));
        // With new times (`m`): those in a package never change, so Cargo would take an older build of it for this one.
        let status = Command::new("tar").arg("-xmzf").arg(file).arg("-C").arg(into).status();
        assert!(status.unwrap().success(), "{name} is a package");
        into.join(folder)
    };
    CRATES.iter().map(unpack).collect()
}

#[test]
fn others_can_link_what_would_be_published() {
    // The same folder every time, in the workspace's target folder: what it built of other crates is not built again.
    let desk = Path::new(env!("CARGO_TARGET_TMPDIR")).join("crates");
    let _ = fs::remove_dir_all(&desk);
    fs::create_dir_all(&desk).unwrap();
    let packages = packaged(&desk);
    for package in &packages {
        for file in ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT"] {
            assert!(fs::metadata(package.join(file)).unwrap().len() > 100, "{file}");
        }
        let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
        assert!(!manifest.contains("freehold-testkit"), "what is published needs nothing else");
    }
    let stranger = desk.join("stranger");
    fs::create_dir_all(stranger.join("src")).unwrap();
    fs::write(stranger.join("src/main.rs"), PROGRAM).unwrap();
    let patches: String = CRATES
        .iter()
        .zip(&packages)
        .map(|(name, folder)| format!("{name} = {{ path = {folder:?} }}\n"))
        .collect();
    let manifest = format!(
        "[package]\nname = \"stranger\"\nversion = \"1.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         freehold = {{ version = \"0.1\", features = [\"allocator-api2\"] }}\n\
         freehold-trace = {{ version = \"0.1\", default-features = false }}\n\
         allocator-api2 = \"0.2\"\nhashbrown = \"0.17\"\n\n[workspace]\n\n[patch.crates-io]\n{patches}"
    );
    fs::write(stranger.join("Cargo.toml"), manifest).unwrap();
    // The versions of other crates are those that are here already.
    fs::copy(root().join("Cargo.lock"), stranger.join("Cargo.lock")).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let said = cargo(&stranger, &["run", "--quiet", "--target-dir", target.to_str().unwrap()]);
    assert!(said.starts_with("10 lists, 11 blocks, cannot read /no/such/trace"), "{said}");
}

#[test]
fn only_these_crates_may_be_published() {
    let metadata = cargo(&root(), &["metadata", "--no-deps", "--format-version=1"]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let open = packages.iter().filter(|package| package["publish"].is_null());
    let mut open: Vec<&str> = open.map(|package| package["name"].as_str().unwrap()).collect();
    let mut wanted = CRATES;
    open.sort();
    wanted.sort();
    assert_eq!(open, wanted);
    for package in packages.iter().filter(|package| package["publish"].is_null()) {
        for field in ["description", "license"] {
            assert!(package[field].is_string(), "{field} of {}", package["name"]);
        }
    }
}
