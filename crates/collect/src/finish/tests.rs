//! The finisher against stories told by hand: order, reallocation, forks, ends.

use super::*;
use crate::spool::codec::Encoder;
use crate::spool::facts::FactWriter;
use crate::spool::{Kind as Block, Pace, SpoolWriter};
use freehold_record::hello::NOBODY;
use freehold_record::packed::{Kind, Packed};
use freehold_trace::{Event, ObjectId, ProcessId, Record, ThreadId, Tick, Trace};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashSet;

/// A tick after the origin, what, the address, the size.
type Step = (u64, Kind, u64, u64);
const ORIGIN: u64 = 1_000_000;

struct Story {
    folder: tempfile::TempDir,
    spool: SpoolWriter,
}

impl Story {
    fn new() -> Story {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = SpoolWriter::create(&folder.path().join("t.fht.spool")).unwrap();
        let command = ["program".to_owned()];
        let start =
            FactWriter::default().number(ORIGIN).number(7).text("test").texts(&command).number(0);
        spool.fact(Block::Start, 0, &start);
        let mut story = Story { folder, spool };
        story.process(0, 0, NOBODY, 0);
        story
    }

    /// `begins` as in the door: 0 root, 1 fork.
    fn process(&mut self, number: u32, begins: u64, parent: u32, tick: u64) {
        let fact = FactWriter::default()
            .number(begins)
            .number(parent.into())
            .number(0)
            .number(ORIGIN + tick)
            .number(100 + u64::from(number))
            .texts(&[]);
        self.spool.fact(Block::Process, number, &fact);
    }

    fn thread(&mut self, process: u32, thread: u32, steps: &[Step]) {
        let mut encoder = Encoder::default();
        for &(tick, kind, address, size) in steps {
            let tick = ORIGIN + tick;
            encoder.push(kind, Packed::new(kind, address, 8, size, tick), tick);
        }
        self.spool.events(process, thread, &mut encoder, Pace::Calm);
    }

    /// The trace, and what was said of it.
    fn tell(mut self) -> (Vec<Record>, Trace, Vec<String>) {
        let ended = Lost::default().write(FactWriter::default().number(1000));
        self.spool.fact(Block::Finish, 0, &ended);
        let output = self.folder.path().join("t.fht");
        let spool = self.spool.path().to_owned();
        let finished = finish(&spool, &output, None, &mut |_| {}).unwrap();
        assert!(!spool.exists(), "the spool is gone");
        let trace = Trace::open(&output).unwrap();
        let mut reader = trace.records().unwrap();
        let mut records = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            records.push(record);
        }
        (records, trace, finished.notes)
    }
}

fn freed(records: &[Record]) -> Vec<(u64, u32, u32, bool)> {
    let free = |record: &Record| match record.event {
        Event::Free { object: ObjectId(id), remote } => {
            Some((record.tick.0, record.thread.0, id, remote))
        }
        _ => None,
    };
    records.iter().filter_map(free).collect()
}

#[test]
fn threads_are_merged_and_frees_of_others_known() {
    let mut story = Story::new();
    story.thread(0, 0, &[(10, Kind::Malloc, 0x1000, 5), (30, Kind::New, 0x2000, 6)]);
    story.thread(0, 1, &[(20, Kind::Free, 0x1000, 0), (40, Kind::Free, 0x2000, 0)]);
    let (records, _, notes) = story.tell();
    let ticks: Vec<u64> = records.iter().map(|record| record.tick.0).collect();
    assert_eq!(ticks, [10, 20, 30, 40]);
    assert!(freed(&records).iter().all(|&(_, thread, _, remote)| thread == 1 && remote));
    assert_eq!(notes, [""; 0]);
}

#[test]
fn an_allocation_stamped_before_the_free_it_follows_is_moved_behind_it() {
    let mut story = Story::new();
    story.thread(0, 0, &[(10, Kind::Malloc, 0x1000, 5), (510, Kind::Free, 0x1000, 0)]);
    let later = [
        (500, Kind::Malloc, 0x1000, 6),
        (505, Kind::Calloc, 0x3000, 1),
        (900, Kind::Free, 0x1000, 0),
    ];
    story.thread(0, 1, &later);
    let (records, _, notes) = story.tell();
    assert_eq!(notes, [""; 0], "nothing is implied");
    assert_eq!(
        freed(&records).iter().map(|f| (f.0, f.1, f.3)).collect::<Vec<_>>(),
        [(510, 0, false), (900, 1, false)]
    );
    let of_second: Vec<u64> =
        records.iter().filter(|r| r.thread == ThreadId(1)).map(|r| r.tick.0).collect();
    assert_eq!(of_second, [511, 511, 900], "the thread's order holds");
}

#[test]
fn a_free_stamped_before_the_allocation_it_follows_is_moved_behind_it() {
    let mut story = Story::new();
    story.thread(0, 0, &[(500, Kind::Malloc, 0x1000, 5), (900, Kind::Malloc, 0x1000, 6)]);
    story.thread(0, 1, &[(400, Kind::Malloc, 0x3000, 1), (490, Kind::Free, 0x1000, 0)]);
    let (records, _, notes) = story.tell();
    assert_eq!(notes, [""; 0], "nothing is implied, and nothing unknown");
    assert_eq!(
        freed(&records).iter().map(|f| (f.0, f.1, f.3)).collect::<Vec<_>>(),
        [(501, 1, true)]
    );
}

#[test]
fn a_reallocation_stamped_before_the_allocation_it_follows_is_moved_behind_it() {
    let mut story = Story::new();
    story.thread(0, 0, &[(500, Kind::Malloc, 0x1000, 5)]);
    let grow = [(495, Kind::ReallocBegin, 0x1000, 0), (600, Kind::ReallocEnd, 0x2000, 50)];
    story.thread(0, 1, &grow);
    let (records, _, notes) = story.tell();
    assert_eq!(notes, [""; 0]);
    assert!(matches!(
        records.last().unwrap().event,
        Event::Realloc { began: Tick(501), remote: true, .. }
    ));
}

/// Once, the one that waits came first again and again, for ever.
#[test]
fn one_waits_for_a_free_behind_other_events_of_its_tick() {
    let mut story = Story::new();
    story.thread(0, 0, &[(10, Kind::Malloc, 0x1000, 5)]);
    let first =
        [(1, Kind::Malloc, 0x1000, 5), (13, Kind::Malloc, 0x2000, 5), (13, Kind::Free, 0x1000, 0)];
    story.thread(0, 1, &first);
    let (records, _, notes) = story.tell();
    assert_eq!(notes, [""; 0]);
    let threads: Vec<u32> = records.iter().map(|record| record.thread.0).collect();
    assert_eq!(threads, [1, 1, 1, 0], "{records:?}");
}

/// Once, the two waited for each other for ever.
#[test]
fn nobody_waits_in_a_circle() {
    let mut story = Story::new();
    story.thread(0, 0, &[(1, Kind::Malloc, 0x1000, 5), (2, Kind::Malloc, 0x2000, 5)]);
    for (thread, [makes, frees]) in [(1, [0x1000, 0x2000]), (2, [0x2000, 0x1000])] {
        let own = 0x3000 + u64::from(thread);
        let steps =
            [(3, Kind::Malloc, own, 1), (10, Kind::Malloc, makes, 6), (12, Kind::Free, frees, 0)];
        story.thread(0, thread, &steps);
    }
    let (records, _, notes) = story.tell();
    assert_eq!(freed(&records).len(), 3, "one of them is implied");
    assert!(notes[0].contains("1 frees were not seen"), "{notes:?}");
}

/// What really happened, in its order: who, at which place, how much later than the one before, how
/// early its stamp.
type Happening = (u32, u64, u64, u64);

/// The steps of each thread as they would be recorded, and how many objects were made.
fn stamped(happened: &[Happening]) -> (Vec<Vec<Step>>, usize) {
    let mut live = HashSet::new();
    let (mut steps, mut now, mut made) = (vec![Vec::<Step>::new(); 4], 1000, 0);
    for &(thread, place, later, early) in happened {
        now += later;
        let steps = &mut steps[thread as usize];
        let stamp = (now - early).max(steps.last().map_or(0, |last| last.0));
        let address = 0x1000 + place * 16;
        if live.insert(address) {
            made += 1;
            steps.push((stamp, Kind::Malloc, address, 5));
        } else {
            live.remove(&address);
            steps.push((stamp, Kind::Free, address, 0));
        }
    }
    (steps, made)
}

proptest! {
    /// Threads that hand objects to and fro, with stamps that are early by as much as several events:
    /// every free finds its object, and nothing is guessed.
    #[test]
    fn early_stamps_are_explained(
        happened in vec((0..4_u32, 0..12_u64, 20..200_u64, 0..150_u64), 1..400),
        block in 1..20_usize,
    ) {
        let (steps, made) = stamped(&happened);
        let mut story = Story::new();
        for (thread, steps) in (0..).zip(&steps) {
            for steps in steps.chunks(block) {
                story.thread(0, thread, steps);
            }
        }
        let (records, _, notes) = story.tell();
        prop_assert_eq!(notes, [""; 0]);
        prop_assert_eq!(freed(&records).len(), happened.len() - made);
        let mut live = HashSet::new();
        for record in &records {
            let sound = match record.event {
                Event::Alloc { object, .. } => live.insert(object),
                Event::Free { object, .. } => live.remove(&object),
                _ => false,
            };
            prop_assert!(sound, "{:?}", record);
        }
    }

    /// Whatever is said, the merge ends, and says as much.
    #[test]
    fn nonsense_is_merged(
        said in vec((0..4_u32, 0..4_u64, 0..3_u64, 0..4_usize), 1..200),
        block in 1..20_usize,
    ) {
        let kinds = [Kind::Malloc, Kind::Free, Kind::ReallocBegin, Kind::ReallocEnd];
        let mut steps = vec![Vec::<Step>::new(); 4];
        let mut now = 0;
        for &(thread, place, later, kind) in &said {
            now += later;
            steps[thread as usize].push((now, kinds[kind], 0x1000 + place * 16, 5));
        }
        let mut story = Story::new();
        for (thread, steps) in (0..).zip(&steps) {
            for steps in steps.chunks(block) {
                story.thread(0, thread, steps);
            }
        }
        let mallocs = said.iter().filter(|said| said.3 == 0).count();
        let (records, ..) = story.tell();
        let made = |record: &&Record| matches!(record.event, Event::Alloc { .. });
        prop_assert!(records.iter().filter(made).count() >= mallocs);
    }
}

#[test]
fn a_free_that_was_never_seen_is_implied() {
    let mut story = Story::new();
    story.thread(0, 0, &[(10, Kind::Malloc, 0x1000, 5), (20, Kind::Malloc, 0x1000, 6)]);
    let (records, _, notes) = story.tell();
    assert_eq!(freed(&records).len(), 1);
    assert!(notes[0].contains("1 frees were not seen"), "{notes:?}");
}

#[test]
fn a_reallocation_leaves_its_address_to_others_meanwhile() {
    let mut story = Story::new();
    let first = [
        (10, Kind::Malloc, 0x1000, 5),
        (20, Kind::ReallocBegin, 0x1000, 0),
        (60, Kind::ReallocEnd, 0x2000, 50),
        (70, Kind::Free, 0x2000, 0),
    ];
    story.thread(0, 0, &first);
    story.thread(0, 1, &[(40, Kind::Malloc, 0x1000, 6), (80, Kind::Free, 0x1000, 0)]);
    let (records, _, notes) = story.tell();
    assert_eq!(notes, [""; 0]);
    let moved =
        records.iter().find(|record| matches!(record.event, Event::Realloc { .. })).unwrap();
    let Event::Realloc { object, began, request, .. } = moved.event else { unreachable!() };
    assert_eq!((moved.tick, began, request.size), (Tick(60), Tick(20), 50));
    assert_eq!(freed(&records)[0].2, object.0, "the object keeps its id");
}

#[test]
fn reallocations_that_fail_free_or_never_return() {
    let mut story = Story::new();
    let steps = [
        (10, Kind::Malloc, 0x1000, 5),
        (20, Kind::ReallocBegin, 0x1000, 0),
        (21, Kind::ReallocEnd, 0, 99),
        (30, Kind::ReallocBegin, 0x1000, 0),
        (31, Kind::ReallocEnd, 0, 0),
        (40, Kind::Malloc, 0x1000, 5),
        (50, Kind::ReallocBegin, 0x1000, 0),
    ];
    story.thread(0, 0, &steps);
    let (records, _, notes) = story.tell();
    assert_eq!(notes, [""; 0]);
    let failed = |record: &&Record| matches!(record.event, Event::Failed { .. });
    assert_eq!(records.iter().filter(failed).count(), 1);
    assert_eq!(freed(&records).iter().map(|f| f.0).collect::<Vec<_>>(), [30]);
}

#[test]
fn a_fork_inherits_what_was_live_at_its_tick() {
    let mut story = Story::new();
    let parent = [
        (10, Kind::Malloc, 0x1000, 5),
        (20, Kind::Malloc, 0x2000, 7),
        (50, Kind::Free, 0x1000, 0),
        (60, Kind::Malloc, 0x3000, 9),
    ];
    story.thread(0, 0, &parent);
    story.process(1, 1, 0, 30);
    story.thread(1, 0, &[(40, Kind::Free, 0x1000, 0), (70, Kind::Free, 0x3000, 0)]);
    let (records, trace, _) = story.tell();
    let child = trace.process(ProcessId(1)).unwrap();
    assert_eq!((child.inherited_objects, child.inherited_bytes), (2, 12));
    let events: Vec<Event> =
        records.iter().filter(|r| r.process == ProcessId(1)).map(|r| r.event).collect();
    assert!(matches!(events[0], Event::Inherit { request, .. } if request.size == 5));
    assert!(matches!(events[1], Event::Free { .. }));
    assert_eq!(events[2], Event::UnknownFree, "made after the fork");
    let fork = Record {
        tick: Tick(30),
        process: ProcessId(0),
        thread: ThreadId(0),
        event: Event::Fork { child: ProcessId(1) },
    };
    assert!(records.contains(&fork));
}

#[test]
fn what_the_c_library_frees_after_the_end_of_a_thread_comes_before_it() {
    let mut story = Story::new();
    let steps = [
        (10, Kind::ThreadStart, 0, 0),
        (10, Kind::Malloc, 0x1000, 5),
        (20, Kind::ThreadEnd, 0, 0),
        (30, Kind::Free, 0x1000, 0),
    ];
    story.thread(0, 0, &steps);
    let (records, _, _) = story.tell();
    assert_eq!(records.first().unwrap().event, Event::ThreadStart);
    assert_eq!(records.last().unwrap().event, Event::ThreadEnd);
    assert_eq!(records.last().unwrap().tick, Tick(30));
}

#[test]
fn a_file_that_is_no_spool_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.fht.spool");
    for bytes in [&b""[..], &[0x5A; 500]] {
        fs::write(&path, bytes).unwrap();
        let error = finish_spool(&folder.path().join("t.fht"), &mut |_| {}).unwrap_err();
        assert!(matches!(error, RecordError::Spool { .. }), "{error}");
    }
}
