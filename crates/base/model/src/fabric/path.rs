//! The links that a flow crosses, as a small array.

use core::ops::Deref;

use crate::LinkId;

/// The links that a flow crosses, in order: the source's ingress link first, the destination's
/// egress link last.
///
/// It lies where it is used rather than on the heap, since every flow has one.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    links: [LinkId; Self::LONGEST],
    len: u8,
}

impl Path {
    /// The most links that a path has on any shape.
    pub const LONGEST: usize = 6;

    /// A path of one link after the other, from an ingress to an egress link.
    ///
    /// # Panics
    /// If there are more than [`Path::LONGEST`].
    #[inline]
    pub fn new(links: &[LinkId]) -> Self {
        let mut path = Self { links: [LinkId(0); Self::LONGEST], len: links.len() as u8 };
        path.links[..links.len()].copy_from_slice(links);
        path
    }

    /// The path without the links that `is_kept` refuses.
    pub(super) fn only(&self, is_kept: impl Fn(LinkId) -> bool) -> Self {
        let mut kept = Self { links: [LinkId(0); Self::LONGEST], len: 0 };
        for link in self.into_iter().filter(|&&link| is_kept(link)) {
            kept.links[usize::from(kept.len)] = *link;
            kept.len += 1;
        }
        kept
    }
}

impl Deref for Path {
    type Target = [LinkId];

    fn deref(&self) -> &[LinkId] {
        &self.links[..usize::from(self.len)]
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Path {}

impl IntoIterator for Path {
    type Item = LinkId;
    type IntoIter = core::iter::Take<core::array::IntoIter<LinkId, { Self::LONGEST }>>;

    fn into_iter(self) -> Self::IntoIter {
        self.links.into_iter().take(usize::from(self.len))
    }
}

impl<'a> IntoIterator for &'a Path {
    type Item = &'a LinkId;
    type IntoIter = core::slice::Iter<'a, LinkId>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
