//! Room that lasts: which of the free frames will still be free when pages have been moved into them?
//!
//! What a program's end leaves is often the next one's, and a page that is moved there is copied for nothing. So room
//! counts once it has lasted ([`Lasting`]): the least room of a while. How long that while should be, the machine itself
//! shows: how old free frames are when they are used again, and how much of what may be copied is spent. Waiting is for
//! those who have too few copies.
//!
//! ```text
//!   every look     all free frames have grown older by the time since the last one
//!                  frames that were taken meanwhile: their age is observed (what was freed meanwhile is taken first)
//!                  frames that were freed meanwhile: the mean age falls, for they are new
//!   the while      two mean ages x (copied / what may be copied); none if that is less than from one look to the next
//! ```
//!
//! Only frames that are used again are observed. So a machine at rest, where free frames grow old and nobody takes them,
//! does not teach that room must last for hours; the quotient of room and what is taken (Little's law) would.

/// Which room counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lasting {
    /// All of it, at once.
    AtOnce,
    /// What has lasted so many milliseconds.
    For(u64),
    /// What has lasted as long as the machine's own reuse of free frames asks for: see the [module](self).
    Reuse,
}

/// Mean ages that room must last where all that may be copied is spent. (Chosen on half of the study's seeds and on the first
/// recordings: twice as many lower c on streams that use free frames again soon, half as many on those that do late.)
const AGES: u64 = 2;

/// What happened since the beginning, in frames: moved ones are neither allocated nor freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Flow {
    pub allocated: u64,
    pub freed: u64,
    /// Moved.
    pub copied: u64,
}

/// Watches the room of one zone.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    lasting: Lasting,
    /// The least room in the present and the last stretch, and when the present one began.
    least_room: [u32; 2],
    stretch_ms: u64,
    /// What is left of room that came since.
    passing: u32,
    reuse: Reuse,
}

impl Watch {
    /// Of every thousand frames freed, `per_thousand_freed` may be copied.
    pub fn new(lasting: Lasting, per_thousand_freed: u32) -> Watch {
        Watch {
            lasting,
            least_room: [u32::MAX; 2],
            stretch_ms: 0,
            passing: 0,
            reuse: Reuse { share: per_thousand_freed.into(), ..Reuse::default() },
        }
    }

    /// Room that came too lately to count.
    pub const fn passing(&self) -> u32 {
        self.passing
    }

    /// Notes the room that there is at `now_ms`, in a zone of `frames`, and says how much of it has lasted.
    pub fn look(&mut self, now_ms: u64, room: u32, flow: Flow, frames: u32) -> u32 {
        let stretch = match self.lasting {
            Lasting::AtOnce => 0,
            Lasting::For(ms) => ms,
            Lasting::Reuse => {
                let since = now_ms - self.reuse.now_ms;
                self.reuse.observe(now_ms, room, flow, frames.into());
                let wait = self.reuse.wait_ms();
                if wait < since { 0 } else { wait }
            }
        };
        if stretch == 0 {
            (self.least_room, self.stretch_ms, self.passing) = ([room; 2], now_ms, 0);
            return room;
        }
        if now_ms - self.stretch_ms >= stretch {
            self.least_room = [u32::MAX, self.least_room[0]];
            self.stretch_ms = now_ms;
        }
        self.least_room[0] = self.least_room[0].min(room);
        let lasting = self.least_room[0].min(self.least_room[1]);
        self.passing = room - lasting;
        lasting
    }
}

/// How free frames are used again. What was seen before the last turn over of the zone's memory counts half, and so on.
#[derive(Clone, Debug, Default)]
struct Reuse {
    /// Frames that may be copied for every thousand freed.
    share: u64,
    now_ms: u64,
    flow: Flow,
    /// Mean age of the frames that are free.
    age_ms: u64,
    /// Frames seen taken, and the sum of their ages.
    taken: u64,
    taken_ms: u128,
    /// Frames seen freed, and moved; at the beginning as if half of what may be copied had been.
    freed: u64,
    copied: u64,
}

impl Reuse {
    fn observe(&mut self, now_ms: u64, room: u32, flow: Flow, frames: u64) {
        if self.freed == 0 {
            (self.freed, self.copied) = (frames, frames * self.share / 2_000);
        }
        let taken = flow.allocated - self.flow.allocated;
        let freed = flow.freed - self.flow.freed;
        self.freed += freed;
        self.copied += flow.copied - self.flow.copied;
        let passed = now_ms - self.now_ms;
        self.age_ms += passed;
        (self.now_ms, self.flow) = (now_ms, flow);
        self.taken += taken;
        // What was freed meanwhile is taken first.
        let again = taken.min(freed);
        let (old, young) = (u128::from(taken - again), u128::from(again));
        self.taken_ms += u128::from(self.age_ms) * old + u128::from(passed) * young / 2;
        let (room, fresh) = (u64::from(room), (freed - again).min(room.into()));
        self.age_ms = self.age_ms * (room - fresh) / room.max(1);
        if self.taken > frames {
            (self.taken, self.taken_ms) = (self.taken / 2, self.taken_ms / 2);
        }
        if self.freed > frames {
            (self.freed, self.copied) = (self.freed / 2, self.copied / 2);
        }
    }

    /// How old a free frame is on average when it is used again; 0 when none was yet.
    fn age_ms(&self) -> u64 {
        (self.taken_ms / u128::from(self.taken.max(1))) as u64
    }

    /// How long room must last.
    fn wait_ms(&self) -> u64 {
        let allowed = (self.freed * self.share / 1_000).max(1);
        let spent = u128::from(self.copied.min(allowed));
        (u128::from(self.age_ms() * AGES) * spent / u128::from(allowed)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixty of a thousand may be copied.
    fn watch() -> (Watch, Flow) {
        (Watch::new(Lasting::Reuse, 60), Flow::default())
    }

    /// `seconds` in which so many frames each are freed in one and taken in the next, and so many copied, with so much room.
    fn exchange(
        (watch, flow): &mut (Watch, Flow),
        seconds: u64,
        (each, copied): (u64, u64),
        room: u32,
    ) -> u32 {
        let mut lasting = 0;
        for second in 0..seconds {
            match second % 2 {
                0 => flow.freed += 2 * each,
                _ => flow.allocated += 2 * each,
            }
            flow.copied += copied;
            lasting = watch.look(watch.reuse.now_ms + 1_000, room, *flow, 1 << 18);
        }
        lasting
    }

    #[test]
    fn an_even_exchange_shows_the_time_that_littles_law_says() {
        let mut of = watch();
        assert_eq!(exchange(&mut of, 1_000, (500, 30), 10_000), 10_000);
        let age = of.0.reuse.age_ms();
        assert!((16_000..22_000).contains(&age), "{age}");
        let wait = of.0.reuse.wait_ms();
        assert!((age..=2 * age).contains(&wait), "{wait}: nearly all that may be copied is spent");
    }

    #[test]
    fn what_is_freed_and_taken_between_two_looks_is_young() {
        let (mut watch, mut flow) = watch();
        for second in 1..1_000 {
            flow.freed += 500;
            flow.allocated += 500;
            watch.look(second * 1_000, 10_000, flow, 1 << 18);
        }
        assert_eq!(watch.reuse.age_ms(), 500);
        flow.freed += 40_000;
        assert_eq!(watch.look(1_000_000, 50_000, flow, 1 << 18), 50_000, "500 ms are over at once");
        assert_eq!(watch.passing(), 0);
    }

    #[test]
    fn a_rest_teaches_nothing_and_room_counts_when_it_has_lasted() {
        let mut of = watch();
        exchange(&mut of, 1_000, (500, 30), 10_000);
        of.1.freed += 40_000;
        assert_eq!(exchange(&mut of, 1, (0, 0), 50_000), 10_000, "it has not lasted");
        assert_eq!(of.0.passing(), 40_000);
        exchange(&mut of, 100, (0, 0), 50_000);
        assert_eq!(of.0.passing(), 0, "twice twice twenty seconds are over");
        exchange(&mut of, 36_000, (0, 0), 50_000);
        assert!(of.0.reuse.age_ms() < 25_000, "{}", of.0.reuse.age_ms());
    }

    #[test]
    fn a_fast_machine_waits_less_than_a_slow_one_and_one_that_copies_little_hardly() {
        let wait = |each, copied| {
            let mut of = watch();
            exchange(&mut of, 2_000, (each, copied), 10_000);
            of.0.reuse.wait_ms()
        };
        let (fast, slow, idle) = (wait(5_000, 300), wait(1_000, 60), wait(1_000, 3));
        assert!(fast < 6_000 && slow > 10_000 && idle < slow / 4, "{fast} {slow} {idle}");
    }

    #[test]
    fn all_room_counts_at_once_where_nothing_is_asked_of_it() {
        let mut watch = Watch::new(Lasting::AtOnce, 60);
        assert_eq!(watch.look(1_000, 77, Flow::default(), 100), 77);
        assert_eq!(watch.look(2_000, 99, Flow::default(), 100), 99);
        assert_eq!(watch.passing(), 0);
    }

    #[test]
    fn what_was_seen_counts_half_once_more_than_the_zone_s_frames_were_taken_or_freed() {
        let (mut reuse, frames) = (Reuse { share: 60, ..Reuse::default() }, 1_000);
        let flow = Flow { allocated: 1_000, ..Flow::default() };
        reuse.observe(1_000, 10, flow, frames);
        assert_eq!((reuse.taken, reuse.freed, reuse.copied), (1_000, 1_000, 30));
        let flow = Flow { allocated: 1_001, freed: 1, ..flow };
        reuse.observe(2_000, 10, flow, frames);
        assert_eq!((reuse.taken, reuse.freed, reuse.copied), (500, 500, 15));
    }
}
