//! Table 4.2, ours: what a zone of 64 banks takes besides the metadata of its frames.

use freehold_core::frames::{
    Area, Frame, Frames, POLICIES, Policy, SetRecord, Visitor, Zone, dispatch,
};
use serde::Serialize;

/// Bytes of a policy's structures.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Size {
    /// Policy.
    pub policy: &'static str,
    /// The allocator itself: what every call touches.
    pub zone: usize,
    /// With all free areas and bank sets of a zone of 16 GiB in 64 banks.
    pub whole: usize,
}

struct Measure;

impl Visitor for Measure {
    type Out = Option<(usize, usize)>;

    fn visit<P: Policy>(self) -> Self::Out {
        let zone = Zone::new(Frame(0), 64 << 16, 1 << 16);
        let needs = Frames::<P>::needs(&zone).ok()?;
        let own = size_of::<Frames<'static, P>>();
        Some((own, own + needs.areas * size_of::<Area>() + needs.sets * size_of::<SetRecord>()))
    }
}

/// Every policy's.
pub fn sizes() -> Vec<Size> {
    let one = |policy: &'static str| {
        let (zone, whole) = dispatch(policy, Measure)??;
        Some(Size { policy, zone, whole })
    };
    POLICIES.iter().filter_map(|policy| one(policy.name)).collect()
}
