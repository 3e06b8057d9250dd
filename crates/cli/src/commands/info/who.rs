//! Who has the memory: the sites of a process, as text.

use super::draw::Style;
use freehold_lab::sites::{Callers, Counts, Measure, Site, Sites, short_place};
use freehold_lab::{held, human};

/// Sites listed of each kind.
const MOST_SITES: usize = 8;
/// Callers named of a site.
const MOST_CALLERS: usize = 4;
/// Columns before a site's name.
const INDENT: usize = 32;

/// Lists of sites: what each is called, and what it counts, of which it lists those that have most.
struct List {
    heading: fn(&Sites) -> String,
    /// Bytes and objects.
    amount: fn(&Counts) -> (u64, u64),
    /// What is compared, and a share's part of the same of all.
    by: fn(&Counts) -> u64,
    /// Whose callers are named.
    callers: Measure,
}

/// Of every kind, in the order in which they are printed.
const LISTS: [List; 6] = [
    List {
        heading: |Sites { total, .. }| {
            format!("Who held the peak{{}}: {}", sum(total.peak_bytes, total.peak_blocks))
        },
        amount: |counts| (counts.peak_bytes, counts.peak_blocks),
        by: |counts| counts.peak_bytes,
        callers: Measure::Peak,
    },
    List {
        heading: |Sites { total, kept_s, .. }| {
            let pages = human::bytes(total.kept_page_bytes);
            let live = human::bytes(total.keeping_bytes);
            let known = match kept_s {
                Some(at) => format!("seen at {}", human::seconds(*at)),
                None => "estimated".into(),
            };
            format!("Who keeps pages{{}}: {pages} for {live} of objects ({known})")
        },
        amount: |counts| (counts.kept_page_bytes, 0),
        by: |counts| counts.kept_page_bytes,
        callers: Measure::KeptPages,
    },
    List {
        heading: |Sites { total, .. }| {
            format!("Whose was never freed{{}}: {}", sum(total.leaked_bytes, total.leaked_blocks))
        },
        amount: |counts| (counts.leaked_bytes, counts.leaked_blocks),
        by: |counts| counts.leaked_bytes,
        callers: Measure::NeverFreed,
    },
    List {
        heading: |Sites { total, .. }| {
            let (temporary, all) = (human::count(total.temporary), human::count(total.allocations));
            format!("Whose was freed as the next thing{{}}: {temporary} of {all} allocations")
        },
        amount: |counts| (counts.temporary_bytes, counts.temporary),
        by: |counts| counts.temporary,
        callers: Measure::Temporary,
    },
    List {
        heading: |Sites { total, .. }| {
            let (copied, growths) = (human::bytes(total.copied_bytes), human::count(total.growths));
            format!("Whose grew{{}}: {growths} times, {copied} to copy")
        },
        amount: |counts| (counts.copied_bytes, counts.growths),
        by: |counts| counts.copied_bytes,
        callers: Measure::Allocated,
    },
    List {
        heading: |Sites { total, .. }| {
            let (others, freed) = (human::count(total.freed_by_others), human::count(total.freed));
            format!("Whose was freed by another thread{{}}: {others} of {freed} frees")
        },
        amount: |counts| (0, counts.freed_by_others),
        by: |counts| counts.freed_by_others,
        callers: Measure::Allocated,
    },
];

fn sum(bytes: u64, blocks: u64) -> String {
    format!("{} in {} objects", human::bytes(bytes), human::count(blocks))
}

/// The lists of a process that has any. `name` says whose they are, where that is not plain.
pub fn lists(sites: &Sites, name: Option<&str>, style: Style) -> String {
    let of = name.map_or(String::new(), |name| format!(" of {name}"));
    // Every program has some pages that are not full.
    let matters = |list: &&List| list.callers != Measure::KeptPages || held::matters(sites);
    LISTS.iter().filter(matters).map(|list| list.text(sites, &of, style)).collect()
}

impl List {
    fn text(&self, sites: &Sites, of: &str, style: Style) -> String {
        let listed = sites.most(self.by);
        if listed.is_empty() {
            return String::new();
        }
        let heading = (self.heading)(sites).replace("{}", of);
        let mut text = format!("\n{}\n", style.heading(&heading));
        let whole = (self.by)(&sites.total).max(1) as f64;
        for site in listed.iter().take(MOST_SITES) {
            let share = (self.by)(&site.counts) as f64 / whole * 100.0;
            text += &clip(&self.line(site, share), style.columns);
            text.push('\n');
            if let Some(callers) = callers(site.callers_by(self.callers)) {
                let line = clip(&format!("{:INDENT$}{callers}", ""), style.columns);
                text += &style.dim(&line);
                text.push('\n');
            }
        }
        if listed.len() > MOST_SITES {
            let more = format!("  … and {} more sites (with --json)", listed.len() - MOST_SITES);
            text += &style.dim(&more);
            text.push('\n');
        }
        text
    }

    fn line(&self, site: &Site, share: f64) -> String {
        let (bytes, blocks) = (self.amount)(&site.counts);
        let bytes = if bytes > 0 { human::bytes(bytes) } else { String::new() };
        let blocks = if blocks > 0 { human::count(blocks) } else { String::new() };
        let place = site.place.as_deref().map_or("", short_place);
        let name = freehold_lab::sites::short(&site.function);
        format!("  {share:>5.1}% {bytes:>10} {blocks:>9}  {name}  {place}").trim_end().to_owned()
    }
}

/// Who called the site.
fn callers(found: &Callers) -> Option<String> {
    let mut names: Vec<&str> = found.names.iter().take(MOST_CALLERS).map(String::as_str).collect();
    if found.names.len() > MOST_CALLERS {
        names.push("…");
    } else if found.cut {
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
