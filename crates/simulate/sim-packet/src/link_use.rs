//! How busy links were: bytes that each link carried, in equal intervals. Links are numbered as the
//! fabric numbers them. Intervals double in length when there are too many.

use cavalcade_metrics::LinkUse;
use cavalcade_model::Nanos;

use crate::network::Network;
use crate::wheel::Picos;

const MOST_INTERVALS: usize = 512;

pub(crate) struct LinkUseRecorder {
    /// For each link of the network, the fabric's.
    columns: Vec<u32>,
    interval: Picos,
    bytes: Vec<f64>,
}

impl LinkUseRecorder {
    pub(crate) fn new(network: &Network) -> Self {
        let columns = (0..network.links().len()).map(|link| network.of_fabric(link as u32).0).collect();
        Self { columns, interval: 1_000_000_000, bytes: Vec::new() }
    }

    /// `bytes` have been sent on `link` by `when`.
    pub(crate) fn add(&mut self, link: u32, when: Picos, bytes: u64) {
        while when / self.interval >= MOST_INTERVALS as u64 {
            self.double();
        }
        let links = self.columns.len();
        let row = (when / self.interval) as usize;
        if self.bytes.len() < (row + 1) * links {
            self.bytes.resize((row + 1) * links, 0.0);
        }
        let column = self.columns[link as usize] as usize;
        self.bytes[row * links + column] += bytes as f64;
    }

    fn double(&mut self) {
        let links = self.columns.len();
        let rows = self.bytes.len() / links;
        let mut bytes = vec![0.0; rows.div_ceil(2) * links];
        for (index, value) in self.bytes.iter().enumerate() {
            bytes[index / links / 2 * links + index % links] += value;
        }
        self.bytes = bytes;
        self.interval *= 2;
    }

    pub(crate) fn finish(self) -> LinkUse {
        LinkUse { interval: Nanos(self.interval / 1_000), links: self.columns.len(), bytes: self.bytes }
    }
}
