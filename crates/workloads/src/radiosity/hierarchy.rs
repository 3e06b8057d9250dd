//! What the solver knows: patches, their elements in quadtrees, the edges and vertices that
//! neighbours share, and the links over which elements exchange light.
//!
//! ```text
//!   Patch ── root Element ── 4 children ── ...       each Arc is one allocation
//!                 │  └─ 4 Sides ── Edge ── 2 half Edges + middle Vertex, when either neighbour splits
//!                 └─ links ── Link ── (a: Element, b: Element)   held by both of its ends
//! ```
//!
//! Edges split once, whoever asks first, and both neighbours use the same middle: so the mesh
//! knows its T-vertices, and [`super::shading`] can close the cracks.
//!
//! Invariants: an element never dies before its hierarchy; a live link stands in the lists of
//! both its ends; lists are sorted by the other end's key. Links and elements point at each other,
//! so [`Hierarchy`] cuts the links when it is dropped.
//!
//! What is touched while links are followed and light moves is told to [`crate::access`], which a
//! recorder may watch.

mod census;
mod edge;

use super::colour::{Cell, Rgb, RgbCell};
use super::form_factor::{Sample, sub_centres};
use super::geometry::{Quad, Vec3};
use super::scene::Scene;
use super::visibility::PatchId;
use crate::access;
pub use census::{Census, Object};
use edge::Side;
pub use edge::{Edge, Split, Vertex};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Sub-centres of an element per direction.
pub const SUB_CENTRES: usize = 2;
/// Below this depth one thread walks a quadtree alone.
const PARALLEL_DEPTH: u32 = 3;
/// Deepest element: its path must fit its key.
pub const MAX_DEPTH: u32 = 16;

/// Names an element: patch, then the path of children from its root. Its order is fixed by the
/// scene, whatever the threads do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ElementKey(u64);

impl ElementKey {
    fn root(patch: PatchId) -> ElementKey {
        ElementKey(u64::from(patch.0) << 34 | 1)
    }

    fn child(self, index: usize) -> ElementKey {
        let (patch, path) = (self.0 >> 34, self.0 & ((1 << 34) - 1));
        ElementKey(patch << 34 | path << 2 | index as u64)
    }

    /// Whether both are children of one element.
    fn is_sibling(self, other: ElementKey) -> bool {
        self.0 >> 2 == other.0 >> 2
    }
}

/// The light of an element, in units of power per area.
#[derive(Debug, Default)]
pub struct Light {
    /// What others receive from it: radiosity times the closure's correction.
    pub outgoing: RgbCell,
    /// What its own links bring.
    pub gathered: RgbCell,
    /// What its links and those of its ancestors bring (leaves only).
    pub incident: RgbCell,
    /// Emission plus reflection.
    pub radiosity: RgbCell,
    /// The factor by which [`super::closure`] scales all exchange with this leaf.
    pub correction: Cell,
    /// Sum of the leaf's form factors as estimated.
    pub row: Cell,
}

/// A quadrilateral of the solution.
#[derive(Debug)]
pub struct Element {
    /// Its name.
    pub key: ElementKey,
    /// The patch it is part of.
    pub patch: PatchId,
    /// 0 for a patch's root.
    pub depth: u32,
    /// Area in squared units of length.
    pub area: f64,
    /// Unit normal.
    pub normal: Vec3,
    /// Its corners, counter-clockwise.
    pub corners: [Arc<Vertex>; 4],
    /// Its light.
    pub light: Light,
    sides: [Side; 4],
    children: OnceLock<[Arc<Element>; 4]>,
    /// Made for its first candidate, kept for all others.
    sub_centres: OnceLock<Box<[Sample]>>,
    links: Mutex<Vec<Arc<Link>>>,
    /// Length of `links` after the last tidying: judges read it while they hold other lists.
    link_count: AtomicUsize,
    arriving: Mutex<Vec<Arc<Link>>>,
}

/// Light flows between two elements, both ways.
#[derive(Debug)]
pub struct Link {
    /// The end with the smaller key; it owns the link's refinement.
    pub a: Arc<Element>,
    /// The other end.
    pub b: Arc<Element>,
    /// `A_a F_ab = A_b F_ba` without occlusion, as an area.
    pub exchange: f64,
    /// How far `exchange` may be wrong.
    pub exchange_error: f64,
    /// The share of it that is not occluded.
    pub visible: f64,
    /// How far `visible` may be wrong.
    pub visible_error: f64,
    /// Set when finer links replace it; the next tidying frees it.
    pub retired: AtomicBool,
}

impl Link {
    /// The other end.
    fn peer(&self, of: &Element) -> &Arc<Element> {
        if self.a.key == of.key { &self.b } else { &self.a }
    }

    /// Marks for who watches that here begins work on the other end, unless the work before it was on a
    /// sibling of it: what links of one element do can be done apart.
    pub fn mark_task(&self, of: &Element, before: &mut Option<ElementKey>) {
        let peer = self.peer(of);
        if access::is_watched() && !before.is_some_and(|before| before.is_sibling(peer.key)) {
            *before = Some(peer.key);
            access::mark(&**peer, access::TASK);
        }
    }

    /// Tells who watches that ends and estimates are read.
    pub fn touch(&self) {
        access::touch_shared(self, 0, offset_of!(Link, retired), false);
    }

    /// Area that carries light: exchange times visibility.
    pub fn carries(&self) -> f64 {
        self.exchange * self.visible
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panicking thread ends the whole solution, so a poisoned list is never read for results.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Element {
    fn new(
        key: ElementKey,
        patch: PatchId,
        depth: u32,
        corners: [Arc<Vertex>; 4],
        sides: [Side; 4],
    ) -> Arc<Element> {
        let quad = Quad { corners: std::array::from_fn(|index| corners[index].position) };
        let light = Light { correction: Cell::new(1.0), ..Light::default() };
        Arc::new(Element {
            key,
            patch,
            depth,
            area: quad.area(),
            normal: quad.normal(),
            corners,
            light,
            sides,
            children: OnceLock::new(),
            sub_centres: OnceLock::new(),
            links: Mutex::new(Vec::new()),
            link_count: AtomicUsize::new(0),
            arriving: Mutex::new(Vec::new()),
        })
    }

    /// Its shape.
    pub fn quad(&self) -> Quad {
        Quad { corners: std::array::from_fn(|index| self.corners[index].position) }
    }

    /// Its sub-centres: a list of their own, made when they are first asked for.
    pub fn sub_centres(&self) -> &[Sample] {
        let samples = self.sub_centres.get_or_init(|| {
            let mut samples = Vec::with_capacity(SUB_CENTRES * SUB_CENTRES);
            sub_centres(&self.quad(), self.normal, self.area, SUB_CENTRES, &mut samples);
            access::touch_list(&samples, true);
            samples.into_boxed_slice()
        });
        access::touch_list(samples, false);
        samples
    }

    /// The edges around it.
    pub fn edges(&self) -> impl Iterator<Item = &Arc<Edge>> {
        self.sides.iter().map(|side| &side.edge)
    }

    /// The children, if it was split; child `i` keeps corner `i`.
    pub fn children(&self) -> Option<&[Arc<Element>; 4]> {
        self.children.get()
    }

    /// The children; splits the element if nobody did. They start with their parent's light.
    pub fn split(&self) -> &[Arc<Element>; 4] {
        self.children.get_or_init(|| {
            let quad = self.quad();
            let centre = Vertex::new(quad.at(0.5, 0.5));
            let middles: [Arc<Vertex>; 4] =
                std::array::from_fn(|side| self.sides[side].edge.split().middle.clone());
            let spokes: [Arc<Edge>; 4] =
                std::array::from_fn(|side| Edge::new([middles[side].clone(), centre.clone()]));
            std::array::from_fn(|index| self.child(index, &centre, &middles, &spokes))
        })
    }

    fn child(
        &self,
        index: usize,
        centre: &Arc<Vertex>,
        middles: &[Arc<Vertex>; 4],
        spokes: &[Arc<Edge>; 4],
    ) -> Arc<Element> {
        let before = (index + 3) % 4;
        // Around the child: own corner, middle after it, centre, middle before it; then turned so
        // that its corner i is the parent's corner i, and u, v keep their directions.
        let mut corners = [
            self.corners[index].clone(),
            middles[index].clone(),
            centre.clone(),
            middles[before].clone(),
        ];
        let spoke = |side: usize, reversed| Side { edge: spokes[side].clone(), reversed };
        let mut sides = [
            self.sides[index].half(0),
            spoke(index, false),
            spoke(before, true),
            self.sides[before].half(1),
        ];
        corners.rotate_right(index);
        sides.rotate_right(index);
        let child = Element::new(self.key.child(index), self.patch, self.depth + 1, corners, sides);
        child.light.outgoing.set(self.light.outgoing.get());
        child.light.radiosity.set(self.light.radiosity.get());
        child
    }

    /// What others receive from it.
    pub fn outgoing(&self) -> Rgb {
        self.touch_light(offset_of!(Light, outgoing), false);
        self.light.outgoing.get()
    }

    /// Tells who watches that one colour of the light is touched.
    pub fn touch_light(&self, offset: usize, write: bool) {
        access::touch_shared(
            self,
            offset_of!(Element, light) + offset,
            size_of::<RgbCell>(),
            write,
        );
    }

    /// Tells who watches that the corners are read, and where they are.
    pub fn touch_corners(&self) {
        access::touch_shared(self, offset_of!(Element, corners), size_of_val(&self.corners), false);
        for corner in &self.corners {
            access::touch_shared(&**corner, offset_of!(Vertex, position), size_of::<Vec3>(), false);
        }
    }

    /// Says to who watches that what follows is work of this element, with `other` (or its own).
    pub fn attend(&self, other: ElementKey) {
        let unit = self.key.0.wrapping_mul(3).wrapping_add(other.0);
        access::attend(self, self.patch.0.into(), unit);
    }

    /// Marks for who watches that here begins what a thread may walk alone.
    fn mark_if_apart(&self) {
        if self.depth <= PARALLEL_DEPTH {
            access::mark(self, access::TASK);
        }
    }

    /// Reads the links.
    pub fn links(&self) -> MutexGuard<'_, Vec<Arc<Link>>> {
        lock(&self.links)
    }

    /// How many links it had after the last tidying. Takes no lock.
    pub fn link_count(&self) -> usize {
        self.link_count.load(Relaxed)
    }

    /// What the links bring, given everybody's outgoing light.
    pub fn gather(&self) {
        let mut sum = Rgb::BLACK;
        let links = self.links();
        let mut before = None;
        for (index, link) in links.iter().enumerate() {
            link.mark_task(self, &mut before);
            access::touch_item(&links, index, false);
            link.touch();
            sum += link.peer(self).outgoing() * link.carries();
        }
        access::mark(self, access::TASK);
        self.touch_light(offset_of!(Light, gathered), true);
        self.light.gathered.set(sum * (1.0 / self.area));
    }

    /// Frees retired links and takes in new ones, sorted.
    fn tidy(&self) {
        let mut arriving = std::mem::take(&mut *lock(&self.arriving));
        let mut links = self.links();
        links.retain(|link| !link.retired.load(Relaxed));
        if !arriving.is_empty() {
            links.append(&mut arriving);
            links.sort_unstable_by_key(|link| link.peer(self).key);
        }
        self.link_count.store(links.len(), Relaxed);
        if links.capacity() > 4 * links.len().max(4) {
            links.shrink_to_fit();
        }
    }
}

/// Announces a new link to both its ends; they take it in at the next tidying.
pub fn announce(link: Arc<Link>) {
    lock(&link.a.arriving).push(link.clone());
    let other = link.b.clone();
    lock(&other.arriving).push(link);
}

/// A quadrilateral of the scene and the solution on it.
#[derive(Debug)]
pub struct Patch {
    /// Its place in the hierarchy's list.
    pub id: PatchId,
    /// Its shape.
    pub quad: Quad,
    /// Reflected share of the light.
    pub reflectance: Rgb,
    /// Emitted power per area.
    pub emission: Rgb,
    /// The whole patch as an element.
    pub root: Arc<Element>,
}

/// All patches.
#[derive(Debug)]
pub struct Hierarchy {
    /// The patches; a patch's id is its index.
    pub patches: Vec<Box<Patch>>,
}

impl Hierarchy {
    /// One patch per quadrilateral of the scene. Polygons of one surface share edges.
    pub fn new(scene: &Scene) -> Hierarchy {
        let mut corners = Corners::default();
        let patches = scene
            .quads()
            .into_iter()
            .enumerate()
            .map(|(index, (polygon, quad))| {
                let id = PatchId(index as u32);
                let material = &scene.materials[polygon.material];
                let (vertices, sides) = corners.outline(&polygon.surface, &quad);
                let root = Element::new(ElementKey::root(id), id, 0, vertices, sides);
                let (reflectance, emission) = (material.reflectance, material.emission);
                root.light.outgoing.set(emission);
                root.light.radiosity.set(emission);
                Box::new(Patch { id, quad, reflectance, emission, root })
            })
            .collect();
        Hierarchy { patches }
    }

    /// The patch with this name.
    pub fn patch(&self, id: PatchId) -> &Patch {
        &self.patches[id.0 as usize]
    }

    /// Calls `f` on every element, in parallel.
    pub fn for_each(&self, f: impl Fn(&Arc<Element>) + Sync) {
        self.begin_phase();
        self.patches.par_iter().for_each(|patch| each_below(&patch.root, &f));
    }

    /// Tells who watches that all work before this is done.
    pub fn begin_phase(&self) {
        if let Some(patch) = self.patches.first() {
            access::mark(&*patch.root, access::BARRIER);
        }
    }

    /// Calls `f` on every leaf, in the scene's order, on this thread.
    pub fn leaves<'a>(&'a self, mut f: impl FnMut(&'a Patch, &'a Arc<Element>)) {
        fn walk<'a>(element: &'a Arc<Element>, f: &mut impl FnMut(&'a Arc<Element>)) {
            match element.children() {
                Some(children) => children.iter().for_each(|child| walk(child, f)),
                None => f(element),
            }
        }
        for patch in &self.patches {
            walk(&patch.root, &mut |element| f(patch, element));
        }
    }

    /// The elements that have links (a temporary list).
    pub fn linked(&self) -> Vec<Arc<Element>> {
        fn walk(element: &Arc<Element>, list: &mut Vec<Arc<Element>>) {
            if !element.links().is_empty() {
                list.push(element.clone());
            }
            element.children().into_iter().flatten().for_each(|child| walk(child, list));
        }
        let mut list = Vec::new();
        self.patches.iter().for_each(|patch| walk(&patch.root, &mut list));
        list
    }

    /// Frees retired links and takes in new ones, everywhere.
    pub fn tidy(&self) {
        self.for_each(|element| element.tidy());
    }

    /// Elements without children.
    pub fn meshes(&self) -> u64 {
        let mut count = 0;
        self.leaves(|_, _| count += 1);
        count
    }
}

impl Drop for Hierarchy {
    fn drop(&mut self) {
        self.for_each(|element| {
            drop(std::mem::take(&mut *element.links()));
            drop(std::mem::take(&mut *lock(&element.arriving)));
        });
    }
}

fn each_below(element: &Arc<Element>, f: &(impl Fn(&Arc<Element>) + Sync)) {
    element.attend(element.key);
    element.mark_if_apart();
    f(element);
    match element.children() {
        Some(children) if element.depth < PARALLEL_DEPTH => {
            children.par_iter().for_each(|child| each_below(child, f));
        }
        Some(children) => children.iter().for_each(|child| each_below(child, f)),
        None => {}
    }
}

/// Folds a quadtree from the leaves up, in parallel; children are combined in their order.
/// `leaf` gets what `down` made of its ancestors' contexts; `up` combines four answers.
pub fn fold<C: Copy + Send + Sync, T: Send>(
    element: &Element,
    context: C,
    down: &(impl Fn(&Element, C) -> C + Sync),
    leaf: &(impl Fn(&Element, C) -> T + Sync),
    up: &(impl Fn(&Element, [T; 4]) -> T + Sync),
) -> T {
    element.attend(element.key);
    element.mark_if_apart();
    let context = down(element, context);
    let size = size_of::<[Arc<Element>; 4]>();
    access::touch_shared(element, offset_of!(Element, children), size, false);
    let Some([a, b, c, d]) = element.children() else { return leaf(element, context) };
    let below = |child: &Element| fold(child, context, down, leaf, up);
    let answers = if element.depth < PARALLEL_DEPTH {
        let ((a, b), (c, d)) = rayon::join(
            || rayon::join(|| below(a), || below(b)),
            || rayon::join(|| below(c), || below(d)),
        );
        [a, b, c, d]
    } else {
        [below(a), below(b), below(c), below(d)]
    };
    up(element, answers)
}

/// Finds the vertices and edges that polygons of one surface share.
#[derive(Default)]
struct Corners {
    vertices: BTreeMap<(String, [u64; 3]), (usize, Arc<Vertex>)>,
    edges: BTreeMap<(usize, usize), Arc<Edge>>,
}

impl Corners {
    fn outline(&mut self, surface: &str, quad: &Quad) -> ([Arc<Vertex>; 4], [Side; 4]) {
        let named = quad.corners.map(|position| self.vertex(surface, position));
        let sides = std::array::from_fn(|index| {
            let ((one, first), (two, second)) = (&named[index], &named[(index + 1) % 4]);
            let reversed = one > two;
            let edge = self
                .edges
                .entry((*one.min(two), *one.max(two)))
                .or_insert_with(|| {
                    let ends = if reversed { [second, first] } else { [first, second] };
                    Edge::new(ends.map(Arc::clone))
                })
                .clone();
            Side { edge, reversed }
        });
        (named.map(|(_, vertex)| vertex), sides)
    }

    fn vertex(&mut self, surface: &str, position: Vec3) -> (usize, Arc<Vertex>) {
        let next = self.vertices.len();
        // + 0.0 makes one zero of two.
        let place = position.to_array().map(|coordinate| (coordinate + 0.0).to_bits());
        self.vertices
            .entry((surface.to_owned(), place))
            .or_insert_with(|| (next, Vertex::new(position)))
            .clone()
    }
}

#[cfg(test)]
mod tests;
