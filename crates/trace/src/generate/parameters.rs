//! Parameters of generators: declared once, with meaning and default, and from that set, listed and printed by name.

use core::fmt;
use core::str::FromStr;

use cavalcade_model::{BitsPerSec, Bytes, Nanos};

/// A parameter for people to read about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// The name by which it is set.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// Its value as text; in the catalogue, its default.
    pub value: String,
}

/// A set of named parameters.
pub(super) trait Parameters {
    /// All parameters, in order.
    fn list(&self) -> Vec<ParameterInfo>;

    /// Sets one of them. The error says what would be understood.
    fn set(&mut self, name: &'static str, value: &str) -> Result<(), String>;
}

/// Declares a struct of parameters. The doc comment of a field is its meaning.
macro_rules! parameters {
    ($(#[doc = $about:literal])* $name:ident {
        $(#[doc = $meaning:literal] $field:ident: $kind:ty = $default:expr,)*
    }) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(#[doc = $meaning] pub $field: $kind,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::generate::parameters::Parameters for $name {
            fn list(&self) -> Vec<$crate::generate::parameters::ParameterInfo> {
                vec![$($crate::generate::parameters::ParameterInfo {
                    name: stringify!($field),
                    meaning: $meaning.trim(),
                    value: self.$field.to_string(),
                }),*]
            }

            fn set(&mut self, name: &'static str, value: &str) -> Result<(), String> {
                match name {
                    $(stringify!($field) => {
                        self.$field = $crate::generate::parameters::Value::read(value)?;
                        Ok(())
                    })*
                    _ => Err(concat!("a parameter of ", stringify!($name)).to_owned()),
                }
            }
        }
    };
}
pub(super) use parameters;

/// A type that a parameter can have. Its text is that of [`fmt::Display`].
pub(super) trait Value: Sized + fmt::Display {
    /// The value of a text; the error says what would be understood.
    fn read(text: &str) -> Result<Self, String>;
}

impl Value for u32 {
    fn read(text: &str) -> Result<Self, String> {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if plain { text.parse().ok() } else { None };
        number.ok_or_else(|| format!("a whole number from 0 to {}", u32::MAX))
    }
}

impl Value for f64 {
    fn read(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| "a number such as 0.8".to_owned())
    }
}

impl Value for Bytes {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error| format!("a size such as 10MB ({error})"))
    }
}

impl Value for BitsPerSec {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error| format!("a rate such as 1Gbps ({error})"))
    }
}

impl Value for Nanos {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error| format!("a time such as 10ms ({error})"))
    }
}

/// Shares of the four classes of coflows, in any unit: short and narrow, long and narrow, short and wide, long and wide.
/// As text, `52/16/15/17`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix(pub [f64; 4]);

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [sn, ln, sw, lw] = self.0;
        write!(f, "{sn}/{ln}/{sw}/{lw}")
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "four shares such as 52/16/15/17, none negative and not all 0".to_owned();
        let mut shares = [0.0; 4];
        let mut parts = text.split('/');
        for share in &mut shares {
            let part = parts.next().and_then(|part| part.trim().parse().ok());
            *share = part.filter(|share: &f64| (0.0..1e9).contains(share)).ok_or_else(expected)?;
        }
        if parts.next().is_some() || shares.iter().sum::<f64>() <= 0.0 {
            Err(expected())
        } else {
            Ok(Mix(shares))
        }
    }
}

impl Value for Mix {
    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }
}

/// The name among `names` that takes the fewest edits to get from `text`; the first of several.
pub(super) fn nearest(text: &str, names: &[&'static str]) -> &'static str {
    let nearest = names.iter().copied().min_by_key(|name| edits(text, name));
    nearest.expect("there is at least one name")
}

/// The Levenshtein distance, ignoring case.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (at, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(!letter.eq_ignore_ascii_case(other));
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(row[at] + 1).min(row[at + 1] + 1);
        }
    }
    row[to.len()]
}
