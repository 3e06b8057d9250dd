//! The study's answer, for page and terminal.

use super::tables::{Cell, Results};

impl Results {
    /// The answer in a few sentences, for page and terminal.
    pub fn answer(&self) -> Vec<String> {
        let mut answer = Vec::new();
        for share in &self.table {
            let (Some(one), Some(sixteen), Some(most)) =
                (share.misses.first(), share.misses.get(3), share.misses.last())
            else {
                continue;
            };
            if share.page_bytes != 1 << 14 {
                continue;
            }
            let change = |cell: &Cell| 100.0 * (cell.ours / one.ours - 1.0);
            let big = self
                .table
                .iter()
                .find(|other| other.divisor == share.divisor && other.page_bytes == 1 << 20);
            let saved = big
                .and_then(|big| big.misses.first())
                .map(|cell| 100.0 * (1.0 - cell.ours / one.ours));
            let saved_time = big.and_then(|big| {
                Some(100.0 * (1.0 - big.time.first()?.ours / share.time.first()?.ours))
            });
            answer.push(format!(
                "{} TLB entries a processor: misses of 16 KiB pages change by {:+.0} % with 16 \
                 processors and {:+.0} % with 40 (published: -34 and -46); 1 MiB pages save {:.0} % of the misses and \
                 {:.0} % of the time on one (published: 69 and 22).",
                64 / share.divisor,
                change(sixteen),
                change(most),
                saved.unwrap_or(0.0),
                saved_time.unwrap_or(0.0)
            ));
        }
        answer
    }
}
