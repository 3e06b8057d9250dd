//! One command in a guest, from its files to its exit code.
//!
//! ```text
//! host                                     guest
//! initramfs: shell, modules, files ──────► /init (init.sh)
//! QEMU's virtio ports out, err   ◄──────── the command's output
//!                     files      ◄──────── a tar of /out
//!                     code       ◄──────── its exit code
//!               serial port      ◄──────── the kernel's console
//! ```

use crate::initramfs::Archive;
use crate::kernel::Kernel;
use crate::libraries;
use crate::machine::Machine;
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The emulator.
const QEMU: &str = "qemu-system-x86_64";
/// The shell and tools of the guest.
const BUSYBOX: &str = "busybox";
/// What the guest sends, one virtio port each.
const PORTS: [&str; 4] = ["out", "err", "files", "code"];
/// What init.sh says on the console before it runs the command.
const BOOTED: &str = "the guest has booted";
/// How often a guest may boot: under emulation on a busy machine one in a hundred never comes up.
const BOOTS: usize = 3;
/// Lines of the console that are shown when a guest ends badly, unless its kernel panicked.
const LAST_LINES: usize = 45;

/// What to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// On what.
    pub machine: Machine,
    /// Files for the guest: where they are here, and where they shall be there. What programs and libraries among
    /// them are linked with comes along, to the same paths as here.
    pub files: Vec<(PathBuf, String)>,
    /// A script for the guest's shell (busybox), as root. What it leaves in `/out` is brought back.
    pub script: String,
    /// More words for the kernel's command line.
    pub kernel_words: Vec<String>,
    /// Whether to use the processor's virtualisation (`/dev/kvm`) instead of emulation.
    pub kvm: bool,
    /// The guest is ended after so long.
    pub patience: Duration,
    /// A guest that has not booted after so long boots anew.
    pub boot_patience: Duration,
}

/// What came of it.
#[derive(Debug)]
pub struct Finished {
    /// The script's exit code.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Where what it left in `/out` is now; removed when this is dropped.
    pub files: tempfile::TempDir,
    /// What the kernel said.
    pub console: String,
}

/// The tool that a guest lacks here, and how to get it; `None` when all are there.
pub fn missing_tool() -> Option<String> {
    let needed = [(QEMU, "qemu-system-x86"), (BUSYBOX, "busybox-static"), ("dpkg", "dpkg")];
    needed.iter().find(|(tool, _)| program(tool).is_none()).map(|(tool, package)| {
        format!("a guest needs {tool}: apt-get install --no-install-recommends {package}")
    })
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

impl Job {
    /// A script on a machine, by emulation, with a quarter of an hour of patience.
    pub fn new(machine: Machine, script: &str) -> Job {
        Job {
            machine,
            files: Vec::new(),
            script: script.to_owned(),
            kernel_words: Vec::new(),
            kvm: false,
            patience: Duration::from_secs(900),
            boot_patience: Duration::from_secs(200),
        }
    }

    /// Boots, runs, and waits for the end.
    ///
    /// # Errors
    /// When a tool or file is missing, or the guest did not get as far as an exit code.
    pub fn run(&self, kernel: &Kernel) -> anyhow::Result<Finished> {
        if let Some(missing) = missing_tool() {
            anyhow::bail!(missing);
        }
        let folder = tempfile::tempdir().context("a folder for the guest")?;
        let archive = folder.path().join("initramfs");
        std::fs::write(&archive, self.archive(kernel)?)?;
        let mut qemu = self.qemu(kernel, folder.path(), &archive)?;
        qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        for _ in 0..BOOTS {
            let child = qemu.spawn().with_context(|| format!("{QEMU} cannot be started"))?;
            if let Some(complaint) = self.wait(child, folder.path())? {
                return collect(folder.path(), &complaint);
            }
            eprintln!("a guest had not booted after {} s", self.boot_patience.as_secs());
        }
        anyhow::bail!("no guest has booted:\n{}", sent(folder.path(), "console"))
    }

    /// Waits for the emulator, and returns what it complained about; ends it when patience does, and when its guest
    /// does not boot, which is `None`.
    fn wait(&self, mut child: Child, folder: &Path) -> anyhow::Result<Option<String>> {
        let start = Instant::now();
        let mut booted = false;
        while child.try_wait()?.is_none() {
            booted = booted || sent(folder, "console").contains(BOOTED);
            let patience = if booted { self.patience } else { self.boot_patience };
            if start.elapsed() > patience {
                child.kill()?;
                child.wait()?;
                ensure!(!booted, self.told_of_no_end(folder));
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output()?;
        Ok(Some(String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// All that is known of a guest that did not end.
    fn told_of_no_end(&self, folder: &Path) -> String {
        let [out, err, console] = ["out", "err", "console"].map(|name| sent(folder, name));
        let patience = self.patience.as_secs();
        format!("the guest had not ended after {patience} s:\n{out}{err}\nits console:\n{console}")
    }

    fn archive(&self, kernel: &Kernel) -> anyhow::Result<Vec<u8>> {
        let mut archive = Archive::new();
        let busybox = program(BUSYBOX).context("busybox is gone")?;
        ensure!(libraries::of(&busybox)?.is_empty(), "busybox must be static: busybox-static");
        archive.add("bin/busybox", &read(&busybox)?);
        archive.add("init", include_bytes!("init.sh"));
        archive.add("job", self.script.as_bytes());
        archive.add("watch", self.patience.mul_f64(0.8).as_secs().to_string().as_bytes());
        let mut order = String::new();
        for module in &kernel.modules {
            let name = module.file_name().unwrap_or_default().to_string_lossy();
            archive.add(&format!("modules/{name}"), &read(module)?);
            order += &format!("{name}\n");
        }
        archive.add("modules/order", order.as_bytes());
        for (here, there) in &self.files {
            archive.add(there, &read(here)?);
            for library in libraries::of(here)? {
                archive.add(&library.to_string_lossy(), &read(&library)?);
            }
        }
        Ok(archive.finish())
    }

    fn qemu(&self, kernel: &Kernel, folder: &Path, archive: &Path) -> anyhow::Result<Command> {
        let mut qemu = Command::new(QEMU);
        // Nehalem: the oldest processor with all that x86-64-v2 has; emulating newer ones only costs time.
        let (accelerator, processor) = if self.kvm { ("kvm", "host") } else { ("tcg", "Nehalem") };
        qemu.args(["-machine", &format!("q35,accel={accelerator}"), "-cpu", processor]);
        qemu.args(self.machine.arguments()?);
        qemu.args(["-nodefaults", "-display", "none", "-no-reboot"]);
        qemu.args(["-serial", &format!("file:{}", folder.join("console").display())]);
        qemu.args(["-device", "virtio-serial-pci"]);
        for port in PORTS {
            let file = folder.join(port);
            qemu.args(["-chardev", &format!("file,id={port},path={}", file.display())]);
            qemu.args(["-device", &format!("virtserialport,chardev={port},name={port}")]);
        }
        qemu.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(archive);
        // The emulated timer may be late on a busy machine: the kernel need not test it.
        let words = ["console=ttyS0", "panic=-1", "mitigations=off", "no_timer_check"];
        let words: Vec<&str> =
            words.into_iter().chain(self.kernel_words.iter().map(String::as_str)).collect();
        qemu.args(["-append", &words.join(" ")]);
        Ok(qemu)
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))
}

/// What a guest has sent by a port, or said on its console.
fn sent(folder: &Path, name: &str) -> String {
    let bytes = std::fs::read(folder.join(name)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn collect(folder: &Path, complaint: &str) -> anyhow::Result<Finished> {
    let text = |name| sent(folder, name);
    let console = text("console");
    let code = text("code").trim().parse().ok();
    let code = code.with_context(|| {
        let last = last_words(&console);
        format!("the guest ended without an exit code:\n{complaint}{}{last}", text("err"))
    })?;
    let files = tempfile::tempdir().context("a folder for the guest's files")?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(folder.join("files")).arg("-C").arg(files.path());
    ensure!(tar.status()?.success(), "the guest's files arrived damaged");
    Ok(Finished { code, stdout: text("out"), stderr: text("err"), files, console })
}

/// The end of a console: its last lines, and all from a panic on, for the reason stands before the calls that led to
/// it, however many these are.
fn last_words(console: &str) -> String {
    let lines: Vec<&str> = console.lines().collect();
    let last = lines.len().saturating_sub(LAST_LINES);
    let panic = lines.iter().position(|line| line.contains("Kernel panic")).unwrap_or(last);
    lines[last.min(panic)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::{LAST_LINES, last_words};

    #[test]
    fn the_reason_of_a_panic_is_told_before_however_many_calls() {
        let calls = "\n[    1.2]  ? do_syscall_64+0x69/0x90".repeat(2 * LAST_LINES);
        let console = format!("booted\nKernel panic - not syncing: sysrq triggered crash{calls}");
        assert_eq!(last_words(&console), console["booted\n".len()..]);
        let quiet = format!("booted{calls}");
        assert_eq!(last_words(&quiet).lines().count(), LAST_LINES);
        assert_eq!(last_words(""), "");
    }
}
