//! The parts of a workload, as plain numbers. Bounds are (least, most), both included.

use freehold_core::frames::Kind;

/// How much memory is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// Percent of the machine.
    pub percent: (u32, u32),
    /// Of that many uniform draws the least is the phase's target: 1 is uniform, more is lower.
    pub skew: u32,
    /// Seconds of a phase.
    pub phase_s: (u32, u32),
}

/// Kernel memory that is there from the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Boot {
    /// MiB of unmovable pages.
    pub kernel_mib: u32,
}

/// Long-running processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Processes {
    /// MiB of a process, log-uniform.
    pub mib: (u32, u32),
    /// Seconds that it lives, log-uniform.
    pub life_s: (u32, u32),
    /// MiB that it grows by in a second.
    pub grow_mib_s: u32,
    /// Percent of its memory that it gives back and takes again in a minute.
    pub churn_percent: u32,
    /// Percent of its memory in huge pages, where it has more than 64 MiB.
    pub huge_percent: u32,
}

/// Files read and kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caches {
    /// Percent of the target that is page cache.
    pub percent: u32,
    /// KiB of a file, log-uniform.
    pub file_kib: (u32, u32),
    /// MiB that are read in a second.
    pub read_mib_s: u32,
}

/// Kernel pages that come and go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slabs {
    /// Blocks in a second.
    pub per_s: u32,
    /// Seconds that they live, log-uniform.
    pub life_s: (u32, u32),
    /// Files whose inodes and directory entries share a page.
    pub files_per_page: u32,
}

/// Compilation: many short processes at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Builds {
    /// Seconds between the starts of two; 0 is never.
    pub every_s: u32,
    /// Seconds that one lasts.
    pub lasts_s: u32,
    /// Processes started in a second of it.
    pub jobs_per_s: u32,
    /// MiB of a process, log-uniform.
    pub job_mib: (u32, u32),
    /// Seconds that it lives.
    pub job_life_s: (u32, u32),
}

/// File systems in memory that are filled, kept and deleted: filebench on ramfs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Storms {
    /// Of what kind the files' data are.
    pub data: Kind,
    /// Seconds between the starts of two; 0 is never.
    pub every_s: u32,
    /// MiB, log-uniform.
    pub mib: (u32, u32),
    /// Files, log-uniform.
    pub files: (u32, u32),
    /// Seconds that the files live.
    pub life_s: (u32, u32),
    /// MiB written in a second.
    pub write_mib_s: u32,
    /// Of a thousand inode pages, those that something holds on to until the next storm.
    pub residue_permille: u32,
}
