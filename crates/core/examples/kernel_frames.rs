//! Page frames in a kernel or hypervisor: metadata in a static, a reverse map of one's own, a bank emptied and off.
//!
//! Everything but `main` uses `core` only. A kernel has a spin lock around [`Machine`] and calls `tick` from a
//! thread that sleeps; its `copy` copies pages and rewrites page tables.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};
use freehold_core::frames::migrate::{Eagerness, Migrator, Owner};
use freehold_core::frames::{
    AllocError, Area, Frame, Frames, Fullest, Group, Grouped, Kind, Memory, Order, Request,
    SetRecord, SetupError, Stats, Zone,
};

/// 64 MiB from 1 MiB on, in banks of 4 MiB: what the boot loader's memory map says, on a small board. The first bank
/// holds the kernel itself and is shared with what lies below.
const ZONE: Zone = Zone::new(Frame(256), 16_384 - 256, 1024);

const BANKS: usize = 16;
const FRAMES: usize = BANKS * 1024;
const GROUPS: usize = Grouped::groups(FRAMES as u32, ZONE.bank_frames);

/// Metadata in `.bss`: all-zero is valid. `Frames::needs` says at run time what a zone needs; these are its answers.
struct Metadata {
    groups: [Group; GROUPS],
    page_blocks: [u8; FRAMES / 512],
    areas: [Area; BANKS],
    sets: [SetRecord; BANKS],
}

/// The reverse map: for the first frame of every block, who maps it. A kernel has it in its page descriptors.
type Owners = [Option<Mapping>; FRAMES];

/// A place that is taken once, at boot.
struct BootCell<T> {
    value: UnsafeCell<T>,
    taken: AtomicBool,
}

// SAFETY: `take` gives the value to one caller only, and nobody else ever touches it.
unsafe impl<T: Send> Sync for BootCell<T> {}

impl<T> BootCell<T> {
    // Once: the flag makes a second `&mut` impossible.
    #[allow(clippy::mut_from_ref)]
    fn take(&'static self) -> Option<&'static mut T> {
        let first = !self.taken.swap(true, Ordering::Relaxed);
        // SAFETY: the swap says that nobody took it before, and nobody will after.
        first.then(|| unsafe { &mut *self.value.get() })
    }
}

static METADATA: BootCell<Metadata> = BootCell {
    value: UnsafeCell::new(Metadata {
        groups: [Group::EMPTY; GROUPS],
        page_blocks: [0; FRAMES / 512],
        areas: [Area::EMPTY; BANKS],
        sets: [SetRecord::EMPTY; BANKS],
    }),
    taken: AtomicBool::new(false),
};

static OWNERS: BootCell<Owners> =
    BootCell { value: UnsafeCell::new([None; FRAMES]), taken: AtomicBool::new(false) };

/// Who maps a block: an address space and a page of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mapping {
    space: u16,
    page: u32,
}

/// What the migration task needs of a kernel: the way from a frame to its page-table entry.
struct ReverseMap {
    owners: &'static mut Owners,
    copied: u32,
}

impl Owner for ReverseMap {
    fn migrate(&mut self, from: Frame, to: Frame, order: Order) -> bool {
        // A kernel would: lock the page, unmap it, copy 2^order frames, map `to` at the same place, flush TLBs;
        // and say no when the page is pinned for a device.
        let mapping = self.owners[from.0 as usize].take();
        self.owners[to.0 as usize] = mapping;
        self.copied += order.frames();
        mapping.is_some()
    }
}

/// All a kernel keeps, behind its lock.
struct Machine {
    frames: Frames<'static, Fullest>,
    task: Migrator,
    map: ReverseMap,
}

impl Machine {
    /// At boot, once.
    fn boot() -> Option<Result<Machine, SetupError>> {
        let Metadata { groups, page_blocks, areas, sets } = METADATA.take()?;
        // Of the published policies, which link frame by frame, tags and links would be wanted instead of groups.
        let (tags, links) = (&mut [], &mut []);
        let memory = Memory { tags, links, groups, page_blocks, areas, sets };
        let frames = Frames::new(ZONE, memory);
        let map = ReverseMap { owners: OWNERS.take()?, copied: 0 };
        let task = Migrator::new(Eagerness {
            per_thousand_freed: 1_000,
            ..Eagerness::of(ZONE.bank_frames)
        });
        Some(frames.map(|frames| Machine { frames, task, map }))
    }

    /// A page fault of `mapping`.
    fn fault(&mut self, mapping: Mapping) -> Result<Frame, AllocError> {
        let wanted = Request::new(Order::FRAME, Kind::Movable);
        let mut got = self.frames.alloc(wanted, &mut ());
        // Sets that the task is emptying serve nobody; it gives them back when memory is short.
        while got.is_err() && self.task.relieve(&mut self.frames, &mut ()) {
            got = self.frames.alloc(wanted, &mut ());
        }
        let frame = got?;
        self.map.owners[frame.0 as usize] = Some(mapping);
        Ok(frame)
    }

    /// An address space ends: every other page of it here, so that banks are left thin.
    fn unmap(&mut self, space: u16, keep: impl Fn(u32) -> bool) {
        for at in 0..FRAMES {
            let Some(mapping) = self.map.owners[at] else { continue };
            if mapping.space == space && !keep(mapping.page) {
                self.map.owners[at] = None;
                let freed = self.frames.free(Frame(at as u32), Order::FRAME, &mut ());
                assert_eq!(freed, Ok(()), "the reverse map knows every block");
            }
        }
    }

    /// A second has passed. The kernel switches banks' power where `Stats::offline` says so.
    fn tick(&mut self, now_ms: u64) -> Stats {
        self.task.poll(now_ms, true, &mut self.frames, &mut self.map, &mut ());
        self.frames.stats()
    }
}

fn main() {
    let mut machine = match Machine::boot() {
        Some(Ok(machine)) => machine,
        Some(Err(error)) => panic!("{error}"),
        None => unreachable!("booted twice"),
    };
    // The kernel's own pages: never moved, all in the first bank, which is shared and stays on.
    for _ in 0..200 {
        let page = machine.frames.alloc(Request::new(Order::FRAME, Kind::Unmovable), &mut ());
        assert!(page.is_ok(), "memory is empty");
    }
    for page in 0..8_000 {
        let mapped = machine.fault(Mapping { space: 1, page });
        assert!(mapped.is_ok(), "32 MiB of 63");
    }
    let full = machine.frames.stats();
    machine.unmap(1, |page| page % 5 == 0);
    let mut after = machine.frames.stats();
    for second in 1..=5 {
        after = machine.tick(second * 1_000);
    }
    println!(
        "{} MiB off with 31 MiB in use; {} MiB off after four fifths of it were freed, for {} pages copied",
        full.offline / 256,
        after.offline / 256,
        machine.map.copied
    );
    assert_eq!(machine.frames.check(), Ok(()));
    assert!(after.offline > full.offline);
}
