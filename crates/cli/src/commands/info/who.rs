//! Who has the memory: the sites of a process, as text.

use super::draw::Style;
use freehold_lab::human;
use freehold_lab::sites::{Counts, Site, Sites};

/// Sites listed of each kind.
const MOST_SITES: usize = 8;
/// Callers named of a site.
const MOST_CALLERS: usize = 4;
/// Columns before a site's name.
const INDENT: usize = 32;

/// A list of sites: what it is called, which they are, and what is counted.
struct List<'a> {
    heading: String,
    sites: &'a [Site],
    /// Bytes and objects.
    amount: fn(&Counts) -> (u64, u64),
    /// What a share is of.
    whole: u64,
    by_bytes: bool,
}

/// The lists of a process that has any. `name` says whose they are, where that is not plain.
pub fn lists(sites: &Sites, name: Option<&str>, style: Style) -> String {
    let total = sites.total;
    let of = name.map_or(String::new(), |name| format!(" of {name}"));
    let sum =
        |bytes, blocks| format!("{} in {} objects", human::bytes(bytes), human::count(blocks));
    let lists = [
        List {
            heading: format!("Who held the peak{of}: {}", sum(total.peak_bytes, total.peak_blocks)),
            sites: &sites.peak,
            amount: |counts| (counts.peak_bytes, counts.peak_blocks),
            whole: total.peak_bytes,
            by_bytes: true,
        },
        List {
            heading: format!(
                "Whose was never freed{of}: {}",
                sum(total.leaked_bytes, total.leaked_blocks)
            ),
            sites: &sites.leaked,
            amount: |counts| (counts.leaked_bytes, counts.leaked_blocks),
            whole: total.leaked_bytes,
            by_bytes: true,
        },
        List {
            heading: format!(
                "Whose was freed as the next thing{of}: {} of {} allocations",
                human::count(total.temporary),
                human::count(total.allocations)
            ),
            sites: &sites.temporary,
            amount: |counts| (counts.temporary_bytes, counts.temporary),
            whole: total.allocations,
            by_bytes: false,
        },
    ];
    lists.iter().filter(|list| !list.sites.is_empty()).map(|list| list.text(style)).collect()
}

impl List<'_> {
    fn text(&self, style: Style) -> String {
        let mut text = format!("\n{}\n", style.heading(&self.heading));
        for site in self.sites.iter().take(MOST_SITES) {
            let (bytes, blocks) = (self.amount)(&site.counts);
            let part = if self.by_bytes { bytes } else { blocks };
            let share = part as f64 / self.whole.max(1) as f64 * 100.0;
            let (bytes, blocks) = (human::bytes(bytes), human::count(blocks));
            let place = site.place.as_deref().map_or(String::new(), |place| format!("  {place}"));
            let line = format!("  {share:>5.1}% {bytes:>10} {blocks:>9}  {}{place}", site.function);
            text += &clip(&line, style.columns);
            text.push('\n');
            if let Some(callers) = callers(site) {
                let line = clip(&format!("{:INDENT$}{callers}", ""), style.columns);
                text += &style.dim(&line);
                text.push('\n');
            }
        }
        if self.sites.len() > MOST_SITES {
            let more = self.sites.len() - MOST_SITES;
            let more = format!("  … and {more} more sites (with --json)");
            text += &style.dim(&more);
            text.push('\n');
        }
        text
    }
}

/// Who called the site by which most came.
fn callers(site: &Site) -> Option<String> {
    let mut names: Vec<&str> = site.callers.iter().take(MOST_CALLERS).map(String::as_str).collect();
    if site.callers.len() > MOST_CALLERS {
        names.push("…");
    } else if site.cut {
        names.push("(unknown)");
    }
    (!names.is_empty()).then(|| format!("← {}", names.join(" ← ")))
}

/// At most `width` characters of one line: names of another program may hold anything.
fn clip(text: &str, width: usize) -> String {
    let clean = |c: char| if c.is_control() { '·' } else { c };
    if text.chars().count() <= width {
        return text.chars().map(clean).collect();
    }
    text.chars().map(clean).take(width - 1).chain(['…']).collect()
}
