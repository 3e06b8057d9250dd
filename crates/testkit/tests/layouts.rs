//! What each fit makes of the same holes, as pictures.

use freehold_blocks::align::Align;
use freehold_blocks::policy::Policy;
use freehold_blocks::{
    BestFit, BestFitList, BlockHeap, Buddy, Dmrt, DmrtLists, DmrtLooks, DmrtPaper, DmrtParams,
    ExactFit, FirstFit, FirstFitList, GoodFit, GoodFitParams, LargeFit, NextFit, NextFitList,
    SizeLists, WorstFit, WorstFitList,
};
use freehold_testkit::{Fault, ShadowHeap, SimRegion};

type Done = Result<(), Fault>;

/// A heap whose blocks are `len` bytes together.
fn heap<P: Policy>(len: usize) -> ShadowHeap<P> {
    ShadowHeap::new(SimRegion::new(len + 16)).expect("long enough")
}

fn ask<P: Policy>(heap: &mut ShadowHeap<P>, id: u32, size: u64) -> Done {
    assert!(heap.alloc(id, size, Align::ONE)?, "no room for o{id} in {}", heap.picture());
    heap.verify()
}

/// Holes of 128, 64 and 192 between walls of 32, and a long free end.
fn holes<P: Policy>() -> Result<ShadowHeap<P>, Fault> {
    let mut heap = heap::<P>(1024);
    for (id, size) in [(0, 120), (1, 24), (2, 56), (3, 24), (4, 184), (5, 24)] {
        ask(&mut heap, id, size)?;
    }
    for id in [0, 2, 4] {
        heap.free(id)?;
    }
    heap.verify()?;
    assert_eq!(
        heap.picture(),
        "[free 128, used 32, free 64, used 32, free 192, used 32, free 544]"
    );
    Ok(heap)
}

/// Asks for a block of 64 and one of 160.
fn fill_two<P: Policy>() -> Result<[String; 2], Fault> {
    let mut heap = holes::<P>()?;
    ask(&mut heap, 6, 56)?;
    let first = heap.picture();
    ask(&mut heap, 7, 152)?;
    Ok([first, heap.picture()])
}

#[test]
fn first_fit_takes_the_lowest_hole() -> Done {
    let pictures = [
        "[used 64, free 64, used 32, free 64, used 32, free 192, used 32, free 544]",
        "[used 64, free 64, used 32, free 64, used 32, used 160, free 32, used 32, free 544]",
    ];
    assert_eq!(fill_two::<FirstFit>()?, pictures);
    assert_eq!(fill_two::<FirstFitList>()?, pictures);
    Ok(())
}

#[test]
fn best_fit_takes_the_shortest_hole() -> Done {
    let pictures = [
        "[free 128, used 32, used 64, used 32, free 192, used 32, free 544]",
        "[free 128, used 32, used 64, used 32, used 160, free 32, used 32, free 544]",
    ];
    assert_eq!(fill_two::<BestFit>()?, pictures);
    assert_eq!(fill_two::<BestFitList>()?, pictures);
    Ok(())
}

#[test]
fn worst_fit_takes_the_longest_hole() -> Done {
    let pictures = [
        "[free 128, used 32, free 64, used 32, free 192, used 32, used 64, free 480]",
        "[free 128, used 32, free 64, used 32, free 192, used 32, used 64, used 160, free 320]",
    ];
    assert_eq!(fill_two::<WorstFit>()?, pictures);
    assert_eq!(fill_two::<WorstFitList>()?, pictures);
    Ok(())
}

fn next_fit_goes_round<P: Policy>() -> Done {
    let mut heap = holes::<P>()?;
    ask(&mut heap, 6, 456)?; // goes on behind the last wall
    assert_eq!(
        heap.picture(),
        "[free 128, used 32, free 64, used 32, free 192, used 32, used 464, free 80]"
    );
    ask(&mut heap, 7, 152)?; // does not fit there any more: round to the beginning
    assert_eq!(
        heap.picture(),
        "[free 128, used 32, free 64, used 32, used 160, free 32, used 32, used 464, free 80]"
    );
    ask(&mut heap, 8, 56)?; // the 128 and the 64 lie behind the rover
    assert_eq!(
        heap.picture(),
        "[free 128, used 32, free 64, used 32, used 160, free 32, used 32, used 464, used 80]"
    );
    Ok(())
}

#[test]
fn next_fit_goes_on_where_it_was() -> Done {
    next_fit_goes_round::<NextFit>()?;
    next_fit_goes_round::<NextFitList>()
}

fn next_fit_stays_with_the_merged<P: Policy>() -> Done {
    let mut heap = heap::<P>(512);
    for id in 0..4 {
        ask(&mut heap, id, 56)?;
    }
    heap.free(0)?; // behind the rover, which stands on the free end
    heap.free(3)?; // merges with the end: the rover stands on the whole
    ask(&mut heap, 4, 24)?;
    assert_eq!(heap.picture(), "[free 64, used 64, used 64, used 32, free 288]");
    Ok(())
}

#[test]
fn the_rover_stays_with_what_its_block_became_part_of() -> Done {
    next_fit_stays_with_the_merged::<NextFit>()?;
    next_fit_stays_with_the_merged::<NextFitList>()
}

#[test]
fn good_fit_takes_the_youngest_that_surely_fits() -> Done {
    let pictures = [
        "[free 128, used 32, used 64, used 32, free 192, used 32, free 544]",
        "[free 128, used 32, used 64, used 32, used 160, free 32, used 32, free 544]",
    ];
    assert_eq!(fill_two::<GoodFit>()?, pictures, "up to 512 B classes are exact");

    let mut heap = heap::<GoodFit>(4096);
    for (id, size) in [(0, 1032), (1, 24), (2, 1048), (3, 24)] {
        ask(&mut heap, id, size)?;
    }
    heap.free(0)?;
    heap.free(2)?;
    let holes = "[free 1040, used 32, free 1056, used 32, free 1936]";
    assert_eq!(heap.picture(), holes);
    ask(&mut heap, 4, 1032)?; // the hole of 1040 is in the class [1024, 1056): not considered
    assert_eq!(heap.picture(), "[free 1040, used 32, used 1056, used 32, free 1936]");
    Ok(())
}

#[test]
fn exact_fit_takes_the_shortest_hole_unseen() -> Done {
    assert_eq!(fill_two::<ExactFit>()?, fill_two::<BestFit>()?);

    let mut heap = heap::<ExactFit>(4096);
    for (id, size) in [(0, 1032), (1, 24), (2, 1048), (3, 24)] {
        ask(&mut heap, id, size)?;
    }
    heap.free(0)?;
    heap.free(2)?;
    ask(&mut heap, 4, 1032)?; // where good fit does not consider the hole of 1040
    assert_eq!(heap.picture(), "[used 1040, used 32, free 1056, used 32, free 1936]");
    Ok(())
}

/// Two holes of one class, [1024, 1056), the shorter one younger, and no block above them.
fn two_holes_of_a_class<P: Policy>() -> Result<ShadowHeap<P>, Fault> {
    let mut heap = heap::<P>(2144);
    for (id, size) in [(0, 1032), (1, 24), (2, 1016), (3, 24)] {
        ask(&mut heap, id, size)?;
    }
    heap.free(0)?;
    heap.free(2)?;
    assert_eq!(heap.picture(), "[free 1040, used 32, free 1024, used 48]");
    Ok(heap)
}

#[test]
fn a_second_look_finds_what_lists_cannot_promise() -> Done {
    let mut blind = two_holes_of_a_class::<DmrtPaper>()?;
    assert!(!blind.alloc(4, 1032, Align::ONE)?, "the class is not surely long enough");
    let mut looks = two_holes_of_a_class::<DmrtLooks>()?;
    ask(&mut looks, 4, 1032)?; // the second that is looked at
    assert_eq!(looks.picture(), "[used 1040, used 32, free 1024, used 48]");
    Ok(())
}

#[test]
fn a_first_look_finds_the_block_just_freed_before_a_longer_one_is_cut() -> Done {
    fn freed_and_asked_for_again<P: Policy>() -> Result<String, Fault> {
        let mut heap = heap::<P>(4096);
        ask(&mut heap, 0, 1032)?; // of a class that begins at 1024: no such request may look there
        ask(&mut heap, 1, 24)?;
        heap.free(0)?;
        ask(&mut heap, 2, 1032)?;
        Ok(heap.picture())
    }
    assert_eq!(freed_and_asked_for_again::<DmrtLooks>()?, "[used 1040, used 32, free 3024]");
    let rounded_up = "[free 1040, used 32, used 1040, free 1984]";
    assert_eq!(freed_and_asked_for_again::<DmrtPaper>()?, rounded_up);
    Ok(())
}

/// Holes of 1.25, 5.05 and 5 MiB between walls, freed in this order, and a free end of 3 MiB. The
/// two longest are of one class.
fn long_holes<P: Policy>() -> Result<ShadowHeap<P>, Fault> {
    let mut heap = heap::<P>(15 << 20);
    let holes = [(5 << 18) - 8, (101 << 20) / 20 - 8, (5 << 20) - 8_u64];
    for (id, size) in (0..).zip(holes) {
        ask(&mut heap, 2 * id, size)?;
        ask(&mut heap, 2 * id + 1, 24)?;
    }
    for id in [0, 2, 4] {
        heap.free(id)?;
    }
    heap.verify()?;
    Ok(heap)
}

/// The hole (or, as 3, the end) in which an object of `size` bytes lands.
fn lands<P: Policy>(mut heap: ShadowHeap<P>, size: u64) -> Result<Option<usize>, Fault> {
    if !heap.alloc(9, size, Align::ONE)? {
        return Ok(None);
    }
    heap.verify()?;
    let walls = [1, 3, 5].map(|id| heap.place(id).unwrap_or(0));
    let place = heap.place(9).unwrap_or(0);
    Ok(Some(walls.iter().filter(|&&wall| wall < place).count()))
}

#[test]
fn dmrt_asks_the_request_not_the_block_how_large_it_is() -> Done {
    let two_mib = 2 << 20;
    // Both need a block of 2 MiB + 16 B.
    assert_eq!(lands(long_holes::<DmrtPaper>()?, two_mib - 1)?, Some(3), "normal: good fit");
    assert_eq!(
        lands(long_holes::<DmrtPaper>()?, two_mib)?,
        Some(2),
        "large: the head of the highest"
    );
    assert_eq!(lands(long_holes::<GoodFit>()?, two_mib)?, Some(3));
    Ok(())
}

/// Objects of `sizes` bytes, each before a wall; then `freed` go, in that order.
fn walled<P: Policy>(len: usize, sizes: &[u64], freed: &[u32]) -> Result<ShadowHeap<P>, Fault> {
    let mut heap = heap::<P>(len);
    for (id, &size) in (0..).zip(sizes) {
        ask(&mut heap, 2 * id, size)?;
        ask(&mut heap, 2 * id + 1, 24)?;
    }
    for &id in freed {
        heap.free(2 * id)?;
    }
    Ok(heap)
}

#[test]
fn dmrt_uses_the_lower_of_the_two_blocks_first_in_a_list() -> Done {
    fn hole_of_the_next<P: Policy>(size: u64) -> Result<usize, Fault> {
        let mut heap = walled::<P>(32 << 10, &[size; 4], &[2, 0, 1, 3])?;
        ask(&mut heap, 9, size)?;
        heap.verify()?;
        let walls = [1, 3, 5, 7].map(|id| heap.place(id));
        Ok(walls.iter().filter(|&&wall| wall < heap.place(9)).count())
    }
    // A bin's and a list's blocks. 0 lies lower than 2, which was freed before; 1 and 3 lie higher than 0.
    for size in [100, 1500] {
        assert_eq!(hole_of_the_next::<Dmrt>(size)?, 0);
        assert_eq!(hole_of_the_next::<DmrtLooks>(size)?, 3, "the youngest");
    }
    Ok(())
}

#[test]
fn dmrt_rounds_up_what_is_large() -> Done {
    let mut heap = walled::<Dmrt>(4 << 20, &[(2 << 20) + 1000, (2 << 19) - 8], &[])?;
    assert_eq!(heap.picture(), "[used 2162688, used 32, used 1048576, used 32, free 982976]");
    heap.free(0)?;
    heap.verify()
}

#[test]
fn dmrt_cuts_the_end_for_a_large_request_only_where_nothing_else_is_long_enough() -> Done {
    fn follows_the_hole<P: Policy>(size: u64) -> Result<bool, Fault> {
        let mut heap = walled::<P>(20 << 20, &[4 << 20], &[0])?;
        ask(&mut heap, 9, size)?;
        heap.verify()?;
        Ok(heap.place(9) > heap.place(1))
    }
    assert!(follows_the_hole::<DmrtLooks>(3 << 20)?, "the end is the longest");
    assert!(!follows_the_hole::<Dmrt>(3 << 20)?);
    assert!(follows_the_hole::<Dmrt>(5 << 20)?, "the hole is too short");
    Ok(())
}

#[test]
fn dmrt_takes_the_head_of_the_highest_list_or_looks_on() -> Done {
    let just_over_five = (5 << 20) + 1000;
    assert_eq!(lands(long_holes::<WorstFit>()?, 2 << 20)?, Some(1), "the longest");
    assert_eq!(lands(long_holes::<DmrtPaper>()?, just_over_five)?, None, "the head is too short");
    assert_eq!(
        lands(long_holes::<DmrtLooks>()?, just_over_five)?,
        Some(1),
        "the one behind it is not"
    );
    let exact = DmrtParams::PAPER.with_large_fit(LargeFit::Longest);
    let memory = SimRegion::new((15 << 20) + 16);
    let heap = ShadowHeap::with(memory, |region| {
        BlockHeap::with_index(region, DmrtLists::<0>::with(exact))
    });
    let mut heap = heap.expect("long enough");
    for (id, size) in [(0, (5 << 20) - 8), (1, 24), (2, (5 << 20) + 99_992), (3, 24)] {
        ask(&mut heap, id, size)?;
    }
    heap.free(2)?;
    heap.free(0)?; // the younger, hence the head
    assert!(heap.alloc(4, 2 << 20, Align::ONE)?);
    assert_eq!(heap.place(4), Some((5 << 20) + 32 + 16), "the longest, not the head");
    heap.verify()
}

#[test]
fn fewer_lists_round_requests_further_up() -> Done {
    let params = GoodFitParams::new(4, 0).expect("a power of two up to 32");
    let memory = SimRegion::new(4096 + 16);
    let heap =
        ShadowHeap::with(memory, |region| BlockHeap::with_index(region, SizeLists::with(params)));
    let mut heap = heap.expect("long enough");
    for (id, size) in [(0, 300), (1, 24), (2, 312), (3, 24)] {
        ask(&mut heap, id, size)?;
    }
    heap.free(2)?;
    heap.free(0)?;
    assert_eq!(heap.picture(), "[free 320, used 32, free 320, used 32, free 3392]");
    ask(&mut heap, 4, 300)?; // [320, 384) is a list, and 320 its least length
    assert_eq!(heap.picture(), "[used 320, used 32, free 320, used 32, free 3392]");
    ask(&mut heap, 5, 264)?; // 272 is in [256, 320): from the next list on
    ask(&mut heap, 6, 328)?; // 336 is in [320, 384): the end
    let end = "[used 320, used 32, used 272, free 48, used 32, used 336, free 3056]";
    assert_eq!(heap.picture(), end);
    assert_eq!(GoodFitParams::new(3, 0), None);
    assert_eq!(GoodFitParams::new(64, 0), None);
    Ok(())
}

#[test]
fn buddies_are_powers_of_two_and_merge_with_their_twin_only() -> Done {
    let mut heap = heap::<Buddy>(1024);
    let fresh = "[free 32, free 64, free 128, free 256, free 512]";
    assert_eq!(heap.picture(), fresh);
    ask(&mut heap, 0, 56)?;
    assert_eq!(heap.picture(), "[free 32, used 64, free 128, free 256, free 512]");
    ask(&mut heap, 1, 50)?;
    assert_eq!(heap.picture(), "[free 32, used 64, used 64, free 64, free 256, free 512]");
    ask(&mut heap, 2, 57)?;
    assert_eq!(
        heap.picture(),
        "[free 32, used 64, used 64, free 64, used 128, free 128, free 512]"
    );
    heap.free(0)?; // its twin would lie before the region
    assert_eq!(
        heap.picture(),
        "[free 32, free 64, used 64, free 64, used 128, free 128, free 512]"
    );
    heap.free(1)?;
    heap.free(2)?;
    assert_eq!(heap.picture(), fresh);
    heap.verify()
}

#[test]
fn a_freed_block_becomes_one_with_both_neighbours() -> Done {
    let mut heap = heap::<FirstFit>(320);
    for id in 0..4 {
        ask(&mut heap, id, 56)?;
    }
    assert_eq!(heap.picture(), "[used 64, used 64, used 64, used 64, free 64]");
    heap.free(0)?;
    heap.free(2)?;
    assert_eq!(heap.picture(), "[free 64, used 64, free 64, used 64, free 64]");
    heap.free(1)?;
    assert_eq!(heap.picture(), "[free 192, used 64, free 64]");
    heap.free(3)?;
    assert_eq!(heap.picture(), "[free 320]");
    heap.verify()
}

#[test]
fn a_remainder_that_would_be_no_block_stays_with_the_object() -> Done {
    let mut heap = heap::<BestFit>(80);
    ask(&mut heap, 0, 56)?;
    assert_eq!(heap.picture(), "[used 80]", "80 - 64 is less than 32");
    assert!(heap.resize_in_place(0, 40)?);
    assert_eq!(heap.picture(), "[used 48, free 32]");
    assert!(heap.resize_in_place(0, 41)?);
    assert_eq!(heap.picture(), "[used 80]");
    heap.verify()
}

#[test]
fn resizing_moves_the_end_and_nothing_else() -> Done {
    let mut heap = heap::<FirstFit>(512);
    ask(&mut heap, 0, 120)?;
    ask(&mut heap, 1, 120)?;
    assert!(!heap.resize_in_place(0, 121)?, "o1 is in the way");
    assert!(heap.resize_in_place(1, 200)?);
    assert_eq!(heap.picture(), "[used 128, used 208, free 176]");
    assert!(heap.resize_in_place(1, 24)?);
    assert_eq!(heap.picture(), "[used 128, used 32, free 352]");
    assert!(heap.resize_in_place(0, 0)?);
    assert_eq!(heap.picture(), "[used 32, free 96, used 32, free 352]");
    assert!(!heap.resize_in_place(0, u64::MAX)?);
    heap.verify()
}

#[test]
fn alignment_leaves_a_block_before_or_nothing() -> Done {
    let align = Align::from_bytes(256).expect("a power of two");
    let mut heap = heap::<FirstFit>(2048);
    assert!(heap.alloc(0, 100, align)?);
    assert_eq!(heap.place(0), Some(256));
    assert_eq!(heap.picture(), "[free 240, used 112, free 1696]");
    // 16 B before the next multiple is no room for a block: the one after it.
    ask(&mut heap, 1, 112)?;
    assert!(heap.alloc(2, 24, align)?);
    assert_eq!(heap.place(2), Some(512));
    heap.verify()
}
