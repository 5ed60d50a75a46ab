//! The choices that the seed makes before anything runs: policy, hosts, workload, and how much
//! breaks.

use std::collections::BTreeMap;

use cavalcade_control::{Budget, Factory};
use cavalcade_model::{Bytes, Flow, FlowId, Instant, Nanos, PortId, SplitMix64, Workload, WorkloadBuilder};
use cavalcade_policy::parse;

use super::additions::Additions;
use super::greedy::{self, Greedy};
use super::{FAULTS, RECOVERY, RECOVERY_CONNECTED};
use crate::applications::Habits;
use crate::network::Weather;

/// Policies that a coordinator runs, and one for hosts.
const COORDINATED: [&str; 6] = [
    "dclas:first_threshold=1MB",
    "dclas:first_threshold=1MB,weighted=false",
    "sebf",
    "sincronia",
    "fifo",
    "fair",
];
const DECENTRALISED: &str = "dcas";

/// A number from `low` to `high`, both included.
pub(super) fn between(dice: &mut SplitMix64, low: u64, high: u64) -> u64 {
    low + dice.below(high - low + 1)
}

/// A span from `low` to `high` milliseconds.
pub(super) fn span(dice: &mut SplitMix64, low: u64, high: u64) -> Nanos {
    Nanos(between(dice, low * 1_000_000, high * 1_000_000))
}

/// The choices of a seed.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) policy: &'static str,
    pub(super) is_decentralised: bool,
    /// The mean pause between two faults; `None` where nothing breaks.
    pub(super) pause: Option<Nanos>,
    /// One host more is hostile; nothing else breaks then.
    pub(super) is_hostile: bool,
    pub(super) weather: Weather,
    pub(super) processes: usize,
    /// Each process is of a user of its own.
    pub(super) has_users: bool,
    /// Agents and machines are joined by connections; otherwise each message goes for itself, and
    /// anything becomes of it.
    pub(super) is_connected: bool,
    pub(super) additions: Additions,
    hosts: u64,
}

impl Choice {
    pub(super) fn new(dice: &mut SplitMix64, additions: Additions) -> Self {
        let is_decentralised = dice.happens(0.15);
        let policy = if is_decentralised {
            DECENTRALISED
        } else {
            COORDINATED[dice.below(COORDINATED.len() as u64) as usize]
        };
        let pause = [None, Some(333), Some(100), Some(40)][dice.below(4) as usize].map(Nanos::from_millis);
        let is_hostile = !is_decentralised && dice.happens(0.25);
        let weather = Weather {
            loss: dice.fraction() / 5.0,
            doubling: dice.fraction() / 5.0,
            jitter: span(dice, 1, 30),
        };
        Self {
            policy,
            is_decentralised,
            pause: pause.filter(|_| !is_hostile),
            is_hostile,
            weather,
            processes: between(dice, 1, 2) as usize,
            has_users: dice.happens(0.3),
            is_connected: !is_decentralised && dice.happens(0.5),
            additions,
            hosts: if dice.happens(0.01) { between(dice, 20, 100) } else { between(dice, 3, 5) },
        }
    }

    /// The time from the last fault to a schedule that has recovered.
    pub(super) fn recovery(&self) -> Nanos {
        if self.is_connected { RECOVERY_CONNECTED } else { RECOVERY }
    }

    pub(super) fn factory(&self) -> Factory {
        Box::new(parse(self.policy).expect("policies named here exist").live())
    }

    /// The greedy user, where there is one; a hostile host is greedy enough.
    pub(super) fn greedy(&self) -> Option<Greedy> {
        let Additions { greedy, holds, .. } = self.additions;
        (greedy && !self.is_hostile).then(|| Greedy::new(self.additions.dice(3), holds))
    }

    /// Returns the additions of the run, in words.
    pub(super) fn additions(&self) -> Vec<&'static str> {
        let (drawn, greedy) = (&self.additions, self.greedy().is_some());
        let all = [
            (drawn.reads, "late reads"),
            (greedy && drawn.holds, "a greedy user who holds others"),
            (greedy && !drawn.holds, "a greedy user"),
            (drawn.connections, "enforcers"),
        ];
        all.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name).collect()
    }

    /// Returns each user's budget on a host: without limits where nobody is greedy.
    pub(super) fn budget(&self, workload: &Workload, is_boundless: bool) -> Budget {
        let all = Budget { coflows: u32::MAX, flows: u32::MAX, ..Budget::default() };
        match self.greedy() {
            Some(_) if is_boundless => Budget { flows: u32::MAX, ..greedy::budget(workload) },
            Some(_) => greedy::budget(workload),
            None => all,
        }
    }

    /// Applications register at any host, and a fifth of the flows has nothing to send for a while;
    /// but where a host is hostile all go on, so that what is held back is held for long.
    pub(super) fn habits(&self, dice: &mut SplitMix64, workload: &Workload) -> Habits {
        let mut pauses = BTreeMap::new();
        for flow in (0..workload.flows().len()).map(FlowId::from_index).filter(|_| !self.is_hostile) {
            if dice.happens(0.2) {
                pauses.insert(flow, (span(dice, 0, 1200), span(dice, 0, 300)));
            }
        }
        Habits { processes: self.processes, registrar: Some(dice.bits()), pauses }
    }

    /// Coflows of a few flows each, from all of three to five hosts, seldom up to a hundred; four
    /// in ten large enough to outlast the faults. They come early where a host is hostile.
    pub(super) fn workload(&self, dice: &mut SplitMix64) -> Workload {
        let hosts = self.hosts;
        let haste = if self.is_hostile { 4 } else { 1 };
        let mut builder = WorkloadBuilder::new(hosts as u32);
        for coflow in 0..between(dice, 3, 7) {
            let arrival = Instant(span(dice, 0, 1000).0 / haste);
            let is_large = dice.happens(0.4);
            let ends = |dice: &mut SplitMix64| {
                let (src, dst) = (dice.below(hosts), dice.below(hosts));
                // What a host sends to itself no other host confirms.
                (src, if self.is_hostile && src == dst { (dst + 1) % hosts } else { dst })
            };
            let flow = |dice: &mut SplitMix64, (src, dst): (u64, u64)| Flow {
                src: PortId(src as u32),
                dst: PortId(dst as u32),
                size: Bytes(if is_large {
                    between(dice, 30_000_000, 120_000_000)
                } else {
                    between(dice, 1, 8_000_000)
                }),
                wave: if dice.happens(0.3) { Nanos(span(dice, 0, 400).0 / haste) } else { Nanos::ZERO },
            };
            let drawn = |dice: &mut SplitMix64| {
                let ends = ends(dice);
                flow(dice, ends)
            };
            let flows = (0..between(dice, 1, 4)).map(|_| drawn(dice)).collect();
            builder.coflow(format!("{coflow}"), arrival, flows);
        }
        builder.build().expect("ports and sizes in range make a workload")
    }
}

/// Returns the span of faults over a workload: until its last task has arrived, but for a while at
/// least.
pub(super) fn faults_of(workload: &Workload) -> Nanos {
    let last = workload.tasks().last().map_or(Instant::ZERO, |task| task.arrival);
    FAULTS.max(Nanos(last.0))
}
