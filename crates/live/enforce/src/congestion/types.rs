//! The running kernel's own description of its types (BTF), as far as loading a congestion control
//! needs it: where a structure's members are.
//!
//! Members are found by name, so that a kernel which has others before them, or lacks one, is read
//! rightly. Cost: one walk over some megabytes, when controls are loaded.

/// The place at which a kernel describes its types.
pub(crate) const PATH: &str = "/sys/kernel/btf/vmlinux";

/// A structure of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Structure {
    /// Its number.
    pub(crate) id: u32,
    /// Its length in bytes.
    pub(crate) size: usize,
    /// Names and places of its members, in order.
    members: Vec<(String, usize)>,
}

impl Structure {
    /// The position of a member among all, and its place in bytes.
    pub(crate) fn member(&self, name: &str) -> Option<(usize, usize)> {
        let position = self.members.iter().position(|(member, _)| member == name)?;
        Some((position, self.members[position].1))
    }
}

const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;
const STRUCT: u32 = 4;

/// Finds a structure by its name in a description; none where it is not there or the description
/// cannot be read.
pub(crate) fn find(description: &[u8], name: &str) -> Option<Structure> {
    let words = Words(description);
    if words.half(0)? != MAGIC {
        return None;
    }
    let start = words.word(4)? as usize;
    let types = start + words.word(8)? as usize;
    let end = types + words.word(12)? as usize;
    let strings = description.get(start + words.word(16)? as usize..)?;
    let (mut at, mut id) = (types, 1);
    while at < end {
        let (name_at, info, size) = (words.word(at)?, words.word(at + 4)?, words.word(at + 8)?);
        let (kind, count, has_bits) = (info >> 24 & 31, (info & 0xffff) as usize, info >> 31 == 1);
        at += 12;
        if kind == STRUCT && text(strings, name_at)? == name {
            let member = |number| {
                let at = at + 12 * number;
                // With bit fields among the members the upper byte is a width.
                let bits = words.word(at + 8)? & if has_bits { 0x00ff_ffff } else { u32::MAX };
                Some((text(strings, words.word(at)?)?.to_owned(), bits as usize / 8))
            };
            let members = (0..count).map(member).collect::<Option<_>>()?;
            return Some(Structure { id, size: size as usize, members });
        }
        at += match kind {
            1 | 14 | 17 => 4,
            3 => 12,
            6 | 13 => 8 * count,
            4 | 5 | 15 | 19 => 12 * count,
            _ => 0,
        };
        id += 1;
    }
    None
}

/// The smallest description that there can be, with one type: a table that holds a structure of the
/// kernel's has to name one.
pub(crate) fn smallest() -> Vec<u8> {
    let strings = b"\0int\0";
    let words = [HEADER as u32, 0, 16, 16, strings.len() as u32, 1, 1 << 24, 4, 32];
    let mut bytes = MAGIC.to_ne_bytes().to_vec();
    // Version 1, no flags.
    bytes.extend([1, 0]);
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes.extend(strings);
    bytes
}

struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn half(&self, at: usize) -> Option<u16> {
        Some(u16::from_ne_bytes(self.0.get(at..at + 2)?.try_into().ok()?))
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
    }
}

fn text(strings: &[u8], at: u32) -> Option<&str> {
    let rest = strings.get(at as usize..)?;
    std::str::from_utf8(&rest[..rest.iter().position(|&byte| byte == 0)?]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description with an enumeration before `struct pair { first; second }`.
    fn description() -> Vec<u8> {
        let strings = b"\0pair\0first\0second\0one\0";
        let types: [u32; 14] = [
            0,
            6 << 24 | 1,
            4,
            20,
            7, // enum { one = 7 }
            1,
            4 << 24 | 2,
            16,
            6,
            1,
            0,
            12,
            1,
            64, // struct pair
        ];
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        let length = 4 * types.len() as u32;
        let header = [HEADER as u32, 0, length, length, strings.len() as u32];
        bytes.extend(header.iter().chain(&types).flat_map(|word| word.to_ne_bytes()));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn members_are_found_by_name_behind_other_types() {
        let pair = find(&description(), "pair").unwrap();
        assert_eq!((pair.id, pair.size), (2, 16));
        assert_eq!((pair.member("first"), pair.member("second")), (Some((0, 0)), Some((1, 8))));
        assert_eq!(pair.member("third"), None);
        assert_eq!(find(&description(), "trio"), None);
    }

    #[test]
    fn a_description_that_is_cut_short_has_no_structures() {
        let whole = description();
        for length in 0..whole.len() - 1 {
            let found = find(&whole[..length], "pair");
            assert!(found.is_none() || found == find(&whole, "pair"), "{length}");
        }
        assert_eq!(find(b"nonsense, but long enough for a header", "pair"), None);
        assert_eq!(find(&smallest(), "pair"), None);
    }
}
