//! Options that are one of a few, in a manifest: spelled as on the command line.

use cavalcade_spec::Choice;
use serde::{Deserialize, Deserializer, Serializer, de};

pub(crate) fn serialize<T: Choice, S: Serializer>(option: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(option.word())
}

pub(crate) fn deserialize<'de, T: Choice, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let word = String::deserialize(deserializer)?;
    let found = T::WORDS.iter().find(|(known, _)| *known == word);
    found.map(|(_, option)| *option).ok_or_else(|| {
        let known: Vec<String> = T::WORDS.iter().map(|(known, _)| format!("`{known}`")).collect();
        de::Error::custom(format!("unknown variant `{word}`, expected one of {}", known.join(", ")))
    })
}
