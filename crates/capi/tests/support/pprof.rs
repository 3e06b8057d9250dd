//! As much of pprof's format as the tests read: samples, their callers, values and labels, and the files of code.

/// What was allocated at one place, and by whom.
pub struct Sample {
    /// Addresses within the calling instructions, innermost first.
    pub callers: Vec<u64>,
    /// Objects and bytes ever, objects and bytes in use.
    pub values: [i64; 4],
    /// A name and a text.
    pub label: Option<(String, String)>,
}

/// A file of code in memory.
pub struct Mapping {
    pub file: String,
    pub build_id: String,
}

/// Every sample of a profile as Freehold writes it: a location's number is its address.
pub fn samples(bytes: &[u8]) -> impl Iterator<Item = Sample> {
    let strings = strings(bytes);
    messages(bytes, 2).map(move |sample| sample_of(sample, &strings))
}

/// The files of code.
pub fn mappings(bytes: &[u8]) -> Vec<Mapping> {
    let strings = strings(bytes);
    let text = |mapping, field| {
        let number = numbers(mapping, field).next().unwrap_or(0);
        strings[number as usize].clone()
    };
    let all = messages(bytes, 3);
    all.map(|mapping| Mapping { file: text(mapping, 5), build_id: text(mapping, 6) }).collect()
}

/// The sums of all samples' values.
pub fn sum(bytes: &[u8]) -> [i64; 4] {
    let mut sums = [0; 4];
    for sample in samples(bytes) {
        sums.iter_mut().zip(sample.values).for_each(|(sum, value)| *sum += value);
    }
    sums
}

fn strings(bytes: &[u8]) -> Vec<String> {
    messages(bytes, 6).map(|text| String::from_utf8_lossy(text).into_owned()).collect()
}

fn sample_of(message: &[u8], strings: &[String]) -> Sample {
    let mut values = [0; 4];
    values.iter_mut().zip(numbers(message, 2)).for_each(|(place, value)| *place = value as i64);
    let label = messages(message, 3).next().map(|label| {
        let text = |field| {
            let number = numbers(label, field).next().expect("a name and a text");
            strings[number as usize].clone()
        };
        (text(1), text(2))
    });
    Sample { callers: numbers(message, 1).collect(), values, label }
}

/// The fields of a number that are numbers.
fn numbers(message: &[u8], wanted: u64) -> impl Iterator<Item = u64> {
    Fields(message).filter_map(move |(field, value)| match value {
        Value::Number(number) if field == wanted => Some(number),
        _ => None,
    })
}

/// The fields of a number that are messages or strings.
fn messages(message: &[u8], wanted: u64) -> impl Iterator<Item = &[u8]> {
    Fields(message).filter_map(move |(field, value)| match value {
        Value::Bytes(bytes) if field == wanted => Some(bytes),
        _ => None,
    })
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
