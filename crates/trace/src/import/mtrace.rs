//! glibc's mtrace: a line a call, `@ caller + 0xADDRESS 0xSIZE` and the like; the caller may be
//! missing. A reallocation is two lines, `< 0xOLD` and `> 0xNEW 0xSIZE`.

use super::Format;
use super::scribe::Scribe;
use crate::event::Request;

#[derive(Default)]
pub(super) struct Reader {
    /// The `<` whose `>` is to come.
    moving: Option<u64>,
}

impl Format for Reader {
    fn line(&mut self, line: &str, scribe: &mut Scribe) -> Result<bool, String> {
        if line.starts_with("= ") || line.is_empty() {
            return Ok(false);
        }
        let mut fields = call(line).ok_or("no call in it")?;
        let sign = fields.next().unwrap_or_default();
        let address = number(fields.next())?;
        let size = if matches!(sign, "+" | ">" | "!") { number(fields.next())? } else { 0 };
        let request = Request { size, ..Request::default() };
        // A free that stands between the halves would mean that a line is missing.
        let from = self.moving.take();
        if sign != ">"
            && let Some(from) = from
        {
            scribe.free(from);
        }
        match (sign, from) {
            ("+", _) => scribe.alloc(address, request),
            ("-", _) => scribe.free(address),
            ("<", _) => self.moving = Some(address),
            (">", Some(from)) => scribe.realloc(from, address, size),
            (">", None) => return Err("`>` without a `<` before it".into()),
            ("!", _) => scribe.failed(request),
            _ => return Err(format!("unknown call {sign:?}")),
        }
        Ok(true)
    }
}

/// The fields from the call's sign on. The caller before it may hold spaces.
fn call(line: &str) -> Option<impl Iterator<Item = &str>> {
    let signs = ["+", "-", "<", ">", "!"];
    let mut starts = line.char_indices().filter(|(at, _)| {
        let rest = &line[*at..];
        let begins = *at == 0 || line[..*at].ends_with(' ');
        begins
            && signs
                .iter()
                .any(|sign| rest.strip_prefix(sign).is_some_and(|r| r.starts_with(" 0x")))
    });
    let at = starts.next()?.0;
    Some(line[at..].split_ascii_whitespace())
}

fn number(field: Option<&str>) -> Result<u64, String> {
    let field = field.ok_or("it ends early")?;
    // glibc prints a null pointer as (nil).
    if field == "(nil)" {
        return Ok(0);
    }
    let digits = field.strip_prefix("0x").unwrap_or(field);
    u64::from_str_radix(digits, 16).map_err(|_| format!("{} is no number", field.escape_debug()))
}
