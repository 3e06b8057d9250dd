//! The rules beside gimli's, and walks beside the C library's.

use super::cache::{Found, Stacks};
use super::rule::{Base, Place, Rule, Saved};
use super::walk::Comparison;
use super::{Caller, cache, modules, rules, tables};
use gimli::UnwindSection;
use object::{Object, ObjectSection, ObjectSegment};
use std::arch::naked_asm;
use std::collections::HashMap;

/// With it, the loader is one that does not say where modules are.
const OLD: &str = "FREEHOLD_OLD_LOADER";

pub(super) fn begin() {
    // SAFETY: dlsym has no precondition, and this is the function of that name, or none.
    unsafe {
        let function = match std::env::var_os(OLD) {
            Some(_) => std::ptr::null_mut(),
            None => libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()),
        };
        modules::use_loader(function);
    }
}

#[test]
fn all_of_it_is_so_without_the_loader() {
    if std::env::var_os(OLD).is_some() {
        return;
    }
    let own = std::env::current_exe().unwrap();
    let output = std::process::Command::new(own).arg("unwind::").env(OLD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("test result: ok"), "{said}");
}

/// Notes the stack of its caller, as a hook does.
#[unsafe(naked)]
extern "C" fn look(reader: &mut Reader) {
    naked_asm!(
        "mov rsi, rsp",
        "mov rdx, rbp",
        "mov rcx, rbx",
        "sub rsp, 8",
        "call {note}",
        "add rsp, 8",
        "ret",
        note = sym note,
    )
}

extern "C" fn note(reader: &mut Reader, slot: u64, rbp: u64, rbx: u64) {
    reader.note(&Caller { slot, rbp, rbx });
}

/// A thread's stacks, and the frames that a reader would have.
struct Reader {
    stacks: *mut Stacks,
    last: Vec<u64>,
    table: HashMap<usize, Vec<u64>>,
    found: [u32; 3],
    /// Whether stacks are compared with a plain walk.
    plain: bool,
}

const CUT: u64 = u64::MAX;

impl Reader {
    fn new() -> Reader {
        begin();
        let stacks = super::map(cache::BYTES).unwrap().cast();
        Reader { stacks, last: Vec::new(), table: HashMap::new(), found: [0; 3], plain: true }
    }

    /// Takes note of the stack of a caller, as told, and compares it with a plain walk.
    fn note(&mut self, caller: &Caller) {
        // SAFETY: the memory is mapped, zeroed and of that size.
        let stacks = unsafe { &mut *self.stacks };
        let generation = modules::generation();
        if !stacks.is_of(generation) {
            stacks.forget(generation);
            self.last.clear();
            self.table.clear();
        }
        // SAFETY: the slot is that of `look`, which has not returned.
        match unsafe { stacks.find(caller) } {
            Found::Last => self.found[0] += 1,
            Found::Entry(entry) => {
                self.found[1] += 1;
                self.last = self.table[&entry].clone();
            }
            Found::Missed => {
                self.found[2] += 1;
                // SAFETY: as above.
                let told = unsafe { stacks.walk(caller) };
                self.last.truncate(told.keep);
                self.last.extend(told.cut.then_some(CUT));
                self.last.extend(super::list::frames(told.new));
                if let Some(entry) = told.entry {
                    self.table.insert(entry, self.last.clone());
                }
            }
        }
        let told: Vec<u64> =
            self.last.iter().rev().copied().filter(|&frame| frame != CUT).collect();
        assert!(
            !self.plain || Comparison::holds(caller, generation, told.iter().copied()),
            "a plain walk finds another stack than {told:x?}"
        );
    }
}

/// A tree of calls that is walked in all directions, with frames of many sizes.
#[inline(never)]
fn tree(reader: &mut Reader, depth: u32, seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let draw = *seed >> 33;
    look(reader);
    if depth == 0 {
        return draw;
    }
    let room = [draw; 37];
    let mut sum = 0;
    for _ in 0..draw % 3 {
        sum += if draw & 8 == 0 {
            tree(reader, depth - 1, seed)
        } else {
            other(reader, depth - 1, seed)
        };
        look(reader);
    }
    sum + std::hint::black_box(room)[draw as usize % 37]
}

#[inline(never)]
fn other(reader: &mut Reader, depth: u32, seed: &mut u64) -> u64 {
    let mut all: Vec<u64> = (0..2).map(|_| tree(reader, depth, seed)).collect();
    all.sort_by_key(|&each| {
        look(reader);
        each
    });
    all.iter().fold(0, |sum, &each| sum ^ each)
}

#[test]
fn every_stack_of_a_random_tree_of_calls_is_that_of_a_plain_walk() {
    let mut reader = Reader::new();
    let mut seed = 7;
    for _ in 0..40 {
        tree(&mut reader, 9, &mut seed);
    }
    let [last, entry, missed] = reader.found;
    assert!(last > 0 && entry > 0 && missed > 100, "{:?}", reader.found);
}

#[inline(never)]
fn deep(reader: &mut Reader, depth: u32) -> u32 {
    if depth > 0 && !depth.is_multiple_of(500) {
        return 1 + std::hint::black_box(deep(reader, depth - 1));
    }
    look(reader);
    if depth == 0 { 0 } else { 1 + std::hint::black_box(deep(reader, depth - 1)) }
}

#[test]
fn recursion_of_ten_thousand_frames_is_followed_whole() {
    let body = || {
        let mut reader = Reader::new();
        assert_eq!(deep(&mut reader, 10_000), 10_000);
        assert!(reader.last.len() > 10_000 && !reader.last.contains(&CUT));
    };
    std::thread::Builder::new().stack_size(64 << 20).spawn(body).unwrap().join().unwrap();
}

#[test]
fn recursion_beyond_what_is_kept_says_that_it_is_cut() {
    let body = || {
        let mut reader = Reader::new();
        reader.plain = false;
        deep(&mut reader, 40_000);
        assert_eq!(reader.last.iter().filter(|&&frame| frame == CUT).count(), 1);
        assert_eq!(reader.last[0], CUT);
        assert!(reader.last.len() > 10_000);
    };
    std::thread::Builder::new().stack_size(64 << 20).spawn(body).unwrap().join().unwrap();
}

unsafe extern "C" {
    fn backtrace(buffer: *mut u64, size: i32) -> i32;
}

#[test]
fn frames_are_those_of_the_c_library() {
    #[inline(never)]
    fn both(reader: &mut Reader) -> Vec<u64> {
        let mut buffer = vec![0; 200];
        look(reader);
        // SAFETY: the buffer is that long.
        let len = unsafe { backtrace(buffer.as_mut_ptr(), 200) };
        buffer.truncate(len as usize);
        buffer
    }
    let mut reader = Reader::new();
    let theirs = both(&mut reader);
    let ours: Vec<u64> = reader.last.iter().rev().copied().collect();
    // The first frame is `both` itself, at two places of it.
    assert!(ours.len() > 5 && ours[1..] == theirs[1..], "{ours:x?} {theirs:x?}");
}

/// Every row of every description of a library, beside gimli.
fn compare(path: &str) -> u32 {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    // The library as the loader would lay it out, at address 0.
    let end = file.segments().map(|s| s.address() + s.size()).max().unwrap();
    let mut memory = vec![0u8; end as usize];
    for segment in file.segments() {
        let data = segment.data().unwrap();
        memory[segment.address() as usize..][..data.len()].copy_from_slice(data);
    }
    let header = file.section_by_name(".eh_frame_hdr").unwrap().address();
    let section = file.section_by_name(".eh_frame").unwrap();
    // Not at 0, which would hide mistakes.
    let start = 0x1000_0000u64;
    let ours = tables::Tables { memory: &memory, start, header: start + header };
    let frames = gimli::EhFrame::new(section.data().unwrap(), gimli::LittleEndian);
    let bases = gimli::BaseAddresses::default().set_eh_frame(section.address());
    let mut context = gimli::UnwindContext::new();
    let (mut entries, mut rows) = (frames.entries(&bases), 0);
    while let Some(entry) = entries.next().unwrap() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(gimli::EhFrame::cie_from_offset).unwrap();
        let mut table = fde.rows(&frames, &bases, &mut context).unwrap();
        while let Some(row) = table.next_row().unwrap() {
            if row.start_address() >= row.end_address().min(fde.end_address()) {
                continue;
            }
            for at in [row.start_address(), row.end_address().min(fde.end_address()) - 1] {
                let (rule, special) = ours.rule_at(start + at);
                agree(path, at, row, rule, special.as_ref());
                rows += 1;
            }
        }
    }
    rows
}

fn agree(
    path: &str,
    at: u64,
    row: &gimli::UnwindTableRow<usize>,
    rule: Rule,
    special: Option<&super::rule::Special>,
) {
    use gimli::{CfaRule, Register, RegisterRule};
    let of = |register| row.register(Register(register));
    if rule == Rule::Cut && !matches!(of(16), Some(RegisterRule::Offset(_))) {
        return; // in a register, as between `pop` and `jmp`
    }
    let what = || format!("{path} at {at:x}: {row:?} but {rule:?} {special:?}");
    if of(16) == Some(RegisterRule::Undefined) {
        return assert_eq!(rule, Rule::End, "{}", what());
    }
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
        // Of expressions all that is asked for is that they are understood, or refused.
        assert!(matches!(rule, Rule::Special(_) | Rule::Plain { .. } | Rule::Cut), "{}", what());
        return;
    };
    let expected = match register.0 {
        7 => Base::Rsp,
        6 => Base::Rbp,
        3 => Base::Rbx,
        _ => return assert_eq!(rule, Rule::Cut, "{}", what()),
    };
    let saved = |rule: Option<RegisterRule<usize>>| match rule {
        None | Some(RegisterRule::SameValue) => Some(Saved::Same),
        Some(RegisterRule::Offset(offset)) => Some(Saved::At(offset)),
        _ => None,
    };
    match (rule, special) {
        (Rule::Plain { base, cfa, rbp, rbx }, _) => {
            assert_eq!((base, cfa), (expected, *offset), "{}", what());
            assert_eq!(of(16), Some(RegisterRule::Offset(-8)), "{}", what());
            for (place, register) in [(rbp, 6), (rbx, 3)] {
                assert!(saved(of(register)).is_none_or(|is| place == is), "{}", what());
            }
        }
        (Rule::Special(_), Some(special)) => {
            assert_eq!((special.cfa.base, special.cfa.offset), (expected, *offset), "{}", what());
            assert!(!special.loads || special.beyond != 0, "{}", what());
            let places = [(special.rbp, 6), (special.rbx, 3), (special.rip, 16)];
            for (place, register) in places {
                if let (Place::Saved(place), Some(is)) = (place, saved(of(register))) {
                    assert_eq!(place, is, "{}", what());
                }
            }
        }
        _ => panic!("{}", what()),
    }
}

#[test]
fn rules_are_those_of_gimli() {
    let mut compared = 0;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut libraries: Vec<&str> =
        maps.lines().filter_map(|line| line.split_whitespace().nth(5)).collect();
    libraries.retain(|path| path.contains(".so"));
    libraries.dedup();
    assert!(libraries.len() >= 2, "{libraries:?}");
    for library in libraries {
        compared += compare(library);
    }
    assert!(compared > 20_000, "{compared}");
}

#[test]
fn packed_rules_are_the_rules() {
    use super::rule::Packed;
    for rbp in [Saved::Same, Saved::At(-16), Saved::At(-8 * (1 << 14)), Saved::Lost] {
        for (base, cfa) in [(Base::Rsp, 8), (Base::Rbp, 16), (Base::Rbx, 1 << 20), (Base::Rsp, -8)]
        {
            let rule = Rule::Plain { base, cfa, rbp, rbx: Saved::At(-24) };
            assert_eq!(Packed::new(rule).rule(), rule);
            let rule = Rule::Plain { base, cfa, rbp: Saved::At(-48), rbx: rbp };
            assert_eq!(Packed::new(rule).rule(), rule);
        }
    }
    for rule in [Rule::End, Rule::Cut, Rule::Untold, Rule::Special(511)] {
        assert_eq!(Packed::new(rule).rule(), rule);
    }
    let crooked = Rule::Plain { base: Base::Rsp, cfa: 12, rbp: Saved::Same, rbx: Saved::Same };
    assert_eq!(Packed::new(crooked).rule(), Rule::Cut);
}

/// Any bytes as tables: no answer is right, but there is one.
#[test]
fn tables_of_nonsense_are_survived() {
    let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let mut seed = 1u64;
    for _ in 0..20_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (seed >> 20) as usize % (own.len() - 600);
        let mut memory = own[at..at + 512].to_vec();
        // A header that leads somewhere: sorted, eight entries, all in the same memory.
        memory[..4].copy_from_slice(&[1, 0x1b, 0x03, if seed & 1 == 0 { 0x3b } else { 0x1b }]);
        memory[4..8].copy_from_slice(&(40u32).to_le_bytes());
        memory[8..12].copy_from_slice(&8u32.to_le_bytes());
        for entry in memory[12..76].chunks_exact_mut(4) {
            entry.copy_from_slice(&(u32::from(entry[0]) % 512).to_le_bytes());
        }
        let tables = tables::Tables { memory: &memory, start: 0x1000, header: 0x1000 };
        for pc in [0x1000, 0x1080, 0x11ff, 0, u64::MAX] {
            std::hint::black_box(tables.rule_at(pc));
        }
    }
    let _ = rules::special(0);
}
