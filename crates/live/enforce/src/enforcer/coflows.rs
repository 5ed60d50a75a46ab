//! All tagged coflows: by number, by user and name, and how many each owner and each vouching host
//! has.
//!
//! What other hosts and users say names coflows hundreds of times in a turn, so none of these
//! questions goes over all of them.

use std::collections::BTreeMap;
use std::ops::Deref;

use cavalcade_model::PortId;

use super::tagged::Tagged;
use crate::door::Name;

/// The coflows, each under its number.
#[derive(Debug, Default)]
pub(super) struct Coflows {
    all: BTreeMap<u32, Tagged>,
    numbers: BTreeMap<(u32, Name), u32>,
    of_owner: BTreeMap<u32, usize>,
    of_host: BTreeMap<PortId, usize>,
}

impl Coflows {
    /// Takes a coflow in under a number that none has.
    pub(super) fn insert(&mut self, number: u32, tagged: Tagged) {
        self.numbers.entry((tagged.user, tagged.name.clone())).or_insert(number);
        *self.of_owner.entry(tagged.owner).or_default() += 1;
        self.all.insert(number, tagged);
    }

    /// Lets a coflow go.
    pub(super) fn remove(&mut self, number: u32) -> Option<Tagged> {
        let tagged = self.all.remove(&number)?;
        take_one(&mut self.of_owner, tagged.owner);
        tagged.vouched_by.into_iter().for_each(|host| take_one(&mut self.of_host, host));
        let key = (tagged.user, tagged.name.clone());
        if self.numbers.get(&key) == Some(&number) {
            self.numbers.remove(&key);
            // A rule may have the name of a command's task.
            let is_it = |other: &Tagged| other.user == key.0 && other.name == key.1;
            let other = self.all.iter().find(|(_, other)| is_it(other)).map(|(&number, _)| number);
            self.numbers.extend(other.map(|other| (key, other)));
        }
        Some(tagged)
    }

    /// The number of a user's coflow of this name.
    pub(super) fn find(&self, user: u32, name: &Name) -> Option<u32> {
        self.numbers.get(&(user, name.clone())).copied()
    }

    /// Returns how many an owner has.
    pub(super) fn of_owner(&self, owner: u32) -> usize {
        self.of_owner.get(&owner).copied().unwrap_or(0)
    }

    /// Returns how many another host has opened by its word.
    pub(super) fn of_host(&self, host: PortId) -> usize {
        self.of_host.get(&host).copied().unwrap_or(0)
    }

    /// Notes that a coflow was opened by another host's word.
    pub(super) fn set_vouched(&mut self, number: u32, host: PortId) {
        let Some(tagged) = self.all.get_mut(&number) else { return };
        let former = tagged.vouched_by.replace(host);
        *self.of_host.entry(host).or_default() += 1;
        former.into_iter().for_each(|former| take_one(&mut self.of_host, former));
    }

    pub(super) fn get_mut(&mut self, number: &u32) -> Option<&mut Tagged> {
        self.all.get_mut(number)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Tagged> {
        self.all.values_mut()
    }
}

impl Deref for Coflows {
    type Target = BTreeMap<u32, Tagged>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl<'a> IntoIterator for &'a mut Coflows {
    type Item = (&'a u32, &'a mut Tagged);
    type IntoIter = std::collections::btree_map::IterMut<'a, u32, Tagged>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter_mut()
    }
}

fn take_one<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cavalcade_model::{Instant, TaskClass};

    use super::*;
    use crate::door::Request;
    use crate::link::Link;

    fn tagged(user: u32, owner: u32, task: &str) -> Tagged {
        let name = Name::Task(task.to_owned());
        let request = Request { name, class: TaskClass::Online, deadline: None, sends: Vec::new() };
        let link = Link::new(Path::new("/nowhere/agent.sock"), user, 1);
        Tagged::new(Instant(1), (user, owner), link, request, None)
    }

    #[test]
    fn what_is_counted_and_found_is_what_a_walk_over_all_would_say() {
        let mut coflows = Coflows::default();
        let name = |task: &str| Name::Task(task.to_owned());
        for (number, user, owner, task) in
            [(1, 7, 7, "a"), (2, 100_007, 7, "a"), (3, 7, 7, "b"), (4, 7, 7, "a")]
        {
            coflows.insert(number, tagged(user, owner, task));
        }
        assert_eq!((coflows.of_owner(7), coflows.of_owner(100_007)), (4, 0));
        assert_eq!([coflows.find(7, &name("a")), coflows.find(100_007, &name("a"))], [Some(1), Some(2)]);
        let host = PortId(9);
        coflows.set_vouched(1, host);
        coflows.set_vouched(3, host);
        assert_eq!(coflows.of_host(host), 2);
        // Another has the same name.
        assert!(coflows.remove(1).is_some() && coflows.remove(1).is_none());
        assert_eq!(
            (coflows.find(7, &name("a")), coflows.of_host(host), coflows.of_owner(7)),
            (Some(4), 1, 3)
        );
        [2, 3, 4].into_iter().for_each(|number| drop(coflows.remove(number)));
        let left = (coflows.find(7, &name("a")), coflows.of_host(host), coflows.of_owner(7), coflows.len());
        assert_eq!(left, (None, 0, 0, 0));
    }
}
