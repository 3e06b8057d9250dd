//! Any bytes as a program of calls of a real-time heap, of either mode, its own inbox and wrong pointers among them:
//! blocks are where they may be and hold what was written, and what is no used block is refused.

#![no_main]

use freehold_blocks::align::Align;
use freehold_blocks::realtime::{BoundedHeap, FastHeap, StrictHeap};
use freehold_testkit::SimRegion;
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// Most calls of one program, and how many of them pass between two checks of the whole heap.
const MOST_CALLS: usize = 2_000;
const BETWEEN_CHECKS: usize = 64;

fuzz_target!(|data: &[u8]| {
    // The first byte is the mode and the region: one level of the strict mode's tree, or up to three.
    let Some((&kind, rest)) = data.split_first() else { return };
    let len = [700, 5_000, 50_000, 1 << 20][usize::from(kind / 2 % 4)];
    let mut memory = SimRegion::new(len);
    // SAFETY: the heap ends before the memory.
    let region = unsafe { memory.region() };
    let (base, len) = (region.base().as_ptr(), len as u64);
    if kind % 2 == 0 {
        if let Ok(heap) = FastHeap::<()>::over(region) {
            Game { heap, base, len, live: BTreeMap::new(), sent: Vec::new() }.play(rest);
        }
    } else if let Ok(heap) = StrictHeap::over(region, 16 << (kind / 8 % 4)) {
        Game { heap, base, len, live: BTreeMap::new(), sent: Vec::new() }.play(rest);
    }
});

/// A heap, and what must be in it.
struct Game<H> {
    heap: H,
    base: *mut u8,
    len: u64,
    /// By offset: how long each block in use is, and what it is filled with.
    live: BTreeMap<u64, (u64, u8)>,
    /// Blocks sent and not surely taken in: their places may be used again.
    sent: Vec<u64>,
}

impl<H: BoundedHeap> Game<H> {
    fn play(mut self, bytes: &[u8]) {
        let mut bytes = bytes.iter().copied();
        for call in 0..MOST_CALLS {
            if self.step(&mut bytes).is_none() {
                break;
            }
            if call % BETWEEN_CHECKS == 0 {
                self.heap.check().expect("the heap is whole");
            }
        }
        while self.heap.take_in() {}
        while let Some((&offset, _)) = self.live.first_key_value() {
            self.free(offset);
        }
        self.heap.check().expect("the heap is whole at the end");
    }

    fn step(&mut self, bytes: &mut impl Iterator<Item = u8>) -> Option<()> {
        match bytes.next()? % 16 {
            0..6 => {
                let size = size(bytes)?;
                let payload = self.heap.malloc(size);
                self.handed_out(payload, size, 1);
            }
            6 => {
                let (size, align) = (size(bytes)?, 1 << (bytes.next()? % 16));
                let payload = self.heap.malloc_aligned(size, Align::from_bytes(align)?);
                self.handed_out(payload, size, align);
            }
            7..11 => {
                let offset = self.one(bytes.next()?);
                offset.into_iter().for_each(|offset| self.free(offset));
            }
            11 => {
                let (which, size) = (bytes.next()?, size(bytes)?);
                self.one(which).into_iter().for_each(|offset| self.resize(offset, size));
            }
            12 | 13 => {
                let offset = self.one(bytes.next()?);
                offset.into_iter().for_each(|offset| self.send(offset));
            }
            14 => {
                if !self.heap.take_in() {
                    self.sent.clear();
                }
            }
            _ => self.wrong(u64::from(u16::from_le_bytes([bytes.next()?, bytes.next()?]))),
        }
        Some(())
    }

    fn one(&self, which: u8) -> Option<u64> {
        let at = usize::from(which) % self.live.len().max(1);
        self.live.keys().nth(at).copied()
    }

    fn at(&self, offset: u64) -> NonNull<u8> {
        NonNull::new(self.base.wrapping_add(offset as usize)).expect("inside the region")
    }

    /// A new block overlaps no other, is aligned and as long as was asked; it is filled.
    fn handed_out(&mut self, payload: Option<NonNull<u8>>, size: u64, align: u64) {
        let Some(payload) = payload else { return };
        assert_eq!(payload.addr().get() as u64 % align, 0, "aligned to {align}");
        let offset = payload.addr().get() as u64 - self.base.addr() as u64;
        let usable = self.heap.usable(payload).expect("a block of the heap");
        assert!(usable >= size && offset + usable <= self.len, "{usable} bytes for {size}");
        let below = self.live.range(..=offset).next_back();
        assert!(below.is_none_or(|(at, (len, _))| at + len <= offset), "overlaps one below");
        let above = self.live.range(offset..).next();
        assert!(above.is_none_or(|(&at, _)| offset + usable <= at), "overlaps one above");
        self.fill(offset, usable);
        self.sent.retain(|&sent| sent != offset);
    }

    fn fill(&mut self, offset: u64, len: u64) {
        let mark = self.live.len() as u8 ^ 0x5A;
        // SAFETY: a block of the heap, `len` bytes long.
        unsafe { self.at(offset).as_ptr().write_bytes(mark, len as usize) };
        self.live.insert(offset, (len, mark));
    }

    /// The first `len` bytes of a block hold what was written.
    fn inspect(&self, offset: u64, len: u64, mark: u8) {
        // SAFETY: a block of the heap, at least `len` bytes long.
        let bytes = unsafe { std::slice::from_raw_parts(self.at(offset).as_ptr(), len as usize) };
        assert!(bytes.iter().all(|&byte| byte == mark), "the block at {offset} was overwritten");
    }

    fn free(&mut self, offset: u64) {
        let (len, mark) = self.live.remove(&offset).expect("in use");
        self.inspect(offset, len, mark);
        assert_eq!(self.heap.free(self.at(offset).as_ptr()), Ok(()));
        assert!(self.heap.free(self.at(offset).as_ptr()).is_err(), "freed twice");
    }

    fn send(&mut self, offset: u64) {
        let (len, mark) = self.live.remove(&offset).expect("in use");
        self.inspect(offset, len, mark);
        // SAFETY: the heap lives.
        let inbox = unsafe { self.heap.inbox() };
        assert_eq!(inbox.free(self.at(offset)), Ok(()));
        assert!(inbox.free(self.at(offset)).is_err(), "sent twice");
        assert!(self.heap.free(self.at(offset).as_ptr()).is_err(), "sent and freed");
        self.sent.push(offset);
    }

    fn resize(&mut self, offset: u64, size: u64) {
        let (len, mark) = self.live[&offset];
        let done = self.heap.resize_in_place(self.at(offset), size).expect("a block of the heap");
        let usable = self.heap.usable(self.at(offset)).expect("still one");
        self.inspect(offset, len.min(usable), mark);
        assert!(usable >= if done { size } else { len });
        self.fill(offset, usable);
    }

    /// What is no used block is refused; and then the heap is as it was.
    fn wrong(&mut self, offset: u64) {
        if self.live.contains_key(&offset) || self.sent.contains(&offset) {
            return;
        }
        assert!(self.heap.free(self.at(offset).as_ptr()).is_err(), "{offset} is no block");
        // SAFETY: the heap lives.
        assert!(unsafe { self.heap.inbox() }.free(self.at(offset)).is_err());
        assert!(self.heap.usable(self.at(offset)).is_err());
    }
}

/// Four bits of length, twelve bits of detail: 0 to 128 KiB, and sizes that nobody has.
fn size(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let code = u64::from(u16::from_le_bytes([bytes.next()?, bytes.next()?]));
    let (log2, detail) = (code >> 12, code & 0xFFF);
    Some(if log2 == 15 {
        u64::MAX - detail * detail * detail * detail
    } else {
        let base = 8 << log2;
        (base + base * detail / 4096).saturating_sub(8)
    })
}
