//! The first bytes of a file: magic, version, the [`Header`] as JSON.

use crate::block::u32_at;
use crate::error::OpenError;
use crate::header::Header;
use crate::{FORMAT_MAJOR, FORMAT_MINOR};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// First bytes of every trace. The high bit and the line end show transfers that mangle either.
const MAGIC: [u8; 8] = *b"\x8fFhTrc\r\n";
/// Magic, major, minor, length of the JSON, CRC-32 of version, length and JSON.
const FIXED_LEN: usize = 20;
/// Most bytes of JSON: a command line is at most 2 MiB on Linux, and doubles when escaped.
const MAX_JSON: u32 = 16 << 20;

/// Whether a file that begins with these bytes wants to be a trace.
pub fn is_trace(first: &[u8]) -> bool {
    first.starts_with(&MAGIC)
}

/// The stored form.
pub(crate) fn encode(header: &Header) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(header)?;
    let mut out = Vec::with_capacity(FIXED_LEN + json.len());
    out.extend(MAGIC);
    out.extend(FORMAT_MAJOR.to_le_bytes());
    out.extend(FORMAT_MINOR.to_le_bytes());
    out.extend((json.len() as u32).to_le_bytes());
    let crc = checksum(&out[8..16], &json);
    out.extend(crc.to_le_bytes());
    out.extend(json);
    Ok(out)
}

/// Reads the header and the offset of the first block.
pub(crate) fn read(file: &File, path: &Path, len: u64) -> Result<(Header, u64), OpenError> {
    let io_error = |source| OpenError::Io { path: path.to_owned(), source };
    let damaged = |reason: &str| OpenError::Header { path: path.to_owned(), reason: reason.into() };
    if len == 0 {
        return Err(OpenError::Empty { path: path.to_owned() });
    }
    let mut fixed = [0; FIXED_LEN];
    let have = len.min(FIXED_LEN as u64) as usize;
    file.read_exact_at(&mut fixed[..have], 0).map_err(io_error)?;
    let compared = have.min(MAGIC.len());
    if fixed[..compared] != MAGIC[..compared] {
        let found = fixed[..compared].escape_ascii().to_string();
        return Err(OpenError::NotATrace { path: path.to_owned(), found });
    }
    if have < FIXED_LEN {
        return Err(damaged("the file ends within it"));
    }
    let major = u16::from_le_bytes([fixed[8], fixed[9]]);
    if major > FORMAT_MAJOR {
        let minor = u16::from_le_bytes([fixed[10], fixed[11]]);
        return Err(OpenError::Newer { path: path.to_owned(), major, minor });
    }
    let json_len = u32_at(&fixed, 12);
    let end = FIXED_LEN as u64 + u64::from(json_len);
    if json_len > MAX_JSON || end > len {
        return Err(damaged("the file ends within it"));
    }
    let mut json = vec![0; json_len as usize];
    file.read_exact_at(&mut json, FIXED_LEN as u64).map_err(io_error)?;
    if checksum(&fixed[8..16], &json) != u32_at(&fixed, 16) {
        return Err(damaged("its checksum is wrong"));
    }
    let header: Header =
        serde_json::from_slice(&json).map_err(|error| damaged(&error.to_string()))?;
    if header.ticks_per_second == 0 {
        return Err(damaged("it says that a second has no ticks"));
    }
    Ok((header, end))
}

fn checksum(fixed: &[u8], json: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(fixed);
    crc.update(json);
    crc.finalize()
}
