//! Models: other people's allocators as this project understands them, one file each.
//!
//! A model is no part of what ships. It answers *which block of a region?* under the same
//! [`Policy`](freehold_blocks::policy::Policy) contract, counts its steps as the core's policies do, and stands under the same
//! oracle; but it is a reading of somebody else's design, without thread caches and on a region
//! that does not grow. What was left out is said at the top of each file.
//!
//! This is the one place where a name becomes one of them: [`all`] and [`dispatch`] are the core's
//! registry with the models added, and whoever lists or runs policies in the laboratory asks here.

mod dlmalloc;
mod tcmalloc;
mod tlsf;

pub use dlmalloc::Dlmalloc;
pub use tcmalloc::Tcmalloc;
pub use tlsf::{Tlsf, Tlsf31, Tlsf246};

use freehold_blocks::policy::{self, POLICIES, PolicyInfo, Visitor};

macro_rules! models {
    ($($name:literal => $policy:ty, $about:literal;)+) => {
        /// Every model, in the order of this file.
        pub const MODELS: &[PolicyInfo] = &[$(PolicyInfo { name: $name, about: $about }),+];

        /// Calls `visitor` with the policy or model called `name`; `None` when there is none.
        pub fn dispatch<V: Visitor>(name: &str, visitor: V) -> Option<V::Out> {
            match name {
                $($name => Some(visitor.visit::<$policy>()),)+
                _ => policy::dispatch(name, visitor),
            }
        }
    };
}

models! {
    "dlmalloc" => Dlmalloc, "model of dlmalloc: exact bins below 256 B, best fit in tries, a designated victim, top last";
    "tcmalloc" => Tcmalloc, "model of tcmalloc without thread caches: size classes in runs of 8 KiB pages, best fit of runs";
    "tlsf" => Tlsf, "model of TLSF with 8 B of header: good fit that also rounds each new block up to its size class";
    "tlsf-2.4.6" => Tlsf246, "model of the TLSF library 2.4.6 on 64 bits: the same with 16 B of header, classed by payload";
    "tlsf-3.1" => Tlsf31, "model of the TLSF library 3.1 on 64 bits: rounds the search only, classed by payload";
}

/// Every policy of the core, then every model.
pub fn all() -> impl Iterator<Item = &'static PolicyInfo> {
    POLICIES.iter().chain(MODELS)
}
