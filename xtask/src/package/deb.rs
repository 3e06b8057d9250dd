//! Debian packages: the command, the library, and what a program needs to link against it.

use super::{licences, root, run_tool, shipped_command, target};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// One package: its name, what its control file says beyond the common fields, and how its folder is filled.
struct Package {
    name: &'static str,
    section: &'static str,
    depends: String,
    about: &'static str,
    fill: fn(&Path) -> Result<()>,
}

pub fn build(out: &Path) -> Result<Vec<PathBuf>> {
    let packages = [
        Package {
            name: "freehold",
            section: "devel",
            depends: "libc6 (>= 2.35), libgcc-s1".to_owned(),
            about: "laboratory for memory allocators\n Records the allocations of any program, replays them under any policy on \
                    any\n allocator, and shows what each would do.",
            fill: fill_command,
        },
        Package {
            name: "libfreehold1",
            section: "libs",
            depends: "libc6 (>= 2.35)".to_owned(),
            about: "memory allocator that knows its place - library\n A drop-in malloc that gives memory back while the \
                    program idles.",
            fill: fill_library,
        },
        Package {
            name: "libfreehold-dev",
            section: "libdevel",
            depends: format!("libfreehold1 (= {VERSION})"),
            about: "memory allocator that knows its place - development files\n Header, pkg-config file and CMake \
                    configuration of libfreehold.",
            fill: fill_development,
        },
    ];
    packages.iter().map(|package| package.build(out)).collect()
}

impl Package {
    fn build(&self, out: &Path) -> Result<PathBuf> {
        let folder = target().join("package").join(self.name);
        // What an earlier build left is no part of this one.
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(folder.join("DEBIAN"))?;
        (self.fill)(&folder)?;
        let documents = folder.join("usr/share/doc").join(self.name);
        put(&documents.join("copyright"), &copyright()?)?;
        let [name, section, depends, about] = [self.name, self.section, &self.depends, self.about];
        let control = format!(
            "Package: {name}\nVersion: {VERSION}\nSection: {section}\nPriority: optional\nArchitecture: amd64\n\
             Maintainer: The Freehold developers <freehold@localhost>\nDepends: {depends}\nDescription: {about}\n"
        );
        put(&folder.join("DEBIAN/control"), &control)?;
        let file = out.join(format!("{name}_{VERSION}_amd64.deb"));
        run_tool(
            Command::new("dpkg-deb")
                .args(["--build", "--root-owner-group"])
                .args([&folder, &file])
                .stdout(std::process::Stdio::null()),
        )?;
        Ok(file)
    }
}

fn fill_command(folder: &Path) -> Result<()> {
    let command = folder.join("usr/bin/freehold");
    copy(&shipped_command()?, &command, 0o755)?;
    let pages = folder.join("usr/share/man/man1");
    fs::create_dir_all(&pages)?;
    run_tool(Command::new(&command).args(["man", "--out"]).arg(&pages))?;
    for page in fs::read_dir(&pages)?.flatten() {
        run_tool(Command::new("gzip").args(["--best", "--no-name"]).arg(page.path()))?;
    }
    let completions = Command::new(&command).args(["completions", "bash"]).output()?;
    let words = String::from_utf8(completions.stdout)?;
    put(&folder.join("usr/share/bash-completion/completions/freehold"), &words)?;
    put(&folder.join("usr/share/doc/freehold/THIRD-PARTY"), &licences::text()?)
}

fn fill_library(folder: &Path) -> Result<()> {
    let stage = installed()?;
    copy(&stage.join("usr/lib/libfreehold.so.1"), &folder.join("usr/lib/libfreehold.so.1"), 0o644)?;
    put(&folder.join("DEBIAN/shlibs"), "libfreehold 1 libfreehold1\n")?;
    put(&folder.join("DEBIAN/triggers"), "activate-noawait ldconfig\n")
}

fn fill_development(folder: &Path) -> Result<()> {
    let stage = installed()?;
    for file in ["include/freehold.h", "lib/pkgconfig/freehold.pc"] {
        let file = Path::new("usr").join(file);
        copy(&stage.join(&file), &folder.join(&file), 0o644)?;
    }
    std::os::unix::fs::symlink("libfreehold.so.1", folder.join("usr/lib/libfreehold.so"))?;
    for file in ["FreeholdConfig.cmake", "FreeholdConfigVersion.cmake"] {
        let text = fs::read_to_string(root().join("packaging/cmake").join(file))?;
        put(
            &folder.join("usr/lib/cmake/Freehold").join(file),
            &text.replace("@VERSION@", VERSION),
        )?;
    }
    Ok(())
}

/// What the project's own installer installs under `/usr`.
fn installed() -> Result<PathBuf> {
    let stage = target().join("package/installed");
    run_tool(
        Command::new("sh")
            .arg(root().join("crates/capi/install.sh"))
            .arg("/usr")
            .env("DESTDIR", &stage)
            .stdout(std::process::Stdio::null()),
    )?;
    Ok(stage)
}

fn copyright() -> Result<String> {
    let licences =
        ["LICENSE-APACHE", "LICENSE-MIT"].map(|file| fs::read_to_string(root().join(file)));
    let [apache, mit] = licences;
    Ok(format!("Freehold is licensed under either of these, as you like.\n\n{}\n{}", apache?, mit?))
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file has a folder")?)?;
    fs::copy(from, to).with_context(|| format!("{} cannot be copied", from.display()))?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(mode))?)
}

fn put(to: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file has a folder")?)?;
    fs::write(to, text)?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(0o644))?)
}
