//! A zone: a range of frames cut into banks, and what it needs to be managed.

use super::bank_set::Interleave;
use super::order::Order;
use super::request::Frame;
use core::fmt;

/// The most bank sets of a zone. (256 GiB of banks of 256 MiB; a larger node has larger banks.)
pub const MAX_SETS: usize = 1024;

/// A contiguous range of frames under one allocator.
///
/// Banks begin at multiples of their length, whatever the zone's own ends are. A bank that is not
/// wholly inside is shared with a neighbouring zone or with a hole: it is used, but never evacuated
/// and never switched off (`NOMIG`; Panwar 2015, section 4.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone {
    /// The first frame.
    pub first: Frame,
    /// How many.
    pub frames: u32,
    /// Frames of a bank: a power of two, at least those of [`Order::MAX`], below 2^28. 65,536 are 256 MiB.
    pub bank_frames: u32,
    /// Which banks go on and off together.
    pub interleave: Interleave,
    /// Frames set aside for contiguous requests, whole page blocks: (first, how many).
    pub cma: Option<(Frame, u32)>,
}

/// What a caller must hand in, as lengths of slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Of tags and of links: frames, in whole banks; 0 where groups serve.
    pub frames: usize,
    /// Of groups.
    pub groups: usize,
    /// Of page blocks.
    pub page_blocks: usize,
    /// Of areas.
    pub areas: usize,
    /// Of bank sets.
    pub sets: usize,
}

/// A zone that cannot be managed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetupError {
    /// Banks must be a power of two of frames, at least the largest block and below 2^28.
    BankFrames(u32),
    /// No frame, or frames past number 2^31.
    Range(Frame, u32),
    /// More than [`MAX_SETS`] bank sets: take larger banks.
    TooManyBanks(usize),
    /// Banks that cannot be tied in pairs: the zone is no multiple of twice the stride.
    Interleave(u32),
    /// The CMA range is outside of the zone, or begins or ends within a page block.
    Cma(Frame, u32),
    /// Two zones claim this frame.
    Overlap(Frame),
    /// A slice that was handed in is too short: its name, what it must have, what it has.
    TooShort(&'static str, usize, usize),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SetupError::BankFrames(frames) => write!(
                f,
                "a bank of {frames} frames: a power of two from 1024 to 134217728 is possible"
            ),
            SetupError::Range(first, frames) => write!(
                f,
                "{frames} frames from {first:?}: at least one, and none past 2147483648, is possible"
            ),
            SetupError::TooManyBanks(sets) => {
                write!(f, "{sets} bank sets in a zone: at most {MAX_SETS}; take larger banks")
            }
            SetupError::Interleave(banks) => write!(
                f,
                "{banks} banks cannot be tied in pairs: a multiple of twice the stride is wanted"
            ),
            SetupError::Cma(first, frames) => {
                write!(f, "CMA of {frames} frames from {first:?}: whole page blocks of the zone")
            }
            SetupError::Overlap(frame) => write!(f, "two zones hold {frame:?}"),
            SetupError::TooShort(what, wants, has) => {
                write!(f, "{what} handed in: {has} entries, {wants} are needed")
            }
        }
    }
}

impl core::error::Error for SetupError {}

impl Zone {
    /// A zone without interleaving or CMA.
    pub const fn new(first: Frame, frames: u32, bank_frames: u32) -> Zone {
        Zone { first, frames, bank_frames, interleave: Interleave::None, cma: None }
    }

    /// The frame at which the zone's first bank begins: at or before `first`.
    pub const fn base(&self) -> u32 {
        self.first.0 & !(self.bank_frames - 1)
    }

    /// One past the last frame.
    pub const fn end(&self) -> u32 {
        self.first.0 + self.frames
    }

    /// Banks that the zone touches.
    pub const fn banks(&self) -> u32 {
        (self.end() - self.base()).div_ceil(self.bank_frames)
    }

    /// Bank sets.
    pub const fn sets(&self) -> usize {
        (self.banks() / self.interleave.width()) as usize
    }

    /// Checks it.
    ///
    /// # Errors
    /// What is wrong with it first.
    pub fn validate(&self) -> Result<(), SetupError> {
        let bank = self.bank_frames;
        if !bank.is_power_of_two() || !(Order::MAX.frames()..1 << 28).contains(&bank) {
            return Err(SetupError::BankFrames(bank));
        }
        let end = u64::from(self.first.0) + u64::from(self.frames);
        if self.frames == 0 || end.next_multiple_of(bank.into()) > 1 << 31 {
            return Err(SetupError::Range(self.first, self.frames));
        }
        if let Interleave::Pairs { stride_log2 } = self.interleave {
            let tied = stride_log2 <= 12 && self.banks().is_multiple_of(2 << stride_log2);
            if !tied {
                return Err(SetupError::Interleave(self.banks()));
            }
        }
        if self.sets() > MAX_SETS {
            return Err(SetupError::TooManyBanks(self.sets()));
        }
        match self.cma {
            Some((first, frames)) if !self.holds_page_blocks(first, frames) => {
                Err(SetupError::Cma(first, frames))
            }
            _ => Ok(()),
        }
    }

    fn holds_page_blocks(&self, first: Frame, frames: u32) -> bool {
        let whole = Order::PAGE_BLOCK.frames();
        let end = u64::from(first.0) + u64::from(frames);
        first.0.is_multiple_of(whole)
            && frames.is_multiple_of(whole)
            && first >= self.first
            && end <= self.end().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_managed_is_refused_with_the_reason() {
        let good = Zone::new(Frame(4096), 1 << 20, 1 << 16);
        assert_eq!(good.validate(), Ok(()));
        assert_eq!((good.base(), good.banks()), (0, 17));
        let bank_frames = |bank_frames| Zone { bank_frames, ..good };
        assert_eq!(bank_frames(1000).validate(), Err(SetupError::BankFrames(1000)));
        assert_eq!(bank_frames(512).validate(), Err(SetupError::BankFrames(512)));
        assert_eq!(bank_frames(0).validate(), Err(SetupError::BankFrames(0)));
        let many = Zone { frames: 1 << 21, bank_frames: 1024, ..good };
        assert_eq!(many.validate(), Err(SetupError::TooManyBanks(2048)));
        let none = Zone { frames: 0, ..good };
        assert_eq!(none.validate(), Err(SetupError::Range(Frame(4096), 0)));
        let far = Zone { first: Frame(1 << 31), ..good };
        assert!(matches!(far.validate(), Err(SetupError::Range(..))));
        let odd = Zone { interleave: Interleave::Pairs { stride_log2: 1 }, ..good };
        assert_eq!(odd.validate(), Err(SetupError::Interleave(17)));
        let cma = Zone { cma: Some((Frame(4097), 512)), ..good };
        assert_eq!(cma.validate(), Err(SetupError::Cma(Frame(4097), 512)));
        let outside = Zone { cma: Some((Frame(0), 512)), ..good };
        assert_eq!(outside.validate(), Err(SetupError::Cma(Frame(0), 512)));
    }
}
