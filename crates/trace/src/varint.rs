//! Variable-length integers: LEB128, seven bits a byte, low bits first, at most ten bytes; signed
//! numbers are folded so that small magnitudes are short (zigzag).
//!
//! Invariant: `take` never reads past its buffer and refuses what does not fit 64 bits.

/// Bytes that [`take_short`] reads at once.
pub const WORD: usize = 8;

/// Appends `value`.
#[inline]
pub fn put(out: &mut Vec<u8>, value: u64) {
    match value {
        0..0x80 => out.push(value as u8),
        0x80..0x4000 => out.extend_from_slice(&[value as u8 | 0x80, (value >> 7) as u8]),
        _ => put_long(out, value),
    }
}

fn put_long(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads the number at `*at` and steps over it; `None` where it is cut off or exceeds 64 bits.
#[inline]
pub fn take(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 {
        return Some(first.into());
    }
    take_long(bytes, at, u64::from(first & 0x7f))
}

/// Two to eight bytes are read as one word: no branch depends on how many, which in a row of
/// object ids nobody can predict.
#[inline]
fn take_long(bytes: &[u8], at: &mut usize, low: u64) -> Option<u64> {
    let word = bytes.get(*at - 1..*at + 7).and_then(|word| word.try_into().ok());
    let word = word.map_or(u64::MAX, u64::from_le_bytes);
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return take_slow(bytes, at, low);
    }
    *at += (ends.trailing_zeros() / 8) as usize;
    // Up to the lowest end, that included.
    Some(squeeze(word & (ends ^ (ends - 1))))
}

/// As [`take`], of a number that ends before `end`, where at least eight bytes of anything follow
/// `end`: one read, and no look at what is behind it. `None` also where the number is longer than
/// eight bytes; [`take`] then says what it is.
#[inline(always)]
pub fn take_short(bytes: &[u8], at: usize, end: usize) -> Option<(u64, usize)> {
    let word = u64::from_le_bytes(bytes.get(at..at + WORD)?.try_into().ok()?);
    let (value, len) = if word & 0x80 == 0 {
        (word & 0x7f, 1)
    } else {
        let ends = !word & 0x8080_8080_8080_8080;
        if ends == 0 {
            return None;
        }
        (squeeze(word & (ends ^ (ends - 1))), (ends.trailing_zeros() / 8) as usize + 1)
    };
    (at + len <= end).then_some((value, at + len))
}

/// The low seven bits of every byte, next to each other.
#[inline]
fn squeeze(bytes: u64) -> u64 {
    let pairs = (bytes & 0x007f_007f_007f_007f) | ((bytes & 0x7f00_7f00_7f00_7f00) >> 1);
    let fours = (pairs & 0x0000_3fff_0000_3fff) | ((pairs & 0x3fff_0000_3fff_0000) >> 2);
    (fours & 0x0fff_ffff) | ((fours & 0x0fff_ffff_0000_0000) >> 4)
}

/// Nine and ten bytes, and the end of the buffer.
#[cold]
fn take_slow(bytes: &[u8], at: &mut usize, low: u64) -> Option<u64> {
    let mut value = low;
    for shift in (7..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Folds a signed number: 0, -1, 1, -2 … become 0, 1, 2, 3 …
#[inline]
pub fn fold(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`fold`].
#[inline]
pub fn unfold(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]).chain([u64::MAX]) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            let mut at = 0;
            assert_eq!(take(&bytes, &mut at), Some(value));
            assert_eq!(at, bytes.len());
            assert_eq!(take(&bytes[..bytes.len() - 1], &mut 0), None, "cut off");
            let len = bytes.len();
            bytes.extend([0xff; 9]);
            let short = (len <= WORD).then_some((value, len));
            assert_eq!(take_short(&bytes, 0, len), short);
            assert_eq!(take_short(&bytes, 0, len - 1), None, "cut off");
            let mut at = 0;
            assert_eq!(take(&bytes, &mut at), Some(value), "with more behind it");
            assert_eq!(at, len);
            assert_eq!(fold(unfold(value)), value);
        }
    }

    #[test]
    fn what_exceeds_64_bits_is_refused() {
        assert_eq!(take(&[0xff; 10], &mut 0), None);
        assert_eq!(take(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], &mut 0), None);
    }
}
