//! How busy links were: bytes that each host's links carried, in equal intervals.
//!
//! The links are those of the big switch (`Fabric`): all links out of hosts, then all links into them. Intervals double in
//! length when there are too many.

use cavalcade_metrics::LinkUse;
use cavalcade_model::Nanos;

use crate::network::Network;
use crate::wheel::Picos;

const MOST_INTERVALS: usize = 512;

pub(crate) struct LinkUseRecorder {
    hosts: u32,
    interval: Picos,
    bytes: Vec<f64>,
}

impl LinkUseRecorder {
    pub(crate) fn new(network: &Network) -> Self {
        Self { hosts: network.hosts(), interval: 1_000_000_000, bytes: Vec::new() }
    }

    /// `bytes` have been sent on `link` by `when`.
    pub(crate) fn add(&mut self, link: u32, when: Picos, bytes: u64) {
        if link >= 2 * self.hosts {
            return;
        }
        while when / self.interval >= MOST_INTERVALS as u64 {
            self.double();
        }
        let links = 2 * self.hosts as usize;
        let row = (when / self.interval) as usize;
        if self.bytes.len() < (row + 1) * links {
            self.bytes.resize((row + 1) * links, 0.0);
        }
        let column = (link / 2 + link % 2 * self.hosts) as usize;
        self.bytes[row * links + column] += bytes as f64;
    }

    fn double(&mut self) {
        let links = 2 * self.hosts as usize;
        let rows = self.bytes.len() / links;
        let mut bytes = vec![0.0; rows.div_ceil(2) * links];
        for (index, value) in self.bytes.iter().enumerate() {
            bytes[index / links / 2 * links + index % links] += value;
        }
        self.bytes = bytes;
        self.interval *= 2;
    }

    pub(crate) fn finish(self) -> LinkUse {
        LinkUse { interval: Nanos(self.interval / 1_000), links: 2 * self.hosts as usize, bytes: self.bytes }
    }
}
