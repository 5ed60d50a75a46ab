//! Options that a flag and a key of the configuration file set, each written once.
//!
//! A struct of [`options!`] is what a table of the file says, or a part that tables share. A field
//! is a key of the file, and clap makes a flag of it:
//!
//! ```text
//! /// Rate of every host's link          the help of the flag, and the comment in docs/cavalcade.toml
//! rate "RATE": Option<BitsPerSec> = rate | BitsPerSec(1_000_000_000),
//! ^ key and flag                    ^      ^ the default, which the help states as well
//!                                   the parser of both; without one, clap and serde read the type
//! ```
//!
//! Nothing is set at first, so that flags, the file and defaults stay apart until they are merged.
//!
//! Rejected: serde's derive, because its `flatten` for parts loses the place of an error.

use std::fmt::Display;

use serde::de::{DeserializeOwned, IgnoredAny};
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

/// A value of the file.
pub(crate) type Value<'a> = Spanned<DeValue<'a>>;

/// Something in the file that cannot be used, and the byte at which it stands.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) at: usize,
    pub(crate) message: String,
}

impl From<toml::de::Error> for Wrong {
    fn from(error: toml::de::Error) -> Self {
        Self { at: error.span().map_or(0, |span| span.start), message: error.message().to_owned() }
    }
}

/// Reads a value of the file.
pub(crate) type Read<'r, T> = &'r dyn Fn(&Value<'_>) -> Result<T, Wrong>;

/// An option, or those of a table or a part of it.
pub(crate) trait Options {
    /// A value, or one of a list.
    type Item;
    /// Returns the keys, each with whether it is set; an option's own is `name`.
    fn keys(&self, name: &'static str) -> Vec<(&'static str, bool)>;
    /// Sets `key`, one of the keys, to what `read` makes of a value.
    ///
    /// # Errors
    /// If it cannot be that.
    fn set(&mut self, key: &str, value: &Value<'_>, read: Read<'_, Self::Item>) -> Result<(), Wrong>;
    /// Takes what is not set from the file.
    fn over(self, file: Self) -> Self;
}

/// Defines structs of options; those named after `flags` are no keys of the file.
macro_rules! options {
    ($($(#[$of:meta])* $name:ident $(, flags $($flag:ident)+)? {
        $($(#[$about:meta])*
        $field:ident $($place:literal)?: $kind:ty $(= $parser:path)? $(| $usual:expr)?,)*
    })*) => { $(
        #[derive(Clone, Debug, Default, clap::Args)]
        $(#[$of])*
        $($(#[command(mut_arg(stringify!($field), |flag| with_default(flag, $usual)))])?)*
        pub(crate) struct $name {
            $(
                $(#[arg(long, value_name = $place)])?
                $(#[$about])*
                $(#[arg(value_parser = $parser)])?
                pub(crate) $field: $kind,
            )*
        }

        impl $name {
            $($(
                /// Returns it, or its default.
                pub(crate) fn $field(&self) -> <$kind as Options>::Item {
                    self.$field.clone().unwrap_or_else(|| $usual.into())
                }
            )?)*
        }

        impl Options for $name {
            type Item = ();
            fn keys(&self, _: &'static str) -> Vec<(&'static str, bool)> {
                let mut keys = [$(self.$field.keys(stringify!($field))),*].concat();
                keys.retain(|(key, _)| ![$($(stringify!($flag)),+)?].contains(key));
                keys
            }
            fn set(&mut self, key: &str, value: &Value<'_>, _: Read<'_, ()>) -> Result<(), Wrong> {
                $(if self.$field.keys(stringify!($field)).iter().any(|(own, _)| *own == key) {
                    return self.$field.set(key, value, options!(@read $($parser)?));
                })*
                Ok(())
            }
            fn over(self, file: Self) -> Self {
                Self { $($field: self.$field.over(file.$field),)* }
            }
        }
    )* };
    (@read) => { &by_type };
    (@read $parser:path) => { &by($parser) };
}
pub(super) use options;

impl<T> Options for Option<T> {
    type Item = T;
    fn keys(&self, name: &'static str) -> Vec<(&'static str, bool)> {
        vec![(name, self.is_some())]
    }
    fn set(&mut self, _: &str, value: &Value<'_>, read: Read<'_, T>) -> Result<(), Wrong> {
        read(value).map(|read| *self = Some(read))
    }
    fn over(self, file: Self) -> Self {
        self.or(file)
    }
}

impl<T> Options for Vec<T> {
    type Item = T;
    fn keys(&self, name: &'static str) -> Vec<(&'static str, bool)> {
        vec![(name, !self.is_empty())]
    }
    fn set(&mut self, _: &str, value: &Value<'_>, read: Read<'_, T>) -> Result<(), Wrong> {
        *self = match value.get_ref() {
            DeValue::Array(items) => items.iter().map(read).collect::<Result<_, _>>()?,
            _ => by_type::<Vec<IgnoredAny>>(value).map(|_| Self::new())?,
        };
        Ok(())
    }
    fn over(self, file: Self) -> Self {
        if self.is_empty() { file } else { self }
    }
}

impl Options for bool {
    type Item = Self;
    fn keys(&self, name: &'static str) -> Vec<(&'static str, bool)> {
        vec![(name, *self)]
    }
    fn set(&mut self, _: &str, value: &Value<'_>, read: Read<'_, Self>) -> Result<(), Wrong> {
        read(value).map(|read| *self = read)
    }
    fn over(self, file: Self) -> Self {
        self || file
    }
}

/// Reads a value as its type says.
pub(crate) fn by_type<T: DeserializeOwned>(value: &Value<'_>) -> Result<T, Wrong> {
    Ok(T::deserialize(ValueDeserializer::from(value.clone()))?)
}

/// Reads a text, or a whole number as one, by the parser of its flag.
pub(super) fn by<T, E: Display>(
    parser: impl Fn(&str) -> Result<T, E>,
) -> impl Fn(&Value<'_>) -> Result<T, Wrong> {
    move |value| {
        let text = match value.get_ref() {
            DeValue::Integer(_) => by_type::<i64>(value)?.to_string(),
            _ => by_type(value)?,
        };
        parser(&text).map_err(|error| Wrong { at: value.span().start, message: error.to_string() })
    }
}

/// Adds to a flag's help what it is by default.
pub(super) fn with_default(flag: clap::Arg, default: impl Display) -> clap::Arg {
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    flag.help(format!("{help} [default: {default}]"))
}
