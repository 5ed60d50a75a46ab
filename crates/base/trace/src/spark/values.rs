//! Numbers and texts of events as writers of logs put them: whole numbers as floating-point ones,
//! texts as numbers, −1 for what is not known.
//!
//! What the result stands on is a [`Number`], and a log in which it is something else is refused.
//! What it does not stand on is [`Soft`] or a [`Text`]: it is taken as absent, and counted.

use core::fmt;

use serde::de::{self, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// The largest whole number up to which a floating-point one is exact.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A whole number from 0 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Number(pub(super) u64);

/// A whole number from 0 on, as an id that Spark keeps in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Small(pub(super) u32);

/// A whole number from 0 on, or something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Soft {
    /// Nothing, or null.
    #[default]
    Absent,
    Is(u64),
    /// Something that is no such number.
    Odd,
}

/// A text, or a number as one; none where it is something else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text(pub(super) Option<String>);

fn whole(number: f64) -> Option<u64> {
    ((0.0..=EXACT).contains(&number) && number.trunc() == number).then_some(number as u64)
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;

        impl Visitor<'_> for NumberVisitor {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 0 on")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Number, E> {
                whole(number).map(Number).ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Number, E> {
                let positive = u64::try_from(number);
                positive.map(Number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
            }
        }

        deserializer.deserialize_any(NumberVisitor)
    }
}

impl<'de> Deserialize<'de> for Small {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Number(number) = Number::deserialize(deserializer)?;
        let too_large =
            |_| de::Error::invalid_value(Unexpected::Unsigned(number), &"a number that 32 bits hold");
        u32::try_from(number).map(Small).map_err(too_large)
    }
}

/// Takes in any value: numbers and texts as they are, everything else as nothing.
enum Any {
    Nothing,
    Number(u64),
    Text(String),
    Other,
}

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyVisitor;

        impl<'de> Visitor<'de> for AnyVisitor {
            type Value = Any;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Any, E> {
                Ok(Any::Text(flag.to_string()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Any, E> {
                Ok(Any::Number(number))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Any, E> {
                Ok(u64::try_from(number).map_or(Any::Other, Any::Number))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Any, E> {
                Ok(whole(number).map_or(Any::Other, Any::Number))
            }

            fn visit_str<E>(self, text: &str) -> Result<Any, E> {
                Ok(Any::Text(text.to_owned()))
            }

            fn visit_unit<E>(self) -> Result<Any, E> {
                Ok(Any::Nothing)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Any, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Any::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Any, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Any::Other)
            }
        }

        deserializer.deserialize_any(AnyVisitor)
    }
}

impl<'de> Deserialize<'de> for Soft {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Any::deserialize(deserializer)? {
            Any::Nothing => Soft::Absent,
            Any::Number(number) => Soft::Is(number),
            Any::Text(text) => text.parse().map_or(Soft::Odd, Soft::Is),
            Any::Other => Soft::Odd,
        })
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Any::deserialize(deserializer)? {
            Any::Number(number) => Some(number.to_string()),
            Any::Text(text) => Some(text),
            Any::Nothing | Any::Other => None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_and_soft_ones_are_whatever_comes() {
        let number = |text| serde_json::from_str::<Number>(text).ok().map(|number| number.0);
        let found = ["7", "7.0", "1.7e12", "null", "-1", "7.5", "1e300", "\"7\"", "[]"].map(number);
        assert_eq!(found, [Some(7), Some(7), Some(1_700_000_000_000), None, None, None, None, None, None]);
        let soft = |text| serde_json::from_str::<Soft>(text).unwrap();
        assert_eq!(["7", "\"7\"", "7.0"].map(soft), [Soft::Is(7); 3]);
        assert_eq!(soft("null"), Soft::Absent);
        assert_eq!(["-1", "7.5", "true", "\"x\"", "[1,{\"a\":2}]", "{\"a\":[]}"].map(soft), [Soft::Odd; 6]);
        let text = |text| serde_json::from_str::<Text>(text).unwrap().0;
        assert_eq!(["\"a\"", "7", "true"].map(text), ["a", "7", "true"].map(|text| Some(text.to_owned())));
        assert_eq!(["null", "[]", "-1"].map(text), [None, None, None]);
    }
}
