//! Who asks, for how much, for how long; and what was there before.
//!
//! Sizes, lifetimes and nodes are drawn from generators of their own, so that a study that changes
//! one of them leaves the others as they were.

use super::machine::{Machine, Memory};
use crate::random::Random;
use freehold_core::place::NodeId;

/// A lifetime that does not end within any run.
pub const NEVER: u64 = u64::MAX;

/// One request for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The node whose processor asks.
    pub node: NodeId,
    /// Bytes asked for.
    pub size: u64,
    /// After how many further requests the block is freed: 1 is before the next one; or [`NEVER`].
    pub lifetime: u64,
}

/// How sizes of a class are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Draw {
    /// Every size as likely.
    Uniform,
    /// Every doubling of sizes as likely.
    LogUniform,
}

/// A class of sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeClass {
    /// How often, beside the weights of the others.
    pub weight: u32,
    /// The least size in bytes, at least 1.
    pub least: u64,
    /// The greatest size in bytes, included.
    pub most: u64,
    /// How sizes between are drawn.
    pub draw: Draw,
}

/// Lifetimes: log-uniform between two numbers of requests, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lifetimes {
    /// The shortest, at least 1.
    pub least: u64,
    /// The longest.
    pub most: u64,
}

/// A generator that cannot generate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadGenerator {
    /// Nothing can be drawn.
    #[error("the weights of {of} are all 0: at least one must not be")]
    NoWeight {
        /// Of what.
        of: &'static str,
    },
    /// Ends out of order.
    #[error("{of} from {least} to {most} is no range: from 1 up, the least first")]
    Range {
        /// Of what.
        of: &'static str,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
}

/// Draws requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Generator {
    classes: Vec<SizeClass>,
    weights: Vec<u32>,
    lifetimes: Lifetimes,
    node_weights: Vec<u32>,
}

/// What the three generators of an attempt are called.
const SIZES: u64 = 1;
const LIFETIMES: u64 = 2;
const NODES: u64 = 3;
const BACKGROUND: u64 = 4;

impl Generator {
    /// Requests of these classes and lifetimes, from the nodes by their weights.
    ///
    /// # Errors
    /// See [`BadGenerator`].
    pub fn new(
        classes: &[SizeClass],
        lifetimes: Lifetimes,
        node_weights: &[u32],
    ) -> Result<Generator, BadGenerator> {
        let range = |of, least, most| match least >= 1 && least <= most {
            true => Ok(()),
            false => Err(BadGenerator::Range { of, least, most }),
        };
        for class in classes {
            range("sizes", class.least, class.most)?;
        }
        range("lifetimes", lifetimes.least, lifetimes.most)?;
        let weights: Vec<u32> = classes.iter().map(|class| class.weight).collect();
        for (of, weights) in [("size classes", weights.as_slice()), ("nodes", node_weights)] {
            if weights.iter().all(|&weight| weight == 0) {
                return Err(BadGenerator::NoWeight { of });
            }
        }
        let node_weights = node_weights.to_vec();
        Ok(Generator { classes: classes.to_vec(), weights, lifetimes, node_weights })
    }

    /// `count` requests of attempt `attempt`, a function of both and `seed`.
    pub fn requests(&self, seed: u64, attempt: &[u64], count: usize) -> Vec<Request> {
        let [mut sizes, mut lifetimes, mut nodes] =
            [SIZES, LIFETIMES, NODES].map(|part| named(seed, attempt, part));
        let one = |_| Request {
            size: self.size(&mut sizes),
            lifetime: lifetimes.log_uniform(self.lifetimes.least, self.lifetimes.most),
            node: node(nodes.weighted(&self.node_weights)),
        };
        (0..count).map(one).collect()
    }

    /// Sizes that together are just `percent` of each memory's capacity (the last is cut to fit),
    /// in the order of [`Machine::memories`].
    pub fn background(
        &self,
        seed: u64,
        attempt: &[u64],
        machine: &Machine,
        percent: impl Fn(Memory) -> u32,
    ) -> Background {
        let mut random = named(seed, attempt, BACKGROUND);
        let fill = |memory| {
            let mut left = machine.capacity(memory) / 100 * u64::from(percent(memory).min(100));
            let mut sizes = Vec::new();
            while left > 0 {
                let size = self.size(&mut random).min(left);
                sizes.push(size);
                left -= size;
            }
            sizes
        };
        Background(machine.memories().map(fill).collect())
    }

    /// How often each node asks, beside the others.
    pub fn node_weights(&self) -> &[u32] {
        &self.node_weights
    }

    fn size(&self, random: &mut Random) -> u64 {
        let class = self.classes[random.weighted(&self.weights)];
        match class.draw {
            Draw::Uniform => random.uniform(class.least, class.most),
            Draw::LogUniform => random.log_uniform(class.least, class.most),
        }
    }
}

/// Blocks that are there before the first request and stay, by memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Background(pub Vec<Vec<u64>>);

fn node(index: usize) -> NodeId {
    NodeId::new(index).unwrap_or_else(|| unreachable!("no more weights than a machine has nodes"))
}

fn named(seed: u64, attempt: &[u64], part: u64) -> Random {
    let mut name = attempt.to_vec();
    name.push(part);
    Random::named(seed, &name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: SizeClass = SizeClass { weight: 1, least: 16, most: 511, draw: Draw::Uniform };
    const LARGE: SizeClass =
        SizeClass { weight: 3, least: 2 << 20, most: 4 << 20, draw: Draw::Uniform };

    fn generator() -> Generator {
        let lifetimes = Lifetimes { least: 1, most: 4000 };
        Generator::new(&[SMALL, LARGE], lifetimes, &[4, 3, 2, 1]).unwrap()
    }

    #[test]
    fn classes_and_nodes_come_as_often_as_they_weigh() {
        let requests = generator().requests(1, &[0], 10_000);
        let large = requests.iter().filter(|request| request.size >= 2 << 20).count();
        let last = requests.iter().filter(|request| request.node.index() == 3).count();
        assert!((7300..7700).contains(&large) && (850..1150).contains(&last), "{large} {last}");
        assert!(requests.iter().all(|request| (1..=4000).contains(&request.lifetime)));
    }

    #[test]
    fn the_same_attempt_is_the_same_and_what_is_drawn_apart_stays_apart() {
        let requests = generator().requests(1, &[4, 7], 50);
        assert_eq!(requests, generator().requests(1, &[4, 7], 50));
        assert_eq!(requests[..20], generator().requests(1, &[4, 7], 20));
        assert_ne!(requests, generator().requests(1, &[4, 8], 50));
        let shorter = Lifetimes { least: 1, most: 10 };
        let other = Generator::new(&[SMALL, LARGE], shorter, &[1, 1]).unwrap();
        let sizes = |requests: &[Request]| requests.iter().map(|r| r.size).collect::<Vec<_>>();
        assert_eq!(sizes(&requests), sizes(&other.requests(1, &[4, 7], 50)));
    }

    #[test]
    fn the_background_fills_to_the_byte() {
        let machine = Machine::new(&[16 << 20, 8 << 20], 32 << 20, 2).unwrap();
        let percent = |memory| if memory == Memory::Shared { 0 } else { 50 };
        let Background(fills) = generator().background(1, &[0], &machine, percent);
        let sums: Vec<u64> = fills.iter().map(|sizes| sizes.iter().sum()).collect();
        assert_eq!(sums, [(16 << 20) / 100 * 50, (8 << 20) / 100 * 50, 0]);
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let lifetimes = Lifetimes { least: 1, most: 10 };
        let said = |class, lifetimes, nodes: &[u32]| {
            Generator::new(&[class], lifetimes, nodes).unwrap_err().to_string()
        };
        let zero = SizeClass { weight: 0, ..SMALL };
        assert!(said(zero, lifetimes, &[1]).starts_with("the weights of size classes are all 0"));
        assert!(said(SMALL, lifetimes, &[0, 0]).starts_with("the weights of nodes are all 0"));
        let turned = SizeClass { least: 9, most: 8, ..SMALL };
        assert!(said(turned, lifetimes, &[1]).starts_with("sizes from 9 to 8 is no range"));
        let none = Lifetimes { least: 0, most: 10 };
        assert!(said(SMALL, none, &[1]).starts_with("lifetimes from 0 to 10"));
    }
}
