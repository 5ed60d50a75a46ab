//! Types that a parameter can have, as text.

use cavalcade_units::{BitsPerSec, Bytes, Nanos};

/// A type that a parameter can have. `write` gives what `read` takes; neither uses `,`, `;` or `=`.
pub trait Value {
    /// Takes the value from `text`; false, and unchanged, if it cannot.
    fn read(&mut self, text: &str) -> bool;
    /// Prints the value.
    fn write(&self) -> String;
    /// Describes the accepted text.
    fn expected(&self) -> String;
}

/// Sets `place` if there is a value.
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
            fn expected(&self) -> String {
                $expected.to_owned()
            }
        }

        impl Value for Option<$kind> {
            fn read(&mut self, text: &str) -> bool {
                assign(self, if text.eq_ignore_ascii_case("none") { Some(None) } else { text.parse().ok().map(Some) })
            }
            fn write(&self) -> String {
                self.map_or_else(|| "none".to_owned(), |value| value.to_string())
            }
            fn expected(&self) -> String {
                concat!($expected, ", or none").to_owned()
            }
        }
    )*};
}

plain_values! {
    bool, "true or false";
    Bytes, "a size such as 10MB (B, KB, MB, GB, TB, KiB, MiB, GiB, TiB)";
    BitsPerSec, "a rate such as 1Gbps (bps, Kbps, Mbps, Gbps, Tbps)";
    Nanos, "a time such as 10ms (ns, us, ms, s, min, h)";
}

/// A whole number in plain digits: a sign would be accepted by `parse` and not printed again.
fn whole(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

impl Value for u32 {
    fn read(&mut self, text: &str) -> bool {
        assign(self, whole(text))
    }
    fn write(&self) -> String {
        self.to_string()
    }
    fn expected(&self) -> String {
        format!("a whole number up to {}", Self::MAX)
    }
}

impl Value for Option<u32> {
    fn read(&mut self, text: &str) -> bool {
        assign(self, if text.eq_ignore_ascii_case("none") { Some(None) } else { whole(text).map(Some) })
    }
    fn write(&self) -> String {
        self.map_or_else(|| "none".to_owned(), |value| value.to_string())
    }
    fn expected(&self) -> String {
        format!("a whole number up to {}, or none", u32::MAX)
    }
}

impl Value for f64 {
    fn read(&mut self, text: &str) -> bool {
        assign(self, text.parse().ok().filter(|number: &f64| number.is_finite()))
    }
    fn write(&self) -> String {
        self.to_string()
    }
    fn expected(&self) -> String {
        "a number such as 0.8".to_owned()
    }
}

/// A type with few values, each of which has a word.
pub trait Choice: Copy + PartialEq + 'static {
    /// The word for each value.
    const WORDS: &'static [(&'static str, Self)];

    /// Returns its word.
    fn word(self) -> &'static str {
        let word = Self::WORDS.iter().find(|(_, value)| *value == self).map(|(word, _)| *word);
        word.expect("every value has a word")
    }
}

impl<T: Choice> Value for T {
    fn read(&mut self, text: &str) -> bool {
        let found = T::WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
        assign(self, found.map(|(_, value)| *value))
    }
    fn write(&self) -> String {
        self.word().to_owned()
    }
    fn expected(&self) -> String {
        let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
        match words.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }
}

/// Amounts that rise, written `10MB/100MB/1GB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ascending(pub Vec<Bytes>);

impl Ascending {
    /// The most amounts, so that each level still is a class.
    const MOST: usize = 1000;

    /// Reads rising amounts above zero.
    pub fn parse(text: &str) -> Option<Self> {
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
    fn expected(&self) -> String {
        "rising sizes such as 10MB/100MB/1GB".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_cannot_be_read_is_left_unchanged() {
        let mut size = Bytes(5);
        assert!(!size.read("ten"));
        assert_eq!(size, Bytes(5));
        let mut maybe = Some(7u32);
        assert!(maybe.read("none"));
        assert_eq!(maybe.write(), "none");
        let mut number = 3u32;
        assert!(!number.read("+4") && !number.read("") && !number.read("4294967296"));
        assert!(!1.5f64.read("inf"));
        assert_eq!(number, 3);
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

    #[test]
    fn a_choice_lists_its_words_and_ignores_case() {
        #[derive(Clone, Copy, PartialEq, Debug)]
        enum Side {
            Left,
            Right,
        }
        impl Choice for Side {
            const WORDS: &'static [(&'static str, Self)] = &[("left", Side::Left), ("right", Side::Right)];
        }
        let mut side = Side::Left;
        assert_eq!(side.expected(), "left or right");
        assert!(side.read("RIGHT") && !side.read("up"));
        assert_eq!((side, side.write()), (Side::Right, "right".to_owned()));
    }
}
