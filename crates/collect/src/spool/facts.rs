//! Facts in a spool that are no events: lists of words and strings.
//!
//! Invariant: a reader takes what it asks for in the order in which it was put; a fact that is cut
//! short is no fact.

/// A fact being written.
#[derive(Default)]
pub struct FactWriter(Vec<u8>);

impl FactWriter {
    /// Adds a number.
    pub fn number(mut self, number: u64) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    /// Adds a string.
    pub fn text(self, text: &str) -> Self {
        let mut next = self.number(text.len() as u64);
        next.0.extend(text.as_bytes());
        next
    }

    /// Adds a list of strings.
    pub fn texts(self, texts: &[String]) -> Self {
        let begun = self.number(texts.len() as u64);
        texts.iter().fold(begun, |fact, text| fact.text(text))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A fact being read.
pub struct FactReader<'a>(pub &'a [u8]);

impl FactReader<'_> {
    /// The next number.
    pub fn number(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    /// The next string.
    pub fn text(&mut self) -> Option<String> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// The next list of strings.
    pub fn texts(&mut self) -> Option<Vec<String>> {
        let count = self.number()?;
        (0..count).map(|_| self.text()).collect()
    }
}
