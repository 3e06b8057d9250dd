//! The study as one HTML file. Every plot says how many processors the machine has.

mod drawings;
mod grids;

use super::results::Results;
use crate::human;
use crate::report::html::{Escaped, Figures};
use crate::report::sheet;
use std::fmt::Write;

/// The whole page. `command` is what made it.
pub fn page(results: &Results, command: &str) -> String {
    let facts = format!(
        "{} processors, {} kinds of heap, {} mallocs; sizes {} to {} B",
        results.processors,
        results.steady.iter().filter(|curve| curve.on.fit.is_some()).count(),
        results.steady.iter().filter(|curve| curve.on.is_malloc).count(),
        results.settings["sizes"]["from"],
        results.settings["sizes"]["to"],
    );
    let fine = "Real threads on real memory. ± is half the width of a 95 % interval over runs, in plots a whisker; what is called faster is so by the ranks of the runs (Mann and Whitney, 5 %). A sequence is an \
                allocation and its free; a heap is a fit over one region, shared in some way. Published: J. \
                Quintana, Performance Analysis of Multithreaded Memory Allocation Strategies, 2019.";
    let title = "Fits under threads";
    let mut out = sheet::open("study threads", title, &facts, &results.answer, fine, "");
    let page = Page { results, figures: Figures { command } };
    page.account(&mut out);
    page.time_over_threads(&mut out);
    page.in_the_long_run(&mut out);
    page.laws(&mut out);
    page.over_iterations(&mut out);
    page.crossings(&mut out);
    page.series(&mut out);
    page.calls(&mut out);
    page.left(&mut out);
    let remark = "Times differ from run to run; every run is in runs.parquet.";
    sheet::close(&mut out, "freehold-study-threads.json", results, results.schema_version, remark);
    out
}

/// A table of what the system saw, folded up.
fn system(table: &str) -> String {
    format!(
        "<details><summary>Busy processors and context switches beside each</summary><p>Busy: processor time over \
         time. Switches a run: because a thread waited + because its time was up.</p>{table}</details>"
    )
}

struct Page<'a> {
    results: &'a Results,
    figures: Figures<'a>,
}

impl Page<'_> {
    fn account(&self, out: &mut String) {
        out.push_str(
            "<h2 id=\"account\">The paper's conclusions</h2><p>Each beside what this run measured, and what it \
             comes from.</p>",
        );
        for finding in &self.results.account {
            let _ = write!(
                out,
                "<figure class=\"finding\"><figcaption><h3>{} ({})</h3></figcaption><p>{}</p><p>{}</p></figure>",
                Escaped(finding.claim),
                finding.said(),
                Escaped(&finding.text),
                Escaped(&finding.cause)
            );
        }
    }

    fn time_over_threads(&self, out: &mut String) {
        out.push_str("<h2 id=\"threads\">Time over threads</h2>");
        let lead = "Ten iterations of a thousand sequences, shared by the threads, under the paper's lock, \
                    without coalescing: time over the time of one thread. Below 1 threads are faster.";
        self.figures.add(
            out,
            "time-over-threads",
            "The paper's first experiment, published and here",
            lead,
            &drawings::relative_times(self.results),
        );
        let lead = "The same under every lock, in milliseconds. Worst fit walks ten thousand blocks a call here, \
                    and where a run takes too long is \
                    measured on some numbers of threads only.";
        let table = grids::times(self.results)
            + &system(&grids::system_over_threads(&self.results.threads, |point| {
                human::nanoseconds(point.time_ns.mean)
            }));
        self.figures.add(
            out,
            "times",
            "Every fit and way to share, without coalescing",
            lead,
            &table,
        );
    }

    fn in_the_long_run(&self, out: &mut String) {
        out.push_str("<h2 id=\"steady\">In the long run</h2>");
        let lead = "With coalescing the lists are short, so that a call costs little and the sharing is what is \
                    measured. Speed-up against one thread of the same heap, first fit.";
        let drawing = drawings::speed_ups(self.results);
        self.figures.add(out, "speed-ups", "Speed-up", lead, &drawing);
        let lead = "The same runs, in sequences a second: what a program gets.";
        let drawing = drawings::rates(self.results);
        self.figures.add(out, "rates", "Rate", lead, &drawing);
        self.turns(out);
        let lead = "Millions of sequences a second. “Of the loop's”: speed-up on two threads over that of a loop \
                    without allocations, of the same rounds, which lie minutes apart. Rounds in which the loop gained more than there \
                    are processors are refused.";
        let table = grids::rates(self.results)
            + &system(&grids::system_over_threads(&self.results.steady, |point| {
                format!("{:.2}", point.rate.mean / 1e6)
            }));
        self.figures.add(out, "all-rates", "Every fit, way to share and malloc", lead, &table);
    }

    fn turns(&self, out: &mut String) {
        let turns = &self.results.settings["turns"];
        let lead = format!(
            "A heap a thread against a loop without allocations on {} threads. Both are measured on one thread and on \
             all, {} ms each, in turns, so that both see the same machine. Gain: rate on the threads over rate on one, \
             of the same turn. Of the loop's: that over the loop's gain of the same turn. Of a process: the median of \
             its {} turns. Shown: the median of the processes, below it an interval by ranks.",
            turns["threads"], turns["slice_ms"], turns["times"]
        );
        let refused = self.results.refused.as_deref().map(|why| format!("<p>{}</p>", Escaped(why)));
        let table = refused.unwrap_or_else(|| grids::turns(self.results));
        self.figures.add(out, "turns", "What a second thread gains, turn by turn", &lead, &table);
    }

    fn laws(&self, out: &mut String) {
        out.push_str("<h2 id=\"laws\">Laws</h2>");
        let lead = "sigma: the share that one thread does at a time. kappa: what threads cost each other. Amdahl's \
                    law has no kappa and cannot fall; the error is the root of the mean square of the relative \
                    errors. A sigma above 1 says that the second thread slows the first.";
        let table = grids::laws(self.results);
        self.figures.add(
            out,
            "law",
            "Amdahl's law and the universal scalability law",
            lead,
            &table,
        );
    }

    fn over_iterations(&self, out: &mut String) {
        out.push_str("<h2 id=\"iterations\">Time and blocks over iterations</h2>");
        let lead = "The paper's second experiment, under its lock, without coalescing; both axes logarithmic. A \
                    line of slope 1 is proportional, of slope 2 a square. Where ours ends, a run would have \
                    taken too long.";
        let drawing = drawings::growth(self.results)
            + &system(&grids::system_over_iterations(&self.results.iterations));
        self.figures.add(out, "growth", "Time over iterations", lead, &drawing);
        let lead = "The paper's third: what it calls chunks, beside free blocks here (all blocks are free at the \
                    end), from trees that choose what the lists choose. Fragmentation: 1 - longest free block / \
                    all free bytes of the heap.";
        let table = grids::blocks(self.results);
        self.figures.add(out, "blocks", "Blocks over iterations", lead, &table);
        let lead = "Free blocks (its chunks) of lists that are cut to the byte, counted without memory, over as many seeds as \
                    there are runs; the same with lengths in multiples of 16 bytes, as the heaps above have them. A \
                    prediction holds within 10 % of what is printed.";
        let table = grids::figure_14(self.results);
        self.figures.add(out, "figure-14", "Figure 14 at the grain of the paper", lead, &table);
        let lead = "Free blocks (chunks) that a walk of the same lists looks at: under best and worst fit all of them, under first fit \
                    those up to the one it takes. Time by steps is a cost of each call and one of each chunk looked at; both are \
                    fitted to the printed times of the fewest and the most iterations, so only those between are predicted.";
        let table = grids::walked(self.results);
        self.figures.add(
            out,
            "walked",
            "The printed times, by steps at the grain of the paper",
            lead,
            &table,
        );
        let lead = "An ablation, on one thread: the paper does not say which sizes it drew. With more lengths a \
                    request rarely finds its own, and the lists of first and best fit grow as the published ones \
                    do.";
        let table = grids::lengths(self.results)
            + &system(&grids::system_over_iterations(&self.results.lengths));
        let title = format!("Sizes {} times as long", self.results.settings["lengths"]["times"]);
        self.figures.add(out, "lengths", &title, lead, &table);
    }

    fn crossings(&self, out: &mut String) {
        out.push_str("<h2 id=\"allocations\">From how many allocations on</h2>");
        let lead = "Time with making and joining the threads, first fit, coalescing; both axes logarithmic. Where \
                    a line goes below that of the program without threads, threads are worth it.";
        let drawing = drawings::sweep(self.results);
        self.figures.add(out, "sweep", "Time over allocations", lead, &drawing);
        let lead = "The number of allocations from which on the threads are faster than the same fit without \
                    threads and locks (a malloc: than itself on one thread).";
        let table = grids::crossings(self.results)
            + &system(&grids::system_over_allocations(&self.results.allocations));
        self.figures.add(out, "crossings", "Crossings", lead, &table);
    }

    fn series(&self, out: &mut String) {
        out.push_str("<h2 id=\"series\">Series: the paper's wish</h2>");
        let lead = "A thousand allocations, then a thousand frees, and a constant live set: millions of sequences a \
                    second. In the fifth column every block is freed by another thread than made it.";
        let table = grids::series(self.results) + &system(&grids::system_by_pattern(self.results));
        self.figures.add(out, "series-rates", "Rates by pattern", lead, &table);
        let lead = "With half of the last series alive, or the live set; coalescing. Heap: up to the highest end \
                    that a block ever had, summed over parts.";
        let table = grids::fragmentation(self.results);
        self.figures.add(out, "series-blocks", "Heap, blocks and fragmentation", lead, &table);
    }

    fn calls(&self, out: &mut String) {
        out.push_str("<h2 id=\"calls\">Single calls and locks</h2>");
        let lead = "Runs of their own in which every call is timed, the clock included (some 40 ns), and every \
                    lock. Contended: another thread held it or waited for it. In vain: searches under a read \
                    lock that had to be repeated. Overtaken: readers that a later writer went in before.";
        let table = grids::calls(self.results);
        self.figures.add(
            out,
            "latency",
            "Latency, waiting, holding (first fit, coalescing)",
            lead,
            &table,
        );
    }

    fn left(&self, out: &mut String) {
        if self.results.left.is_empty() {
            return;
        }
        let _ = write!(
            out,
            "<h2 id=\"left\">What was not measured</h2><figure><details><summary>{} cells or allocators</summary>\
             <ul class=\"plain\">",
            self.results.left.len()
        );
        for left in &self.results.left {
            let _ = write!(out, "<li>{}: {}</li>", Escaped(&left.what), Escaped(&left.why));
        }
        out.push_str("</ul></details></figure>");
    }
}
