//! Variable-length integers: LEB128, seven bits a byte, low bits first, at most ten bytes; signed
//! numbers are folded so that small magnitudes are short (zigzag).
//!
//! Invariant: `take` never reads past its buffer and refuses what does not fit 64 bits.

/// Appends `value`.
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
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

fn take_long(bytes: &[u8], at: &mut usize, low: u64) -> Option<u64> {
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
            assert_eq!(fold(unfold(value)), value);
        }
    }

    #[test]
    fn what_exceeds_64_bits_is_refused() {
        assert_eq!(take(&[0xff; 10], &mut 0), None);
        assert_eq!(take(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], &mut 0), None);
    }
}
