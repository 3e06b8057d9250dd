//! As much of pprof's format as the tests read: samples, their callers and their four values.

/// What was allocated at one place, and by whom.
pub struct Sample {
    /// Addresses within the calling instructions, innermost first.
    pub callers: Vec<u64>,
    /// Objects and bytes ever, objects and bytes in use.
    pub values: [i64; 4],
}

/// Every sample of a profile as Freehold writes it: a location's number is its address.
pub fn samples(bytes: &[u8]) -> impl Iterator<Item = Sample> {
    Fields(bytes).filter_map(|(field, value)| match value {
        Value::Bytes(sample) if field == 2 => Some(sample_of(sample)),
        _ => None,
    })
}

/// The sums of all samples' values.
pub fn sum(bytes: &[u8]) -> [i64; 4] {
    let mut sums = [0; 4];
    for sample in samples(bytes) {
        sums.iter_mut().zip(sample.values).for_each(|(sum, value)| *sum += value);
    }
    sums
}

fn sample_of(message: &[u8]) -> Sample {
    let numbers = |wanted| {
        Fields(message).filter_map(move |(field, value)| match value {
            Value::Number(number) if field == wanted => Some(number),
            _ => None,
        })
    };
    let mut values = [0; 4];
    values.iter_mut().zip(numbers(2)).for_each(|(place, value)| *place = value as i64);
    Sample { callers: numbers(1).collect(), values }
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message: their numbers and values.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                break;
            }
        }
        Some(value)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<(u64, Value<'a>)> {
        let key = self.varint()?;
        let number = self.varint()?;
        match key & 7 {
            0 => Some((key >> 3, Value::Number(number))),
            2 => {
                let (bytes, rest) = self.0.split_at_checked(number as usize)?;
                self.0 = rest;
                Some((key >> 3, Value::Bytes(bytes)))
            }
            wire => panic!("wire type {wire} is not written by us"),
        }
    }
}
