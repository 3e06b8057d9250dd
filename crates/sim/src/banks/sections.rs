//! What is in every 128 MiB: the unit that Linux plugs memory in, half a bank of the thesis.

use freehold_core::frames::{Class, Frames, Policy};

/// Frames of a section.
pub const SECTION_FRAMES: u32 = 1 << 15;

/// What a section holds, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Section {
    /// Used by anybody.
    pub used: u32,
    /// Of these, the kernel's.
    pub unmovable: u32,
}

/// Sections of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SectionCount {
    /// With kernel pages: cannot be removed.
    pub pinned: u32,
    /// Without: can.
    pub removable: u32,
    /// Of these, with nothing at all.
    pub vacant: u32,
    /// More than nine tenths free.
    pub nearly_free: u32,
}

/// Looks at every block. O(frames).
pub fn survey<P: Policy>(zones: &[Frames<'_, P>], frames: u32) -> Vec<Section> {
    let mut sections = vec![Section::default(); frames.div_ceil(SECTION_FRAMES) as usize];
    for zone in zones {
        zone.for_each_block(|frame, order, kind| {
            let (Some(kind), Some(section)) =
                (kind, sections.get_mut((frame.0 / SECTION_FRAMES) as usize))
            else {
                return;
            };
            section.used += order.frames();
            if kind.class() == Class::Kernel {
                section.unmovable += order.frames();
            }
        });
    }
    sections
}

/// Counts them.
pub fn count(sections: &[Section]) -> SectionCount {
    let of = |is: &dyn Fn(&Section) -> bool| {
        sections.iter().filter(|section| is(section)).count() as u32
    };
    SectionCount {
        pinned: of(&|section| section.unmovable > 0),
        removable: of(&|section| section.unmovable == 0),
        vacant: of(&|section| section.used == 0),
        nearly_free: of(&|section| section.used * 10 < SECTION_FRAMES),
    }
}
