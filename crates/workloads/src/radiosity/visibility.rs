//! Does anything stand between two points? A bounding volume hierarchy over the scene's
//! triangles, and a memory of the last occluder (nearby rays tend to be stopped by the same
//! surface: Haines and Greenberg's light buffer idea in its smallest form).
//!
//! Surfaces stop light from both sides. A ray may start or end on a surface: the first and last
//! [`GAP`] of its length cannot be hit, nor can the two polygons it connects.

use super::geometry::{Quad, Vec3};
use crate::access;

/// The share of a ray's length, at either end, in which hits do not count.
pub const GAP: f64 = 1e-6;
const LEAF_TRIANGLES: usize = 2;
/// Down to here boxes are cut where it is cheapest; below they are halved, so that a walk needs at most
/// this many places and 32 more to remember where it was.
const MOST_DEPTH: u32 = 30;

/// Which patch of the scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PatchId(pub u32);

/// A straight way from `from` to `from + way`.
#[derive(Clone, Copy, Debug)]
pub struct Ray {
    /// Where it starts.
    pub from: Vec3,
    /// How it gets to its end.
    pub way: Vec3,
}

#[derive(Clone, Copy)]
struct Triangle {
    patch: PatchId,
    corner: Vec3,
    edges: [Vec3; 2],
}

impl Triangle {
    fn bounds(&self) -> (Vec3, Vec3) {
        let (b, c) = (self.corner + self.edges[0], self.corner + self.edges[1]);
        (self.corner.min(b).min(c), self.corner.max(b).max(c))
    }

    fn centre(&self) -> Vec3 {
        self.corner + (self.edges[0] + self.edges[1]) * (1.0 / 3.0)
    }

    /// The ray's parameter at its crossing, and whether it meets the front (Möller, Trumbore).
    fn crossing(&self, ray: &Ray) -> Option<(f64, bool)> {
        let across = ray.way.cross(self.edges[1]);
        let determinant = self.edges[0].dot(across);
        if determinant == 0.0 {
            return None;
        }
        let inverse = 1.0 / determinant;
        let offset = ray.from - self.corner;
        let u = offset.dot(across) * inverse;
        let turn = offset.cross(self.edges[0]);
        let v = ray.way.dot(turn) * inverse;
        let slack = 1e-9; // neighbours overlap by this much, so that no ray slips between them
        (u >= -slack && v >= -slack && u + v <= 1.0 + slack)
            .then(|| (self.edges[1].dot(turn) * inverse, determinant > 0.0))
    }
}

struct Node {
    low: Vec3,
    high: Vec3,
    /// Leaf: first triangle. Inner: the second child (the first one follows its parent).
    start: u32,
    /// Leaf: how many triangles. Inner: 0.
    count: u32,
}

impl Node {
    fn is_met(&self, from: Vec3, inverse: Vec3, reach: f64) -> bool {
        let (a, b) = (self.low - from, self.high - from);
        let (mut near, mut far) = (0.0f64, reach);
        for (low, high, inverse) in
            [(a.x, b.x, inverse.x), (a.y, b.y, inverse.y), (a.z, b.z, inverse.z)]
        {
            // 0 * inf is no number; min and max ignore it, which keeps the box (a safe answer).
            let (one, two) = (low * inverse, high * inverse);
            near = near.max(one.min(two));
            far = far.min(one.max(two));
        }
        near <= far * (1.0 + 1e-12)
    }
}

/// The patch that stopped the previous ray: asked first by the next one.
#[derive(Debug, Default)]
pub struct LastOccluder {
    triangle: Option<u32>,
    /// Whether the accesses of the next ray are told to who watches.
    pub is_heard: bool,
}

/// What a ray meets first.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    /// The patch that was met.
    pub patch: PatchId,
    /// The ray's parameter there.
    pub at: f64,
}

/// The scene's surfaces in a hierarchy of boxes. Never changes after it was built.
pub struct Occluders {
    triangles: Vec<Triangle>,
    nodes: Vec<Node>,
}

impl Occluders {
    /// Sorts the quads (patch `i` is the i-th) into boxes: O(n log^2 n), if no cut is very uneven.
    pub fn new(quads: &[Quad]) -> Occluders {
        let mut triangles = Vec::new();
        for (index, quad) in quads.iter().enumerate() {
            let [a, b, c, d] = quad.corners;
            let patch = PatchId(index as u32);
            triangles.push(Triangle { patch, corner: a, edges: [b - a, c - a] });
            triangles.push(Triangle { patch, corner: a, edges: [c - a, d - a] });
        }
        let mut nodes = Vec::new();
        let count = triangles.len();
        if count > 0 {
            build(&mut triangles, 0, count, &mut nodes, 0);
        }
        Occluders { triangles, nodes }
    }

    /// Whether something other than the patches `ends` stops the ray.
    pub fn is_blocked(&self, ray: &Ray, ends: [PatchId; 2], last: &mut LastOccluder) -> bool {
        let blocks = |index: u32| {
            let triangle = &self.triangles[index as usize];
            !ends.contains(&triangle.patch)
                && triangle.crossing(ray).is_some_and(|(at, _)| at > GAP && at < 1.0 - GAP)
        };
        if last.triangle.is_some_and(blocks) {
            return true;
        }
        let LastOccluder { triangle, is_heard } = last;
        self.walk(ray, 1.0, *is_heard, |index, _| {
            let blocked = blocks(index);
            if blocked {
                *triangle = Some(index);
            }
            blocked.then_some(0.0)
        })
    }

    /// The first patch whose front the ray meets, at whatever distance; backs are passed.
    pub fn first_front(&self, ray: &Ray) -> Option<Hit> {
        let mut hit: Option<Hit> = None;
        self.walk(ray, f64::INFINITY, false, |index, reach| {
            let triangle = &self.triangles[index as usize];
            let (at, front) = triangle.crossing(ray)?;
            if !front || at <= GAP || at >= reach {
                return None;
            }
            hit = Some(Hit { patch: triangle.patch, at });
            Some(at)
        });
        hit
    }

    /// Visits triangles whose box the ray meets; `visit` may shorten the reach, 0 ends the walk.
    /// Returns whether it was ended.
    fn walk(
        &self,
        ray: &Ray,
        mut reach: f64,
        is_heard: bool,
        mut visit: impl FnMut(u32, f64) -> Option<f64>,
    ) -> bool {
        let inverse = Vec3::new(1.0 / ray.way.x, 1.0 / ray.way.y, 1.0 / ray.way.z);
        let mut waiting = [0u32; 64];
        let mut depth = usize::from(!self.nodes.is_empty());
        while depth > 0 {
            depth -= 1;
            let index = waiting[depth];
            let node = &self.nodes[index as usize];
            if is_heard {
                access::touch_item(&self.nodes, index as usize, false);
            }
            if !node.is_met(ray.from, inverse, reach) {
                continue;
            }
            if node.count == 0 {
                waiting[depth] = node.start;
                waiting[depth + 1] = index + 1;
                depth += 2;
                continue;
            }
            for triangle in node.start..node.start + node.count {
                if is_heard {
                    access::touch_item(&self.triangles, triangle as usize, false);
                }
                reach = visit(triangle, reach).unwrap_or(reach);
                if reach == 0.0 {
                    return true;
                }
            }
        }
        false
    }
}

/// Corners of a box.
type Bounds = (Vec3, Vec3);

const NOTHING: Bounds = (
    Vec3::new(f64::INFINITY, f64::INFINITY, f64::INFINITY),
    Vec3::new(f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY),
);

fn union(one: Bounds, two: Bounds) -> Bounds {
    (one.0.min(two.0), one.1.max(two.1))
}

/// Half the surface of a box: how likely a ray meets it.
fn half_surface((low, high): Bounds) -> f64 {
    let [x, y, z] = (high - low).to_array();
    x * y + y * z + z * x
}

/// Cuts the triangles where rays are expected to test the fewest of them: boxes cost by their surface
/// times their triangles (MacDonald, Booth: "Heuristics for ray tracing using space subdivision", 1990).
/// Below [`MOST_DEPTH`] it halves them.
fn build(
    triangles: &mut [Triangle],
    start: usize,
    count: usize,
    nodes: &mut Vec<Node>,
    depth: u32,
) {
    let part = &mut triangles[start..start + count];
    let bounds = part.iter().fold(NOTHING, |all, triangle| union(all, triangle.bounds()));
    let index = nodes.len();
    nodes.push(Node { low: bounds.0, high: bounds.1, start: start as u32, count: count as u32 });
    if count <= LEAF_TRIANGLES {
        return;
    }
    let (axis, left) = if depth < MOST_DEPTH { cheapest_cut(part) } else { (0, count / 2) };
    sort_along(part, axis);
    build(triangles, start, left, nodes, depth + 1);
    nodes[index].start = nodes.len() as u32;
    nodes[index].count = 0;
    build(triangles, start + left, count - left, nodes, depth + 1);
}

fn sort_along(part: &mut [Triangle], axis: usize) {
    let key = |triangle: &Triangle| triangle.centre().to_array()[axis];
    part.sort_by(|a, b| key(a).total_cmp(&key(b)).then(a.patch.cmp(&b.patch)));
}

/// The axis to sort along, and how many triangles to put first. Leaves the triangles sorted somehow.
fn cheapest_cut(part: &mut [Triangle]) -> (usize, usize) {
    let count = part.len();
    let mut best = (f64::INFINITY, 0, count / 2);
    for axis in 0..3 {
        sort_along(part, axis);
        let mut surfaces = vec![0.0; count];
        let mut all = NOTHING;
        for (index, triangle) in part.iter().enumerate() {
            all = union(all, triangle.bounds());
            surfaces[index] = half_surface(all);
        }
        let mut all = NOTHING;
        for left in (1..count).rev() {
            all = union(all, part[left].bounds());
            let cost = surfaces[left - 1] * left as f64 + half_surface(all) * (count - left) as f64;
            if cost < best.0 {
                best = (cost, axis, left);
            }
        }
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(z: f64, half: f64) -> Quad {
        let corner = |x, y| Vec3::new(x, y, z);
        Quad {
            corners: [
                corner(-half, -half),
                corner(half, -half),
                corner(half, half),
                corner(-half, half),
            ],
        }
    }

    #[test]
    fn a_wall_stops_what_crosses_it_and_its_edge_does_not() {
        let walls: Vec<Quad> = (0..40).map(|i| wall(f64::from(i) * 0.01, 1.0)).collect();
        let occluders = Occluders::new(&walls);
        let nobody = [PatchId(u32::MAX); 2];
        let mut last = LastOccluder::default();
        let through = Ray { from: Vec3::new(0.3, 0.2, -1.0), way: Vec3::new(0.0, 0.0, 2.0) };
        let beside = Ray { from: Vec3::new(1.5, 0.2, -1.0), way: Vec3::new(0.0, 0.0, 2.0) };
        let short = Ray { from: Vec3::new(0.3, 0.2, -1.0), way: Vec3::new(0.0, 0.0, 0.9) };
        for _ in 0..2 {
            assert!(occluders.is_blocked(&through, nobody, &mut last));
            assert!(!occluders.is_blocked(&beside, nobody, &mut last));
            assert!(!occluders.is_blocked(&short, nobody, &mut last));
        }
    }

    #[test]
    fn the_first_front_is_found_and_backs_are_passed() {
        let occluders = Occluders::new(&[wall(0.0, 1.0), wall(-1.0, 1.0)]);
        let down = Ray { from: Vec3::new(0.1, 0.2, 3.0), way: Vec3::new(0.0, 0.0, -1.0) };
        let hit = occluders.first_front(&down).expect("the upper wall is met");
        assert_eq!((hit.patch, hit.at), (PatchId(0), 3.0));
        let up = Ray { from: Vec3::new(0.1, 0.2, -3.0), way: Vec3::new(0.0, 0.0, 1.0) };
        assert!(occluders.first_front(&up).is_none());
    }

    #[test]
    fn an_empty_scene_blocks_nothing() {
        let ray = Ray { from: Vec3::default(), way: Vec3::new(1.0, 0.0, 0.0) };
        assert!(Occluders::new(&[]).first_front(&ray).is_none());
    }
}
