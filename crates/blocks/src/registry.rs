//! What a registry is: policies by name, a type for each, and a way from the one to the other.
//!
//! There are two, of blocks ([`policy`](crate::policy)) and, in `freehold-core`, of page frames.

/// What a registry says of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyInfo {
    /// What users call it.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
}

/// Writes a registry of types that have the trait: a line for each.
#[macro_export]
macro_rules! registry {
    ($policy:path; $($name:literal => $type:ty, $about:literal;)+) => {
        /// Every policy there is, in the order of the registry.
        pub const POLICIES: &[$crate::registry::PolicyInfo] = &[$($crate::registry::PolicyInfo { name: $name, about: $about }),+];

        /// Something to be done with a policy whose type is chosen by name; see [`dispatch`].
        pub trait Visitor {
            /// What comes of it.
            type Out;

            /// Does it. Called at most once.
            fn visit<P: $policy>(self) -> Self::Out;
        }

        /// Calls `visitor` with the policy called `name`; `None` when there is none of that name.
        pub fn dispatch<V: Visitor>(name: &str, visitor: V) -> Option<V::Out> {
            match name {
                $($name => Some(visitor.visit::<$type>()),)+
                _ => None,
            }
        }
    };
}
