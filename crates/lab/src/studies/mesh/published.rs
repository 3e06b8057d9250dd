//! What the letter prints, as data.

use std::sync::LazyLock;

const TABLE: &str = include_str!("../../../../../studies/published/mesh.csv");

/// A printed figure.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Published {
    /// What of.
    pub key: String,
    /// As printed.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// The words around it.
    pub quote: String,
}

/// All of them.
pub static PUBLISHED: LazyLock<Vec<Published>> = LazyLock::new(|| {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.filter_map(read).collect()
});

fn read(line: &str) -> Option<Published> {
    let mut fields = line.splitn(4, ',');
    let (key, value, unit, quote) =
        (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    Some(Published {
        key: key.to_owned(),
        value: value.parse().ok()?,
        unit: unit.to_owned(),
        quote: quote.trim_matches('"').to_owned(),
    })
}

/// The figure of that name.
pub fn published(key: &str) -> Option<&'static Published> {
    PUBLISHED.iter().find(|figure| figure.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        assert_eq!(PUBLISHED.len(), 12);
        assert_eq!(published("growth_microcoded").unwrap().value, 1.29);
        assert_eq!(published("share_fast").unwrap().unit, "percent");
    }
}
