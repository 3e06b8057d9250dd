//! How long a thread waits for the parent: as long as it shows signs of life, else until it turns out to be dead, or
//! does nothing for many naps.

use super::{connect, process};

/// Naps without a sign of life before asking whether the parent lives.
const DOUBT_NAPS: u32 = 10;
/// Naps without a sign of life before giving up on a parent that lives but does nothing: a minute of naps of 20 ms.
const PATIENCE_NAPS: u32 = 3_000;

/// Of one wait.
pub struct Patience {
    naps: u32,
    heartbeat: u32,
}

impl Patience {
    /// At the beginning of a wait.
    pub fn new() -> Patience {
        Patience { naps: 0, heartbeat: connect::heartbeat() }
    }

    /// After each nap: whether to wait no more, because nothing will come.
    pub fn is_over(&mut self) -> bool {
        let beat = connect::heartbeat();
        self.naps = if beat == self.heartbeat { self.naps + 1 } else { 0 };
        self.heartbeat = beat;
        let dead = self.naps % DOUBT_NAPS == DOUBT_NAPS - 1 && !connect::parent_lives();
        dead || self.naps > PATIENCE_NAPS || process::is_stopped()
    }
}
