//! The models beside the libraries.

use super::{Asks, Masmano, Specified, Tlsf, Tlsf31, Tlsf246};
use crate::simulate::Memory;
use freehold_blocks::align::Align;
use freehold_blocks::policy::{Inspect, Policy};

/// The addresses, as one number, of a made-up program of 20,000 calls, which the libraries' driver runs, too.
fn addresses<P: Policy>() -> u64 {
    let mut memory = Memory::reserve(1 << 26).unwrap();
    // SAFETY: the only region of this memory, gone before it.
    let mut policy = P::new(unsafe { memory.region() }.unwrap()).unwrap();
    let align = Align::from_log2(4).unwrap();
    let (mut alive, mut state, mut print) = (Vec::new(), 1_u64, 0xcbf2_9ce4_8422_2325_u64);
    let mut first = None;
    for _ in 0..20_000 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (choice, bits) = (state >> 33 & 7, state >> 40);
        if choice < 3 && !alive.is_empty() {
            let payload = alive.swap_remove(bits as usize % alive.len());
            // SAFETY: allocated below, and taken out of those alive.
            unsafe { policy.free(payload, &mut ()) };
            continue;
        }
        let size = 1 + bits % (32 << (2 * (choice & 3) + (bits >> 20 & 3)));
        let payload = policy.alloc(size, align, &mut ()).unwrap();
        let origin = *first.get_or_insert(payload.addr().get());
        print = (print ^ (payload.addr().get() - origin) as u64).wrapping_mul(0x100_0000_01b3);
        alive.push(payload);
    }
    print
}

/// Found by the libraries themselves: versions 2.4.6 and 3.1 compiled by `cc -O2`, on the same calls.
#[test]
fn every_block_lies_where_the_library_puts_it() {
    assert_eq!(addresses::<Tlsf246>(), 0xa94b_036b_993c_237d);
    assert_eq!(addresses::<Tlsf31>(), 0x3667_6cea_3067_c03d);
    assert_ne!(addresses::<Tlsf>(), addresses::<Tlsf246>(), "headers of 8 B and 16 B");
}

#[test]
fn a_request_is_rounded_up_by_less_than_a_32nd() {
    assert_eq!(Specified::anew(1000), 1000, "1008 with its header; classes are 16 B apart there");
    assert_eq!(Specified::anew(1017), 1048, "1040 with its header; classes are 32 B apart there");
    assert_eq!(Masmano::anew(1024), 1024, "a class begins with every power of two");
    for size in (1..1 << 22).step_by(997) {
        let gross = Specified::anew(size) + 8;
        assert!(gross >= size + 8 && gross < (size + 8 + 16) * 33 / 32 + 16, "{size}: {gross}");
    }
    assert_eq!(Specified::anew(u64::MAX), u64::MAX, "refused later, not wrapped");
    assert_eq!(Masmano::anew(u64::MAX), u64::MAX, "refused later, not wrapped");
}

/// `realloc` of either library cuts what stays in place to the length asked for.
#[test]
fn what_is_resized_in_place_is_not_rounded() {
    let mut memory = Memory::reserve(1 << 20).unwrap();
    // SAFETY: the only region of this memory, gone before it.
    let mut policy = Tlsf::new(unsafe { memory.region() }.unwrap()).unwrap();
    let payload = policy.alloc(4096, Align::from_log2(4).unwrap(), &mut ()).unwrap();
    assert_eq!(policy.totals().extent, 4224, "4104 B, rounded up to 128");
    // SAFETY: just allocated.
    assert!(unsafe { policy.resize_in_place(payload, 5000, &mut ()) });
    assert_eq!(policy.totals().extent, 5008);
}
