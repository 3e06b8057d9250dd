//! Requests that cannot be met, and those that only just can, on every registered policy.

use freehold_blocks::align::Align;
use freehold_blocks::policy::{POLICIES, Policy, Visitor, dispatch};
use freehold_testkit::{Fault, ShadowHeap, SimRegion};

/// Runs a test on every registered policy; it is told the name.
macro_rules! on_every_policy {
    ($test:ident) => {{
        struct Run(&'static str);
        impl Visitor for Run {
            type Out = Result<(), Fault>;
            fn visit<P: Policy>(self) -> Self::Out {
                $test::<P>(self.0)
            }
        }
        for policy in POLICIES {
            let done = dispatch(policy.name, Run(policy.name)).expect("registered");
            done.unwrap_or_else(|fault| panic!("{}: {fault}", policy.name));
        }
    }};
}

fn heap<P: Policy>(len: usize) -> Option<ShadowHeap<P>> {
    ShadowHeap::new(SimRegion::new(len))
}

#[test]
fn absurd_requests_get_none() {
    fn test<P: Policy>(name: &str) -> Result<(), Fault> {
        let mut heap = heap::<P>(1 << 16).expect("long enough");
        let fresh = heap.picture();
        for size in [1 << 16, 1 << 32, 1 << 36, 1 << 63, u64::MAX - 23, u64::MAX - 8, u64::MAX] {
            assert!(!heap.alloc(0, size, Align::ONE)?, "{name}: {size}");
        }
        for log2 in [17, 20, 36, 40, 63] {
            let align = Align::from_log2(log2).expect("below 64");
            assert!(!heap.alloc(0, u64::MAX, align)?, "{name}: {align:?}");
            // It may lie that well by chance, or not; nothing may break.
            if heap.alloc(0, 1, align)? {
                heap.free(0)?;
            }
        }
        heap.verify()?;
        assert_eq!(heap.picture(), fresh, "{name}");
        Ok(())
    }
    on_every_policy!(test);
}

#[test]
fn nothing_at_all_is_an_object_too() {
    fn test<P: Policy>(name: &str) -> Result<(), Fault> {
        let mut heap = heap::<P>(1 << 12).expect("long enough");
        assert!(heap.alloc(0, 0, Align::ONE)? && heap.alloc(1, 0, Align::ONE)?, "{name}");
        assert_ne!(heap.place(0), heap.place(1), "{name}");
        assert!(heap.resize(0, 100)? && heap.resize(0, 0)?, "{name}");
        heap.verify()
    }
    on_every_policy!(test);
}

#[test]
fn a_region_is_used_up_and_whole_again() {
    fn test<P: Policy>(name: &str) -> Result<(), Fault> {
        let mut heap = heap::<P>(8192 + 32).expect("long enough");
        let fresh = heap.picture();
        let mut count = 0;
        while heap.alloc(count, 24, Align::ONE)? {
            count += 1;
        }
        heap.verify()?;
        let totals = heap.policy().totals();
        // All of it but the structures that some policies keep in their region.
        let room = totals.capacity / 32;
        assert!(count >= 8192 / 64 && u64::from(count).abs_diff(room) <= 1, "{name}: {count}");
        assert_eq!((totals.free, heap.policy().largest_free()), (0, 0), "{name}");
        assert_eq!(totals.extent, totals.capacity, "{name}");
        // Every third, then every second, then all: as many merges on either side.
        for (step, left) in [(3, 1), (2, 1), (1, 0)] {
            for id in (0..count).filter(|id| id % step == left % step) {
                if heap.place(id).is_some() {
                    heap.free(id)?;
                }
            }
            heap.verify()?;
        }
        assert_eq!(heap.picture(), fresh, "{name}");
        assert_eq!(heap.policy().totals().extent, 0, "{name}");
        assert_eq!(heap.policy().totals().peak_extent, totals.capacity, "{name}");
        Ok(())
    }
    on_every_policy!(test);
}

#[test]
fn a_region_too_short_for_a_block_is_refused() {
    fn test<P: Policy>(name: &str) -> Result<(), Fault> {
        for len in 0..48 {
            assert!(heap::<P>(len).is_none(), "{name}: {len} B hold no block of 32 B");
        }
        // The shortest that is taken holds one; some policies keep structures in it.
        let mut heap = (48..4096).step_by(16).find_map(heap::<P>).expect("long enough");
        assert!(heap.alloc(0, 24, Align::ONE)?, "{name}");
        heap.verify()
    }
    on_every_policy!(test);
}

#[test]
fn payloads_are_aligned_as_asked() {
    fn test<P: Policy>(name: &str) -> Result<(), Fault> {
        let mut heap = heap::<P>(1 << 18).expect("long enough");
        for log2 in 0..=16 {
            let align = Align::from_log2(log2).expect("below 64");
            assert!(heap.alloc(log2.into(), 40, align)?, "{name}: {align:?}"); // the shadow looks
            heap.verify()?;
        }
        Ok(())
    }
    on_every_policy!(test);
}
