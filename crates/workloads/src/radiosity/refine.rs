//! Which elements should exchange light directly, and which leave it to their children.
//!
//! "BF refinement" (Hanrahan, Salzman, Aupperle 1991, section 4.3): a link is as good as the power
//! it may misplace, `E = (V dX + dV X + dV dX) B` with the exchange area X = A F, its visibility V,
//! and the brighter end's radiosity B. A link with E <= eps/2 stays; so does one with E <= eps
//! whose ends have few links; else the larger end is split: four new links, one freed.
//!
//! Every candidate is a real [`Link`], allocated before it is judged and freed when its children
//! take over; the kernels that judge it are a temporary list of their own. Sub-centres are not made
//! anew: an element keeps its own, a task ([`Desk`]) uses the lists of finer ones again.
//! Refinement only reads light and lists that the previous phase wrote, and new links wait in the
//! elements' `arriving` lists: the outcome does not depend on the threads.

use super::form_factor::{
    Exchange, Sample, are_near, exchange, exchange_near, kernel, sub_centres,
};
use super::hierarchy::{Element, Hierarchy, Link, MAX_DEPTH, SUB_CENTRES, announce};
use super::visibility::{LastOccluder, Occluders, Ray};
use crate::access;
use std::mem::{offset_of, size_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// An element with fewer links than this accepts them at twice the error.
pub const FEW_LINKS: usize = 16;
/// A pair that sees nothing of each other, by many rays, but could exchange more than this share of
/// the smaller one's light is looked at piece by piece before it is given up.
const DARK_SHARE: f64 = 0.01;
/// A pair that sees nothing of each other by its first rays gets more of them if it could exchange
/// more than this share. (Giving up at once lost one to five per cent of each surface's light.)
const DOUBTFUL_SHARE: f64 = 2e-4;
/// Sub-centres per direction for the second look; every fourth pair of them gets a ray.
const SECOND_LOOK: usize = 4;
/// What a link occupies: itself, its counters, its place in two lists.
const LINK_BYTES: u64 = (size_of::<Link>() + 4 * size_of::<usize>()) as u64;

/// When a link is good enough.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Power that a link may misplace, in the scene's units.
    pub threshold: f64,
    /// Elements below this area are not split.
    pub least_area: f64,
    /// Links may occupy this many bytes.
    pub link_bytes: u64,
}

/// What refinement did, counted by all threads.
#[derive(Debug, Default)]
pub struct Tally {
    /// Links allocated, including candidates that were split or dropped at once.
    pub made: AtomicU64,
    /// Links split.
    pub split: AtomicU64,
    /// Links that live.
    pub live: AtomicU64,
    /// Rays traced.
    pub rays: AtomicU64,
    /// Set when the links would occupy too much; refinement then stops splitting.
    pub is_full: AtomicBool,
}

/// Makes and refines links.
pub struct Refiner<'a> {
    /// What may stand between elements.
    pub occluders: &'a Occluders,
    /// When to stop.
    pub rules: Rules,
    /// What was done.
    pub tally: &'a Tally,
}

/// A piece of work for a thread.
struct Task {
    element: Arc<Element>,
    desk: Desk,
}

/// What a task uses again for each candidate.
#[derive(Default)]
struct Desk {
    /// Occluders of neighbouring links are alike.
    last: LastOccluder,
    /// Sub-centres of both ends for the second look.
    finer: [Vec<Sample>; 2],
}

enum Verdict {
    Keep,
    Drop,
    SplitA,
    SplitB,
}

impl Refiner<'_> {
    /// Links every patch with every patch it may see.
    pub fn link_all(&self, hierarchy: &Hierarchy) {
        hierarchy.begin_phase();
        rayon::scope(|scope| {
            for (index, patch) in hierarchy.patches.iter().enumerate() {
                let task = Box::new(Task { element: patch.root.clone(), desk: Desk::default() });
                scope.spawn(move |_| {
                    let mut task = task;
                    for other in &hierarchy.patches[index + 1..] {
                        if may_see(&task.element, &other.root) {
                            task.element.attend(other.root.key);
                            access::mark(&*other.root, access::TASK);
                            let link = self.link(&task.element, &other.root, &mut task.desk);
                            self.settle(link, &mut task.desk);
                        }
                    }
                });
            }
        });
        hierarchy.tidy();
    }

    /// Judges all links again and refines those that are too coarse. Returns how many were.
    pub fn refine(&self, hierarchy: &Hierarchy) -> u64 {
        let before = self.tally.split.load(Relaxed);
        hierarchy.begin_phase();
        rayon::scope(|scope| {
            for element in hierarchy.linked() {
                let task = Box::new(Task { element, desk: Desk::default() });
                scope.spawn(move |_| self.refine_links_of(*task));
            }
        });
        hierarchy.tidy();
        self.tally.split.load(Relaxed) - before
    }

    fn refine_links_of(&self, mut task: Task) {
        task.element.attend(task.element.key);
        access::mark(&*task.element, access::TASK);
        access::touch_list(&task.element.links(), false);
        let mut before = None;
        let coarse: Vec<Arc<Link>> = task
            .element
            .links()
            .iter()
            .filter(|link| link.a.key == task.element.key)
            .inspect(|link| link.mark_task(&task.element, &mut before))
            .filter(|link| !matches!(self.judge(link), Verdict::Keep))
            .cloned()
            .collect();
        let mut before = None;
        for link in coarse {
            task.element.attend(link.b.key);
            link.mark_task(&task.element, &mut before);
            link.retired.store(true, Relaxed);
            self.tally.live.fetch_sub(1, Relaxed);
            self.settle(link, &mut task.desk);
        }
    }

    /// Announces a link, or whatever finer links replace it.
    fn settle(&self, link: Arc<Link>, desk: &mut Desk) {
        let mut waiting = vec![link];
        while let Some(link) = waiting.pop() {
            match self.judge(&link) {
                Verdict::Drop => {}
                Verdict::Keep => {
                    let live = self.tally.live.fetch_add(1, Relaxed) + 1;
                    if live * LINK_BYTES > self.rules.link_bytes {
                        self.tally.is_full.store(true, Relaxed);
                    }
                    announce(link);
                }
                verdict => {
                    self.tally.split.fetch_add(1, Relaxed);
                    let (split, kept) = match verdict {
                        Verdict::SplitA => (&link.a, &link.b),
                        _ => (&link.b, &link.a),
                    };
                    for child in split.split() {
                        if may_see(child, kept) {
                            waiting.push(self.link(child, kept, desk));
                        }
                    }
                }
            }
        }
    }

    fn judge(&self, link: &Link) -> Verdict {
        link.touch();
        if link.exchange <= 0.0 {
            return Verdict::Drop;
        }
        let smaller = link.a.area.min(link.b.area);
        let is_dark = link.visible <= 0.0;
        let is_fine =
            if is_dark { link.exchange / smaller <= DARK_SHARE } else { self.is_fine(link) };
        if !is_fine && !self.tally.is_full.load(Relaxed) {
            let can_split = |element: &Element| {
                element.area > self.rules.least_area && element.depth < MAX_DEPTH
            };
            let a_first = link.a.area >= link.b.area;
            match (can_split(&link.a), can_split(&link.b)) {
                (true, b) if a_first || !b => return Verdict::SplitA,
                (_, true) => return Verdict::SplitB,
                _ => {}
            }
        }
        if is_dark { Verdict::Drop } else { Verdict::Keep }
    }

    fn is_fine(&self, link: &Link) -> bool {
        let brightest = |element: &Element| element.outgoing().strongest();
        let misplaced = link.visible * link.exchange_error
            + link.visible_error * link.exchange
            + link.visible_error * link.exchange_error;
        let error = misplaced * brightest(&link.a).max(brightest(&link.b));
        error <= self.rules.threshold / 2.0
            || error <= self.rules.threshold
                && link.a.link_count() < FEW_LINKS
                && link.b.link_count() < FEW_LINKS
    }

    /// Allocates a link and estimates what it carries.
    fn link(&self, one: &Arc<Element>, two: &Arc<Element>, desk: &mut Desk) -> Arc<Link> {
        let (a, b) = if one.key < two.key { (one, two) } else { (two, one) };
        let mut kernels = Vec::with_capacity(SUB_CENTRES.pow(4));
        let Exchange { area, area_error } = estimate(a, b, &mut kernels);
        let (visible, visible_error) =
            if area > 0.0 { self.visibility([a, b], &kernels, area, desk) } else { (0.0, 0.0) };
        self.tally.made.fetch_add(1, Relaxed);
        let link = Arc::new(Link {
            a: a.clone(),
            b: b.clone(),
            exchange: area.min(a.area.min(b.area)),
            exchange_error: area_error,
            visible,
            visible_error,
            retired: AtomicBool::new(false),
        });
        access::touch_shared(&*link, 0, offset_of!(Link, retired), true);
        link
    }

    /// One ray for each pair of sub-centres that face each other, weighed by its kernel, and four
    /// times as many when all of them are stopped and much light is at stake: the visible share
    /// and its uncertainty (never 0: rays that agree may have missed something).
    fn visibility(
        &self,
        ends: [&Arc<Element>; 2],
        kernels: &[f64],
        exchange: f64,
        desk: &mut Desk,
    ) -> (f64, f64) {
        let Desk { last, finer } = desk;
        let smaller = ends[0].area.min(ends[1].area);
        let [from, to] = ends.map(|element| element.sub_centres());
        let pairs = from.iter().flat_map(|start| to.iter().map(move |end| (start, end)));
        let weighed = pairs.zip(kernels).map(|((start, end), &weight)| (start, end, weight));
        let first = self.seen(ends, weighed, last);
        if first.visible > 0.0 || exchange <= DOUBTFUL_SHARE * smaller {
            return (first.visible, first.uncertainty());
        }
        let second = self.second_look(ends, finer, last);
        (second.visible, second.uncertainty())
    }

    fn second_look(
        &self,
        ends: [&Arc<Element>; 2],
        finer: &mut [Vec<Sample>; 2],
        last: &mut LastOccluder,
    ) -> Seen {
        for (samples, element) in finer.iter_mut().zip(ends) {
            sub_centres(&element.quad(), element.normal, element.area, SECOND_LOOK, samples);
        }
        let [from, to] = &*finer;
        let some_of = |row: usize| to.iter().skip(row % 4).step_by(4);
        let pairs = from
            .iter()
            .enumerate()
            .flat_map(|(row, start)| some_of(row).map(move |end| (start, end)));
        self.seen(ends, pairs.map(|(start, end)| (start, end, kernel(start, end))), last)
    }

    /// Sends a ray between each two samples that have a weight.
    fn seen<'a>(
        &self,
        ends: [&Arc<Element>; 2],
        weighed: impl Iterator<Item = (&'a Sample, &'a Sample, f64)>,
        last: &mut LastOccluder,
    ) -> Seen {
        let patches = ends.map(|element| element.patch);
        let (mut seen, mut all, mut rays) = (0.0, 0.0, 0);
        let is_heard = access::is_attended();
        for (start, end, weight) in weighed.filter(|(.., weight)| *weight > 0.0) {
            let ray = Ray { from: start.point, way: end.point - start.point };
            all += weight;
            last.is_heard = is_heard;
            rays += 1;
            if !self.occluders.is_blocked(&ray, patches, last) {
                seen += weight;
            }
        }
        self.tally.rays.fetch_add(rays, Relaxed);
        let visible = match all {
            0.0 => 0.0, // no two samples face each other: as good as dark, if it is small
            _ if seen == all => 1.0,
            _ => seen / all,
        };
        Seen { visible, rays }
    }
}

/// What a link between `a` and `b` would exchange if nothing stood between them; `kernels` receives its shares.
fn estimate(a: &Element, b: &Element, kernels: &mut Vec<f64>) -> Exchange {
    [a, b].into_iter().for_each(Element::touch_corners);
    let apart = exchange(a.sub_centres(), b.sub_centres(), kernels);
    access::touch_list(kernels, true);
    let (quad_a, quad_b) = (a.quad(), b.quad());
    if are_near(&quad_a, &quad_b) { exchange_near(&quad_a, &quad_b) } else { apart }
}

/// What rays saw.
struct Seen {
    /// The share of them, by weight, that got through.
    visible: f64,
    rays: u64,
}

impl Seen {
    fn uncertainty(&self) -> f64 {
        self.visible.min(1.0 - self.visible).max(0.25 / self.rays.max(1) as f64)
    }
}

/// Whether some corner of each element lies in front of the other.
fn may_see(a: &Element, b: &Element) -> bool {
    let faces = |from: &Element, to: &Element| {
        let origin = from.corners[0].position;
        let slack = 1e-9 * from.area.max(to.area).sqrt();
        to.corners.iter().any(|corner| (corner.position - origin).dot(from.normal) > slack)
    };
    a.patch != b.patch && faces(a, b) && faces(b, a)
}
