//! `pdq`: switches let the most urgent flows send at full rate and pause the others (Hong, Caesar,
//! Godfrey, SIGCOMM 2012; docs/protocols.md §5.3).
//!
//! Every packet carries what the flow is (deadline, time that it still needs) and what it may (a
//! rate, or which port paused it). A port keeps its flows in order of urgency: earliest deadline
//! first, then shortest remaining time. A flow gets what the more urgent ones leave, all of it or
//! nothing; a more urgent flow takes it away within a round trip.
//!
//! - *Early start*: a flow that ends within K round trips does not count, up to K of them in sum;
//!   so the next begins while the last packets of the one before are on their way.
//! - *Damping*: a port that has just let a paused flow begin lets no other begin for a round trip.
//! - *Suppressed probing*: a paused flow asks with a header alone, more rarely the further behind
//!   it stands.
//! - A flow that another port has paused is forgotten here, so that what it cannot use goes to the
//!   next.
//!
//! # What differs from the paper
//! - The paper ends a flow whose deadline cannot be met (early termination). Here every byte is to
//!   be delivered, so such a flow goes on as one without a deadline.
//! - A port that sees no answers (a host's own) keeps what it granted as what the flow sends.
//! - Flows beyond the list are paused and probe; the paper gives them what is left over by RCP.
//! - A flow that falls silent is forgotten, after a few of its packets' times where it sends, else
//!   of its probes'.
//!
//! State per flow, at most [`Pdq::list`] for each port; cost of a packet: that many steps.

use core::cmp::Ordering;

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos};
use cavalcade_spec::{Complaint, Parameter};

use crate::contract::{FlowSetup, PortLogic, PortSetup, SwitchNeeds, Transport};
use crate::paced::{Answer, EchoingReceiver, PacedSender, RateLaw};
use crate::packet::{Flags, Header};
use crate::parameters::{self, at_least_one};
use crate::registry::Definition;
use crate::scoreboard::Reliability;

/// The parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdq {
    /// Round trips before its end from which a flow no longer holds back the next (K).
    pub early_start: u32,
    /// The flows that a port keeps.
    pub list: u32,
    /// Segments that the receiver has room for.
    pub window: u32,
    /// The least retransmission timeout.
    pub minimum_rto: Nanos,
    /// Buffer of a switch port.
    pub buffer: Bytes,
}

impl Default for Pdq {
    /// K = 2 as in the paper. A list of 64 where the paper has twice the flows that send: most are
    /// paused anyway.
    fn default() -> Self {
        Self {
            early_start: 2,
            list: 64,
            window: 4_096,
            minimum_rto: Nanos(2_000_000),
            buffer: Bytes(240 * 1_500),
        }
    }
}

/// Not paused.
const NOBODY: u32 = u32::MAX;
/// No deadline.
const NEVER: Instant = Instant(u64::MAX);

/// Content of a PDQ header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Rate granted.
    pub rate: BitsPerSec,
    /// The port that paused it; `u32::MAX` where none has.
    pub paused_by: u32,
    /// Time at which it should end; the last instant where it has no deadline.
    pub deadline: Instant,
    /// Time that it still needs at its link's rate.
    pub needs: Nanos,
    /// Its round trip.
    pub round_trip: Nanos,
    /// Interval between probes.
    pub probe_after: Nanos,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            rate: BitsPerSec::ZERO,
            paused_by: NOBODY,
            deadline: NEVER,
            needs: Nanos::ZERO,
            round_trip: Nanos::ZERO,
            probe_after: Nanos::ZERO,
        }
    }
}

/// State of one sender.
#[derive(Clone, Debug)]
pub struct Law {
    line: BitsPerSec,
    deadline: Option<Instant>,
    base_rtt: Nanos,
    rate: BitsPerSec,
    paused_by: u32,
}

impl RateLaw for Law {
    type Extra = Schedule;

    fn rate(&self, _: Instant) -> BitsPerSec {
        self.rate
    }

    fn holds(&self) -> bool {
        // A port forgets a flow at its last segment.
        false
    }

    fn ask(&mut self, now: Instant, unsent: Bytes, _: Nanos) -> Schedule {
        self.plain(now, unsent)
    }

    fn plain(&self, now: Instant, unsent: Bytes) -> Schedule {
        let needs = unsent.time_at(self.line).unwrap_or(Nanos(u64::MAX));
        let met = |deadline: &Instant| now.checked_add(needs).is_some_and(|end| end <= *deadline);
        Schedule {
            rate: self.line,
            paused_by: self.paused_by,
            deadline: self.deadline.filter(met).unwrap_or(NEVER),
            needs,
            round_trip: self.base_rtt,
            probe_after: Nanos::ZERO,
        }
    }

    fn leave(&mut self, _: Instant) -> Schedule {
        unreachable!("a flow leaves with its last segment: `holds` is never true")
    }

    fn answer(&mut self, _: Instant, answer: &Schedule) -> Answer {
        self.rate = answer.rate;
        self.paused_by = answer.paused_by;
        if self.rate > BitsPerSec::ZERO {
            // Every packet brings an answer.
            return Answer::Settled;
        }
        Answer::AskIn(answer.probe_after.max(self.base_rtt))
    }
}

/// State of one flow at a port.
#[derive(Clone, Copy, Debug)]
struct Entry {
    flow: u32,
    deadline: Instant,
    needs: Nanos,
    round_trip: Nanos,
    /// Rate; zero while paused.
    rate: u64,
    probe_after: Nanos,
    heard: Instant,
}

impl Entry {
    fn urgency(&self) -> (Instant, Nanos, u32) {
        (self.deadline, self.needs, self.flow)
    }
}

/// One port: its flows, the most urgent first.
#[derive(Clone, Debug)]
pub struct Port {
    number: u32,
    rate: u64,
    base_rtt: Nanos,
    early_start: u64,
    most: usize,
    flows: Vec<Entry>,
    /// The flow that was last let begin, and when.
    begun: Option<(u32, Instant)>,
    /// The link's rate, less what would empty the queue in two round trips.
    usable: u64,
    adapted: Instant,
}

impl Port {
    /// Returns the number of flows in the list.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    fn adapt(&mut self, now: Instant, backlog: Bytes) {
        let interval = 2 * self.base_rtt.get().max(1);
        if now.since(self.adapted).get() >= interval {
            self.adapted = now;
            let excess = u128::from(backlog.get()) * 8_000_000_000 / u128::from(interval);
            let usable = self.rate.saturating_sub(u64::try_from(excess).unwrap_or(u64::MAX));
            // Never nothing: a queue that only data fills would keep all flows paused until it is
            // empty.
            self.usable = usable.max(self.rate / 8);
            self.forget_the_silent(now);
        }
    }

    /// Flows that send are heard at their rate, paused ones at their probes.
    fn forget_the_silent(&mut self, now: Instant) {
        let base = self.base_rtt.get();
        self.flows.retain(|entry| {
            let packet = (u64::from(u16::MAX) * 8_000_000_000).checked_div(entry.rate);
            let pause =
                packet.unwrap_or(0).max(entry.probe_after.get()).max(entry.round_trip.get()).max(base);
            now.since(entry.heard).get() <= pause.saturating_mul(4)
        });
    }

    fn remove(&mut self, flow: u32) {
        self.flows.retain(|entry| entry.flow != flow);
    }

    /// Puts a flow in its place. Returns it, or `None` where the list is full of more urgent ones.
    fn place(&mut self, entry: Entry) -> Option<usize> {
        self.remove(entry.flow);
        let at = self.flows.partition_point(|other| other.urgency().cmp(&entry.urgency()) == Ordering::Less);
        if at >= self.most {
            return None;
        }
        self.flows.insert(at, entry);
        self.flows.truncate(self.most);
        Some(at)
    }

    /// Returns the rate that the flows before `at` leave.
    fn available(&self, at: usize) -> u64 {
        let (mut taken, mut ending) = (0u64, 0u64);
        for entry in &self.flows[..at] {
            // In thousandths of a round trip.
            let trips = entry.needs.get().saturating_mul(1_000) / entry.round_trip.get().max(1);
            if entry.rate > 0 && trips < self.early_start && ending < self.early_start {
                ending += trips;
            } else {
                taken = taken.saturating_add(entry.rate);
            }
            if taken >= self.usable {
                return 0;
            }
        }
        self.usable - taken
    }

    /// Returns whether another flow has just begun.
    fn is_damped(&self, flow: u32, now: Instant) -> bool {
        self.begun.is_some_and(|(other, when)| other != flow && now.since(when) < self.base_rtt)
    }
}

impl PortLogic<Schedule> for Port {
    fn arrive(&mut self, now: Instant, backlog: Bytes, header: &mut Header, schedule: &mut Schedule) {
        self.adapt(now, backlog);
        let flow = header.flow;
        if header.flags.contains(Flags::LAST) {
            self.remove(flow);
            return;
        }
        if schedule.paused_by != NOBODY && schedule.paused_by != self.number {
            self.remove(flow);
            return;
        }
        let before = self.flows.iter().find(|entry| entry.flow == flow).map_or(0, |entry| entry.rate);
        let Schedule { deadline, needs, round_trip, .. } = *schedule;
        let probe_after = Nanos::ZERO;
        let entry = Entry { flow, deadline, needs, round_trip, rate: before, probe_after, heard: now };
        let granted = match self.place(entry) {
            Some(at) => {
                let granted = self.available(at).min(schedule.rate.get());
                let held = before == 0 && self.is_damped(flow, now);
                let granted = if held { 0 } else { granted };
                self.flows[at].rate = granted;
                if before == 0 && granted > 0 {
                    self.begun = Some((flow, now));
                }
                granted
            }
            None => 0,
        };
        schedule.rate = BitsPerSec(granted);
        schedule.paused_by = if granted > 0 { NOBODY } else { self.number };
    }

    fn pass_back(&mut self, _: Instant, header: &mut Header, schedule: &mut Schedule) {
        let flow = header.flow;
        if schedule.paused_by != NOBODY && schedule.paused_by != self.number {
            self.remove(flow);
            return;
        }
        let Some(at) = self.flows.iter().position(|entry| entry.flow == flow) else { return };
        let entry = &mut self.flows[at];
        entry.rate = schedule.rate.get();
        if schedule.paused_by == self.number {
            // A fifth of a round trip for each flow before it (X = 0.2).
            let rest = Nanos(schedule.round_trip.get().saturating_mul(at as u64) / 5);
            schedule.probe_after = schedule.probe_after.max(rest);
            entry.probe_after = schedule.probe_after;
        }
    }
}

impl Transport for Pdq {
    type Extra = Schedule;
    type Sender = PacedSender<Law>;
    type Receiver = EchoingReceiver<Schedule>;
    type PortLogic = Port;

    fn sender(&self, setup: &FlowSetup) -> Self::Sender {
        let law = Law {
            line: setup.line_rate,
            deadline: setup.deadline,
            base_rtt: setup.base_rtt,
            rate: BitsPerSec::ZERO,
            paused_by: NOBODY,
        };
        PacedSender::new(setup, law, Reliability::tcp(self.minimum_rto), self.window)
    }

    fn receiver(&self, setup: &FlowSetup) -> Self::Receiver {
        EchoingReceiver::new(setup)
    }

    fn port_logic(&self, setup: &PortSetup) -> Port {
        Port {
            number: setup.port,
            rate: setup.rate.get(),
            base_rtt: setup.base_rtt,
            early_start: u64::from(self.early_start) * 1_000,
            most: self.list as usize,
            flows: Vec::new(),
            begun: None,
            usable: setup.rate.get(),
            adapted: Instant::ZERO,
        }
    }

    fn needs(&self) -> SwitchNeeds {
        SwitchNeeds { marking: None, buffer: self.buffer, shortest_first: false }
    }
}

impl Definition for Pdq {
    const NAME: &'static str = "pdq";
    const TITLE: &'static str = "PDQ: the most urgent flows send, switches pause the others";
    const SOURCE: &'static str = "Hong, Caesar, Godfrey, SIGCOMM 2012";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "early_start",
            meaning: "round trips before its end from which a flow no longer holds back the next; 0 for never",
            field: |p| &mut p.early_start,
        },
        Parameter { name: "list", meaning: "flows that a port keeps", field: |p| &mut p.list },
        parameters::receive_window(|p| &mut p.window),
        parameters::minimum_rto(|p| &mut p.minimum_rto),
        parameters::buffer(|p| &mut p.buffer),
    ];

    fn check(&self) -> Result<(), Complaint> {
        at_least_one("list", self.list)?;
        at_least_one("window", self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Kind;

    const LINK: u64 = 1_000_000_000;
    const ROUND_TRIP: u64 = 20_000;

    fn port() -> Port {
        let rate = BitsPerSec(LINK);
        let setup = PortSetup { rate, delay: Nanos(1_000), base_rtt: Nanos(ROUND_TRIP), port: 7 };
        Pdq::default().port_logic(&setup)
    }

    /// A header of `flow` passes on its way and back; what it says then.
    fn pass(port: &mut Port, now: u64, flow: u32, deadline: Option<u64>, needs: u64) -> Schedule {
        let mut header = Header { flow, kind: Kind::Probe, size: 40, ..Header::default() };
        let mut schedule = Schedule {
            rate: BitsPerSec(LINK),
            deadline: deadline.map_or(NEVER, Instant),
            needs: Nanos(needs),
            round_trip: Nanos(ROUND_TRIP),
            ..Schedule::default()
        };
        port.arrive(Instant(now), Bytes::ZERO, &mut header, &mut schedule);
        port.pass_back(Instant(now), &mut header, &mut schedule);
        schedule
    }

    #[test]
    fn the_more_urgent_takes_the_link_and_the_other_is_paused() {
        let mut port = port();
        let long = 1_000_000;
        assert_eq!(pass(&mut port, 0, 0, None, 2 * long).rate, BitsPerSec(LINK));
        // A shorter one, later than the damping: it has all, and the first is paused at its next
        // packet.
        assert_eq!(pass(&mut port, ROUND_TRIP, 1, None, long).rate, BitsPerSec(LINK));
        let paused = pass(&mut port, ROUND_TRIP + 1, 0, None, 2 * long);
        assert_eq!((paused.rate, paused.paused_by), (BitsPerSec::ZERO, 7));
        assert_eq!(paused.probe_after, Nanos(ROUND_TRIP / 5), "one stands before it");
        // A deadline goes before any length.
        assert_eq!(pass(&mut port, 3 * ROUND_TRIP, 2, Some(9_000_000), 3 * long).rate, BitsPerSec(LINK));
        assert_eq!(pass(&mut port, 3 * ROUND_TRIP + 1, 1, None, long).rate, BitsPerSec::ZERO);
    }

    #[test]
    fn who_is_about_to_end_does_not_hold_back_the_next() {
        let mut port = port();
        pass(&mut port, 0, 0, None, ROUND_TRIP);
        assert_eq!(pass(&mut port, ROUND_TRIP, 1, None, 1_000_000).rate, BitsPerSec(LINK));
    }

    #[test]
    fn one_begins_after_the_other() {
        let mut port = port();
        pass(&mut port, 0, 0, None, 2_000_000);
        assert_eq!(pass(&mut port, 10, 1, None, 1_000_000).rate, BitsPerSec::ZERO, "damped");
        assert_eq!(pass(&mut port, ROUND_TRIP + 1, 1, None, 1_000_000).rate, BitsPerSec(LINK));
    }

    #[test]
    fn what_another_port_paused_has_ended_or_is_silent_takes_nothing() {
        let mut port = port();
        pass(&mut port, 0, 0, None, 1_000_000);
        let mut header = Header { flow: 0, ..Header::default() };
        let mut elsewhere = Schedule { paused_by: 3, ..Schedule::default() };
        port.pass_back(Instant(1), &mut header, &mut elsewhere);
        assert_eq!(port.flows(), 0);
        pass(&mut port, ROUND_TRIP, 1, None, 1_000_000);
        header = Header { flow: 1, flags: Flags::LAST, ..Header::default() };
        port.arrive(Instant(ROUND_TRIP + 1), Bytes::ZERO, &mut header, &mut Schedule::default());
        assert_eq!(port.flows(), 0);
        pass(&mut port, 2 * ROUND_TRIP, 2, None, 1_000_000);
        // 65,535 bytes at 1 Gbps are half a millisecond; four of them.
        pass(&mut port, 2 * ROUND_TRIP + 2_200_000, 3, None, 5_000_000);
        assert_eq!(port.flows(), 1);
    }

    #[test]
    fn a_flow_that_would_be_late_anyway_loses_its_deadline() {
        let law = Law {
            line: BitsPerSec(LINK),
            deadline: Some(Instant(1_000_000)),
            base_rtt: Nanos(ROUND_TRIP),
            rate: BitsPerSec::ZERO,
            paused_by: NOBODY,
        };
        assert_eq!(law.plain(Instant(0), Bytes(125_000)).deadline, Instant(1_000_000));
        assert_eq!(law.plain(Instant(1), Bytes(125_000)).deadline, NEVER);
    }
}
