//! Tables of this process, and tables that change while they are read.

use super::*;
use crate::malloc::census::Direct;
use core::cell::Cell;

fn site(frames: &[usize], freed: f64) -> Site {
    let mut all = [0; DEPTH];
    all[..frames.len()].copy_from_slice(frames);
    let mut ages = [Amount::default(); AGES.len()];
    ages[0] = Amount { blocks: freed, bytes: freed * 10.0 };
    Site {
        hash: 0,
        frames: all,
        len: frames.len(),
        freed: ages,
        in_use: [Amount::default(); AGES.len()],
        forgotten: Amount::default(),
    }
}

fn at(page: &Page) -> usize {
    (&raw const *page).expose_provenance()
}

#[test]
fn what_the_tables_hold_is_read_row_by_row() {
    let sites: [Site; 70] = core::array::from_fn(|i| site(&[i + 1], i as f64));
    let mut live = [Live::default(); 100];
    live[99] = Live { address: 0x40, size: 8, site: 69, weight: 3.0, born: 5 };
    let page = Page::new();
    // SAFETY: only what lives here is read.
    let peek = unsafe { Direct::new() };
    assert_eq!(Tables::find(&peek, at(&page)).err(), Some(Unreadable::Off));
    page.publish(sites.as_ptr(), &live, 1000);
    page.begin();
    page.end(70, 2);
    let tables = Tables::find(&peek, at(&page)).unwrap();
    assert_eq!(tables.rate_and_lost(), (1000, 2));
    let (mut found, mut rows) = ([Live::default(); 100], [sites[0]; 70]);
    let (mut i, mut j) = (0, 0);
    let each = |live: &Live| {
        found[i] = *live;
        i += 1;
    };
    let every = |site: &Site| {
        rows[j] = *site;
        j += 1;
    };
    tables.visit(each, every).unwrap();
    assert_eq!((i, j), (100, 70));
    assert!(rows.iter().zip(1..).all(|(site, frame)| site.frames() == [frame]));
    take_stock(&mut rows, found.iter(), 1_000_005);
    assert_eq!(rows[69].in_use.map(|amount| amount.blocks), [0.0, 3.0, 0.0, 0.0, 0.0]);
    assert_eq!(rows[69].in_use[1].bytes, 24.0);
}

/// Memory that a writer changes between two readings, so many times.
struct Changing<'a> {
    page: &'a Page,
    times: Cell<u32>,
    direct: Direct,
}

impl Peek for Changing<'_> {
    fn peek(&self, address: usize, into: &mut [u8]) -> bool {
        if into.len() > size_of::<Page>() && self.times.get() > 0 {
            self.times.set(self.times.get() - 1);
            self.page.begin();
            self.page.end(1, 0);
        }
        self.direct.peek(address, into)
    }
}

#[test]
fn a_piece_that_changes_is_read_again_and_never_for_ever() {
    let sites = [site(&[7], 1.0)];
    let live = [Live::default(); 8];
    let page = Page::new();
    page.publish(sites.as_ptr(), &live, 1000);
    page.end(1, 0);
    let visited = |times| {
        // SAFETY: only what lives here is read.
        let direct = unsafe { Direct::new() };
        let peek = Changing { page: &page, times: Cell::new(times), direct };
        let mut many = 0;
        let tables = Tables::find(&peek, at(&page)).unwrap();
        tables.visit(|_| {}, |_| many += 1).map(|()| many)
    };
    assert_eq!(visited(3), Ok(1));
    assert_eq!(visited(u32::MAX), Err(Unreadable::Busy));
    // While somebody is in the middle of a change, too.
    page.begin();
    assert_eq!(visited(0), Err(Unreadable::Busy));
}

#[test]
fn tables_of_another_version_are_not_read() {
    let page = Page { version: 9, ..Page::new() };
    // SAFETY: only what lives here is read.
    let peek = unsafe { Direct::new() };
    assert_eq!(Tables::find(&peek, at(&page)).err(), Some(Unreadable::OtherVersion));
}
