//! What each of several coflows has to send on each link, for orders that are filled from their
//! last place.
//!
//! Loads are times (bytes over capacity), so links may differ. A coflow that gets its place is
//! taken out of the totals; the matrix stays. Buffers are kept between problems.
//!
//! Cost: O(links · coflows) for the matrix, O(links) to find the busiest link.

/// Loads of coflows on links. Coflows are numbered as they are begun.
#[derive(Debug, Default)]
pub(crate) struct LinkLoads {
    /// For each coflow where its loads begin.
    starts: Vec<usize>,
    /// Link and load, coflow by coflow.
    loads: Vec<(usize, f64)>,
    /// Load of each coflow on each link: `dense[link * coflows + coflow]`.
    dense: Vec<f64>,
    /// Load of all coflows that have no place on each link.
    totals: Vec<f64>,
    /// Distance of each coflow from the last place; `u64::MAX` while it has none.
    places: Vec<u64>,
}

impl LinkLoads {
    /// Begins a new problem.
    pub(crate) fn clear(&mut self) {
        self.starts.clear();
        self.loads.clear();
        self.totals.clear();
    }

    /// The next coflow.
    pub(crate) fn begin(&mut self) {
        self.starts.push(self.loads.len());
    }

    /// Adds the bytes of the coflow begun last on `link`.
    pub(crate) fn load(&mut self, link: usize, load: f64) {
        self.loads.push((link, load));
        if self.totals.len() <= link {
            self.totals.resize(link + 1, 0.0);
        }
        self.totals[link] += load;
    }

    /// All coflows are there; none has a place.
    pub(crate) fn complete(&mut self) {
        let coflows = self.len();
        self.places.clear();
        self.places.resize(coflows, u64::MAX);
        self.dense.clear();
        self.dense.resize(self.totals.len() * coflows, 0.0);
        for coflow in 0..coflows {
            for &(link, load) in &self.loads[self.range(coflow)] {
                self.dense[link * coflows + coflow] += load;
            }
        }
    }

    /// Returns the number of coflows.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The link with the largest positive total, the first of equals.
    pub(crate) fn busiest(&self) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (link, &total) in self.totals.iter().enumerate() {
            if total > best.map_or(0.0, |best| self.totals[best]) {
                best = Some(link);
            }
        }
        best
    }

    /// Returns the number of links, up to the last in use.
    pub(crate) fn links(&self) -> usize {
        self.totals.len()
    }

    /// The load of all coflows without a place on `link`.
    pub(crate) fn total(&self, link: usize) -> f64 {
        self.totals[link]
    }

    /// No coflow without a place has anything on `link`: what is left of its total is rounding.
    pub(crate) fn set_idle(&mut self, link: usize) {
        self.totals[link] = 0.0;
    }

    /// The load of every coflow on `link`, by number.
    pub(crate) fn on(&self, link: usize) -> &[f64] {
        &self.dense[link * self.len()..][..self.len()]
    }

    /// The coflows without a place that have something on `link`, with their loads there.
    pub(crate) fn unplaced_on(&self, link: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let all = self.on(link).iter().copied().enumerate();
        all.filter(|&(coflow, load)| load > 0.0 && self.places[coflow] == u64::MAX)
    }

    /// The links of a coflow with its loads.
    pub(crate) fn of(&self, coflow: usize) -> &[(usize, f64)] {
        &self.loads[self.range(coflow)]
    }

    /// Puts a coflow so far from the last place, and takes its loads out of the totals.
    pub(crate) fn place(&mut self, coflow: usize, place: u64) {
        self.places[coflow] = place;
        for index in self.range(coflow) {
            let (link, load) = self.loads[index];
            self.totals[link] -= load;
        }
    }

    /// Coflows with nothing to send (a later wave is to come) go first, from `next` on, the oldest
    /// before the others.
    pub(crate) fn place_idle(&mut self, next: u64) {
        let idle = self.places.iter_mut().rev().filter(|slot| **slot == u64::MAX);
        idle.zip(next..).for_each(|(slot, place)| *slot = place);
    }

    /// For each coflow how far from the last place it is: 0 is last.
    pub(crate) fn places(&self) -> &[u64] {
        &self.places
    }

    fn range(&self, coflow: usize) -> std::ops::Range<usize> {
        let end = self.starts.get(coflow + 1).copied().unwrap_or(self.loads.len());
        self.starts[coflow]..end
    }
}
