//! Every registered page-frame policy under the oracle, and what is promised beside it.

use freehold_blocks::probe::{Probe, Step};
use freehold_core::frames::migrate::{Eagerness, Lasting, Migrator, Owner};
use freehold_core::frames::{Adaptive, AdaptivePaper, Admits, BankList, Buddy, Fullest};
use freehold_core::frames::{
    Frame, Frames, FreeError, Kind, MOST_STEPS, Order, POLICIES, Policy, Request, Role, SetError,
    SetId, SetupError, Visitor, Zone, Zones, dispatch,
};
use freehold_testkit::frame_programs::{FrameOp, FrameProgram};
use freehold_testkit::{FrameMemory, hunt_frames, run_frames};

struct Hunt;

impl Visitor for Hunt {
    type Out = Result<(), String>;

    fn visit<P: Policy>(self) -> Self::Out {
        hunt_frames(24, run_frames::<P>)
    }
}

struct Run<'a>(&'a FrameProgram);

impl Visitor for Run<'_> {
    type Out = Result<(), String>;

    fn visit<P: Policy>(self) -> Self::Out {
        run_frames::<P>(self.0)
    }
}

#[test]
fn every_policy_keeps_its_promises() {
    std::thread::scope(|scope| {
        for policy in POLICIES {
            scope.spawn(move || {
                let found = dispatch(policy.name, Hunt).expect("registered");
                found.unwrap_or_else(|failure| panic!("{}: {failure}", policy.name));
            });
        }
    });
}

#[test]
fn names_are_unique_and_unknown_ones_are_refused() {
    let mut names: Vec<_> = POLICIES.iter().map(|policy| policy.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), POLICIES.len());
    assert!(dispatch("no-such-policy", Hunt).is_none());
}

/// A whole life: every bank is used, thinned out, emptied by the task, switched off and used again.
#[test]
fn banks_fill_thin_out_and_come_back() {
    use FrameOp::*;
    let mut ops = Vec::new();
    for round in 0..3 {
        ops.extend((0..12).map(|n| Alloc(9, 2, n % 2 == 0)));
        ops.extend((0..40).map(|n| Alloc(n % 4, n % 3, false)));
        ops.extend((0..20).map(|n| Free(n * 7 + round)));
        ops.extend([Poll(1_000, 0), Poll(1_000, 3), Tidy, Off(1), Poll(2_000, 0), Remove(2)]);
        ops.extend((0..6).map(|n| Alloc(10, 2 - (n % 2), false)));
    }
    let program = FrameProgram { shift: 0, frames: 12 * 1024, pairs: false, cma: true, ops };
    for policy in POLICIES {
        let found = dispatch(policy.name, Run(&program)).expect("registered");
        found.unwrap_or_else(|failure| panic!("{}: {failure}", policy.name));
    }
}

#[derive(Default)]
struct Count(u32);

impl Probe for Count {
    fn step(&mut self, _: Step) {
        self.0 += 1;
    }
}

const fn order(log2: u8) -> Order {
    Order::new(log2).expect("an order")
}

const PAGE: Request = Request::new(Order::FRAME, Kind::Movable);
const KERNEL_PAGE: Request = Request::new(Order::FRAME, Kind::Unmovable);

fn steps<T>(call: impl FnOnce(&mut Count) -> T) -> (u32, T) {
    let mut count = Count::default();
    let result = call(&mut count);
    (count.0, result)
}

/// Four banks of 256 MiB full of users' pages, every other page of the second freed: the kernel's next page takes
/// that bank over. Says how many steps that took.
fn take_over<P: Policy>() -> u32 {
    let zone = Zone::new(Frame(0), 4 << 16, 1 << 16);
    let mut memory = FrameMemory::new(Frames::<P>::needs(&zone).unwrap());
    let mut frames = Frames::<P>::new(zone, memory.lend()).unwrap();
    while frames.alloc(PAGE, &mut ()).is_ok() {}
    for frame in (1 << 16..2 << 16).step_by(2) {
        frames.free(Frame(frame), Order::FRAME, &mut ()).unwrap();
    }
    let (steps, frame) = steps(|probe| frames.alloc(KERNEL_PAGE, probe));
    assert_eq!(frames.set_of(frame.unwrap()), Some(SetId(1)));
    frames.check().unwrap();
    steps
}

#[test]
fn a_bank_changes_its_pool_in_constant_steps() {
    let paged = take_over::<AdaptivePaper>();
    assert!(paged > 32_768, "the thesis's way goes block by block: {paged}");
    for steps in [take_over::<Adaptive>(), take_over::<Fullest>()] {
        assert!(steps <= MOST_STEPS && steps * 10 < paged, "{steps} of {MOST_STEPS}, {paged}");
    }
}

/// Four banks full of users' pages: half of the second is free, but only single frames; of the third a run of sixteen.
/// The kernel wants a run.
fn take_over_for_a_run<P: Policy>() {
    let zone = Zone::new(Frame(0), 4 << 10, 1 << 10);
    let mut memory = FrameMemory::new(Frames::<P>::needs(&zone).unwrap());
    let mut frames = Frames::<P>::new(zone, memory.lend()).unwrap();
    while frames.alloc(PAGE, &mut ()).is_ok() {}
    let singles = (1 << 10..2 << 10).step_by(2);
    for frame in singles.chain(2 << 10..(2 << 10) + 16) {
        frames.free(Frame(frame), Order::FRAME, &mut ()).unwrap();
    }
    let frame = frames.alloc(Request { order: order(4), ..KERNEL_PAGE }, &mut ());
    assert_eq!(frames.set_of(frame.unwrap()), Some(SetId(2)));
    frames.check().unwrap();
}

#[test]
fn a_bank_that_lacks_what_is_wanted_does_not_change_its_pool() {
    take_over_for_a_run::<BankList<true>>();
    take_over_for_a_run::<BankList<false>>();
    take_over_for_a_run::<Fullest>();
    take_over_for_a_run::<Adaptive>();
}

/// Random traffic of every order and kind on many small banks; the longest call.
fn longest_call<P: Policy>() -> u32 {
    let zone = Zone::new(Frame(0), 200 << 10, 1 << 10);
    let mut memory = FrameMemory::new(Frames::<P>::needs(&zone).unwrap());
    let mut frames = Frames::<P>::new(zone, memory.lend()).unwrap();
    let (mut live, mut random, mut most) = (Vec::new(), 1_u64, 0);
    for _ in 0..60_000 {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bits = random >> 33;
        let kind = Kind::ALL[(bits % 23 / 8) as usize];
        let order = Order::new((bits >> 8).trailing_zeros() as u8).unwrap_or(Order::MAX);
        let taken = if bits % 100 < 54 {
            let (taken, got) = steps(|probe| frames.alloc(Request::new(order, kind), probe));
            live.extend(got.ok().map(|frame| (frame, order)));
            taken
        } else if live.is_empty() {
            0
        } else {
            let (frame, order) = live.swap_remove(bits as usize % live.len());
            let (taken, done) = steps(|probe| frames.free(frame, order, probe));
            done.unwrap();
            taken
        };
        most = most.max(taken);
    }
    frames.check().unwrap();
    most
}

#[test]
fn the_longest_call_is_within_its_bound() {
    for most in [longest_call::<Adaptive>(), longest_call::<Fullest>()] {
        assert!(most > 12 && most <= MOST_STEPS, "{most} of {MOST_STEPS}");
    }
}

/// Half of a zone used page by page and freed in random order: steps of a thousand frees.
fn random_frees<P: Policy>() -> u32 {
    let zone = Zone::new(Frame(0), 8 << 12, 1 << 12);
    let mut memory = FrameMemory::new(Frames::<P>::needs(&zone).unwrap());
    let mut frames = Frames::<P>::new(zone, memory.lend()).unwrap();
    let mut held: Vec<Frame> = (0..4 << 12).map(|_| frames.alloc(PAGE, &mut ()).unwrap()).collect();
    let (mut random, mut sum) = (1_u64, 0);
    while !held.is_empty() {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let frame = held.swap_remove((random >> 33) as usize % held.len());
        let (taken, done) = steps(|probe| frames.free(frame, Order::FRAME, probe));
        done.unwrap();
        sum += taken;
    }
    sum * 1_000 / (4 << 12)
}

/// Where frames lie in bits of groups, a free that merges touches one line of cache; in lists three links a merge. (Time is
/// the business of `frames_speed`; this is what it comes from.)
#[test]
fn a_merge_in_a_group_touches_no_list() {
    let listed = random_frees::<Buddy<false>>();
    for grouped in [random_frees::<Adaptive>(), random_frees::<Fullest>()] {
        assert!(grouped < 2_600 && grouped * 3 < listed, "{grouped} and {listed} a thousand");
    }
}

#[test]
fn wrong_calls_are_values() {
    let zone = Zone::new(Frame(4096), 3 << 16, 1 << 16);
    let mut memory = FrameMemory::new(Frames::<Fullest>::needs(&zone).unwrap());
    let mut frames = Frames::<Fullest>::new(zone, memory.lend()).unwrap();
    let block = frames.alloc(Request::new(order(3), Kind::Movable), &mut ()).unwrap();
    let inside = Frame(block.0 + 1);
    assert_eq!(frames.free(inside, Order::FRAME, &mut ()), Err(FreeError::Inside(inside)));
    assert_eq!(frames.free(block, order(2), &mut ()), Err(FreeError::Order(block, order(3))));
    assert_eq!(
        frames.free(Frame(4095), Order::FRAME, &mut ()),
        Err(FreeError::Foreign(Frame(4095)))
    );
    assert_eq!(frames.free(block, order(3), &mut ()), Ok(()));
    assert!(frames.free(block, order(3), &mut ()).is_err(), "freed twice");
    assert_eq!(frames.isolate(SetId(0), &mut ()), Err(SetError::Shared(SetId(0))));
    assert_eq!(frames.isolate(SetId(9), &mut ()), Err(SetError::Unknown(SetId(9))));
    frames.check().unwrap();

    let short =
        FrameMemory::new(Frames::<Fullest>::needs(&Zone::new(Frame(0), 1 << 16, 1 << 16)).unwrap());
    let mut short = short;
    let refused = Frames::<Fullest>::new(zone, short.lend()).err();
    assert!(matches!(refused, Some(SetupError::TooShort("groups", ..))), "{refused:?}");
    let odd = Zone::new(Frame(0), 1 << 16, 1000);
    assert_eq!(Frames::<Fullest>::needs(&odd), Err(SetupError::BankFrames(1000)));
}

#[test]
fn zones_serve_the_near_node_first_and_devices_last() {
    let zones = [
        Zone::new(Frame(0), 1 << 12, 1 << 16),
        Zone::new(Frame(1 << 12), (1 << 17) - (1 << 12), 1 << 16),
        Zone::new(Frame(1 << 17), 1 << 16, 1 << 16),
    ];
    let role = |node, admits| Role { node, admits };
    let roles = [role(0, Admits::Devices), role(0, Admits::All), role(1, Admits::Movable)];
    let mut memories =
        zones.map(|zone| FrameMemory::new(Frames::<Adaptive>::needs(&zone).unwrap()));
    let mut memory = memories.iter_mut();
    let mut all =
        zones.map(|zone| Frames::<Adaptive>::new(zone, memory.next().unwrap().lend()).unwrap());
    let mut machine = Zones::new(&mut all, &roles).unwrap();
    assert_eq!(machine.alloc(PAGE, 1, &mut ()).unwrap().0, 2);
    assert_eq!(machine.alloc(KERNEL_PAGE, 1, &mut ()).unwrap().0, 1, "zone 2 admits users only");
    let mut last = 1;
    let mut frame = Frame(0);
    while let Ok((zone, got)) = machine.alloc(PAGE, 0, &mut ()) {
        (last, frame) = (zone, got);
    }
    assert_eq!(last, 0, "the devices' zone comes last");
    assert_eq!(machine.free(frame, Order::FRAME, &mut ()), Ok(()));
    assert!(machine.free(frame, Order::FRAME, &mut ()).is_err());
    // The bank that both first zones lie in stays on for both.
    assert!(machine.zones()[0].set(SetId(0)).unwrap().shared);
    assert!(machine.zones()[1].set(SetId(0)).unwrap().shared);

    let twice = [zones[0], Zone::new(Frame(4000), 1 << 16, 1 << 16)];
    let mut memories =
        twice.map(|zone| FrameMemory::new(Frames::<Adaptive>::needs(&zone).unwrap()));
    let mut memory = memories.iter_mut();
    let mut all =
        twice.map(|zone| Frames::<Adaptive>::new(zone, memory.next().unwrap().lend()).unwrap());
    assert_eq!(Zones::new(&mut all, &roles).err(), Some(SetupError::Overlap(Frame(4000))));
}

/// Two nodes of four banks, the first bank of each half used, one of them freed again.
#[test]
fn a_page_comes_from_the_other_node_before_a_bank_is_switched_on() {
    let zones =
        [Zone::new(Frame(0), 4 << 10, 1 << 10), Zone::new(Frame(4 << 10), 4 << 10, 1 << 10)];
    let roles = [0, 1].map(|node| Role { node, admits: Admits::All });
    for (far_first, expected) in [(false, 0), (true, 1)] {
        let mut memories =
            zones.map(|zone| FrameMemory::new(Frames::<Fullest>::needs(&zone).unwrap()));
        let mut memory = memories.iter_mut();
        let mut all =
            zones.map(|zone| Frames::<Fullest>::new(zone, memory.next().unwrap().lend()).unwrap());
        let mut machine = Zones::new(&mut all, &roles).unwrap().far_before_waking(far_first);
        assert_eq!(machine.alloc(PAGE, 1, &mut ()).unwrap().0, 1, "nothing is on: the near node");
        let (zone, _) = machine.alloc(PAGE, 0, &mut ()).unwrap();
        assert_eq!(zone, expected);
        assert_eq!(machine.alloc(KERNEL_PAGE, 0, &mut ()).unwrap().0, 0, "the kernel's stay near");
        let on = machine.zones()[0].stats().switched_on;
        assert_eq!(on, 2 - expected as u64, "a bank for the kernel, and one for the page");
    }
}

struct Nobody;

impl Owner for Nobody {
    fn migrate(&mut self, _: Frame, _: Frame, _: Order) -> bool {
        true
    }
}

#[test]
fn room_is_what_is_free_in_usable_sets_but_the_one_that_leaves() {
    let zone = Zone::new(Frame(0), 4 << 10, 1 << 10);
    let mut memory = FrameMemory::new(Frames::<Buddy<false>>::needs(&zone).unwrap());
    let mut frames = Frames::<Buddy<false>>::new(zone, memory.lend()).unwrap();
    let page = frames.alloc(PAGE, &mut ()).unwrap();
    let set = frames.set_of(page).unwrap();
    assert_eq!(frames.room(None), (4 << 10) - 1);
    assert_eq!(frames.room(Some(set)), 3 << 10);
    frames.isolate(SetId((set.0 + 1) % 4), &mut ()).unwrap();
    assert_eq!(frames.room(None), (3 << 10) - 1);
}

/// Two sets hold 256 frames each and can give way to one another; two are off. What is left then is 512 frames.
#[test]
fn a_set_is_emptied_only_if_the_slack_stays_free() {
    let zone = Zone::new(Frame(0), 4 << 10, 1 << 10);
    for (slack, elsewhere, empties) in [(512, 0, true), (513, 0, false), (513, 1, true)] {
        let mut memory = FrameMemory::new(Frames::<Fullest>::needs(&zone).unwrap());
        let mut frames = Frames::<Fullest>::new(zone, memory.lend()).unwrap();
        let held: Vec<Frame> = (0..2 << 10).map(|_| frames.alloc(PAGE, &mut ()).unwrap()).collect();
        let eagerness =
            Eagerness { slack, per_thousand_freed: 1_000_000, ..Eagerness::of(1 << 10) };
        let mut task = Migrator::new(Eagerness { rest_ms: 1_000, ..eagerness });
        task.count_on(elsewhere);
        let mut poll = |second: u64, frames: &mut Frames<'_, Fullest>| {
            task.poll(second * 1_000, true, frames, &mut Nobody, &mut ()).offlined
        };
        for (_, &frame) in held.iter().enumerate().filter(|(nth, _)| nth % 4 != 0) {
            frames.free(frame, Order::FRAME, &mut ()).unwrap();
        }
        let frames_off: u64 = (0..30).map(|second| poll(second, &mut frames)).sum();
        assert_eq!(frames_off, u64::from(empties) << 10, "{slack}, {elsewhere} elsewhere");
        frames.check().unwrap();
    }
}

#[test]
fn a_full_set_is_emptied_where_that_costs_at_most_half_of_what_may_be_copied() {
    let zone = Zone::new(Frame(0), 4 << 10, 1 << 10);
    // 640 of 1,024 pages stay in each of three sets, 1,152 are freed: 1,280 may be copied, or one less.
    for (fuller_part, per_thousand_freed, off) in [(2, 1_112, 1), (2, 1_111, 0), (0, 1_112, 0)] {
        let mut memory = FrameMemory::new(Frames::<Fullest>::needs(&zone).unwrap());
        let mut frames = Frames::<Fullest>::new(zone, memory.lend()).unwrap();
        let held: Vec<Frame> = (0..3 << 10).map(|_| frames.alloc(PAGE, &mut ()).unwrap()).collect();
        let eagerness =
            Eagerness { fuller_part, per_thousand_freed, slack: 0, ..Eagerness::of(1 << 10) };
        let mut task = Migrator::new(Eagerness { rest_ms: 1_000, ..eagerness });
        for &frame in held.iter().filter(|frame| frame.0 % 8 < 3) {
            frames.free(frame, Order::FRAME, &mut ()).unwrap();
        }
        let polls = (1..30)
            .map(|second| task.poll(second * 1_000, true, &mut frames, &mut Nobody, &mut ()));
        let offlined: u64 = polls.map(|pass| pass.offlined).sum();
        assert_eq!(offlined, off << 10, "{fuller_part}, {per_thousand_freed}");
        frames.check().unwrap();
    }
}

#[test]
fn room_that_a_program_left_a_moment_ago_is_not_moved_into() {
    let zone = Zone::new(Frame(0), 4 << 10, 1 << 10);
    for lasting in [Lasting::AtOnce, Lasting::For(10_000)] {
        let mut memory = FrameMemory::new(Frames::<Fullest>::needs(&zone).unwrap());
        let mut frames = Frames::<Fullest>::new(zone, memory.lend()).unwrap();
        let held: Vec<Frame> = (0..2 << 10).map(|_| frames.alloc(PAGE, &mut ()).unwrap()).collect();
        let eagerness = Eagerness {
            lasting,
            slack: 0,
            per_thousand_freed: 1_000_000,
            ..Eagerness::of(1 << 10)
        };
        let mut task = Migrator::new(Eagerness { rest_ms: 1_000, ..eagerness });
        let mut off = Vec::new();
        for second in 0..40_u64 {
            if second == 15 {
                for (nth, &frame) in held.iter().enumerate() {
                    if nth % 4 != 0 {
                        frames.free(frame, Order::FRAME, &mut ()).unwrap();
                    }
                }
            }
            task.watch(second * 1_000, &frames);
            let pass = task.poll(second * 1_000, true, &mut frames, &mut Nobody, &mut ());
            if pass.offlined > 0 {
                off.push(second);
            }
        }
        let waited = off[0] - 15;
        assert_eq!(off.len(), 1);
        let at_once = lasting == Lasting::AtOnce;
        assert!(waited == 0 && at_once || (10..=20).contains(&waited), "{waited} s");
        frames.check().unwrap();
    }
}
