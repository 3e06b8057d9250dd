//! The study's answer, for page and terminal.

use super::caches::{CacheUse, REST, WHOLE};
use super::claims::{claims, classes};
use super::tables::{Cell, Results, Share};
use crate::studies::claims::counted;
use crate::studies::class::{self, Class};

impl Results {
    /// The answer in a few sentences, for page and terminal.
    pub fn answer(&self) -> Vec<String> {
        let mut answer = vec![
            "A processor keeps the places of the pages that it used last in a small table (the TLB, translation \
             lookaside buffer); what it does not find there is a miss, and costs it hundreds of cycles."
                .to_owned(),
        ];
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
                 {:.0} % of the time on one (published: 69 and 22; the cost of a miss was chosen by the 22).",
                64 / share.divisor,
                change(sixteen),
                change(most),
                saved.unwrap_or(0.0),
                saved_time.unwrap_or(0.0)
            ));
        }
        answer.extend(self.on_caches());
        answer.extend(self.on_packing());
        let of_text = counted(&claims(self));
        answer.push(format!("Of what the paper says, within a tenth of its figures: {of_text}."));
        answer.push(format!("Of the cells of its Table 1: {}.", self.on_cells()));
        answer
    }

    /// How many cells of Table 1 are near, with all entries of the TLB.
    fn on_cells(&self) -> String {
        let shares = self.table.iter().filter(|share| share.divisor == 1);
        let of = |share: &Share| {
            classes(share, &share.misses).into_iter().chain(classes(share, &share.time))
        };
        let all: Vec<Class> = shares.flat_map(of).flatten().collect();
        class::counted(all.into_iter())
    }

    /// Whether the caches hit while pages miss, as the paper says: of heap objects' words, and of all loads and
    /// stores where they were counted.
    fn on_caches(&self) -> Vec<String> {
        let row = |what: &str| self.caches.iter().find(|row| row.what == what);
        let Some(whole) = row(WHOLE) else { return Vec::new() };
        let alone =
            format!("the iteration of Table 1, links and light gone through: {}", hits(whole));
        let heap = match row(REST) {
            None => alone,
            Some(rest) => format!("the run: {}; {alone}", hits(rest)),
        };
        let mut said = vec![format!(
            "Cache hits of words of heap objects alone, no stack among them: {heap}."
        )];
        let counted: Vec<&CacheUse> = self.caches.iter().filter(|row| row.is_counted()).collect();
        said.extend(
            counted.iter().map(|row| format!("{}: {}; {}.", row.what, hits(row), row.verdict())),
        );
        if let Some(each) = self.accesses_a_word {
            said.push(format!(
                "It loads or stores {each:.1} times for each word of a heap object."
            ));
        }
        if counted.is_empty() {
            said.push(
                "The paper's counters saw all loads and stores; --every-access counts them, too (by valgrind)."
                    .to_owned(),
            );
        }
        said
    }

    /// Who packs huge pages best.
    fn on_packing(&self) -> Option<String> {
        let density = |policied: &super::Policied| policied.packing.last().map(|p| p.density);
        let mut by: Vec<(&str, f64)> = self
            .policies
            .iter()
            .filter_map(|policied| Some((policied.policy.as_str(), density(policied)?)))
            .collect();
        by.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (best, worst) = (by.first()?, by.last()?);
        Some(format!(
            "2 MiB pages are filled to {:.1} % by {}, to {:.1} % by {}.",
            best.1 * 100.0,
            best.0,
            worst.1 * 100.0,
            worst.0
        ))
    }
}

fn hits(of: &CacheUse) -> String {
    let tlb = of
        .tlb_per_1000
        .map(|[small, _]| format!(", {small:.1} TLB misses per 1,000 words of 16 KiB pages"));
    format!(
        "{:.1} % in the first level, {:.1} % of the rest in the second, {:.2} % in either{}",
        of.first_hits * 100.0,
        of.second_hits * 100.0,
        of.either_hits * 100.0,
        tlb.unwrap_or_default()
    )
}
