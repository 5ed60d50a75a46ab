//! What people call coflows: the names that applications gave them, and short ids in place of keys
//! of 40 digits.
//!
//! An id is the beginning of a digest of the key in hexadecimal digits: at least seven, and as many
//! as it takes to tell it from all others that are known at the time (as version control systems
//! shorten theirs). The first seven never change.
//!
//! A text means the coflow that has it as its key; else as its name; else the one whose digest
//! begins with it, from four digits on. Where several answer to it the text is refused with a list
//! of their ids: a guess could drain the wrong one.
//!
//! # Cost
//! O(n log n) over the n coflows that are known, for each request.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_protocol::{CoflowKey, CoflowName};

/// Digits of an id, at least.
const SHORTEST: usize = 7;
/// Digits of an id that an operator types, at least.
const TYPED: usize = 4;
/// Ids that a refusal lists, at most.
const LISTED: usize = 5;

/// The names and ids of all coflows that are known.
pub(crate) struct Naming {
    names: BTreeMap<CoflowKey, Option<CoflowName>>,
    /// Number of coflows of each name.
    namesakes: BTreeMap<CoflowName, usize>,
    digests: BTreeSet<(u64, CoflowKey)>,
}

impl Naming {
    /// The naming of `coflows`, each with its name if it has one.
    pub(super) fn new(coflows: impl Iterator<Item = (CoflowKey, Option<CoflowName>)>) -> Self {
        let names: BTreeMap<_, _> = coflows.collect();
        let mut namesakes = BTreeMap::new();
        names.values().flatten().for_each(|&name| *namesakes.entry(name).or_default() += 1);
        let digests = names.keys().map(|&key| (digest(key), key)).collect();
        Self { names, namesakes, digests }
    }

    /// The id of a coflow: seven digits or more.
    pub(super) fn id(&self, key: CoflowKey) -> String {
        let own = digest(key);
        let before = self.digests.range(..(own, key)).next_back();
        let after = self.digests.range((own, key)..).find(|(_, other)| *other != key);
        let shared =
            before.into_iter().chain(after).map(|(other, _)| (own ^ other).leading_zeros() / 4).max();
        let digits = shared.map_or(0, |shared| shared as usize + 1).clamp(SHORTEST, 16);
        format!("{own:016x}")[..digits].to_owned()
    }

    /// The name of a coflow, if it has one.
    pub(super) fn name(&self, key: CoflowKey) -> Option<CoflowName> {
        *self.names.get(&key)?
    }

    /// Returns the label of a coflow in a sentence: its name if no other has the same, else its id.
    pub(super) fn label(&self, key: CoflowKey) -> String {
        let own = self.name(key).filter(|name| self.namesakes.get(name) == Some(&1));
        own.map_or_else(|| self.id(key), |name| name.to_string())
    }

    /// The coflows that have a name.
    fn named(&self, name: &str) -> Vec<CoflowKey> {
        let has_it = |own: &Option<CoflowName>| own.is_some_and(|own| own.as_str() == name);
        self.names.iter().filter(|(_, own)| has_it(own)).map(|(&key, _)| key).collect()
    }

    /// Finds the coflow that `text` means; `None` where there is none.
    ///
    /// # Errors
    /// If it means several: the error is for people.
    pub(super) fn find(&self, text: &str) -> Result<Option<CoflowKey>, String> {
        if let Ok(key) = text.parse::<CoflowKey>() {
            return Ok(self.names.contains_key(&key).then_some(key));
        }
        let mut found = self.named(text);
        if found.is_empty() {
            found = self.digested(text);
        }
        if found.len() < 2 {
            return Ok(found.pop());
        }
        let ids: Vec<String> = found.iter().take(LISTED).map(|&key| self.id(key)).collect();
        let more = if found.len() > LISTED { ", …" } else { "" };
        Err(format!(
            "'{text}' may be any of {} coflows: give the id of one: {}{more}",
            found.len(),
            ids.join(", ")
        ))
    }

    /// The coflows whose digests begin with `text`.
    fn digested(&self, text: &str) -> Vec<CoflowKey> {
        let is_digits = text.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !is_digits || !(TYPED..=16).contains(&text.len()) {
            return Vec::new();
        }
        let text = text.to_ascii_lowercase();
        let begins = |digest: u64| format!("{digest:016x}").starts_with(&text);
        self.digests.iter().filter(|(digest, _)| begins(*digest)).map(|(_, key)| *key).collect()
    }
}

/// A number that looks random and is different for different keys, as good as always.
fn digest(key: CoflowKey) -> u64 {
    mix(mix(mix(key.serial) ^ key.task) ^ u64::from(key.stage))
}

/// The finaliser of SplitMix64: every bit of the result depends on every bit of `number`.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(serial: u64) -> CoflowKey {
        CoflowKey::new(serial, &[])
    }

    fn naming(named: &[(u64, &str)]) -> Naming {
        Naming::new(named.iter().map(|(serial, name)| (key(*serial), name.parse().ok())))
    }

    #[test]
    fn a_coflow_is_found_by_key_name_id_and_the_beginning_of_its_id() {
        let naming = naming(&[(1_795_352_947_619_974_796, "sort-7"), (1_795_352_947_619_974_800, "")]);
        let (sort, other) = (key(1_795_352_947_619_974_796), key(1_795_352_947_619_974_800));
        assert_eq!((naming.label(sort), naming.label(other)), ("sort-7".to_owned(), naming.id(other)));
        assert_eq!(naming.id(other).len(), SHORTEST);
        for (text, found) in [("sort-7", sort), (&sort.to_string(), sort), (&naming.id(sort), sort)] {
            assert_eq!(naming.find(text), Ok(Some(found)), "{text}");
        }
        let id = naming.id(other);
        for text in [&id, &id[..TYPED], &id.to_uppercase(), &format!("{:016x}", digest(other))] {
            assert_eq!(naming.find(text), Ok(Some(other)), "{text}");
        }
        for text in [&id[..TYPED - 1], "", "sort", "1.0.1", "größe", "0123456789abcdef0"] {
            assert_eq!(naming.find(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn a_name_that_two_have_is_refused_with_their_ids_and_labels_neither() {
        let naming = naming(&[(7, "sort"), (9, "sort")]);
        let error = naming.find("sort").unwrap_err();
        for serial in [7, 9] {
            assert!(error.contains(&naming.id(key(serial))), "{error}");
            assert_eq!(naming.label(key(serial)), naming.id(key(serial)));
        }
    }

    #[test]
    fn ids_are_as_long_as_it_takes_to_tell_them_apart() {
        let naming = Naming::new((0..60_000).map(|serial| (key(serial), None)));
        let ids: BTreeSet<String> = (0..60_000).map(|serial| naming.id(key(serial))).collect();
        assert_eq!(ids.len(), 60_000);
        let long = ids.iter().filter(|id| id.len() > SHORTEST);
        assert!((2..60).contains(&long.count()), "a few of 60,000 share seven digits");
        for id in &ids {
            let shorter = &id[..SHORTEST];
            assert!(
                id.len() == SHORTEST || ids.iter().filter(|other| other.starts_with(shorter)).count() > 1
            );
        }
    }
}
