//! An attacker with a certificate for its own port: what it says to all coordinators.

use cavalcade_model::{BitsPerSec, Bytes, Instant, PortId};
use cavalcade_protocol::{
    CoflowEntry, CoflowKey, FlowEntry, KillSwitch, Message as _, Progress, Report, Sealed, Standing,
    TaskCounter,
};

use super::host::USER;
use super::site::{BEGIN, Plan, RATE, Site};

/// Something that it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    /// It has a flow of a coflow older than all others, which never moves.
    Phantom,
    /// The first host's coflow is another user's, has sent more than there is, and is granted.
    Foreign,
    /// So much of it was sent here, for its owner.
    Ours,
    /// There is a higher term, and the kill switch is on.
    Forged,
    /// What a coordinator has sealed, again.
    Kept,
    /// Numbers of flows and coflows that it never had, coflows and clocks of no time, arrivals.
    Nonsense,
    /// A former session goes on.
    Former,
    /// It has started again, and has nothing.
    Gone,
}

impl Lie {
    pub(super) const ALL: [Self; 8] = [
        Self::Phantom,
        Self::Foreign,
        Self::Ours,
        Self::Forged,
        Self::Kept,
        Self::Nonsense,
        Self::Former,
        Self::Gone,
    ];
}

/// The attacker.
#[derive(Debug)]
pub(super) struct Liar {
    pub(super) port: PortId,
    /// Number of things that it still says.
    pub(super) left: u8,
    session: u64,
    sequence: u64,
    pub(super) kept: Option<Sealed>,
    /// What it said last.
    pub(super) last: Option<Report>,
}

impl Liar {
    pub(super) fn new(plan: &Plan) -> Self {
        let port = PortId(plan.ports() - 1);
        Self { port, left: plan.lies, session: 1, sequence: 0, kept: None, last: None }
    }

    /// Keeps the first standing that a coordinator has sealed.
    pub(super) fn keep_first(&mut self, standing: Sealed) {
        if self.kept.is_none() && !standing.as_bytes().is_empty() {
            self.kept = Some(standing);
        }
    }

    fn report(&mut self, now: Instant, lie: Lie, plan: &Plan, victim: CoflowKey) -> Report {
        if lie == Lie::Gone {
            self.session += 1;
        }
        self.sequence += 1;
        let session = if lie == Lie::Former { self.session - 1 } else { self.session };
        let empty = Report { snapshot: true, ..Report::new(self.port, session, self.sequence, now, RATE) };
        let receiver = PortId(plan.receiver);
        let entry = |key, sent, owner| CoflowEntry { key, facts: None, sent: Bytes(sent), owner };
        let flow = |to, sent| FlowEntry { coflow: 0, to, size: None, sent: Bytes(sent), idle: false };
        match lie {
            Lie::Phantom => {
                let serial =
                    TaskCounter::of_agent(self.port, plan.ports()).next(Instant(BEGIN.0 / 1_000 * 999));
                Report {
                    coflows: [(0, entry(CoflowKey::new(serial, &[]), 0, USER))].into_iter().collect(),
                    flows: [(0, flow(receiver, 0))].into_iter().collect(),
                    ..empty
                }
            }
            Lie::Foreign => Report {
                coflows: [(0, entry(victim, u64::MAX, USER + 1))].into_iter().collect(),
                grants: [(0, vec![USER + 1])].into_iter().collect(),
                flows: [(0, flow(receiver, u64::MAX))].into_iter().collect(),
                ..empty
            },
            Lie::Ours => Report {
                coflows: [(0, entry(victim, u64::MAX, USER))].into_iter().collect(),
                flows: [(0, flow(receiver, 1 << 40))].into_iter().collect(),
                ..empty
            },
            Lie::Forged => {
                let switch = Some(KillSwitch { term: u64::MAX, throw: 9, is_on: true });
                let standing = Standing { term: u64::MAX, switch, drains: Vec::new() }.to_bytes();
                Report { standing: Sealed::new(standing), ..empty }
            }
            Lie::Kept => Report { standing: self.kept.clone().unwrap_or_default(), ..empty },
            Lie::Nonsense => Report {
                snapshot: false,
                resync: true,
                clock: Instant(u64::MAX),
                up: BitsPerSec(0),
                down: BitsPerSec(u64::MAX),
                arrived: [(0, Bytes(u64::MAX)), (1, Bytes(u64::MAX)), (9, Bytes(1))].into_iter().collect(),
                coflows: [(7, entry(CoflowKey { task: 0, stage: 9, serial: 0 }, 1, USER))]
                    .into_iter()
                    .collect(),
                flows: [(0, flow(PortId(99), 1)), (8, FlowEntry { coflow: 7, ..flow(receiver, 1) })]
                    .into_iter()
                    .collect(),
                progress: (0..3).map(|flow| (flow, Progress { sent: Bytes(u64::MAX), idle: true })).collect(),
                closed: (0..3).map(|flow| (flow, Bytes(u64::MAX))).collect(),
                left: (0..3).map(|part| (part, ())).collect(),
                ..empty
            },
            Lie::Former => Report { sequence: u64::MAX, ..empty },
            Lie::Gone => empty,
        }
    }
}

impl Site<'_> {
    /// The attacker says something.
    pub(super) fn lie(&mut self, lie: Lie) {
        self.liar.left -= 1;
        let unknown = CoflowKey { task: 1, stage: 0, serial: 1 };
        let victim = self.hosts[0].own.first().copied().unwrap_or(unknown);
        let report = self.liar.report(self.now, lie, self.plan, victim);
        self.liar.last = Some(report.clone());
        self.report_to_all(report);
    }

    /// The attacker says once more what it said last.
    pub(super) fn lie_again(&mut self) {
        let Some(report) = self.liar.last.clone() else { return };
        self.liar.sequence += 1;
        let report = Report { sequence: self.liar.sequence, clock: self.now, ..report };
        self.report_to_all(report);
    }

    fn report_to_all(&mut self, report: Report) {
        for at in 0..self.coordinators.len() {
            self.report(at, report.clone());
        }
    }
}
