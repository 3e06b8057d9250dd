//! Core files, the kernel's and gdb's: every live block is in them, and little else.
//!
//! The program says where its blocks are and what is resident; the file is held against that.

#[allow(dead_code, reason = "every test file has all of it, and uses some")]
mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::core_file::CoreFile;
use support::{compile_with, folder, library};

/// Most bytes of a core file, as a multiple of what is resident.
const MOST: f64 = 1.2;
/// The same of gdb's, which writes pages that are not there as zeros, of a hardened program: what it freed waits without
/// its pages before the addresses are used again, and this program frees as much as it keeps.
const HARDENED: f64 = 1.4;

/// A block of the program's: its number, which says what is in it, and where it is.
struct Block {
    number: u64,
    address: u64,
    size: usize,
}

/// `cored.c`, waiting.
struct Program {
    child: Child,
    blocks: Vec<Block>,
    resident: u64,
    /// Of its own: nothing else lies there.
    folder: PathBuf,
}

impl Program {
    fn start(name: &str, arguments: &[&str], options: &[(&str, &str)]) -> Program {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/cored.c");
        let program = compile_with(&source, &[library().as_os_str()]);
        let folder = folder().join(format!("core-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for tests");
        let mut child = Command::new(&program)
            .args(arguments)
            .current_dir(&folder)
            .env("LD_PRELOAD", library())
            .envs(options.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("what was compiled runs");
        let mut blocks = Vec::new();
        for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
            let line = line.expect("text");
            let fields: Vec<&str> = line.split(' ').collect();
            match *fields.as_slice() {
                ["resident", kib, "mappings", mappings] => {
                    let resident = kib.parse::<u64>().expect("KiB") * 1024;
                    println!("{name}: {kib} KiB resident, {mappings} mappings");
                    return Program { child, blocks, resident, folder };
                }
                [number, address, size] => blocks.push(Block {
                    number: number.parse().expect("a number"),
                    address: u64::from_str_radix(address, 16).expect("an address"),
                    size: size.parse().expect("bytes"),
                }),
                _ => panic!("{line}"),
            }
        }
        panic!("the program ended before it said all: {:?}", child.wait());
    }

    /// What gdb's `generate-core-file` writes.
    fn core_by_gdb(&mut self) -> CoreFile {
        let path = self.folder.join("by-gdb");
        if Command::new("gdb").arg("--version").output().is_err() {
            freehold_testkit::skip("there is no gdb here (apt install gdb)");
        }
        // 4 GB at most: what a failure writes shall not fill the disk.
        let output = Command::new("bash")
            .args([
                "-c",
                "ulimit -f 4000000; exec gdb -nx -batch -p $0 -ex \"generate-core-file $1\"",
            ])
            .arg(self.child.id().to_string())
            .arg(&path)
            .output()
            .expect("there is a bash");
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("ptrace") {
            freehold_testkit::skip("nobody may trace a process here");
        }
        assert!(path.exists(), "gdb wrote nothing: {said}");
        CoreFile::open(&path)
    }

    /// What the kernel writes when the program dies of a signal.
    fn core_by_kernel(&mut self) -> CoreFile {
        let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
        if pattern.starts_with('|') || pattern.contains('/') {
            freehold_testkit::skip("core files go elsewhere (kernel.core_pattern)");
        }
        let id = libc::pid_t::try_from(self.child.id()).expect("a process's number");
        // SAFETY: a signal to a child of ours, which was not waited for.
        assert_eq!(unsafe { libc::kill(id, libc::SIGQUIT) }, 0);
        self.child.wait().expect("a child of ours");
        let written = fs::read_dir(&self.folder).expect("a folder of ours").next();
        let Some(Ok(file)) = written else {
            freehold_testkit::skip("no core files may be written here (ulimit -Hc)");
            panic!("what needs core files is a trial, which ends in `skip`");
        };
        CoreFile::open(&file.path())
    }

    #[track_caller]
    fn assert_all_in(&self, core: &CoreFile) {
        assert!(!self.blocks.is_empty());
        for block in &self.blocks {
            let bytes = core.read(block.address, block.size);
            let words =
                bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8")));
            let right = |(at, word)| word == block.number << 32 | at as u64;
            let Block { number, address, size } = *block;
            assert_eq!(bytes.len(), size, "block {number} at {address:#x} is not in the core file");
            assert!(words.enumerate().all(right), "block {number} at {address:#x} reads otherwise");
        }
    }

    /// Fails if `bytes` are more than `most` times what is resident.
    #[track_caller]
    fn assert_at_most(&self, most: f64, what: &str, bytes: u64) {
        let ratio = bytes as f64 / self.resident as f64;
        println!("{what}: {bytes} bytes, {ratio:.3} of what is resident");
        assert!(ratio <= most, "{what}: {bytes} bytes, {ratio:.3} of what is resident");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// gdb wrote the reservation, 1 TiB of zeros, until the disk was full.
fn gdb_core_files_hold_every_live_block() {
    let mut program = Program::start("gdb", &[], &[]);
    let core = program.core_by_gdb();
    program.assert_all_in(&core);
    let (len, on_disk) = core.sizes();
    program.assert_at_most(MOST, "gdb's, length", len);
    program.assert_at_most(MOST, "gdb's, on disk", on_disk);
}

fn kernel_core_files_hold_every_live_block() {
    let mut program = Program::start("kernel", &[], &[]);
    let core = program.core_by_kernel();
    program.assert_all_in(&core);
    let (len, on_disk) = core.sizes();
    program.assert_at_most(MOST, "the kernel's, length", len);
    program.assert_at_most(MOST, "the kernel's, on disk", on_disk);
}

/// Where pages went back from inside of banks in use, the file is longer than what is resident, but not the disk's part.
fn kernel_core_files_of_sparse_heaps_have_holes() {
    let mut program = Program::start("sparse", &["sparse"], &[]);
    let core = program.core_by_kernel();
    program.assert_all_in(&core);
    program.assert_at_most(MOST, "the kernel's of a sparse heap, on disk", core.sizes().1);
}

fn core_files_of_hardened_programs_hold_every_live_block() {
    let mut program = Program::start("secure", &[], &[("FREEHOLD_SECURE", "1")]);
    let core = program.core_by_gdb();
    program.assert_all_in(&core);
    program.assert_at_most(HARDENED, "gdb's of a hardened program, on disk", core.sizes().1);
    // Another one: what gdb has read of the first is there now.
    let mut program = Program::start("secure", &[], &[("FREEHOLD_SECURE", "1")]);
    let core = program.core_by_kernel();
    program.assert_all_in(&core);
    program.assert_at_most(MOST, "the kernel's of a hardened program, on disk", core.sizes().1);
}

freehold_testkit::trials! {
    gdb_core_files_hold_every_live_block,
    kernel_core_files_hold_every_live_block,
    kernel_core_files_of_sparse_heaps_have_holes,
    core_files_of_hardened_programs_hold_every_live_block,
}
