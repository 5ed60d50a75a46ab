//! How full the queues of switches were: a look at all of them from time to time, kept as
//! distributions.
//!
//! What is seen counts until the next look. Looks are 10 µs apart at first, and after each 8,192 of
//! them twice as far, so that a run of an hour costs a few times as many looks as one of a second.
//! A distribution over time is not disturbed by that, since each look counts as long as it holds;
//! the few first moments are only known better than the rest.
//!
//! Bytes are counted in bins of a sixteenth of their size, whose upper end is what percentiles
//! show: never too little, and 6 % too much at most. The largest is exact.
//!
//! Rejected: a count at every change of a queue. It would be exact, and a tenth of the engine's
//! speed.

use cavalcade_metrics::Occupancy;
use cavalcade_model::{Bytes, Nanos};

use crate::network::Network;
use crate::wheel::Picos;

const FIRST_INTERVAL: Picos = 10_000_000;
const LOOKS: u32 = 8_192;
const MOST_INTERVALS: usize = 256;

/// Recorder of queue occupancy.
#[derive(Debug)]
pub(crate) struct OccupancyRecorder {
    /// The output ports of switches.
    links: Vec<u32>,
    seen: Vec<Distribution>,
    between: Picos,
    looks: u32,
    /// The most in one queue, in intervals.
    fullest: Vec<u64>,
    interval: Picos,
}

impl OccupancyRecorder {
    pub(crate) fn new(network: &Network) -> Self {
        let links: Vec<u32> =
            (0..network.links().len() as u32).filter(|&link| network.switch_of(link).is_some()).collect();
        Self {
            seen: vec![Distribution::default(); links.len()],
            links,
            between: FIRST_INTERVAL,
            looks: 0,
            fullest: Vec::new(),
            interval: FIRST_INTERVAL,
        }
    }

    /// Looks at all ports at `now`, of which `backlog` gives the bytes. Returns when to look again.
    pub(crate) fn look(&mut self, now: Picos, backlog: impl Fn(u32) -> u64) -> Picos {
        let weight = self.between / FIRST_INTERVAL;
        let mut most = 0;
        for (&link, seen) in self.links.iter().zip(&mut self.seen) {
            let bytes = backlog(link);
            seen.add(bytes, weight);
            most = most.max(bytes);
        }
        self.note(now, most);
        self.looks += 1;
        if self.looks == LOOKS {
            self.looks = 0;
            self.between *= 2;
        }
        now.saturating_add(self.between)
    }

    fn note(&mut self, now: Picos, most: u64) {
        while now / self.interval >= MOST_INTERVALS as u64 {
            self.fullest =
                self.fullest.chunks(2).map(|pair| pair.iter().copied().max().unwrap_or(0)).collect();
            self.interval *= 2;
        }
        let row = (now / self.interval) as usize;
        // After a gap of more than an interval, the last value seen still counts.
        let last = self.fullest.last().copied().unwrap_or(0);
        if self.fullest.len() <= row {
            self.fullest.resize(row, last);
            self.fullest.push(0);
        }
        self.fullest[row] = self.fullest[row].max(most);
    }

    /// For each port its link and what was seen there; then all of them together.
    pub(crate) fn ports(&self) -> (Vec<(u32, Occupancy)>, Occupancy) {
        let mut all = Distribution::default();
        let mut ports = Vec::with_capacity(self.links.len());
        for (&link, seen) in self.links.iter().zip(&self.seen) {
            all.merge(seen);
            ports.push((link, seen.occupancy()));
        }
        (ports, all.occupancy())
    }

    /// The length of an interval, and the most in one queue in each.
    pub(crate) fn series(&self) -> (Nanos, Vec<Bytes>) {
        (Nanos(self.interval / 1_000), self.fullest.iter().copied().map(Bytes).collect())
    }
}

/// Count of each size.
#[derive(Clone, Debug, Default)]
struct Distribution {
    bins: Vec<u64>,
    total: u64,
    most: u64,
}

impl Distribution {
    fn add(&mut self, bytes: u64, weight: u64) {
        let bin = bin_of(bytes);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += weight;
        self.total += weight;
        self.most = self.most.max(bytes);
    }

    fn merge(&mut self, other: &Self) {
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), 0);
        }
        for (bin, weight) in self.bins.iter_mut().zip(&other.bins) {
            *bin += weight;
        }
        self.total += other.total;
        self.most = self.most.max(other.most);
    }

    /// Returns a percentile.
    fn percentile(&self, percent: u64) -> Bytes {
        let rank = (u128::from(self.total) * u128::from(percent)).div_ceil(100) as u64;
        let mut below = 0;
        for (bin, weight) in self.bins.iter().enumerate() {
            below += weight;
            if below >= rank {
                return Bytes(largest_in(bin).min(self.most));
            }
        }
        Bytes::ZERO
    }

    fn occupancy(&self) -> Occupancy {
        Occupancy {
            p50: self.percentile(50),
            p95: self.percentile(95),
            p99: self.percentile(99),
            max: Bytes(self.most),
        }
    }
}

/// Below 16 each number has a bin; above, each sixteenth of a power of two.
fn bin_of(bytes: u64) -> usize {
    match bytes {
        0..16 => bytes as usize,
        _ => {
            let shift = 59 - bytes.leading_zeros();
            (shift as usize + 1) * 16 + (bytes >> shift & 15) as usize
        }
    }
}

/// The largest number of a bin.
fn largest_in(bin: usize) -> u64 {
    match bin {
        0..16 => bin as u64,
        _ => {
            let shift = bin / 16 - 1;
            let first = u128::from(16 + bin as u64 % 16) << shift;
            (first + (1 << shift) - 1) as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use cavalcade_model::{BitsPerSec, Nanos};
    use proptest::prelude::*;

    use super::*;
    use crate::network::Link;

    proptest! {
        #[test]
        fn a_bin_holds_what_is_in_it_and_is_a_sixteenth_wide(bytes in any::<u64>()) {
            let largest = largest_in(bin_of(bytes));
            prop_assert!(largest >= bytes && largest - bytes <= bytes / 16);
            prop_assert_eq!(bin_of(largest), bin_of(bytes));
            if largest < u64::MAX {
                prop_assert_eq!(bin_of(largest + 1), bin_of(bytes) + 1);
            }
        }
    }

    #[test]
    fn looks_become_rarer_and_count_for_longer() {
        let link = Link { rate: BitsPerSec(1_000_000_000), delay: Nanos(0) };
        let mut recorder = OccupancyRecorder::new(&Network::star(1, link).unwrap());
        // Empty for a second, then 3,000 bytes for three.
        let (mut now, mut looks) = (0, 0u32);
        while now < 4_000_000_000_000 {
            now = recorder.look(now, |_| if now < 1_000_000_000_000 { 0 } else { 3_000 });
            looks += 1;
        }
        assert!(looks < 8 * LOOKS, "{looks} looks");
        let (ports, all) = recorder.ports();
        assert_eq!(ports, [(1, all)]);
        assert_eq!((all.p95, all.max), (Bytes(3_000), Bytes(3_000)));
        let share = recorder.seen[0].bins[0] as f64 / recorder.seen[0].total as f64;
        assert!((share - 0.25).abs() < 0.02, "{share}");
        let (interval, fullest) = recorder.series();
        assert!((128..=256).contains(&fullest.len()), "{}", fullest.len());
        let filled = fullest.iter().filter(|&&bytes| bytes > Bytes::ZERO).count() as f64;
        assert!((filled * interval.as_secs_f64() - 3.0).abs() < 0.1, "{filled} intervals of {interval}");
    }
}
