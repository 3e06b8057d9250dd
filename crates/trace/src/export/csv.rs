//! Comma-separated values (RFC 4180), a header line, empty for "none". Sites alone, which have names of other programs, may need quotes.

use super::row::{COLUMNS, Called, Row, SiteOf, called};
use super::{Control, ExportError};
use crate::header::Header;
use crate::records::Records;
use std::borrow::Cow;
use std::io::{self, Write};

/// Writes all events that `records` gives; `expected` is for progress. Returns their number.
///
/// # Errors
/// When reading or writing fails, or the caller stops it.
pub fn csv(
    header: &Header,
    records: &mut Records,
    expected: u64,
    site_of: SiteOf<'_>,
    out: &mut dyn Write,
    control: &mut Control<'_>,
) -> Result<u64, ExportError> {
    writeln!(out, "{},site", COLUMNS.join(","))?;
    let mut written = 0;
    while let Some(run) = records.next_run()? {
        for (timed, called) in run.events.iter().zip(called(&run)) {
            write_row(out, &called, header.seconds(timed.tick), called.site(site_of))?;
            written += 1;
            if !control.goes_on(written, expected) {
                return Err(ExportError::Interrupted);
            }
        }
    }
    out.flush()?;
    Ok(written)
}

fn write_row(
    out: &mut dyn Write,
    called: &Called,
    seconds: f64,
    site: Option<&str>,
) -> io::Result<()> {
    let row = &called.row;
    let Row { tick, process, thread, event, .. } = row;
    write!(out, "{tick},{seconds:.9},{process},{thread},{event},")?;
    field(out, row.object)?;
    write!(out, "{},", row.api.unwrap_or(""))?;
    for number in [row.size, row.usable, row.align] {
        field(out, number)?;
    }
    field(out, row.remote.map(u8::from))?;
    field(out, row.began)?;
    field(out, row.offset)?;
    field(out, row.child)?;
    writeln!(out, "{}", site.map_or(Cow::Borrowed(""), quoted))
}

/// In quotes where it must be, each quote within doubled.
fn quoted(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        false => text.into(),
    }
}

fn field(out: &mut dyn Write, value: Option<impl std::fmt::Display>) -> io::Result<()> {
    match value {
        Some(value) => write!(out, "{value},"),
        None => write!(out, ","),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn sites_are_quoted_where_they_need_it() {
        assert_eq!(quoted("main (a.c:1)"), "main (a.c:1)");
        assert_eq!(quoted("f<int, 3> (a.cc:1)"), "\"f<int, 3> (a.cc:1)\"");
        assert_eq!(quoted("operator\"\"_x\n"), "\"operator\"\"\"\"_x\n\"");
    }
}
