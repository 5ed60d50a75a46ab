//! Options that are one of a few: their words, the same on a command line and in a manifest.

use cavalcade_harness::CpuOrder;
use cavalcade_sim_fluid::Allocator;
use serde::{Deserialize, Deserializer, Serializer, de};

/// One of a few, each with a word.
pub trait Word: Copy + PartialEq + 'static {
    /// All of them.
    const WORDS: &'static [(&'static str, Self)];

    /// Returns its word.
    fn word(self) -> &'static str {
        let known = Self::WORDS.iter().find(|(_, one)| *one == self);
        known.map(|(word, _)| *word).expect("every option has a word")
    }

    /// Returns the option of this word.
    fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, one)| *one)
    }
}

impl Word for CpuOrder {
    const WORDS: &'static [(&'static str, Self)] =
        &[("fair", Self::Fair), ("task", Self::Task), ("stage", Self::Stage)];
}

impl Word for Allocator {
    const WORDS: &'static [(&'static str, Self)] =
        &[("incremental", Self::Incremental), ("reference", Self::Reference)];
}

pub(crate) fn serialize<T: Word, S: Serializer>(option: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(option.word())
}

pub(crate) fn deserialize<'de, T: Word, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let word = String::deserialize(deserializer)?;
    T::of_word(&word).ok_or_else(|| {
        let known: Vec<String> = T::WORDS.iter().map(|(known, _)| format!("`{known}`")).collect();
        de::Error::custom(format!("unknown variant `{word}`, expected one of {}", known.join(", ")))
    })
}
