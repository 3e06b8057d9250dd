//! The mesh's own promises: shared edges, covering children, ordered keys.

use super::*;
use crate::radiosity::scenes;

#[test]
fn children_cover_their_parent_and_keep_its_corners() {
    let hierarchy = Hierarchy::new(&scenes::furnace(0.5, 1.0));
    let root = &hierarchy.patches[0].root;
    let children = root.split();
    let sum: f64 = children.iter().map(|child| child.area).sum();
    assert!((sum - root.area).abs() < 1e-12);
    for (index, child) in children.iter().enumerate() {
        assert!(Arc::ptr_eq(&child.corners[index], &root.corners[index]));
        assert!((child.normal - root.normal).length() < 1e-12);
        for (side, edge) in child.sides.iter().enumerate() {
            let ends = &edge.edge.ends;
            let (start, end) = if edge.reversed { (1, 0) } else { (0, 1) };
            assert!(Arc::ptr_eq(&ends[start], &child.corners[side]));
            assert!(Arc::ptr_eq(&ends[end], &child.corners[(side + 1) % 4]));
        }
    }
}

#[test]
fn neighbours_share_the_middle_of_their_edge() {
    let hierarchy = Hierarchy::new(&scenes::furnace(0.5, 1.0));
    let [left, right, ..] = hierarchy.patches[0].root.split();
    let (left, right) = (left.split(), right.split());
    assert!(Arc::ptr_eq(&left[1].corners[2], &right[0].corners[3]));
    let census = hierarchy.census();
    assert_eq!((census.elements, census.meshes), (6 + 4 + 8, 5 + 2 + 8));
    // Every cube face has its own 4 corners and 4 edges. The split one gains 4 middles, a
    // centre and 12 edges, each split child 4 + 1 and 12 again, less what the two share:
    // the middle of their common edge and its 2 halves.
    assert_eq!((census.vertices, census.edges), (24 + 5 + 2 * 5 - 1, 24 + 12 + 2 * 12 - 2));
}

#[test]
fn keys_follow_the_tree() {
    let root = ElementKey::root(PatchId(3));
    assert!(root < root.child(0) && root.child(0) < root.child(1));
    assert!(root.child(3) < ElementKey::root(PatchId(4)));
}
