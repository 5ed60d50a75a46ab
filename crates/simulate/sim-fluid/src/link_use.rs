//! How busy each link was, over the time of a run.

use cavalcade_allocate::Fill;
use cavalcade_metrics::LinkUse;
use cavalcade_model::{Contended, Fabric, FlowId, Nanos, Workload};

/// A sum of what each link carries, in intervals that double in length when there are too many.
#[derive(Clone, Debug)]
pub struct LinkRecorder {
    links: usize,
    interval: f64,
    /// The present, in nanoseconds.
    now: f64,
    bytes: Vec<f64>,
    /// The rate on each link at present, in bytes per nanosecond.
    rates: Vec<f64>,
}

impl LinkRecorder {
    const MAX_INTERVALS: usize = 512;

    /// Makes the record of links that have carried nothing yet.
    pub fn new(links: usize) -> Self {
        Self { links, interval: 1e6, now: 0.0, bytes: Vec::new(), rates: vec![0.0; links] }
    }

    /// Takes the rates on links from an allocator that has computed them again, and those on links
    /// that it does not look at from the rates of the flows under way.
    pub fn look(
        &mut self,
        fill: &dyn Fill,
        workload: &Workload,
        (fabric, links): (&Fabric, &Contended),
        flows: impl Iterator<Item = (FlowId, f64)>,
    ) {
        self.rates.fill(0.0);
        fill.add_use(&mut self.rates);
        if links.is_all() {
            return;
        }
        for (flow, rate) in flows {
            let record = workload.flow(flow);
            for link in fabric.path(record.src, record.dst) {
                if !links.contains(link) {
                    self.rates[link.index()] += rate;
                }
            }
        }
    }

    /// Counts what links carry at present rates in so many nanoseconds from now on.
    pub fn advance(&mut self, elapsed: f64) {
        let (mut from, to) = (self.now, self.now + elapsed);
        self.now = to;
        while to > self.interval * Self::MAX_INTERVALS as f64 {
            self.double();
        }
        while from < to {
            let index = ((from / self.interval) as usize).min(Self::MAX_INTERVALS - 1);
            let end = ((index + 1) as f64 * self.interval).min(to);
            let end = if end > from { end } else { to };
            if self.bytes.len() < (index + 1) * self.links {
                self.bytes.resize((index + 1) * self.links, 0.0);
            }
            let row = &mut self.bytes[index * self.links..(index + 1) * self.links];
            for (sum, rate) in row.iter_mut().zip(&self.rates) {
                *sum += rate * (end - from);
            }
            from = end;
        }
    }

    fn double(&mut self) {
        let intervals = self.bytes.len() / self.links;
        let mut bytes = vec![0.0; intervals.div_ceil(2) * self.links];
        for (index, value) in self.bytes.iter().enumerate() {
            bytes[index / self.links / 2 * self.links + index % self.links] += value;
        }
        self.bytes = bytes;
        self.interval *= 2.0;
    }

    /// Returns what each link carried.
    pub fn finish(self) -> LinkUse {
        LinkUse { interval: Nanos(self.interval as u64), links: self.links, bytes: self.bytes }
    }
}
