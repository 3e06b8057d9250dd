//! What a solution took and what it holds, as text and as JSON.

use super::closure::Closure;
use super::hierarchy::Hierarchy;
use super::physics::{Check, Physics};
use super::refine::Tally;
use super::scene::Scene;
use serde::Serialize;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// A part of the work whose time is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Sorting the surfaces for ray tracing.
    Sort,
    /// Linking patches with patches.
    Link,
    /// Refining links.
    Refine,
    /// Gathering over links.
    Gather,
    /// Pushing down and pulling up.
    PushPull,
    /// Scaling rows.
    Closure,
    /// Taking the picture.
    Picture,
}

/// Seconds per phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Seconds {
    /// See [`Phase::Sort`].
    pub sort: f64,
    /// See [`Phase::Link`].
    pub link: f64,
    /// See [`Phase::Refine`].
    pub refine: f64,
    /// See [`Phase::Gather`].
    pub gather: f64,
    /// See [`Phase::PushPull`].
    pub push_pull: f64,
    /// See [`Phase::Closure`].
    pub closure: f64,
    /// See [`Phase::Picture`].
    pub picture: f64,
}

impl Seconds {
    fn of(&mut self, phase: Phase) -> &mut f64 {
        match phase {
            Phase::Sort => &mut self.sort,
            Phase::Link => &mut self.link,
            Phase::Refine => &mut self.refine,
            Phase::Gather => &mut self.gather,
            Phase::PushPull => &mut self.push_pull,
            Phase::Closure => &mut self.closure,
            Phase::Picture => &mut self.picture,
        }
    }

    fn total(&self) -> f64 {
        self.sort
            + self.link
            + self.refine
            + self.gather
            + self.push_pull
            + self.closure
            + self.picture
    }
}

/// The heaps that served the program, where it brought its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeapStatistics {
    /// How threads shared them.
    pub scheme: String,
    /// From the start of each to the highest end that a used block ever had, summed.
    pub heap_bytes: u64,
    /// Bytes of used blocks with the solution alive, tags included.
    pub used_bytes: u64,
    /// 1 - longest free block / all free bytes, within the heaps.
    pub external_fragmentation: Option<f64>,
    /// Times a lock was taken, if locks were watched.
    pub locks_taken: u64,
    /// Times it had to be waited for.
    pub locks_contended: u64,
    /// Nanoseconds waited, all threads together.
    pub lock_wait_ns: u64,
}

/// Everything worth reporting about a solution.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// The scene's name.
    pub scene: String,
    /// Threads that worked.
    pub threads: usize,
    /// Polygons of the scene.
    pub polygons: usize,
    /// Iterations of refine, gather, push, pull.
    pub iterations: u32,
    /// Sweeps of gather, push, pull, with and without refinement.
    pub sweeps: u32,
    /// Patches: the polygons as quadrilaterals.
    pub patches: usize,
    /// Elements of all levels.
    pub elements: u64,
    /// Final meshes: elements without children.
    pub meshes: u64,
    /// Meshes after each iteration.
    pub meshes_by_iteration: Vec<u64>,
    /// Edges of all levels.
    pub edges: u64,
    /// Vertices.
    pub vertices: u64,
    /// Links at the end.
    pub links: u64,
    /// Links allocated in all.
    pub links_made: u64,
    /// Links replaced by finer ones.
    pub links_split: u64,
    /// Rays traced for visibility.
    pub rays: u64,
    /// Bytes of the solution's objects, allocator overhead excluded.
    pub useful_bytes: u64,
    /// Peak of the process's resident memory, everything included; filled in by the command.
    pub peak_resident_bytes: u64,
    /// Processor time of all threads so far, picture and checks aside; filled in by the command.
    pub processor_seconds: f64,
    /// Wall time.
    pub seconds: Seconds,
    /// The heaps, where the program brought its own; filled in by the command.
    pub heap: Option<HeapStatistics>,
    /// Row sums.
    pub closure: Closure,
    /// Energy and verdicts.
    pub physics: Physics,
}

impl Statistics {
    /// Nothing done yet.
    pub fn new(scene: &Scene, threads: usize) -> Statistics {
        let polygons = scene.polygons.len();
        Statistics { scene: scene.name.clone(), threads, polygons, ..Statistics::default() }
    }

    /// Runs `work` and adds its wall time to a phase.
    pub fn time<T>(&mut self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let answer = work();
        self.add(phase, start.elapsed().as_secs_f64());
        answer
    }

    /// Adds wall time to a phase.
    pub fn add(&mut self, phase: Phase, seconds: f64) {
        *self.seconds.of(phase) += seconds;
    }

    /// Counts what a solution holds.
    pub fn count(&mut self, hierarchy: &Hierarchy, tally: &Tally) {
        let census = hierarchy.census();
        self.patches = hierarchy.patches.len();
        self.elements = census.elements;
        self.meshes = census.meshes;
        self.edges = census.edges;
        self.vertices = census.vertices;
        self.links = census.links;
        self.useful_bytes = census.useful_bytes;
        self.links_made = tally.made.load(Relaxed);
        self.links_split = tally.split.load(Relaxed);
        self.rays = tally.rays.load(Relaxed);
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} polygons, {} iterations, {} sweeps, {} thread(s)",
            self.scene, self.polygons, self.iterations, self.sweeps, self.threads
        )?;
        writeln!(
            f,
            "  solution   {} meshes ({} elements, {} edges, {} vertices), {} links, {:.1} MB",
            self.meshes,
            self.elements,
            self.edges,
            self.vertices,
            self.links,
            self.useful_bytes as f64 / 1e6
        )?;
        writeln!(
            f,
            "  work       {} links made, {} split, {} rays",
            self.links_made, self.links_split, self.rays
        )?;
        let s = &self.seconds;
        writeln!(
            f,
            "  seconds    {:.3}: link {:.3}, refine {:.3}, gather {:.3}, push and pull {:.3}, \
             closure {:.3}, picture {:.3}",
            s.total(),
            s.link,
            s.refine,
            s.gather,
            s.push_pull,
            s.closure,
            s.picture
        )?;
        let c = &self.closure;
        writeln!(
            f,
            "  rows       {:.4} in the patches' median as estimated (meshes {:.2} to {:.2}){}",
            c.patch_median,
            c.row_least,
            c.row_most,
            if c.scaled {
                format!("; scaled to 1 within {:.0e}", c.residual)
            } else {
                String::new()
            }
        )?;
        let p = &self.physics;
        writeln!(
            f,
            "  energy     {:.6e} emitted, {:.6e} absorbed ({:+.2e} before scaling)",
            p.emitted, p.absorbed, p.unscaled_gain
        )?;
        if let Some(heap) = &self.heap {
            writeln!(
                f,
                "  heap       {}: {:.1} MB of {:.1} MB in used blocks; {} locks taken, {} waited for",
                heap.scheme,
                heap.used_bytes as f64 / 1e6,
                heap.heap_bytes as f64 / 1e6,
                heap.locks_taken,
                heap.locks_contended
            )?;
        }
        for check in &p.checks {
            let verdict = if check.passed() { "ok    " } else { "FAILED" };
            let Check { name, found, tolerated } = check;
            writeln!(f, "  {verdict}     {name}: {found:.2e} (at most {tolerated:.2e})")?;
        }
        Ok(())
    }
}
