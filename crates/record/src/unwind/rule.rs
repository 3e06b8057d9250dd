//! What to do at an address: where the caller's stack pointer, return address and frame pointer are.
//!
//! Nearly all rules say: the frame ends (its CFA) so many bytes above the stack pointer, or above rbp or rbx; the return
//! address lies just below; rbp and rbx are as they were or saved in the frame. They fit a word:
//!
//! ```text
//!   63            39 38          24 23           9 8 7 6 5 4   2 1   0
//!  │ CFA, 8 bytes   │ rbx, 8 bytes │ rbp, 8 bytes │rbx│rbp│ kind │ base │
//! ```
//!
//! Others (signal frames, stacks that were realigned) name a [`Special`] by its place in a table.

/// A register that a CFA may be relative to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Base {
    /// The stack pointer.
    Rsp = 0,
    /// The frame pointer.
    Rbp = 1,
    /// rbx.
    Rbx = 2,
}

impl Base {
    #[inline(always)]
    fn of(bits: u64) -> Base {
        match bits & 3 {
            1 => Base::Rbp,
            2 => Base::Rbx,
            _ => Base::Rsp,
        }
    }
}

/// Where the caller's value of a register is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Saved {
    /// It was not touched.
    Same,
    /// So many bytes from the CFA.
    At(i64),
    /// Nobody knows.
    Lost,
}

/// A rule, told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// The common kind.
    Plain {
        /// What the CFA is relative to.
        base: Base,
        /// How far, in bytes.
        cfa: i64,
        /// The frame pointer.
        rbp: Saved,
        /// rbx.
        rbx: Saved,
    },
    /// The outermost frame: nobody called it.
    End,
    /// A table says what cannot be followed here.
    Cut,
    /// No table knows the address: code made at run time.
    Untold,
    /// See [`Special`], by its place.
    Special(u32),
}

/// A word that is loaded: from this register plus this many bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// The register.
    pub base: Base,
    /// Bytes.
    pub offset: i64,
}

/// Where a register is, in a special rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// As in a plain rule.
    Saved(Saved),
    /// Loaded by itself.
    Load(Load),
}

/// A rule that does not fit a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Special {
    /// The CFA: the register plus bytes, and, if `loads`, the word that lies there.
    pub cfa: Load,
    /// See `cfa`.
    pub loads: bool,
    /// Added to the CFA at last.
    pub beyond: i64,
    /// The return address.
    pub rip: Place,
    /// The frame pointer.
    pub rbp: Place,
    /// rbx.
    pub rbx: Place,
    /// The frame is a signal's: the caller was interrupted at the very address, it did not call.
    pub signal: bool,
}

const KIND_SHIFT: u32 = 2;
const RBP_STATE: u32 = 5;
const RBX_STATE: u32 = 7;
const RBP_SHIFT: u32 = 9;
const RBX_SHIFT: u32 = 24;
const CFA_SHIFT: u32 = 39;
const SAVED_BITS: u32 = 15;
const CFA_BITS: u32 = 25;

const PLAIN: u64 = 1;
const END: u64 = 2;
const CUT: u64 = 3;
const UNTOLD: u64 = 4;
const SPECIAL: u64 = 5;

/// A rule in a word; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packed(pub u64);

impl Packed {
    /// Packs a rule; what does not fit becomes [`Rule::Cut`].
    pub fn new(rule: Rule) -> Packed {
        let kind = |kind: u64| Packed(kind << KIND_SHIFT);
        match rule {
            Rule::Plain { base, cfa, rbp, rbx } => {
                let packed = (|| {
                    let cfa = units(cfa, CFA_BITS)? << CFA_SHIFT;
                    let (rbp, rbx) = (saved(rbp)?, saved(rbx)?);
                    let states = rbp.0 << RBP_STATE | rbx.0 << RBX_STATE;
                    let places = rbp.1 << RBP_SHIFT | rbx.1 << RBX_SHIFT;
                    Some(Packed(cfa | states | places | PLAIN << KIND_SHIFT | base as u64))
                })();
                packed.unwrap_or(kind(CUT))
            }
            Rule::End => kind(END),
            Rule::Cut => kind(CUT),
            Rule::Untold => kind(UNTOLD),
            Rule::Special(place) => Packed(SPECIAL << KIND_SHIFT | u64::from(place) << CFA_SHIFT),
        }
    }

    /// The rule.
    pub fn rule(self) -> Rule {
        match (self.plain(), self.0 >> KIND_SHIFT & 7) {
            (Some(plain), _) => Rule::Plain {
                base: plain.base(),
                cfa: plain.cfa(),
                rbp: plain.rbp(),
                rbx: plain.rbx(),
            },
            (_, END) => Rule::End,
            (_, UNTOLD) => Rule::Untold,
            (_, SPECIAL) => Rule::Special((self.0 >> CFA_SHIFT) as u32),
            _ => Rule::Cut,
        }
    }

    /// The rule, if it is of the common kind: nothing of it is told apart that is not asked for.
    #[inline(always)]
    pub fn plain(self) -> Option<Plain> {
        (self.0 >> KIND_SHIFT & 7 == PLAIN).then_some(Plain(self.0))
    }
}

/// The word of a [`Rule::Plain`].
#[derive(Clone, Copy)]
pub struct Plain(u64);

impl Plain {
    /// What the CFA is relative to.
    #[inline(always)]
    pub fn base(self) -> Base {
        Base::of(self.0)
    }

    /// How far, in bytes.
    #[inline(always)]
    pub fn cfa(self) -> i64 {
        (self.0 as i64 >> CFA_SHIFT) * 8
    }

    /// The frame pointer.
    #[inline(always)]
    pub fn rbp(self) -> Saved {
        self.saved(RBP_STATE, RBP_SHIFT)
    }

    /// rbx.
    #[inline(always)]
    pub fn rbx(self) -> Saved {
        self.saved(RBX_STATE, RBX_SHIFT)
    }

    #[inline(always)]
    fn saved(self, state: u32, shift: u32) -> Saved {
        match self.0 >> state & 3 {
            0 => Saved::Same,
            1 => Saved::At(((self.0 << (64 - shift - SAVED_BITS)) as i64 >> (64 - SAVED_BITS)) * 8),
            _ => Saved::Lost,
        }
    }
}

/// A distance in units of 8 bytes, in so many bits.
fn units(bytes: i64, bits: u32) -> Option<u64> {
    let units = bytes >> 3;
    let fits = bytes & 7 == 0 && units << (64 - bits) >> (64 - bits) == units;
    fits.then_some(units as u64 & ((1 << bits) - 1))
}

fn saved(saved: Saved) -> Option<(u64, u64)> {
    Some(match saved {
        Saved::Same => (0, 0),
        Saved::At(bytes) => (1, units(bytes, SAVED_BITS)?),
        Saved::Lost => (2, 0),
    })
}
