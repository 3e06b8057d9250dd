//! Memory outside of malloc: calls that map, and samples of what is resident. What is written is read; damage and lies
//! cost their block and no more.

use freehold_trace::resident::MOST_SAMPLES;
use freehold_trace::*;
use std::path::Path;

fn writer(path: &Path) -> Writer {
    Writer::create(path, Header { ticks_per_second: 1000, ..Header::default() }).unwrap()
}

fn mappings(path: &Path, process: u32) -> (Vec<MapEvent>, Vec<Damage>) {
    let mut all = Vec::new();
    let trace = Trace::open(path).unwrap();
    let damage = trace.mappings_of(ProcessId(process), &mut |event| all.push(*event)).unwrap();
    (all, damage)
}

/// Calls of three processes, enough for several blocks of each, with numbers of all lengths.
fn calls() -> Vec<MapEvent> {
    let call = |index: u64| {
        let mixed = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bytes = mixed >> (index % 64);
        MapEvent {
            tick: Tick(index * (index % 1000)).max(Tick(index * index)),
            process: ProcessId((mixed % 3) as u32),
            thread: ThreadId((mixed >> 32) as u32),
            stack: StackId((mixed >> 7) as u32),
            map: MapId((mixed >> 11) as u32),
            change: match mixed >> 40 & 1 {
                0 => MapChange::Map { bytes, flags: MapFlags(mixed as u16) },
                _ => MapChange::Unmap { bytes },
            },
        }
    };
    (0..20_000).map(call).collect()
}

#[test]
fn calls_of_several_processes_are_read_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.fht");
    let (mut writer, events) = (writer(&path), calls());
    events.iter().for_each(|event| writer.mapping(event).unwrap());
    writer.finish().unwrap();
    for process in 0..3 {
        let its = |event: &&MapEvent| event.process.0 == process;
        let expected: Vec<MapEvent> = events.iter().filter(its).copied().collect();
        assert_eq!(mappings(&path, process), (expected, vec![]));
    }
}

fn sample(tick: u64, resident: u64) -> Resident {
    let part = Part { what: What::File, name: "/usr/bin/app".into(), resident, ..Part::default() };
    Resident { tick: Tick(tick), at_end: tick > 5, parts: vec![part], ..Resident::default() }
}

#[test]
fn samples_are_read_by_process_and_in_the_order_of_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.fht");
    let mut writer = writer(&path);
    writer.residents(ProcessId(4), &[sample(9, 1 << 20), sample(2, 5)]).unwrap();
    writer.residents(ProcessId(5), &[sample(1, 3)]).unwrap();
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    assert_eq!(trace.damage(), []);
    let of = |process| trace.residents_of(ProcessId(process)).unwrap();
    assert_eq!(of(4), (vec![sample(2, 5), sample(9, 1 << 20)], vec![]));
    assert_eq!(of(5), (vec![sample(1, 3)], vec![]));
    assert_eq!(of(0), (vec![], vec![]));
}

#[test]
fn a_lying_file_gives_no_more_samples_than_there_may_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.fht");
    let mut writer = writer(&path);
    let many: Vec<Resident> = (0..MOST_SAMPLES as u64 + 9).map(|tick| sample(tick, 1)).collect();
    writer.residents(ProcessId(0), &many).unwrap();
    writer.residents(ProcessId(0), &many).unwrap();
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    assert_eq!(trace.residents_of(ProcessId(0)).unwrap().0.len(), MOST_SAMPLES);
}

#[test]
fn damage_costs_its_block() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.fht");
    let mut writer = writer(&path);
    let event = MapEvent { process: ProcessId(0), ..calls()[0] };
    writer.mapping(&event).unwrap();
    writer.residents(ProcessId(0), &[sample(1, 1)]).unwrap();
    writer.finish().unwrap();
    let sound = std::fs::read(&path).unwrap();
    let mut reasons = Vec::new();
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x40;
        std::fs::write(&path, bytes).unwrap();
        let Ok(trace) = Trace::open(&path) else { continue };
        let (samples, damaged) = trace.residents_of(ProcessId(0)).unwrap();
        assert!(samples.is_empty() || samples == [sample(1, 1)], "byte {at}");
        let (calls, damage) = mappings(&path, 0);
        assert!(calls.is_empty() || calls == [event], "byte {at}");
        reasons.extend(damaged.iter().chain(&damage).map(|damage| damage.reason));
    }
    assert!(reasons.contains(&Reason::Checksum), "{reasons:?}");
}

/// What a later version calls something is not refused.
#[test]
fn an_unknown_kind_of_memory_is_other() {
    let part: Part = serde_json::from_str(r#"{"what":"quantum","resident":7,"new":1}"#).unwrap();
    assert_eq!(part, Part { what: What::Other, resident: 7, ..Part::default() });
}
