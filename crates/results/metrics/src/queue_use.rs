//! What waited in switches: how full queues were, what was dropped and marked, how busy their links
//! were.
//!
//! Only drivers that know packets have it. Occupancy is a distribution over time: the median is
//! what half of the time (and, over all ports together, half of the ports' time) was not exceeded.

use cavalcade_model::{Bytes, Nanos};

/// The output ports of all switches in one run.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct QueueUse {
    /// Each port.
    pub ports: Vec<PortUse>,
    /// The occupancy of the queues of all ports.
    pub occupancy: Occupancy,
    /// The length of an interval of `fullest`.
    pub interval: Nanos,
    /// For each interval, the most that was seen in one queue.
    pub fullest: Vec<Bytes>,
}

/// One output port of a switch.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PortUse {
    /// The name of its link.
    pub name: String,
    /// Packets sent, acknowledgements included.
    pub packets: u64,
    /// Packets for which there was no room.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
    /// Packets lost on the link.
    pub lost: u64,
    /// The share of its capacity that the link carried from the beginning of the run to its end.
    pub utilisation: f64,
    /// The occupancy of its queue.
    pub occupancy: Occupancy,
}

/// Bytes in a queue, over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// Median.
    pub p50: Bytes,
    /// 95th percentile.
    pub p95: Bytes,
    /// 99th percentile.
    pub p99: Bytes,
    /// The most that was seen.
    pub max: Bytes,
}

/// All ports of a run in few figures.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct QueueTotals {
    /// Packets for which there was no room.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
    /// Packets lost on links.
    pub lost: u64,
    /// The mean share of their capacity that links carried.
    pub mean_utilisation: f64,
    /// The share of the busiest link.
    pub most_utilisation: f64,
}

impl QueueUse {
    /// Everything that happened at its ports.
    pub fn totals(&self) -> QueueTotals {
        let sum = |count: fn(&PortUse) -> u64| self.ports.iter().map(count).sum();
        let shares = self.ports.iter().map(|port| port.utilisation);
        QueueTotals {
            dropped: sum(|port| port.dropped),
            marked: sum(|port| port.marked),
            lost: sum(|port| port.lost),
            mean_utilisation: shares.clone().sum::<f64>() / self.ports.len().max(1) as f64,
            most_utilisation: shares.fold(0.0, f64::max),
        }
    }

    /// The ports whose queues were fullest, by 99th percentile, then by the most; at most `count`.
    pub fn fullest_ports(&self, count: usize) -> Vec<&PortUse> {
        let mut ports: Vec<&PortUse> = self.ports.iter().collect();
        // A stable sort: equals stay in the order of the fabric's links.
        ports.sort_by_key(|port| std::cmp::Reverse((port.occupancy.p99, port.occupancy.max, port.packets)));
        ports.truncate(count);
        ports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_up_and_the_fullest_stand_first() {
        let port = |name: &str, p99, dropped, utilisation| PortUse {
            name: name.to_owned(),
            dropped,
            utilisation,
            occupancy: Occupancy { p99: Bytes(p99), ..Occupancy::default() },
            ..PortUse::default()
        };
        let used = QueueUse {
            ports: vec![port("a", 10, 1, 0.5), port("b", 30, 2, 0.1), port("c", 30, 0, 0.0)],
            ..QueueUse::default()
        };
        let totals = used.totals();
        assert_eq!((totals.dropped, totals.most_utilisation), (3, 0.5));
        assert!((totals.mean_utilisation - 0.2).abs() < 1e-12);
        let names: Vec<_> = used.fullest_ports(2).iter().map(|port| port.name.clone()).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(QueueUse::default().totals(), QueueTotals::default());
    }
}
