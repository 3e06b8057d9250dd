//! The moments of a process at which it is asked who holds pages.
//!
//! The lowest point is one of the program's work: before its last allocation, and not below a thousandth of the peak
//! ([`LEAST_LOW`]), because a program that has freed everything may still print a line.

use crate::results::Moment;
use freehold_trace::{Event, ObjectId, ProcessId, ReadError, Trace};

/// The lowest point is at least the peak divided by this.
const LEAST_LOW: u64 = 1024;

/// Where in a process a moment is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Cut {
    pub(super) moment: Moment,
    /// Records of the process until then.
    pub(super) records: u64,
    /// Objects that live then.
    pub(super) objects: u64,
    /// Seconds from the first event.
    pub(super) at_s: f64,
}

/// A point of the curve of live bytes.
#[derive(Clone, Copy, Default)]
struct Point {
    records: u64,
    objects: u64,
    live: u64,
    tick: u64,
}

/// The curve while it is followed.
#[derive(Default)]
struct Curve {
    sizes: Vec<Option<u64>>,
    now: Point,
    peak: Point,
    /// The lowest point since the peak, and the lowest of which it is known that an allocation comes after it.
    low: Option<Point>,
    lowest: Option<Point>,
}

impl Curve {
    fn set(&mut self, object: ObjectId, size: Option<u64>) {
        let at = object.0 as usize;
        if at >= self.sizes.len() {
            self.sizes.resize(at + 1, None);
        }
        let old = std::mem::replace(&mut self.sizes[at], size);
        self.now.live = self.now.live - old.unwrap_or(0) + size.unwrap_or(0);
        self.now.objects = self.now.objects + u64::from(size.is_some()) - u64::from(old.is_some());
    }

    fn see(&mut self, tick: u64, event: &Event) {
        (self.now.records, self.now.tick) = (self.now.records + 1, tick);
        match *event {
            Event::Alloc { object, request }
            | Event::Realloc { object, request, .. }
            | Event::Inherit { object, request } => {
                self.lowest = self.low.or(self.lowest);
                self.set(object, Some(request.size));
            }
            Event::Free { object, .. } => self.set(object, None),
            _ => {}
        }
        if self.now.live > self.peak.live {
            (self.peak, self.low, self.lowest) = (self.now, None, None);
        } else if self.now.live >= self.peak.live / LEAST_LOW
            && self.low.is_none_or(|low| self.now.live < low.live)
        {
            self.low = Some(self.now);
        }
    }
}

/// Finds them, in the order of time; those at which nothing lives are left out, and of two that are one the second.
pub(super) fn find(trace: &Trace, process: ProcessId) -> Result<Vec<Cut>, ReadError> {
    let mut curve = Curve::default();
    let mut first = None;
    let mut records = trace.records_of(process)?;
    while let Some(run) = records.next_run()? {
        for timed in run.events {
            first.get_or_insert(timed.tick.0);
            curve.see(timed.tick.0, &timed.event);
        }
    }
    let cut = |moment, point: Point| Cut {
        moment,
        records: point.records,
        objects: point.objects,
        at_s: point.tick.saturating_sub(first.unwrap_or(0)) as f64
            / trace.header().ticks_per_second.max(1) as f64,
    };
    let lowest = curve.lowest.map(|lowest| cut(Moment::Lowest, lowest));
    let all = [Some(cut(Moment::Peak, curve.peak)), lowest, Some(cut(Moment::End, curve.now))];
    let mut cuts: Vec<Cut> = all.into_iter().flatten().filter(|cut| cut.objects > 0).collect();
    cuts.dedup_by_key(|cut| cut.records);
    Ok(cuts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_trace::Request;

    fn curve(events: &[(u32, u64)]) -> Curve {
        let mut curve = Curve::default();
        for (tick, &(object, size)) in events.iter().enumerate() {
            let object = ObjectId(object);
            let event = match size {
                0 => Event::Free { object, remote: false },
                size => Event::Alloc { object, request: Request { size, ..Request::default() } },
            };
            curve.see(tick as u64, &event);
        }
        curve
    }

    #[test]
    fn the_lowest_point_comes_after_the_peak_and_before_an_allocation() {
        let found = curve(&[(0, 10), (1, 100), (0, 0), (1, 0), (0, 50), (1, 90), (1, 0), (0, 0)]);
        assert_eq!((found.peak.records, found.peak.live), (6, 140), "the later peak");
        assert!(found.lowest.is_none(), "only frees come after it");
        let found = curve(&[(0, 10), (1, 100), (2, 30), (1, 0), (2, 0), (1, 60), (0, 0), (1, 0)]);
        let lowest = found.lowest.unwrap();
        assert_eq!((lowest.records, lowest.live, lowest.objects), (5, 10, 1));
    }

    #[test]
    fn a_line_that_is_printed_at_the_end_is_no_low() {
        let found = curve(&[(0, 1 << 20), (1, 1 << 20), (1, 0), (0, 0), (0, 100)]);
        assert_eq!(found.lowest.unwrap().records, 3);
    }
}
