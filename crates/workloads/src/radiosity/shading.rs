//! Smooth light between the meshes: vertex values and their interpolation.
//!
//! A vertex takes the mean of the leaves around it, weighed by area and by how much each sees
//! (a leaf beneath a box says nothing about the floor beside it). Where a fine leaf meets a coarse
//! one, the fine one's extra vertex (a T-vertex) is put on the coarse one's straight edge: so the
//! shading has no cracks. What is interpolated is incident light; the surface's own reflectance
//! is applied where it is seen.

use super::colour::Rgb;
use super::geometry::Vec3;
use super::hierarchy::{Edge, Element, Hierarchy, Patch};
use std::sync::Arc;

/// Computes all vertices' light.
pub fn shade_vertices(hierarchy: &Hierarchy) {
    let mut leaves: Vec<&Arc<Element>> = Vec::new();
    hierarchy.leaves(|_, element| leaves.push(element));
    for vertex in leaves.iter().flat_map(|leaf| &leaf.corners) {
        vertex.shade.set(Rgb::BLACK);
        vertex.weight.set(0.0);
    }
    for leaf in &leaves {
        let weight = leaf.area * leaf.light.row.get().clamp(0.0, 1.0).powi(2);
        let light = leaf.light.incident.get() * weight;
        for vertex in &leaf.corners {
            vertex.shade.set(vertex.shade.get() + light);
            vertex.weight.set(vertex.weight.get() + weight);
        }
    }
    for vertex in leaves.iter().flat_map(|leaf| &leaf.corners) {
        let weight = vertex.weight.get();
        if weight > 0.0 {
            vertex.shade.set(vertex.shade.get() * (1.0 / weight));
            vertex.weight.set(0.0); // divided
        }
    }
    // Coarse leaves first: the ends of a finer edge may hang on a coarser one.
    leaves.sort_by_key(|leaf| leaf.depth);
    leaves.iter().flat_map(|leaf| leaf.edges()).for_each(|edge| straighten(edge));
}

/// Puts all vertices within a leaf's edge on the line between its ends.
fn straighten(edge: &Edge) {
    if let Some(split) = edge.halves() {
        let [first, second] = &edge.ends;
        split.middle.shade.set((first.shade.get() + second.shade.get()) * 0.5);
        split.halves.iter().for_each(|half| straighten(half));
    }
}

/// The leaf under a point of a patch, and the point's coordinates in it.
pub fn locate(patch: &Patch, point: Vec3) -> (&Element, f64, f64) {
    let (mut u, mut v) = patch.quad.coordinates(point);
    let mut element: &Element = &patch.root;
    while let Some(children) = element.children() {
        // Child i keeps corner i; the corners stand at (0,0), (1,0), (1,1), (0,1).
        let index = match (u >= 0.5, v >= 0.5) {
            (false, false) => 0,
            (true, false) => 1,
            (true, true) => 2,
            (false, true) => 3,
        };
        u = 2.0 * u - f64::from(u8::from(u >= 0.5));
        v = 2.0 * v - f64::from(u8::from(v >= 0.5));
        element = &children[index];
    }
    (element, u, v)
}

/// Interpolates the vertices' light within a leaf.
pub fn interpolate(element: &Element, u: f64, v: f64) -> Rgb {
    let [a, b, c, d] = [0, 1, 2, 3].map(|corner: usize| element.corners[corner].shade.get());
    (a * (1.0 - u) + b * u) * (1.0 - v) + (d * (1.0 - u) + c * u) * v
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radiosity::scenes;

    /// One face, one quarter of it finer: a T-vertex on each of the two inner edges.
    #[test]
    fn shading_has_no_cracks_at_t_vertices() {
        let hierarchy = Hierarchy::new(&scenes::furnace(0.5, 1.0));
        let patch = &hierarchy.patches[0];
        patch.root.split()[0].split();
        let mut next = 0.0;
        hierarchy.leaves(|_, leaf| {
            next += 1.0;
            leaf.light.incident.set(Rgb::grey(next * next));
            leaf.light.row.set(1.0);
        });
        shade_vertices(&hierarchy);
        for along in [0.1, 0.2, 0.25, 0.4] {
            for (u, v, du, dv) in [(0.5, along, 1e-9, 0.0), (along, 0.5, 0.0, 1e-9)] {
                let at = |u: f64, v: f64| {
                    let (leaf, u, v) = locate(patch, patch.quad.at(u, v));
                    interpolate(leaf, u, v).0[0]
                };
                let (here, there) = (at(u - du, v - dv), at(u + du, v + dv));
                assert!((here - there).abs() < 1e-6, "{here} against {there} at {along}");
            }
        }
    }

    #[test]
    fn a_point_is_found_in_its_leaf() {
        let hierarchy = Hierarchy::new(&scenes::furnace(0.5, 1.0));
        let patch = &hierarchy.patches[3];
        patch.root.split()[2].split()[1].split();
        for step in 0..64 {
            let (u, v) = (f64::from(step) / 63.0, f64::from(step * 29 % 64) / 63.0);
            let point = patch.quad.at(u, v);
            let (leaf, u, v) = locate(patch, point);
            assert!((leaf.quad().at(u, v) - point).length() < 1e-12);
        }
    }
}
