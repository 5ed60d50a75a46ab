//! Subordinate users (`/etc/subuid`), counted to their owner: one who may make user namespaces has
//! thousands of them, and a share for each would be all.
//!
//! What is shared out by user is shared out by owner. Who acts as a subordinate user is believed to
//! be that one in all else: files and processes are the subordinate's.

use std::ops::Range;

/// Users whose owner is another one.
#[derive(Debug, Default)]
pub(crate) struct Subordinates(Vec<(Range<u64>, u32)>);

impl Subordinates {
    /// Those of this host. Owners are found by name where `/etc/passwd` has it; a range of any
    /// other stays as it is.
    pub(crate) fn of_host() -> Self {
        let text = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self::read(&text("/etc/subuid"), &text("/etc/passwd"))
    }

    fn read(ranges: &str, users: &str) -> Self {
        let named = |name: &str| {
            let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
            line.split(':').nth(2)?.parse().ok()
        };
        let range = |line: &str| {
            let mut parts = line.split(':');
            let (owner, first) = (parts.next()?, parts.next()?.parse::<u64>().ok()?);
            let count = parts.next()?.parse::<u64>().ok()?;
            let owner = owner.parse().ok().or_else(|| named(owner))?;
            Some((first..first.checked_add(count)?, owner))
        };
        Self(ranges.lines().filter_map(range).collect())
    }

    /// The user in whose share another one's things are.
    pub(crate) fn owner_of(&self, user: u32) -> u32 {
        let of = self.0.iter().find(|(range, _)| range.contains(&u64::from(user)));
        of.map_or(user, |&(_, owner)| owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_a_range_count_as_its_owner_by_name_or_number_and_nobody_else_does() {
        let users = "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n";
        let ranges =
            "ada:100000:65536\n1001:165536:65536\ngone:300000:9\nada:7\n\nada:1:18446744073709551615\n";
        let known = Subordinates::read(ranges, users);
        let owners = [0, 1000, 100_000, 165_535, 165_536, 231_072, 300_000].map(|user| known.owner_of(user));
        assert_eq!(owners, [0, 1000, 1000, 1000, 1001, 231_072, 300_000]);
    }
}
