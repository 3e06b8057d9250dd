//! Tables of processes that are many, repeated or unpack to much: what opening a trace allocates is bounded by
//! the file's length.

use freehold_trace::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

/// The system's allocator, counting what this thread asks for.
struct Counting;

thread_local! {
    /// Bytes asked for in all: grows with the work done, whatever is given back.
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is the system allocator's; counting touches a thread-local integer that needs no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + layout.size() as u64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(object, layout) }
    }
}

#[global_allocator]
static MALLOC: Counting = Counting;

/// Opens a trace, and says how many bytes that asked for.
fn open(path: &Path) -> (Trace, u64) {
    let before = ASKED.get();
    let trace = Trace::open(path).unwrap();
    (trace, ASKED.get() - before)
}

/// The head of a file, up to its first block.
fn head(folder: &Path) -> Vec<u8> {
    let path = folder.join("empty.fht");
    Writer::create(&path, Header::default()).unwrap().finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let json = u32::from_le_bytes(bytes[12..16].try_into().unwrap());
    bytes[..20 + json as usize].to_vec()
}

/// A block of the table, as FORMAT.md has it.
fn block(json: &[u8]) -> Vec<u8> {
    let stored = zstd::bulk::compress(json, 1).unwrap();
    let mut block = vec![0; 64];
    block[..4].copy_from_slice(b"FhBk");
    block[4] = 2;
    block[36..40].copy_from_slice(&(json.len() as u32).to_le_bytes());
    block[40..44].copy_from_slice(&(stored.len() as u32).to_le_bytes());
    block[44..48].copy_from_slice(&crc32fast::hash(&stored).to_le_bytes());
    let crc = crc32fast::hash(&block[..60]);
    block[60..64].copy_from_slice(&crc.to_le_bytes());
    block.extend(stored);
    block
}

/// So many processes, of which each says the same long word.
fn table(processes: u32, word: &str) -> Vec<u8> {
    let one = |id| format!("{{\"id\":{id},\"os_pid\":{},\"command\":[\"{word}\"]}}", 7 + id);
    let all: Vec<String> = (0..processes).map(one).collect();
    format!("[{}]", all.join(",")).into_bytes()
}

#[test]
fn two_thousand_equal_tables_cost_what_one_costs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("repeated.fht");
    let table = block(&table(1000, &"long".repeat(50)));
    let with = |times: usize| {
        let mut bytes = head(folder.path());
        (0..times).for_each(|_| bytes.extend(&table));
        std::fs::write(&path, &bytes).unwrap();
        let (trace, asked) = open(&path);
        assert_eq!(trace.processes().len(), 1000);
        let process = trace.process(ProcessId(999)).unwrap();
        assert_eq!((process.os_pid, process.command[0].len()), (1006, 200));
        assert_eq!(trace.damage().len(), 1, "nothing but the missing index: {:?}", trace.damage());
        (asked, bytes.len() as u64)
    };
    let ((one, _), (many, len)) = (with(1), with(2000));
    assert!(many < one + 2 * len, "one asks for {one} bytes, 2,000 in {len} bytes for {many}");
}

#[test]
fn tables_that_unpack_to_more_than_the_file_may_are_told_and_the_last_ones_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.fht");
    let mut bytes = head(folder.path());
    // Each another one, each 16 MiB of nothing: twenty of them are 320 MiB.
    for pid in 0..20u32 {
        let mut json = format!("[{{\"id\":3,\"os_pid\":{pid}}}");
        json.push_str(&" ".repeat(16 << 20));
        json.push(']');
        bytes.extend(block(json.as_bytes()));
    }
    std::fs::write(&path, &bytes).unwrap();
    let (trace, asked) = open(&path);
    assert_eq!(trace.processes().len(), 1);
    assert_eq!(trace.process(ProcessId(3)).unwrap().os_pid, 19, "the last word");
    let refused = trace.damage().iter().filter(|damage| damage.reason == Reason::Processes);
    assert!(refused.count() >= 15, "{:?}", trace.damage());
    assert!(asked < 100 << 20, "{asked} bytes were asked for");
}

#[test]
fn a_table_of_more_processes_than_the_file_has_room_for_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crowd.fht");
    let mut bytes = head(folder.path());
    let crowd = (0..200_000).map(|id| format!("{{\"id\":{id}}}")).collect::<Vec<_>>().join(",");
    bytes.extend(block(format!("[{crowd}]").as_bytes()));
    bytes.extend(block(br#"[{"id":1,"os_pid":5}]"#));
    std::fs::write(&path, &bytes).unwrap();
    let (trace, _) = open(&path);
    assert_eq!(trace.process(ProcessId(1)).unwrap().os_pid, 5);
    assert!(trace.processes().len() <= (1 << 16) + bytes.len() / 4);
    assert!(trace.damage().iter().any(|damage| damage.reason == Reason::Processes));
}

#[test]
fn of_two_words_on_a_process_the_later_counts_within_a_block_and_between_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words.fht");
    let mut bytes = head(folder.path());
    let first = br#"[{"id":1,"os_pid":10},{"id":2,"os_pid":20},{"id":3,"os_pid":30}]"#;
    let second = br#"[{"id":2,"os_pid":21},{"id":2,"os_pid":22},{"id":4,"os_pid":40}]"#;
    for json in [&first[..], second] {
        bytes.extend(block(json));
    }
    std::fs::write(&path, &bytes).unwrap();
    let told: Vec<(u32, u32)> =
        open(&path).0.processes().iter().map(|info| (info.id.0, info.os_pid)).collect();
    assert_eq!(told, [(1, 10), (2, 22), (3, 30), (4, 40)]);
}

#[test]
fn long_command_lines_of_many_processes_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.fht");
    let mut writer = Writer::create(&path, Header::default()).unwrap();
    // As one block, this table would unpack to more than a reader takes.
    let mut state = 1u32;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'a' + (state >> 24) as u8 % 26)
    };
    let line: String = (0..100 << 10).map(|_| letter()).collect();
    for id in 0..700 {
        let command = vec![format!("{id} {line}")];
        writer.process_at_end(ProcessInfo { command, ..ProcessInfo::unseen(ProcessId(id)) });
    }
    writer.finish().unwrap();
    let (trace, _) = open(&path);
    assert_eq!((trace.processes().len(), trace.damage()), (700, &[][..]));
    let last = &trace.process(ProcessId(699)).unwrap().command[0];
    assert!(last.starts_with("699 ") && last.ends_with(&line));
}
