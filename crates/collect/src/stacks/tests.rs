//! What a thread says of its stacks, by way of a spool in both forms and in blocks of any length.

use super::Trie;
use crate::finish::plan::Plan;
use crate::spool::codec::{Encoder, Form};
use crate::spool::{Loader, Pace, Spool, SpoolWriter, Stream};
use freehold_record::packed::{Kind, NO_ENTRY, Packed, Stack};
use freehold_record::unwind::list::TOLD_EXACT;
use freehold_trace::{FrameId, StackId, Stacks};

/// What a thread put, in order; each event's stack is what is expected.
enum Said {
    Stack(Stack, &'static [Packed]),
    Event(&'static [u64]),
}

const CUT: u64 = 0;

fn new(keep: u32, push: u32, entry: u32, cut: bool) -> Stack {
    Stack::New { keep, push, entry, cut }
}

const A: u64 = 0x7000_1000;
const B: u64 = 0x7000_2000;
const C: u64 = 0x7000_3000 | TOLD_EXACT;
const D: u64 = 0x7fff_0000;

fn story() -> Vec<Said> {
    use Said::{Event, Stack as Says};
    const AB: &[Packed] = &[Packed::data(A, B)];
    const ABC: &[Packed] = &[Packed::data(A, B), Packed::data(C, 0)];
    const D_: &[Packed] = &[Packed::data(D, 0)];
    vec![
        Event(&[]),
        Says(Stack::Generation(1), &[]),
        Says(new(0, 3, 7, false), ABC),
        Event(&[A, B, C]),
        Event(&[A, B, C]),
        Says(new(2, 1, 200, false), D_),
        Event(&[A, B, D]),
        Says(Stack::Entry(7), &[]),
        Event(&[A, B, C]),
        Says(new(1, 1, NO_ENTRY, false), D_),
        Event(&[A, D]),
        Says(Stack::Entry(200), &[]),
        Event(&[A, B, D]),
        Says(new(0, 2, 7, true), AB),
        Event(&[CUT, A, B]),
        Says(new(3, 0, 8, false), &[]),
        Event(&[CUT, A, B]),
        Says(Stack::Unknown, &[]),
        Event(&[]),
        Says(Stack::Entry(200), &[]),
        Event(&[A, B, D]),
        // Nothing of before is known in another generation.
        Says(Stack::Generation(2), &[]),
        Event(&[]),
        Says(Stack::Entry(200), &[]),
        Event(&[]),
        // Kept frames of what was not heard.
        Says(new(2, 1, 3, false), D_),
        Event(&[]),
        Says(new(0, 2, 3, false), AB),
        Event(&[A, B]),
    ]
}

fn spooled(form: Form, every: usize) -> (tempfile::TempDir, Spool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let mut writer = SpoolWriter::create(&path).unwrap();
    let mut encoder = Encoder::new(form);
    let (mut tick, mut puts) = (1000, 0);
    for said in story() {
        let mut put = |encoder: &mut Encoder, event: Packed, tick: u64| {
            let kind = event.kind().unwrap();
            match Packed::is_timed(kind) {
                true => encoder.push(kind, event, tick),
                false => encoder.untimed(kind, event, 0),
            }
            puts += 1;
            if puts % every == 0 && encoder.block().1 > 0 {
                writer.events(0, 0, encoder, Pace::Calm);
                encoder.clear(form);
            }
        };
        match said {
            Said::Stack(head, data) => {
                put(&mut encoder, head.pack(), tick);
                data.iter().for_each(|&data| put(&mut encoder, data, tick));
            }
            Said::Event(_) => {
                tick += 3;
                put(&mut encoder, Packed::new(Kind::Malloc, 64, 8, 10, tick), tick);
            }
        }
    }
    writer.events(0, 0, &mut encoder, Pace::Calm);
    (folder, Spool::open(&path).unwrap())
}

/// The frames of a stack, the outermost first.
fn frames(trie: &Trie, stacks: &Stacks, stack: StackId) -> Vec<u64> {
    let place = |frame: FrameId| match frame {
        FrameId::CUT => CUT,
        frame => {
            let place = trie.places[frame.0 as usize - 1];
            place.address | if place.exact { TOLD_EXACT } else { 0 }
        }
    };
    let mut all: Vec<u64> = stacks.walk(stack).map(place).collect();
    all.reverse();
    all
}

#[test]
fn stacks_are_heard_as_they_were_said() {
    for form in [Form::Plain, Form::Packed] {
        for every in [1, 2, 3, 5, 1000] {
            let (_folder, spool) = spooled(form, every);
            let mut stream = Stream::new(spool.threads[0].2.clone(), 0);
            let mut loader = Loader::new(&spool, Trie::new(&Plan::default())).unwrap();
            stream.begin(&mut loader).unwrap();
            let mut found = Vec::new();
            while let Some(event) = stream.peek() {
                found.push(event.stack);
                stream.step(&mut loader).unwrap();
            }
            let trie = &loader.trie;
            let found: Vec<_> =
                found.into_iter().map(|stack| frames(trie, &trie.stacks, stack)).collect();
            let expected: Vec<Vec<u64>> = story()
                .iter()
                .filter_map(|said| match said {
                    Said::Event(frames) => Some(frames.to_vec()),
                    Said::Stack(..) => None,
                })
                .collect();
            assert_eq!(found, expected, "{form:?}, a block after every {every}");
        }
    }
}

#[test]
fn a_module_is_heard_by_its_bytes() {
    let path = "/usr/lib/libplug\u{e9}.so";
    let head = Stack::Module { build_id: 3, path: path.len() as u32 };
    let bytes: Vec<u8> = [0xab, 0x01, 0xff].into_iter().chain(path.bytes()).collect();
    let mut trie = Trie::new(&Plan::default());
    let mut told = super::Told::of(5);
    let mut say = |event: Packed| {
        use crate::spool::codec::Hears;
        (&mut trie, &mut told).hear(event.kind().unwrap(), event);
    };
    say(Stack::Generation(9).pack());
    say(head.pack());
    say(Packed::data(0x7000, 0x9000));
    say(Packed::data(0, 0x6000));
    for part in bytes.chunks(14) {
        let word = |from: usize, to: usize| {
            let bytes = part.iter().skip(from).take(to - from).rev();
            bytes.fold(0u64, |word, &byte| word << 8 | u64::from(byte))
        };
        say(Packed::data(word(0, 6), word(6, 14)));
    }
    let module = &trie.modules[&5][0];
    assert_eq!(
        (module.generation, module.start, module.end, module.bias),
        (9, 0x7000, 0x9000, 0x6000)
    );
    assert_eq!((&*module.build_id, &*module.path), ("ab01ff", path));
}
