//! Debian's kernel for virtual machines, downloaded and unpacked into a folder of ours.

use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that depends on the newest kernel.
const PACKAGE: &str = "linux-image-cloud-amd64";
/// What the guest needs to talk to us; the rest of what it needs is built in.
const WANTED: &str = "virtio_console";

/// An unpacked kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The image that QEMU boots.
    pub image: PathBuf,
    /// Modules, in the order in which they can be loaded.
    pub modules: Vec<PathBuf>,
}

impl Kernel {
    /// The kernel in `folder`, downloaded (27 MB) if there is none. Several processes may ask at a time.
    ///
    /// # Errors
    /// When it is not there and cannot be downloaded; the message says what to do.
    pub fn find(folder: &Path) -> anyhow::Result<Kernel> {
        let home = folder.join("kernel");
        if !home.is_dir() {
            std::fs::create_dir_all(folder)?;
            download(folder, &home).with_context(|| {
                format!("no kernel for the guest: apt-get download {PACKAGE} must work")
            })?;
        }
        let image = image(&home.join("boot"))?;
        let mut modules = Vec::new();
        add_module(&home.join("lib/modules"), WANTED, &mut modules)?;
        Ok(Kernel { image, modules })
    }
}

/// Unpacks the newest kernel as `home`, whole or not at all.
fn download(folder: &Path, home: &Path) -> anyhow::Result<()> {
    let temporary = tempfile::tempdir_in(folder)?;
    // The machine's lists may be missing, or so old that they name a kernel which is offered no more.
    let archive = match fetch(temporary.path(), &[]) {
        Ok(archive) => archive,
        Err(why) => own_lists(temporary.path())
            .and_then(|lists| fetch(temporary.path(), &lists))
            .with_context(|| format!("by the machine's lists: {why:#}; by new ones"))?,
    };
    let unpacked = temporary.path().join("unpacked");
    output(Command::new("dpkg").arg("-x").arg(&archive).arg(&unpacked))?;
    match std::fs::rename(&unpacked, home) {
        Err(why) if !home.is_dir() => Err(why.into()),
        _ => Ok(()), // done, or another process was faster
    }
}

/// Downloads the newest kernel's package into the folder, by apt with these options.
fn fetch(folder: &Path, options: &[String]) -> anyhow::Result<PathBuf> {
    let depends = output(Command::new("apt-cache").args(options).args(["depends", PACKAGE]))?;
    let name = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    let name = name.with_context(|| format!("apt knows no {PACKAGE}; it is a Debian package"))?;
    let package = format!("linux-image-{name}");
    let mut download = Command::new("apt-get");
    output(download.args(options).args(["download", &package]).current_dir(folder))?;
    let files = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let mut archives = files.filter(|file| file.extension().is_some_and(|end| end == "deb"));
    archives.next().context("apt-get download left nothing")
}

/// Options by which apt uses lists of the packages of this hour, in the folder; the machine's, which are root's, stay as
/// they are.
fn own_lists(folder: &Path) -> anyhow::Result<Vec<String>> {
    let lists = folder.join("lists");
    std::fs::create_dir_all(lists.join("partial"))?;
    let options = [
        format!("--option=Dir::State::Lists={}", lists.display()),
        "--option=Dir::Cache::pkgcache=".to_owned(),
        "--option=Dir::Cache::srcpkgcache=".to_owned(),
    ];
    output(Command::new("apt-get").args(&options).arg("update"))?;
    Ok(options.to_vec())
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?} cannot be started"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {complaint}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn image(boot: &Path) -> anyhow::Result<PathBuf> {
    let files = std::fs::read_dir(boot).with_context(|| format!("{}", boot.display()))?;
    let mut files = files.flatten().map(|entry| entry.path());
    let is_image = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
    };
    files.find(is_image).with_context(|| format!("no vmlinuz in {}", boot.display()))
}

/// Adds a module behind those that it depends on.
fn add_module(folder: &Path, name: &str, modules: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let file = find(folder, &format!("{name}.ko")).with_context(|| format!("no module {name}"))?;
    if modules.contains(&file) {
        return Ok(());
    }
    for other in dependencies(&std::fs::read(&file)?).into_iter().chain(extra(name)) {
        add_module(folder, &other, modules)?;
    }
    modules.push(file);
    Ok(())
}

/// The bus driver, which the console does not name but without which it has no device.
fn extra(name: &str) -> Option<String> {
    (name == WANTED).then(|| "virtio_pci".to_owned())
}

/// What `depends=` in a module's own description names.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|bytes| bytes == KEY) else {
        return Vec::new();
    };
    let value = module[at + KEY.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value);
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.into_iter().find_map(|path| match path.is_dir() {
        true => find(&path, name),
        false => path.ends_with(name).then_some(path),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_module_names_what_it_needs() {
        let module = b"\x7fELF license=GPL\0depends=virtio,virtio_ring\0name=x\0";
        assert_eq!(super::dependencies(module), ["virtio", "virtio_ring"]);
        assert!(super::dependencies(b"\0depends=\0name=x\0").is_empty());
        assert!(super::dependencies(b"nothing").is_empty());
    }
}
