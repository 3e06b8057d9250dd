//! What the replayer prints, read back: lines of a name and numbers.

use std::path::PathBuf;
use std::str::FromStr;

use freehold_replayer::Bucket;

use crate::results::Point;

/// What the replayer says of the library before it replays.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Description {
    /// Functions of the malloc family, and the file each comes from.
    pub(super) origins: Vec<(String, PathBuf)>,
    /// The library's version, where it can tell.
    pub(super) version: Option<String>,
    /// The C library's version.
    pub(super) libc: Option<String>,
}

/// What one run found. Sizes in bytes.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Answer {
    pub(super) wall_ns: u64,
    pub(super) cpu_ns: u64,
    pub(super) faults: u64,
    /// Anonymous resident memory at the end, the replayer's own included.
    pub(super) anonymous: u64,
    /// The most there was of it, where the kernel could tell.
    pub(super) peak_anonymous: Option<u64>,
    pub(super) failed: u64,
    pub(super) latencies: Latencies,
    /// Places in the table of objects that hold one at the end, and its address; only where that was asked for.
    pub(super) objects: Vec<(u32, u64)>,
    /// In the order of events; `used` still includes the replayer's own memory.
    pub(super) timeline: Vec<Point>,
}

/// Latencies of all calls, in ticks.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Latencies {
    /// Ascending.
    pub(super) buckets: Vec<(Bucket, u64)>,
    pub(super) worst_ticks: u64,
    /// Ticks that the clock itself takes.
    pub(super) overhead_ticks: u64,
    /// Ticks by which the clock advances at least.
    pub(super) step_ticks: u64,
    pub(super) ticks_per_second: f64,
}

/// An answer that breaks off: the line at fault, or what it lacks.
pub(super) type Unreadable = String;

/// Every line but the last, which must be `done`: the replayer came to its end.
fn lines(text: &str) -> Result<impl Iterator<Item = (&str, &str)>, Unreadable> {
    let text = text.trim_end();
    let body = text.strip_suffix("done").ok_or("it ended without an answer")?;
    Ok(body.lines().map(|line| line.split_once(' ').unwrap_or((line, ""))))
}

fn number<T: FromStr>(word: Option<&str>) -> Result<T, Unreadable> {
    let word = word.unwrap_or("nothing");
    word.parse().map_err(|_| format!("it answered {word:?} where a number belongs"))
}

/// A line `name text…` of the replayer's last words, where it ended early.
pub(super) fn last_words<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}

impl Description {
    pub(super) fn parse(text: &str) -> Result<Description, Unreadable> {
        let mut found = Description::default();
        for (name, rest) in lines(text)? {
            match name {
                "from" => {
                    let (function, path) = rest.split_once(' ').unwrap_or((rest, "?"));
                    found.origins.push((function.to_owned(), PathBuf::from(path)));
                }
                "version" => found.version = Some(rest.to_owned()),
                "libc" => found.libc = Some(rest.to_owned()),
                _ => {}
            }
        }
        Ok(found)
    }
}

impl Answer {
    pub(super) fn parse(text: &str) -> Result<Answer, Unreadable> {
        let mut answer = Answer::default();
        for (name, rest) in lines(text)? {
            answer.take(name, rest)?;
        }
        answer.timeline.sort_by_key(|point| point.events);
        // The last point is also taken at the very end; that one, the later, is exact.
        answer.timeline.reverse();
        answer.timeline.dedup_by_key(|point| point.events);
        answer.timeline.reverse();
        Ok(answer)
    }

    /// Names it does not know are those of a later replayer: passed over.
    fn take(&mut self, name: &str, rest: &str) -> Result<(), Unreadable> {
        let only = || Some(rest);
        match name {
            "wall_ns" => self.wall_ns = number(only())?,
            "cpu_ns" => self.cpu_ns = number(only())?,
            "faults" => self.faults = number(only())?,
            "anonymous" => self.anonymous = number(only())?,
            "peak_anonymous" => self.peak_anonymous = Some(number(only())?),
            "failed" => self.failed = number(only())?,
            "worst_ticks" => self.latencies.worst_ticks = number(only())?,
            "overhead_ticks" => self.latencies.overhead_ticks = number(only())?,
            "step_ticks" => self.latencies.step_ticks = number(only())?,
            "ticks_per_second" => self.latencies.ticks_per_second = number(only())?,
            "bucket" => {
                let mut words = rest.split(' ');
                let bucket = Bucket(number(words.next())?);
                self.latencies.buckets.push((bucket, number(words.next())?));
            }
            "object" => {
                let mut words = rest.split(' ');
                self.objects.push((number(words.next())?, number(words.next())?));
            }
            "point" => self.timeline.push(point(rest)?),
            _ => {}
        }
        Ok(())
    }
}

fn point(rest: &str) -> Result<Point, Unreadable> {
    let mut words = rest.split(' ');
    let events = number(words.next())?;
    let elapsed_ns: u64 = number(words.next())?;
    let allocated = number(words.next())?;
    let live = number(words.next())?;
    let used = number(words.next())?;
    Ok(Point { events, allocated, seconds: elapsed_ns as f64 / 1e9, live, used })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_answer() {
        let text = "wall_ns 5\ncpu_ns 6\nfaults 7\nanonymous 4096\npeak_anonymous 8192\nfailed 1\n\
                    bucket 3 10\nbucket 9 1\nobject 7 4112\npoint 4 2000000000 30 20 4096\npoint 2 0 10 10 100\n\
                    point 4 2000000000 30 20 5000\nsomething new\ndone\n";
        let answer = Answer::parse(text).unwrap();
        assert_eq!((answer.wall_ns, answer.cpu_ns, answer.faults), (5, 6, 7));
        assert_eq!((answer.anonymous, answer.peak_anonymous, answer.failed), (4096, Some(8192), 1));
        assert_eq!(answer.latencies.buckets, [(Bucket(3), 10), (Bucket(9), 1)]);
        assert_eq!(answer.objects, [(7, 4112)]);
        let points: Vec<_> = answer.timeline.iter().map(|p| (p.events, p.used)).collect();
        assert_eq!(points, [(2, 100), (4, 5000)]);
        assert_eq!(answer.timeline[1].seconds, 2.0);
    }

    #[test]
    fn an_answer_cut_short_is_none() {
        assert!(Answer::parse("wall_ns 5\n").is_err());
        assert!(Answer::parse("").is_err());
        assert!(Answer::parse("wall_ns x\ndone\n").unwrap_err().contains("\"x\""));
        assert!(Answer::parse("point 1 2 3\ndone\n").is_err());
    }

    #[test]
    fn a_path_may_hold_spaces() {
        let found = Description::parse("from malloc /a b/c.so\nversion 1 2\ndone\n").unwrap();
        assert_eq!(found.origins, [("malloc".to_owned(), PathBuf::from("/a b/c.so"))]);
        assert_eq!(found.version.as_deref(), Some("1 2"));
    }
}
