//! A stream of another make than [`workload`](super::workload): objects that come and go by themselves, at one time scale.
//!
//! No phases that end processes at once, no page cache, no builds: objects are drawn until the footprint is what is
//! aimed at, each is taken within a second and lives as long as was drawn. The aim swings between its bounds. So the time
//! after which free memory is used again is a setting, of seconds or of hours, and policies that were tuned on
//! `workload` can be tried on reuse times that it does not have.

use super::workload::Sink;
use crate::random::Random;
use freehold_core::frames::{Kind, Order, Request};
use std::collections::BTreeMap;

/// The stream, as plain numbers. Bounds are (least, most), both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// Seconds in all.
    pub seconds: u32,
    /// Percent of the machine between which the footprint that is aimed at swings.
    pub percent: (u32, u32),
    /// Seconds from one aim to the next, which is drawn between the bounds and approached evenly.
    pub swing_s: (u32, u32),
    /// Seconds that an object lives, log-uniform.
    pub life_s: (u32, u32),
    /// Pages of an object, log-uniform.
    pub pages: (u32, u32),
    /// Of a thousand objects those of the kernel, with a hundredth of the pages.
    pub kernel_permille: u32,
}

/// Pages that one object takes before it is another's turn.
const TURN: u32 = 32;

/// The state of a stream under way.
struct Play<'a> {
    parts: &'a Exchange,
    frames: u64,
    nodes: u8,
    random: Random,
    live: u64,
    /// Objects and their pages, by the second of their end.
    ends: BTreeMap<u32, Vec<(u32, u32)>>,
    /// The second and the pages of the last aim, and of the next.
    aims: [(u32, u64); 2],
    free_ids: Vec<u32>,
    next_id: u32,
}

impl Exchange {
    /// Makes all calls of the stream on a machine of that many frames and nodes.
    pub fn play(&self, frames: u32, nodes: u8, seed: u64, sink: &mut dyn Sink) {
        let random = Random::named(seed, &[0xe8c4a26e]);
        let frames = u64::from(frames);
        let least = frames * u64::from(self.percent.0) / 100;
        let mut play = Play {
            parts: self,
            frames,
            nodes,
            random,
            live: 0,
            ends: BTreeMap::new(),
            aims: [(0, least); 2],
            free_ids: Vec::new(),
            next_id: 0,
        };
        for now in 0..self.seconds {
            play.second(now, sink);
            if !sink.second() {
                return;
            }
        }
    }
}

impl Play<'_> {
    fn second(&mut self, now: u32, sink: &mut dyn Sink) {
        for (object, pages) in self.ends.remove(&now).unwrap_or_default() {
            sink.end(object);
            self.live -= u64::from(pages);
            self.free_ids.push(object);
        }
        let aim = self.aim(now);
        let mut born = Vec::new();
        while self.live < aim {
            born.push(self.born(now));
        }
        self.grow(born, sink);
    }

    /// Pages that should be in use now.
    fn aim(&mut self, now: u32) -> u64 {
        let [_, next] = self.aims;
        if now >= next.0 {
            let (least, most) = self.parts.percent;
            let percent = self.random.uniform(least.into(), most.max(least).into());
            let (soon, late) = self.parts.swing_s;
            let lasts = self.random.uniform(soon.into(), late.max(soon).into()).max(1) as u32;
            self.aims = [next, (now + lasts, self.frames * percent / 100)];
        }
        let [(from_s, from), (to_s, to)] = self.aims;
        let share = u64::from(now - from_s);
        let all = u64::from(to_s - from_s);
        (from * (all - share) + to * share) / all
    }

    /// A new object: its number, what it asks for, its node, its pages.
    fn born(&mut self, now: u32) -> (u32, Kind, u8, u32) {
        let log = |random: &mut Random, (least, most): (u32, u32)| {
            random.log_uniform(least.max(1).into(), most.max(least).max(1).into()) as u32
        };
        let (life, pages) =
            (log(&mut self.random, self.parts.life_s), log(&mut self.random, self.parts.pages));
        let is_kernel = self.random.below(1_000) < self.parts.kernel_permille.into();
        let (kind, pages) = match is_kernel {
            true => (Kind::Unmovable, pages.div_ceil(100)),
            false => (Kind::Movable, pages),
        };
        let node = self.random.below(self.nodes.into()) as u8;
        let object = self.free_ids.pop().unwrap_or_else(|| {
            self.next_id += 1;
            self.next_id - 1
        });
        self.live += u64::from(pages);
        self.ends.entry(now + life).or_default().push((object, pages));
        (object, kind, node, pages)
    }

    /// Objects of one second take turns.
    fn grow(&mut self, mut born: Vec<(u32, Kind, u8, u32)>, sink: &mut dyn Sink) {
        while !born.is_empty() {
            let at = self.random.below(born.len() as u64) as usize;
            let (object, kind, node, left) = &mut born[at];
            let now = (*left).min(TURN);
            sink.grow(*object, Request::new(Order::FRAME, *kind), *node, now);
            *left -= now;
            if *left == 0 {
                born.swap_remove(at);
            }
        }
    }
}
