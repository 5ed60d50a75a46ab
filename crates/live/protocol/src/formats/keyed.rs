//! Lists by number: strictly ascending, written as gaps.
//!
//! Flows and coflows of an agent are numbered in order of appearance, and what changes in a round
//! lies close together: a gap takes one byte where the number would take three.

use super::bytes::{Field, Reader, put_varint};
use super::error::WireError;

/// Items by strictly ascending number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed<T>(Vec<(u32, T)>);

impl<T> Default for Keyed<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Keyed<T> {
    /// Adds an item behind all others.
    ///
    /// # Panics
    /// If `number` is not above all before it.
    pub fn push(&mut self, number: u32, item: T) {
        assert!(self.0.last().is_none_or(|(last, _)| *last < number), "numbers ascend");
        self.0.push((number, item));
    }

    /// The items, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.0.iter().map(|(number, item)| (*number, item))
    }

    /// The item of `number`.
    pub fn get(&self, number: u32) -> Option<&T> {
        self.0.binary_search_by_key(&number, |(number, _)| *number).ok().map(|at| &self.0[at].1)
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// From items in any order; of several with one number the last counts.
impl<T> FromIterator<(u32, T)> for Keyed<T> {
    fn from_iter<I: IntoIterator<Item = (u32, T)>>(items: I) -> Self {
        Self(items.into_iter().collect::<std::collections::BTreeMap<u32, T>>().into_iter().collect())
    }
}

impl<T> IntoIterator for Keyed<T> {
    type Item = (u32, T);
    type IntoIter = std::vec::IntoIter<(u32, T)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T: Field> Field for Keyed<T> {
    const NAME: &'static str = T::NAME;

    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.0.len() as u64, out);
        let mut next = 0;
        for (number, item) in self.iter() {
            put_varint(u64::from(number) - next, out);
            item.put(out);
            next = u64::from(number) + 1;
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = reader.count()?;
        let mut items = Vec::new();
        let mut next = 0;
        for _ in 0..count {
            let limit = u64::from(u32::MAX).checked_sub(next);
            let limit = limit.ok_or_else(|| reader.invalid("a gap", 0, "numbers of 32 bits"))?;
            let number = next + reader.varint("a gap", limit)?;
            items.push((number as u32, T::take(reader)?));
            next = number + 1;
        }
        Ok(Self(items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::bytes::Message;

    #[test]
    fn close_numbers_take_a_byte_each() {
        let close: Keyed<()> = (1_000_000..1_000_100).map(|number| (number, ())).collect();
        assert_eq!(close.to_bytes().len(), 1 + 3 + 99);
        assert_eq!(Keyed::decode(&close.to_bytes()), Ok(close));
    }

    #[test]
    fn the_largest_number_has_nothing_behind_it() {
        let mut last = Keyed::default();
        last.push(u32::MAX, ());
        let mut bytes = last.to_bytes();
        assert_eq!(Keyed::decode(&bytes), Ok(last));
        bytes[0] = 2;
        bytes.push(0);
        assert!(matches!(Keyed::<()>::decode(&bytes), Err(WireError::Invalid { .. })));
    }
}
