//! The study as one HTML file: the answer, the machine, every case, the account.
//!
//! Invariant: as of every report, no network and no script; what is published and what is ours stand
//! beside each other in every picture, each on its own scale where their units differ.
//!
//! Neighbours: `bars` and `drawings` draw; the shapes of tables and figures are the report's.

mod bars;
mod drawings;
mod tables;

use super::config::Plan;
use super::orders::{self, Tally};
use super::results::Results;
use crate::report::html::{self, Cell, Escaped, Figure};
use crate::report::sheet;
use std::fmt::Write;

/// The whole page. `command` is what made it.
pub fn page(plan: &Plan, results: &Results, command: &str) -> String {
    let page = Page { plan, results, command };
    let mut out = sheet::open(
        "study dmrt",
        "DmRT for NUMA: published and ours",
        &page.in_short(),
        &results.answer,
        "Ours is simulated: the policies are the code that ships, the machine, the requests and the costs \
         are a model. What is published comes from the chapter's own simulator, whose sizes, lifetimes and \
         capacities are not public. Intervals are 95 %.",
        include_str!("page/style.css"),
    );
    page.machine(&mut out);
    page.cases(&mut out);
    page.instructions(&mut out);
    page.verdicts(&mut out);
    page.account(&mut out);
    page.notes(&mut out);
    page.settings(&mut out);
    let remark = "The row of every attempt is in attempts.parquet.";
    sheet::close(&mut out, "study-dmrt.json", results, results.schema_version, remark);
    out
}

struct Page<'a> {
    plan: &'a Plan,
    results: &'a Results,
    command: &'a str,
}

impl Page<'_> {
    fn in_short(&self) -> String {
        let tables = self.results.tables.len();
        format!(
            "{tables} tables, {} allocators, {} attempts of each; all see the same requests",
            self.plan.allocators.len(),
            self.plan.attempts
        )
    }

    fn machine(&self, out: &mut String) {
        out.push_str(
            "<h2 id=\"machine\">The machine, and a region of it</h2><p>What is simulated: requests \
             come from the processors of the nodes; a path says which memories are tried.</p>",
        );
        Figure {
            id: "topology",
            title: "Nodes and memories",
            lead: "Each node's processors reach their own memory at the least cost, the shared one \
                   and, along the ring, the others' at more. The darker part of a memory is there \
                   before the first request and stays. Several processors of a node ask one after \
                   the other: no time is charged for waiting.",
            drawing: &drawings::topology(self.plan),
            table: "",
            command: self.command,
        }
        .write(out);
        Figure {
            id: "layout",
            title: "Blocks of one memory",
            lead: "The layout that all but tcmalloc share: a header of 8 bytes before each block's \
                   payload, multiples of 16 bytes, free neighbours merged at once.",
            drawing: &drawings::layout(),
            table: "",
            command: self.command,
        }
        .write(out);
    }

    fn cases(&self, out: &mut String) {
        for case in &self.plan.cases {
            let tables: Vec<_> =
                self.results.tables.iter().filter(|table| table.case == case.number).collect();
            let _ = write!(
                out,
                "<h2 id=\"case-{0}\">Case {0}</h2><p>{1}.</p>",
                case.number,
                Escaped(&case.title)
            );
            for (key, title, lead) in bars::PICTURES {
                let drawing = bars::panels(&tables, key, case.number);
                Figure {
                    id: &format!("{key}-{}", case.number),
                    title,
                    lead,
                    drawing: &drawing,
                    table: &tables::beside(&tables, key),
                    command: self.command,
                }
                .write(out);
            }
            let drawing = tables::everything(&tables);
            Figure {
                id: &format!("all-{}", case.number),
                title: "Everything measured",
                lead: "Means of the attempts. Which allocators differ is a question of pairs: the \
                       JSON holds every difference to DmRT with its interval.",
                drawing: &drawing,
                table: "",
                command: self.command,
            }
            .write(out);
        }
    }

    fn instructions(&self, out: &mut String) {
        let Some(counted) = &self.results.instructions else { return };
        Figure {
            id: "instructions",
            title: "Instructions",
            lead: "Of a request, in all the memories it was tried in, or of a free: mean, 99th percentile, longest. \
                   Counted one by one in one attempt of each case, for this build of the allocators, which keep count \
                   of their own blocks here. The choice of the memories is not in it.",
            drawing: &tables::instructions(counted),
            table: "",
            command: self.command,
        }
        .write(out);
    }

    fn verdicts(&self, out: &mut String) {
        out.push_str(
            "<h2 id=\"claims\">The chapter's claims</h2><p>A claim holds when it holds in \
             every table that it is about; beside it, in how many of ours and of the printed ones it does.</p>",
        );
        let tallies = orders::tallies(&self.results.verdicts);
        let row = |tally: &Tally| {
            let [holds, open, fails] = tally.ours;
            let (printed, of) = tally.printed;
            let mut cells = vec![Cell::text(tally.claim), tally.class.cell()];
            cells.extend([holds, open, fails].map(|count| Cell::text(count.to_string())));
            cells.push(Cell::text(format!("{printed} of {of}")));
            cells
        };
        let rows: Vec<_> = tallies.iter().map(row).collect();
        let heads =
            ["claim", "verdict", "holds in", "undecidable in", "fails in", "printed: holds in"];
        let mut table = html::table_of("Claims", heads, &rows);
        table.push_str("<dl class=\"pairs\">");
        for Tally { claim, fails_in, .. } in tallies.iter().filter(|one| !one.fails_in.is_empty()) {
            let _ = write!(
                table,
                "<dt>{}</dt><dd>fails in tables {}</dd>",
                Escaped(claim),
                Escaped(&fails_in.join(", "))
            );
        }
        table.push_str("</dl>");
        Figure {
            id: "claims-table",
            title: "Orders",
            lead: "A claim of several allocators holds when it holds for every pair. Predicted: the settings were chosen by the \
                   order of the cases and by the fall from 100 to 1000 requests, which no claim here is about.",
            drawing: &table,
            table: "",
            command: self.command,
        }
        .write(out);
        Figure {
            id: "gaps",
            title: "How far ours are from what is printed",
            lead: "Points of requests satisfied, over the tables that are printed. Fitted: what is set was chosen by the order of the \
                   cases and the fall from 100 to 1000 requests, 256 MiB of shared memory by these rows. What no reading can do is half the \
                   difference of two tables that print one allocator on one path under one load.",
            drawing: &tables::gaps(self.results),
            table: "",
            command: self.command,
        }
        .write(out);
    }

    fn account(&self, out: &mut String) {
        out.push_str(
            "<h2 id=\"account\">Where ours differs, and why</h2><p>Every number below is computed from \
             this run. Each cause is changed alone, everything else the same to the seed.</p>",
        );
        for finding in &self.results.account {
            let _ = write!(
                out,
                "<figure class=\"finding\"><figcaption><h3>{}</h3></figcaption><p>{}</p>",
                Escaped(finding.title),
                Escaped(&finding.text)
            );
            let table = tables::ablations(&self.results.ablations, &finding.ablations);
            if !table.is_empty() {
                let _ = write!(
                    out,
                    "<details><summary>The changes it rests on</summary>{table}</details>"
                );
            }
            out.push_str("</figure>");
        }
    }

    fn notes(&self, out: &mut String) {
        out.push_str(
            "<h2 id=\"notes\">The published tables by themselves</h2><p>Computed from the printed \
             figures alone; nothing of ours enters.</p><figure><ul class=\"plain\">",
        );
        for note in &self.results.published_notes {
            let _ = write!(out, "<li>{}</li>", Escaped(&note.text));
        }
        out.push_str("</ul></figure>");
    }

    fn settings(&self, out: &mut String) {
        out.push_str(
            "<h2 id=\"settings\">Settings</h2><p>As run. Any of them can be changed: \
             <code>freehold study dmrt --set machine.nodes=8</code>.</p>\
             <figure><dl class=\"pairs\">",
        );
        let mut pairs = Vec::new();
        flatten("", &self.results.settings, &mut pairs);
        // What a search would move is no setting of this run.
        pairs.retain(|(key, _)| !key.starts_with("search."));
        for (key, value) in pairs {
            let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", Escaped(&key), Escaped(&value));
        }
        let _ = write!(
            out,
            "<dt>made by</dt><dd><code>{}</code></dd></dl></figure>",
            Escaped(self.command)
        );
    }
}

/// `machine.nodes`, `4`, and so on.
fn flatten(before: &str, value: &serde_json::Value, pairs: &mut Vec<(String, String)>) {
    let Some(table) = value.as_object() else {
        pairs.push((before.to_owned(), value.to_string()));
        return;
    };
    for (key, value) in table {
        let name = if before.is_empty() { key.clone() } else { format!("{before}.{key}") };
        flatten(&name, value, pairs);
    }
}

#[cfg(test)]
#[path = "page/tests.rs"]
mod tests;
