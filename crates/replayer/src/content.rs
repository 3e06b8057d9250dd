//! Writing to objects as a program would, and noticing when their content does not last.

use core::str::FromStr;

use freehold_replayer::Op;

use crate::sys::misbehaved;

/// The smallest page of the machine: one write to each makes all of an object resident.
const PAGE: usize = 4096;

/// What is written to a new object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Nothing, and nothing is checked either.
    None,
    /// The first byte, and the first byte of each further page.
    Page,
    /// Every byte.
    All,
}

impl FromStr for Touch {
    type Err = ();

    fn from_str(word: &str) -> Result<Touch, ()> {
        match word {
            "none" => Ok(Touch::None),
            "page" => Ok(Touch::Page),
            "all" => Ok(Touch::All),
            _ => Err(()),
        }
    }
}

/// A live object, as the stream and the slot describe it.
#[derive(Clone, Copy)]
pub struct Object {
    /// Where it begins; never null.
    pub address: *mut u8,
    /// Bytes asked for.
    pub size: usize,
    /// Its slot, which is part of what is written to it.
    pub slot: u32,
}

impl Object {
    /// Writes to bytes `from..` of the object; those before were written already.
    ///
    /// # Safety
    /// The object must be live and this thread must be the only one to use it.
    #[inline(always)]
    pub unsafe fn touch(self, from: usize, how: Touch) {
        if from >= self.size || how == Touch::None {
            return;
        }
        if how == Touch::All {
            // SAFETY: `from..size` lies inside the object, which is the caller's alone.
            unsafe { self.address.add(from).write_bytes(0x5A, self.size - from) };
            return;
        }
        let mut offset = from;
        while offset < self.size {
            // SAFETY: `offset` is below the object's size.
            unsafe { self.address.add(offset).write_volatile(0x5A) };
            let in_page = (self.address as usize + offset) % PAGE;
            offset += PAGE - in_page;
        }
    }

    /// Writes the canaries: a pattern of address and slot over the first and the last 8 bytes (over
    /// the first byte of an object too small for that).
    ///
    /// # Safety
    /// As for [`Object::touch`].
    pub unsafe fn mark(self) {
        for (offset, value) in self.canaries(self.address, self.size) {
            // SAFETY: `canaries` gives only offsets at which a whole word fits into the object.
            unsafe { self.address.add(offset).cast::<u64>().write_unaligned(value) };
        }
        if (1..8).contains(&self.size) {
            // SAFETY: the object has at least one byte.
            unsafe { self.address.write(pattern(self.address, self.slot) as u8) };
        }
    }

    /// Checks the canaries that [`Object::mark`] wrote.
    ///
    /// # Safety
    /// As for [`Object::touch`].
    pub unsafe fn check(self) {
        // SAFETY: handed on to the caller.
        unsafe { self.check_moved(self.address, self.size) };
    }

    /// Checks, after a reallocation, that what was marked at `old_address` with `old_size` bytes has
    /// come along.
    ///
    /// # Safety
    /// As for [`Object::touch`].
    pub unsafe fn check_moved(self, old_address: *mut u8, old_size: usize) {
        for (offset, value) in self.canaries(old_address, old_size) {
            if offset + 8 > self.size {
                continue; // Cut off by a reallocation to a smaller size.
            }
            // SAFETY: the word lies inside the object.
            let found = unsafe { self.address.add(offset).cast::<u64>().read_unaligned() };
            if found != value {
                self.report(offset, found, value);
            }
        }
        if (1..8).contains(&old_size) && self.size > 0 {
            // SAFETY: the object has at least one byte.
            let found = unsafe { self.address.read() };
            let value = pattern(old_address, self.slot) as u8;
            if found != value {
                self.report(0, found.into(), value.into());
            }
        }
    }

    /// Checks that a new object lies as asked, and is zero where `calloc` made it.
    ///
    /// # Safety
    /// As for [`Object::touch`].
    pub unsafe fn check_fresh(self, op: Op, zeroed: bool) {
        // malloc's own promise: aligned for any object that fits, at most to 16 bytes.
        let natural = if self.size >= 16 { 16 } else { 1 << self.size.max(1).ilog2() };
        let align = natural.max(1 << op.align_log2());
        if !(self.address as usize).is_multiple_of(align) {
            misbehaved(format_args!(
                "an object of {} bytes lies at {:p}, which is not a multiple of {align}",
                self.size, self.address
            ));
        }
        let ends = [0, self.size.saturating_sub(1)];
        // SAFETY: both offsets lie inside an object of at least one byte.
        if zeroed && self.size > 0 && ends.iter().any(|&at| unsafe { *self.address.add(at) } != 0) {
            misbehaved(format_args!("calloc of {} bytes gave memory that is not zero", self.size));
        }
    }

    fn canaries(self, address: *mut u8, size: usize) -> impl Iterator<Item = (usize, u64)> {
        let value = pattern(address, self.slot);
        let head = (size >= 8).then_some((0, value));
        let tail = (size >= 16).then(|| (size - 8, !value));
        head.into_iter().chain(tail)
    }

    #[cold]
    fn report(self, offset: usize, found: u64, expected: u64) -> ! {
        misbehaved(format_args!(
            "an object of {} bytes at {:p} lost its content: at byte {offset} {found:#x} where {expected:#x} was written",
            self.size, self.address
        ))
    }
}

fn pattern(address: *mut u8, slot: u32) -> u64 {
    (address as u64 ^ u64::from(slot) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}
