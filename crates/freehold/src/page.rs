//! The page on which other processes find what this one holds.

use freehold_core::stats::page::Page;

/// Where other processes find what this one holds (`freehold top`).
pub(crate) static PAGE: Page = Page::new();
