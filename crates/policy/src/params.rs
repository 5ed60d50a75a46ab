//! Parameters as text: one table entry for each, next to the typed struct that holds it.
//!
//! An entry gives a name, a meaning, and the way to the field. The field's type knows how to be read and written
//! ([`Value`]), and the struct's `Default` holds the default; so nothing about a parameter is said twice, and what is
//! printed can always be read back. No macro: an accessor that yields `&mut dyn Value` serves reading and printing.

use cavalcade_model::{Bytes, Discipline, Excess, Nanos, Scope};

/// One parameter of `P`.
pub(crate) struct Parameter<P: 'static> {
    /// Its name in specifications.
    pub(crate) name: &'static str,
    /// What it does, in one line, with its unit where that is not plain.
    pub(crate) meaning: &'static str,
    /// Where it is kept.
    pub(crate) field: fn(&mut P) -> &mut dyn Value,
}

/// A type that a parameter can have. `write` gives what `read` takes; neither uses `,` or `=`.
pub(crate) trait Value {
    /// Takes the value from `text`; false, and unchanged, where it cannot.
    fn read(&mut self, text: &str) -> bool;
    /// The value as text.
    fn write(&self) -> String;
    /// What is accepted.
    fn expected(&self) -> &'static str;
}

fn assign<T>(place: &mut T, value: Option<T>) -> bool {
    value.map(|value| *place = value).is_some()
}

macro_rules! plain_values {
    ($($kind:ty, $expected:literal;)*) => {$(
        impl Value for $kind {
            fn read(&mut self, text: &str) -> bool {
                assign(self, text.parse().ok())
            }
            fn write(&self) -> String {
                self.to_string()
            }
            fn expected(&self) -> &'static str {
                $expected
            }
        }

        impl Value for Option<$kind> {
            fn read(&mut self, text: &str) -> bool {
                assign(self, if text == "none" { Some(None) } else { text.parse().ok().map(Some) })
            }
            fn write(&self) -> String {
                self.map_or_else(|| "none".to_owned(), |value| value.to_string())
            }
            fn expected(&self) -> &'static str {
                concat!($expected, ", or none")
            }
        }
    )*};
}

plain_values! {
    bool, "true or false";
    u32, "a whole number";
    Bytes, "a size such as 10MB (B, KB, MB, GB, TB, KiB, MiB, GiB, TiB)";
    Nanos, "a time such as 10ms (ns, us, ms, s, min, h)";
}

/// Reads one of a few words.
pub(crate) fn read_choice<T: Copy>(place: &mut T, text: &str, choices: &[(&str, T)]) -> bool {
    assign(place, choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value))
}

/// The word for one of a few values.
pub(crate) fn write_choice<T: PartialEq>(value: &T, choices: &[(&str, T)]) -> String {
    let word = choices.iter().find(|(_, choice)| choice == value).map(|(word, _)| *word);
    word.expect("every value that can be set has a word").to_owned()
}

const DISCIPLINES: &[(&str, Discipline)] =
    &[("greedy", Discipline::Greedy), ("madd", Discipline::Madd), ("maxmin", Discipline::MaxMin)];

impl Value for Discipline {
    fn read(&mut self, text: &str) -> bool {
        read_choice(self, text, DISCIPLINES)
    }
    fn write(&self) -> String {
        write_choice(self, DISCIPLINES)
    }
    fn expected(&self) -> &'static str {
        "greedy, madd or maxmin"
    }
}

const EXCESSES: &[(&str, Excess)] = &[("weighted", Excess::Weighted), ("highest", Excess::Highest)];

impl Value for Excess {
    fn read(&mut self, text: &str) -> bool {
        read_choice(self, text, EXCESSES)
    }
    fn write(&self) -> String {
        write_choice(self, EXCESSES)
    }
    fn expected(&self) -> &'static str {
        "weighted or highest"
    }
}

const STANDS: &[(&str, Scope)] = &[("sender", Scope::Host), ("link", Scope::Link)];

/// Where a policy without coordination stands.
impl Value for Scope {
    fn read(&mut self, text: &str) -> bool {
        read_choice(self, text, STANDS)
    }
    fn write(&self) -> String {
        write_choice(self, STANDS)
    }
    fn expected(&self) -> &'static str {
        "sender or link"
    }
}

/// Amounts that rise, written `10MB/100MB/1GB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ascending(pub(crate) Vec<Bytes>);

impl Ascending {
    /// At most this many, so that each level still is a class.
    const MOST: usize = 1000;

    /// From text; `None` where an amount is no amount, zero, or not above the one before.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let amounts = text.split('/').map(|part| part.parse().ok()).collect::<Option<Vec<Bytes>>>()?;
        let rising = amounts[0] > Bytes::ZERO && amounts.is_sorted_by(|a, b| a < b);
        (rising && amounts.len() <= Self::MOST).then_some(Self(amounts))
    }
}

impl Value for Ascending {
    fn read(&mut self, text: &str) -> bool {
        assign(self, Self::parse(text))
    }
    fn write(&self) -> String {
        self.0.iter().map(Bytes::to_string).collect::<Vec<_>>().join("/")
    }
    fn expected(&self) -> &'static str {
        "rising sizes such as 10MB/100MB/1GB"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_cannot_be_read_is_left_as_it_was() {
        let mut size = Bytes(5);
        assert!(!size.read("ten"));
        assert_eq!(size, Bytes(5));
        let mut maybe = Some(7u32);
        assert!(maybe.read("none"));
        assert_eq!(maybe.write(), "none");
    }

    #[test]
    fn amounts_must_rise_from_above_zero() {
        let read = |text: &str| Ascending(vec![]).read(text);
        assert!(read("1KB/1MB"));
        assert!(!read("1MB/1KB"));
        assert!(!read("1MB/1MB"));
        assert!(!read("0B/1MB"));
        assert!(!read(""));
        assert!(!read("1MB/"));
    }
}
