//! A curve of unknown length in at most 400 points, made in one pass.
//!
//! Invariant: every value the curve ever had lies between the least and the most of the point that
//! covers it: peaks and valleys survive, however long the trace.

use serde::Serialize;

/// Most points of a curve.
const MOST: usize = 400;

/// A stretch of a curve.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Where the stretch begins, in the unit of the axis.
    pub at: f64,
    /// Least live bytes within.
    pub min_bytes: u64,
    /// Most live bytes within.
    pub max_bytes: u64,
    /// Live bytes at its end.
    pub bytes: u64,
    /// Live objects at its end.
    pub objects: u64,
}

#[derive(Clone, Copy, Debug)]
struct Stretch {
    at: u64,
    min: u64,
    max: u64,
    bytes: u64,
    objects: u64,
}

/// Live memory over an axis that never goes back.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    origin: u64,
    /// log2 of a stretch's width.
    width_log2: u32,
    stretches: Vec<Stretch>,
}

impl Curve {
    /// Begins at `origin` with what is live there.
    pub(super) fn new(origin: u64, bytes: u64, objects: u64) -> Self {
        let first = Stretch { at: 0, min: bytes, max: bytes, bytes, objects };
        Self { origin, width_log2: 0, stretches: vec![first] }
    }

    /// At `x`, not before the last one, so much is live.
    #[inline]
    pub(super) fn add(&mut self, x: u64, bytes: u64, objects: u64) {
        let at = x.saturating_sub(self.origin) >> self.width_log2;
        match self.stretches.last_mut() {
            Some(last) if last.at >= at => {
                last.min = last.min.min(bytes);
                last.max = last.max.max(bytes);
                last.bytes = bytes;
                last.objects = objects;
            }
            _ => self.begin(x, bytes, objects),
        }
    }

    #[cold]
    fn begin(&mut self, x: u64, bytes: u64, objects: u64) {
        let x = x.saturating_sub(self.origin);
        while x >> self.width_log2 >= MOST as u64 {
            self.halve();
        }
        let at = x >> self.width_log2;
        let before = self.stretches.last().map_or(bytes, |last| last.bytes);
        let new = Stretch { at, min: before.min(bytes), max: before.max(bytes), bytes, objects };
        match self.stretches.last_mut() {
            Some(last) if last.at == at => *last = join(*last, new),
            _ => self.stretches.push(new),
        }
    }

    fn halve(&mut self) {
        self.width_log2 += 1;
        let mut halved: Vec<Stretch> = Vec::with_capacity(MOST);
        for stretch in self.stretches.drain(..) {
            let stretch = Stretch { at: stretch.at / 2, ..stretch };
            match halved.last_mut() {
                Some(last) if last.at == stretch.at => *last = join(*last, stretch),
                _ => halved.push(stretch),
            }
        }
        self.stretches = halved;
    }

    /// The points; the axis is multiplied by `scale`.
    pub(super) fn finish(&self, scale: f64) -> Vec<Point> {
        let point = |s: &Stretch| Point {
            at: (self.origin + (s.at << self.width_log2)) as f64 * scale,
            min_bytes: s.min,
            max_bytes: s.max,
            bytes: s.bytes,
            objects: s.objects,
        };
        self.stretches.iter().map(point).collect()
    }
}

fn join(earlier: Stretch, later: Stretch) -> Stretch {
    Stretch {
        at: earlier.at,
        min: earlier.min.min(later.min),
        max: earlier.max.max(later.max),
        bytes: later.bytes,
        objects: later.objects,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_survive_halving_and_points_stay_few() {
        let mut curve = Curve::new(100, 0, 0);
        for x in 0..1_000_000u64 {
            let spike = if x == 123_456 { 1_000_000 } else { x % 7 };
            curve.add(100 + x, spike, 1);
        }
        let points = curve.finish(1.0);
        assert!((200..=400).contains(&points.len()), "{}", points.len());
        assert_eq!(points.iter().map(|p| p.max_bytes).max(), Some(1_000_000));
        assert!(points.windows(2).all(|w| w[0].at < w[1].at));
        assert_eq!(points[0].at, 100.0);
    }

    #[test]
    fn a_jump_of_the_axis_is_a_gap() {
        let mut curve = Curve::new(0, 5, 1);
        curve.add(u64::MAX, 9, 2);
        let points = curve.finish(1.0);
        assert_eq!(points.len(), 2);
        assert_eq!((points[1].min_bytes, points[1].max_bytes), (5, 9));
    }
}
