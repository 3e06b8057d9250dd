//! A study's settings: a complete default, and what a user's file or `--set` lays over it.
//!
//! The default is itself a TOML file and names every key there is. So it is the schema, too: a key
//! that it does not have is a mistake, answered with the nearest names, and a value must be of the
//! kind that stands there. Two courtesies: where a list stands, one value will do for a list of
//! one; and where text stands (`"16M"`), a whole number will do.

use toml::{Table, Value};

/// How many near names an error offers.
const OFFERED: usize = 3;

/// Settings that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingsError {
    /// Not TOML at all.
    #[error("{what} is not TOML: {why}")]
    Syntax {
        /// The file, or the `--set`.
        what: String,
        /// What the parser says.
        why: String,
    },
    /// A key that there is not.
    #[error("there is no setting {key}: {offer}")]
    Unknown {
        /// The key.
        key: String,
        /// The nearest names, or all, as a clause.
        offer: String,
    },
    /// A value of another kind.
    #[error("{key} wants {wants}, not {found}")]
    Kind {
        /// The key.
        key: String,
        /// What it wants.
        wants: String,
        /// What stands there.
        found: String,
    },
    /// A value that makes no sense.
    #[error("{key}: {why}")]
    Value {
        /// The key.
        key: String,
        /// Why, and what would.
        why: String,
    },
}

impl SettingsError {
    /// The value of `key` makes no sense.
    pub fn value(key: &str, why: impl std::fmt::Display) -> Self {
        SettingsError::Value { key: key.to_owned(), why: why.to_string() }
    }
}

/// A complete set of settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings(Table);

impl Settings {
    /// The default, which must be TOML (it is part of the program).
    ///
    /// # Errors
    /// When it is not.
    pub fn of_default(text: &str) -> Result<Settings, SettingsError> {
        Ok(Settings(parse("the default", text)?))
    }

    /// Lays the file `text`, called `name`, over these.
    ///
    /// # Errors
    /// When it is not TOML, names unknown keys, or gives values of the wrong kind.
    pub fn lay_over(&mut self, name: &str, text: &str) -> Result<(), SettingsError> {
        let over = parse(name, text)?;
        let every = names(&self.0, "");
        merge(&mut self.0, over, "", &every)
    }

    /// Lays one `key=value` over these. The value is TOML, or else text.
    ///
    /// # Errors
    /// As [`lay_over`](Self::lay_over), or without a `=`.
    pub fn set(&mut self, assignment: &str) -> Result<(), SettingsError> {
        let Some((key, value)) = assignment.split_once('=') else {
            let why = "key=value is wanted, such as machine.nodes=8".to_owned();
            return Err(SettingsError::Syntax { what: format!("--set {assignment}"), why });
        };
        let (key, value) = (key.trim(), value.trim());
        let value = format!("v = {value}")
            .parse::<Table>()
            .ok()
            .and_then(|mut t| t.remove("v"))
            .unwrap_or_else(|| Value::String(value.to_owned()));
        let mut over = Table::new();
        let parts: Vec<&str> = key.split('.').collect();
        nest(&mut over, &parts, value);
        let every = names(&self.0, "");
        merge(&mut self.0, over, "", &every)
    }

    /// Reads them into a type of one's own.
    ///
    /// # Errors
    /// When a value cannot be what the type wants.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, SettingsError> {
        let why = |error: toml::de::Error| {
            // The key stands only in the text: "…\nin `sizes.to`".
            let text = error.to_string();
            let key = text.rsplit_once("in `").map_or("a setting", |(_, key)| key.trim_end());
            SettingsError::value(key.trim_end_matches('`'), error.message())
        };
        self.0.clone().try_into().map_err(why)
    }

    /// As JSON, for results.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(&self.0).unwrap_or_default()
    }
}

fn parse(what: &str, text: &str) -> Result<Table, SettingsError> {
    text.parse::<Table>().map_err(|error| SettingsError::Syntax {
        what: what.to_owned(),
        why: error.to_string().trim_end().to_owned(),
    })
}

fn nest(table: &mut Table, parts: &[&str], value: Value) {
    match parts {
        [] => {}
        [last] => drop(table.insert((*last).to_owned(), value)),
        [first, rest @ ..] => {
            let mut inner = Table::new();
            nest(&mut inner, rest, value);
            table.insert((*first).to_owned(), Value::Table(inner));
        }
    }
}

/// Every key of the table, dotted.
fn names(table: &Table, before: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (key, value) in table {
        let name = dotted(before, key);
        match value {
            Value::Table(inner) => all.extend(names(inner, &name)),
            _ => all.push(name),
        }
    }
    all
}

fn dotted(before: &str, key: &str) -> String {
    if before.is_empty() { key.to_owned() } else { format!("{before}.{key}") }
}

fn merge(
    base: &mut Table,
    over: Table,
    before: &str,
    every: &[String],
) -> Result<(), SettingsError> {
    for (key, value) in over {
        let name = dotted(before, &key);
        let Some(old) = base.get_mut(&key) else {
            let offer = offer(&name, every);
            return Err(SettingsError::Unknown { key: name, offer });
        };
        match (old, value) {
            (Value::Table(old), Value::Table(new)) => merge(old, new, &name, every)?,
            (old, new) => *old = fitted(&name, old, new)?,
        }
    }
    Ok(())
}

/// `new` as the kind that `old` is.
fn fitted(name: &str, old: &Value, new: Value) -> Result<Value, SettingsError> {
    match (old, new) {
        (Value::Array(old), Value::Array(new)) => {
            let like = old.first();
            let fit = |new| like.map_or(Ok(Value::Integer(0)), |like| fitted(name, like, new));
            new.into_iter().map(fit).collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        (Value::Array(_), new @ (Value::String(_) | Value::Integer(_))) => {
            fitted(name, old, Value::Array(vec![new]))
        }
        (Value::String(_), Value::Integer(new)) => Ok(Value::String(new.to_string())),
        (Value::Integer(_), Value::String(new)) if bytes(&new).is_some() => {
            Ok(Value::Integer(bytes(&new).unwrap_or(0)))
        }
        (old, new) if old.same_type(&new) => Ok(new),
        (old, new) => {
            let wants = wanted(old);
            Err(SettingsError::Kind { key: name.to_owned(), wants, found: new.to_string() })
        }
    }
}

/// `64K` and the like, where a number of bytes stands as a number.
fn bytes(text: &str) -> Option<i64> {
    i64::try_from(crate::human::parse_bytes(text)?).ok()
}

fn wanted(old: &Value) -> String {
    match old {
        Value::Integer(example) => format!("a whole number such as {example}"),
        Value::String(example) => format!("text such as {example:?}"),
        Value::Array(_) => format!("a list such as {old}"),
        Value::Table(inner) => {
            let keys: Vec<&str> = inner.keys().map(String::as_str).collect();
            format!("a table of {}", keys.join(", "))
        }
        other => format!("something like {other}"),
    }
}

fn offer(name: &str, every: &[String]) -> String {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let score = |other: &String| {
        let whole = strsim::jaro_winkler(name, other);
        let ends = strsim::jaro_winkler(&last(name), &last(other));
        whole.max(ends)
    };
    let mut near: Vec<(f64, &String)> = every.iter().map(|other| (score(other), other)).collect();
    near.retain(|one| one.0 > 0.8);
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let near: Vec<&str> = near.into_iter().take(OFFERED).map(|one| one.1.as_str()).collect();
    match near.as_slice() {
        [] => format!("there are {}", every.join(", ")),
        [one] => format!("did you mean {one}?"),
        [most @ .., last] => format!("did you mean {} or {last}?", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let text = "seed = 1\nsizes = [1, 2]\n[machine]\nnodes = 4\ncapacity = [\"16M\"]\n";
        Settings::of_default(text).unwrap()
    }

    fn said(text: &str) -> String {
        settings().lay_over("mine.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_named_is_changed_and_nothing_else() {
        let mut changed = settings();
        changed.lay_over("mine.toml", "[machine]\nnodes = 8").unwrap();
        changed.set("machine.capacity=8M").unwrap();
        changed.set("sizes = [7]").unwrap();
        let json = changed.to_json();
        assert_eq!(json["machine"]["nodes"], 8);
        assert_eq!(json["machine"]["capacity"][0], "8M");
        assert_eq!(json["sizes"], serde_json::json!([7]));
        assert_eq!(json["seed"], 1);
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_nearest() {
        assert_eq!(said("sed = 2"), "there is no setting sed: did you mean seed?");
        assert!(said("[machine]\nnods = 2").contains("did you mean machine.nodes"));
        assert!(said("nodes = 2").contains("did you mean machine.nodes"));
        assert!(said("zzz = 2").contains("there are "), "{}", said("zzz = 2"));
    }

    #[test]
    fn a_value_of_another_kind_is_refused() {
        assert_eq!(said("seed = \"x\""), "seed wants a whole number such as 1, not \"x\"");
        assert!(said("machine = 3").starts_with("machine wants a table of capacity, nodes"));
        assert!(said("seed = ").starts_with("mine.toml is not TOML"));
        assert!(settings().set("seed").unwrap_err().to_string().contains("key=value is wanted"));
        assert!(settings().set("=3").is_err());
    }
}
