//! Who holds pages, in a sentence: the site that keeps most under the malloc that the program uses, and what it keeps under the others.

use super::{Answer, Sentence, sentence, usual_of};
use crate::human;
use crate::results::{Document, Held, Keeper};

impl Answer {
    /// Says who holds pages for few bytes, if anybody does.
    pub fn add_held(&mut self, document: &Document) {
        let usual = usual_of(&document.results, document.trace.malloc.as_deref());
        self.who.extend(said(&document.held, usual.map(|usual| usual.name.as_str())));
    }
}

/// Of the `usual` allocator, if it was asked; else of the first.
fn said(held: &[Held], usual: Option<&str>) -> Option<Sentence> {
    let name = |held: &Held| Some(held.allocator.as_str()) == usual;
    let first = held.iter().find(|held| name(held)).or_else(|| held.first())?;
    let name = first.allocator.as_str();
    let here = held.iter().filter(|held| held.allocator == name);
    let most = here.filter_map(|held| Some((held, held.sites.first()?)));
    let (at, keeper) = most.max_by_key(|(_, keeper)| keeper.pages)?;
    let others: Vec<String> = held
        .iter()
        .filter(|other| other.moment == at.moment && other.allocator != name)
        .map(|other| {
            let pages = other.of(&keeper.site).map_or(0, |keeper| keeper.pages);
            format!("{} {}", human::bytes(pages), called(&other.allocator))
        })
        .collect();
    let beside = if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
    let Keeper { live, pages, .. } = keeper;
    let rest = format!(
        ": {} alive keep {} of pages {} ({}), {}{beside}.",
        human::bytes(*live),
        human::bytes(*pages),
        at.moment.in_words(),
        human::seconds(at.at_s),
        called(name),
    );
    Some(sentence(&["", &keeper.site, &rest]))
}

fn called(allocator: &str) -> String {
    match allocator {
        crate::malloc::NAME => "under Freehold's malloc, simulated".into(),
        name => format!("under {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::plain;
    use super::*;
    use crate::results::Moment;

    #[test]
    fn the_site_that_keeps_most_today_is_said_beside_what_it_keeps_elsewhere() {
        let keeper = |site: &str, pages: u64| Keeper { site: site.into(), live: 1 << 10, pages };
        let held = |allocator: &str, moment, sites| Held {
            allocator: allocator.into(),
            moment,
            at_s: 0.5,
            sites,
            ..Held::default()
        };
        let found = [
            held("jemalloc", Moment::Lowest, vec![keeper("b", 9 << 20), keeper("a", 1 << 20)]),
            held("glibc", Moment::Lowest, vec![keeper("a", 4 << 20)]),
            held("malloc", Moment::Lowest, vec![]),
            held("glibc", Moment::End, vec![keeper("b", 2 << 20)]),
        ];
        assert_eq!(
            plain(&said(&found, Some("glibc")).unwrap()),
            "a: 1.00 KiB alive keep 4.00 MiB of pages at the lowest point after the peak (500 ms), under glibc; \
             1.00 MiB under jemalloc, 0 B under Freehold's malloc, simulated."
        );
        assert_eq!(said(&[held("glibc", Moment::End, vec![])], None), None);
    }
}
