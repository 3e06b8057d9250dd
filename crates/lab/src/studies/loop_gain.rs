//! What a loop that allocates nothing may gain on several threads: no more than there are processors.
//!
//! The loop is what the machine itself gives, and everything measured beside it is divided by its gain. A gain above the
//! number of processors cannot be: the loop was slowed on one thread, and what was divided by its gain says nothing. All
//! studies that have such a loop refuse it by this rule. A tenth more is let pass, for a loop on one thread may be slowed a little:
//! 2.2 on two processors counts, and what was divided by it is up to a tenth too low.

/// How far above what its processors can give a gain may seem to be, by chance.
const SLACK: f64 = 1.10;

/// Whether the loop can have gained so much on `threads` threads of a machine with `processors`.
pub fn is_possible(gain: f64, threads: usize, processors: usize) -> bool {
    gain <= SLACK * threads.min(processors) as f64
}

/// Why a gain is refused, in the middle of a sentence.
pub fn refusal(gain: f64, threads: usize, processors: usize) -> String {
    format!(
        "a loop without allocations seemed to speed up by {gain:.2} on {threads} threads of {processors} processors, which \
         cannot be"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_loop_gains_more_than_there_are_processors() {
        assert!(is_possible(2.19, 2, 2) && !is_possible(2.21, 2, 2), "a tenth more is let pass");
        assert!(is_possible(1.97, 2, 2) && is_possible(0.8, 2, 2) && is_possible(1.05, 8, 1));
        assert!(!is_possible(2.87, 2, 2) && !is_possible(1.97, 2, 1) && !is_possible(2.87, 8, 2));
        assert!(refusal(2.87, 2, 2).contains("by 2.87 on 2 threads of 2 processors"));
    }
}
