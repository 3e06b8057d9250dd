//! What happens in every second of a workload.

use super::parts::{Boot, Builds, Caches, Footprint, Processes, Slabs, Storms};
use super::{Sink, Trigger};
use crate::banks::machine::MIB;
use crate::random::Random;
use freehold_core::frames::{Kind, Lifetime, Order, Request};
use std::collections::VecDeque;

/// A workload: all of its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Seconds in all.
    pub seconds: u32,
    /// How much memory.
    pub footprint: Footprint,
    /// From the beginning.
    pub boot: Boot,
    /// Processes.
    pub processes: Processes,
    /// Page cache.
    pub caches: Caches,
    /// Kernel pages.
    pub slabs: Slabs,
    /// Compilation.
    pub builds: Builds,
    /// File systems.
    pub storms: Storms,
}

/// Pages that one process allocates before it is another's turn.
const TURN: u32 = 64;
/// Pages of a page table's reach.
const TABLE_REACH: u32 = 512;
/// Kernel pages of every process: stack, task, descriptors.
const PROCESS_PAGES: u32 = 8;
/// Processes shorter than this are known to be brief: build jobs, storms of files.
const BRIEF_S: u32 = 60;
/// Percent above the target at which cache is dropped, and processes ended.
const DROP_ABOVE: u64 = 1;
const END_ABOVE: u64 = 3;

#[derive(Clone, Copy, Debug)]
struct Process {
    object: u32,
    kernel: u32,
    node: u8,
    wants: u32,
    has: u32,
    rate: u32,
    ends_s: u32,
    huge: bool,
    lifetime: Lifetime,
}

#[derive(Clone, Copy, Debug)]
struct File {
    object: u32,
    inodes: u32,
    pages: u32,
    inode_pages: u32,
}

#[derive(Clone, Copy, Debug)]
struct Storm {
    data: u32,
    inodes: u32,
    node: u8,
    pages: u32,
    inode_pages: u32,
    has: u32,
    ends_s: u32,
}

impl Workload {
    /// Makes all calls of the workload on a machine of that many frames and nodes.
    pub fn play(&self, frames: u32, nodes: u8, seed: u64, sink: &mut dyn Sink) {
        let mut play = Play::new(self, frames, nodes, seed);
        play.boot(sink);
        for now in 0..self.seconds {
            play.second(now, sink);
            if !sink.second() {
                return;
            }
        }
    }
}

/// The state of a workload under way.
struct Play<'a> {
    parts: &'a Workload,
    frames: u64,
    nodes: u8,
    random: Random,
    /// Footprint that is aimed at, in pages, and the second at which the phase ends.
    target: u64,
    phase_ends_s: u32,
    /// Pages asked for and not given back, and of these the page cache's.
    live: u64,
    cached: u64,
    processes: Vec<Process>,
    files: VecDeque<File>,
    storms: Vec<Storm>,
    /// Kernel objects by the second of their end.
    slabs: VecDeque<Vec<(u32, u32)>>,
    residue: Vec<(u32, u32)>,
    free_ids: Vec<u32>,
    next_id: u32,
}

impl<'a> Play<'a> {
    fn new(parts: &'a Workload, frames: u32, nodes: u8, seed: u64) -> Self {
        Play {
            parts,
            frames: frames.into(),
            nodes,
            random: Random::named(seed, &[0xba4c5]),
            target: 0,
            phase_ends_s: 0,
            live: 0,
            cached: 0,
            processes: Vec::new(),
            files: VecDeque::new(),
            storms: Vec::new(),
            slabs: VecDeque::new(),
            residue: Vec::new(),
            free_ids: Vec::new(),
            next_id: 0,
        }
    }

    fn draw(&mut self, (least, most): (u32, u32)) -> u32 {
        self.random.uniform(least.into(), most.max(least).into()) as u32
    }

    fn draw_log(&mut self, (least, most): (u32, u32)) -> u32 {
        self.random.log_uniform(least.max(1).into(), most.max(least).max(1).into()) as u32
    }

    fn node(&mut self) -> u8 {
        self.random.below(self.nodes.into()) as u8
    }

    fn object(&mut self) -> u32 {
        self.free_ids.pop().unwrap_or_else(|| {
            self.next_id += 1;
            self.next_id - 1
        })
    }

    fn grow(&mut self, object: u32, wanted: Request, node: u8, blocks: u32, sink: &mut dyn Sink) {
        sink.grow(object, wanted, node, blocks);
        self.live += u64::from(blocks * wanted.order.frames());
    }

    fn end(&mut self, object: u32, pages: u32, sink: &mut dyn Sink) {
        sink.end(object);
        self.live -= u64::from(pages);
        self.free_ids.push(object);
    }

    fn boot(&mut self, sink: &mut dyn Sink) {
        let pages = self.parts.boot.kernel_mib * MIB;
        for node in 0..self.nodes {
            let (object, share) = (self.object(), pages / u32::from(self.nodes));
            self.grow(object, Request::new(Order::FRAME, Kind::Unmovable), node, share, sink);
        }
    }

    fn second(&mut self, now: u32, sink: &mut dyn Sink) {
        self.phase(now);
        self.end_processes(now, sink);
        self.end_storms(now, sink);
        self.end_slabs(sink);
        self.relax(sink);
        self.start_processes(now, sink);
        self.start_builds(now, sink);
        self.start_storms(now, sink);
        self.grow_processes(sink);
        self.grow_storms(sink);
        self.churn(sink);
        self.read_files(sink);
        self.start_slabs(sink);
    }

    /// A new target when the phase is over.
    fn phase(&mut self, now: u32) {
        if now < self.phase_ends_s {
            return;
        }
        let Footprint { percent: (least, most), skew, phase_s } = self.parts.footprint;
        self.phase_ends_s = now + self.draw(phase_s).max(1);
        let width = u64::from(most.saturating_sub(least)) * 1_000;
        let drawn = (0..skew.max(1)).map(|_| self.random.below(width + 1)).min().unwrap_or(0);
        self.target = self.frames * (u64::from(least) * 1_000 + drawn) / 100_000;
    }

    fn above(&self, percent: u64) -> bool {
        self.live > self.target + self.frames * percent / 100
    }

    /// Over the target: cache goes first, oldest file first, then processes, whichever.
    fn relax(&mut self, sink: &mut dyn Sink) {
        let mut dropped = false;
        while self.above(DROP_ABOVE)
            || self.cached * 100 > self.target * u64::from(self.parts.caches.percent)
        {
            let Some(file) = self.files.pop_front() else { break };
            self.cached -= u64::from(file.pages);
            self.end(file.object, file.pages, sink);
            self.end(file.inodes, file.inode_pages, sink);
            dropped = true;
        }
        if dropped {
            sink.occasion(Trigger::CacheDrop);
        }
        while self.above(END_ABOVE) && !self.processes.is_empty() {
            let which = self.random.below(self.processes.len() as u64) as usize;
            self.end_process(which, sink);
        }
    }

    fn end_processes(&mut self, now: u32, sink: &mut dyn Sink) {
        let mut at = 0;
        while at < self.processes.len() {
            if self.processes[at].ends_s <= now {
                self.end_process(at, sink);
            } else {
                at += 1;
            }
        }
    }

    fn end_process(&mut self, which: usize, sink: &mut dyn Sink) {
        let process = self.processes.swap_remove(which);
        self.end(process.object, process.has, sink);
        self.end(process.kernel, kernel_pages(process.wants), sink);
        sink.occasion(Trigger::Exit);
    }

    /// Processes are started until what all will have together is the target.
    fn start_processes(&mut self, now: u32, sink: &mut dyn Sink) {
        let Processes { mib, life_s, grow_mib_s, huge_percent, .. } = self.parts.processes;
        let cache = self.target * u64::from(self.parts.caches.percent) / 100;
        let growing: u64 =
            self.processes.iter().map(|process| u64::from(process.wants - process.has)).sum();
        let storms: u64 = self.storms.iter().map(|storm| u64::from(storm.pages - storm.has)).sum();
        let mut planned = self.live + growing + storms + cache.saturating_sub(self.cached);
        let least = u64::from(mib.0 * MIB);
        while planned + least <= self.target {
            let wants = self.draw_log(mib).saturating_mul(MIB);
            let wants = u64::from(wants).min(self.target - planned) as u32;
            let life = self.draw_log(life_s);
            let huge = wants > 64 * MIB && self.random.below(100) < huge_percent.into();
            self.start(now, wants, life, grow_mib_s * MIB, huge, sink);
            planned += u64::from(wants);
        }
    }

    fn start(
        &mut self,
        now: u32,
        wants: u32,
        life: u32,
        rate: u32,
        huge: bool,
        sink: &mut dyn Sink,
    ) {
        let (object, kernel, node) = (self.object(), self.object(), self.node());
        let lifetime = if life < BRIEF_S { Lifetime::Brief } else { Lifetime::Long };
        self.grow(
            kernel,
            Request::new(Order::FRAME, Kind::Unmovable),
            node,
            kernel_pages(wants),
            sink,
        );
        let ends_s = now + life.max(1);
        self.processes.push(Process {
            object,
            kernel,
            node,
            wants,
            has: 0,
            rate,
            ends_s,
            huge,
            lifetime,
        });
    }

    fn start_builds(&mut self, now: u32, sink: &mut dyn Sink) {
        let Builds { every_s, lasts_s, jobs_per_s, job_mib, job_life_s } = self.parts.builds;
        if every_s == 0 || now % every_s >= lasts_s {
            return;
        }
        for _ in 0..jobs_per_s {
            let wants = self.draw_log(job_mib) * MIB;
            let life = self.draw(job_life_s);
            if self.live + u64::from(wants) < self.target + self.frames / 50 {
                self.start(now, wants, life, wants, false, sink);
            }
        }
    }

    /// All processes that still grow take turns.
    fn grow_processes(&mut self, sink: &mut dyn Sink) {
        let mut left: Vec<(usize, u32)> = Vec::new();
        for (index, process) in self.processes.iter().enumerate() {
            let now = (process.wants - process.has).min(process.rate);
            if now > 0 {
                left.push((index, now));
            }
        }
        while !left.is_empty() {
            let at = self.random.below(left.len() as u64) as usize;
            let (index, pages) = left[at];
            let taken = self.turn(index, pages, sink);
            left[at].1 -= taken;
            if left[at].1 == 0 {
                left.swap_remove(at);
            }
        }
    }

    fn turn(&mut self, index: usize, pages: u32, sink: &mut dyn Sink) -> u32 {
        let Process { object, node, huge, lifetime, .. } = self.processes[index];
        let whole = Order::PAGE_BLOCK.frames();
        let (order, blocks) = if huge && pages >= whole {
            (Order::PAGE_BLOCK, 1)
        } else {
            (Order::FRAME, pages.min(TURN))
        };
        let wanted = Request { order, kind: Kind::Movable, lifetime };
        self.grow(object, wanted, node, blocks, sink);
        let taken = blocks * order.frames();
        self.processes[index].has += taken;
        taken
    }

    /// Some processes give a part back and take as much again.
    fn churn(&mut self, sink: &mut dyn Sink) {
        let percent = self.parts.processes.churn_percent;
        for index in 0..self.processes.len() {
            let Process { object, node, has, huge, lifetime, wants, .. } = self.processes[index];
            // A fiftieth of it at a time, as often as the rate wants; huge pages stay.
            let due = self.random.below(60 * 2) < percent.into();
            let pages = has / 50;
            if huge || has < wants || pages == 0 || !due {
                continue;
            }
            let from = self.random.below(has.into()) as u32;
            sink.shrink(object, from, pages);
            sink.occasion(Trigger::Unmap);
            self.live -= u64::from(pages);
            let wanted = Request { order: Order::FRAME, kind: Kind::Movable, lifetime };
            self.grow(object, wanted, node, pages, sink);
        }
    }

    fn read_files(&mut self, sink: &mut dyn Sink) {
        let Caches { percent, file_kib, read_mib_s } = self.parts.caches;
        let most = self.target * u64::from(percent) / 100;
        let mut budget = u64::from(read_mib_s * MIB);
        while self.cached < most && !self.above(0) {
            let pages = (self.draw_log(file_kib) / 4).max(1);
            if u64::from(pages) > budget {
                break;
            }
            budget -= u64::from(pages);
            let (object, inodes, node) = (self.object(), self.object(), self.node());
            self.grow(object, Request::new(Order::FRAME, Kind::Movable), node, pages, sink);
            let one = self.random.below(self.parts.slabs.files_per_page.max(1).into()) == 0;
            let inode_pages = u32::from(one);
            self.grow(
                inodes,
                Request::new(Order::FRAME, Kind::Reclaimable),
                node,
                inode_pages,
                sink,
            );
            self.cached += u64::from(pages);
            self.files.push_back(File { object, inodes, pages, inode_pages });
        }
    }

    fn start_slabs(&mut self, sink: &mut dyn Sink) {
        let Slabs { per_s, life_s, .. } = self.parts.slabs;
        for _ in 0..per_s {
            let (object, node, life) = (self.object(), self.node(), self.draw_log(life_s) as usize);
            let order = [0, 0, 0, 0, 1, 1, 2, 3][self.random.below(8) as usize];
            let order = Order::new(order).unwrap_or(Order::FRAME);
            let reclaimable = self.random.below(4) == 0;
            let kind = if reclaimable { Kind::Reclaimable } else { Kind::Unmovable };
            self.grow(object, Request::new(order, kind), node, 1, sink);
            if self.slabs.len() <= life {
                self.slabs.resize_with(life + 1, Vec::new);
            }
            self.slabs[life].push((object, order.frames()));
        }
    }

    fn end_slabs(&mut self, sink: &mut dyn Sink) {
        for (object, pages) in self.slabs.pop_front().unwrap_or_default() {
            self.end(object, pages, sink);
        }
    }

    fn start_storms(&mut self, now: u32, sink: &mut dyn Sink) {
        let Storms { every_s, mib, files, life_s, .. } = self.parts.storms;
        if every_s == 0 || now % every_s != every_s / 2 {
            return;
        }
        for (object, pages) in std::mem::take(&mut self.residue) {
            self.end(object, pages, sink);
        }
        let pages = u64::from(self.draw_log(mib)) * u64::from(MIB);
        let room = (self.frames * 95 / 100).saturating_sub(self.live);
        let pages = pages.min(room) as u32;
        let files = self.draw_log(files);
        let inode_pages = files / self.parts.slabs.files_per_page.max(1);
        let ends_s = now + self.draw(life_s).max(1);
        let (data, inodes, node) = (self.object(), self.object(), self.node());
        self.storms.push(Storm { data, inodes, node, pages, inode_pages, has: 0, ends_s });
    }

    /// Files are written one after the other: data, and now and then a page of inodes.
    fn grow_storms(&mut self, sink: &mut dyn Sink) {
        let rate = self.parts.storms.write_mib_s * MIB;
        for index in 0..self.storms.len() {
            let storm = self.storms[index];
            let end = (storm.has + rate).min(storm.pages);
            let mut has = storm.has;
            let inodes = |at: u32| {
                u64::from(at) * u64::from(storm.inode_pages) / u64::from(storm.pages.max(1))
            };
            while has < end {
                let pages = (end - has).min(TURN);
                let data = Request::new(Order::FRAME, self.parts.storms.data);
                self.grow(storm.data, data, storm.node, pages, sink);
                let more = (inodes(has + pages) - inodes(has)) as u32;
                self.grow(
                    storm.inodes,
                    Request::new(Order::FRAME, Kind::Reclaimable),
                    storm.node,
                    more,
                    sink,
                );
                has += pages;
            }
            self.storms[index].has = has;
        }
    }

    fn end_storms(&mut self, now: u32, sink: &mut dyn Sink) {
        while let Some(at) = self.storms.iter().position(|storm| storm.ends_s <= now) {
            let storm = self.storms.swap_remove(at);
            let written =
                u64::from(storm.has) * u64::from(storm.inode_pages) / u64::from(storm.pages.max(1));
            self.end(storm.data, storm.has, sink);
            let kept = written as u32 * self.parts.storms.residue_permille.min(1_000) / 1_000;
            let goes = written as u32 - kept;
            // What stays is scattered: the pages that go are taken in strides.
            let stride = (written as u32 / kept.max(1)).max(2);
            for nth in 0..goes {
                sink.shrink(storm.inodes, nth.wrapping_mul(stride - 1), 1);
            }
            self.live -= u64::from(goes);
            self.residue.push((storm.inodes, kept));
            sink.occasion(Trigger::CacheDrop);
        }
    }
}

/// Page tables, and what every process has.
const fn kernel_pages(pages: u32) -> u32 {
    pages / TABLE_REACH + PROCESS_PAGES
}
