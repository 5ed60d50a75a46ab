//! The links of a flow, in the order in which the allocator looks at them.

use crate::fill::NONE;

/// A path of at most `N` links: where it enters (its *row*), where it leaves (its *column*), and
/// those in between; [`NONE`] behind the last. A path across one switch is a row and a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route<const N: usize>([u32; N]);

impl<const N: usize> Route<N> {
    /// The route of a flow that is not there.
    pub(crate) const NONE: Self = Self([NONE; N]);

    /// Takes the links of a path in their order.
    ///
    /// # Panics
    /// If there are fewer than two links, or more than `N`.
    pub(crate) fn new(path: &[u32]) -> Self {
        let [row, middle @ .., column] = path else { panic!("a path enters and leaves, {path:?} does not") };
        let mut links = [NONE; N];
        [links[0], links[1]] = [*row, *column];
        links[2..2 + middle.len()].copy_from_slice(middle);
        Self(links)
    }

    /// Its row and its column.
    #[inline]
    pub(crate) fn ends(&self) -> [u32; 2] {
        [self.0[0], self.0[1]]
    }

    /// All links.
    #[inline]
    pub(crate) fn links(&self) -> impl Iterator<Item = u32> + Clone + use<N> {
        self.0.into_iter().take_while(|&link| N == 2 || link != NONE)
    }

    /// All links, each with the side that it is on: 0 for rows, 1 for columns, 2 for what lies in
    /// between.
    #[inline]
    pub(crate) fn sides(&self) -> impl Iterator<Item = (usize, u32)> + Clone + use<N> {
        (0..).map(|nth: usize| nth.min(2)).zip(self.links())
    }

    /// All places: its row, its column, those in between, and [`NONE`] behind the last.
    #[inline]
    pub(crate) fn places(&self) -> &[u32; N] {
        &self.0
    }

    /// The places of the links in between.
    #[inline]
    pub(crate) fn middle(&self) -> &[u32] {
        &self.0[2..]
    }

    /// The place of a link that is on it.
    #[inline]
    pub(crate) fn place(&self, link: u32) -> usize {
        if N == 2 {
            usize::from(self.0[0] != link)
        } else {
            self.0.iter().position(|&own| own == link).unwrap_or(0)
        }
    }

    /// The same links in between, from another row to another column.
    pub(crate) fn between(mut self, [row, column]: [u32; 2]) -> Self {
        [self.0[0], self.0[1]] = [row, column];
        self
    }
}
