//! What state machines know, in the words of the service.

use std::collections::BTreeMap;

use cavalcade_control::{
    Agent, CoflowFlow, CoflowStatus, Coordinator, Direction, FlowStatus, Mode, PastCoflow, TooManyDrains,
};
use cavalcade_model::{Bytes, Instant, Priority, TaskClass};
use cavalcade_protocol::{CoflowKey, Drain, Drained, Facts, Gate};

use super::naming::Naming;
use super::{About, draining, proto};

/// A state machine that can be looked at and switched.
pub(crate) trait Administered {
    /// What everything under this machine is called in drains.
    const EVERYTHING: &'static str;

    /// Returns the state at `now`.
    fn view(&self, now: Instant, about: &About, request: &proto::LookRequest) -> Result<proto::View, String>;
    /// Why the coflow that `text` means goes as it does, or why that cannot be said.
    fn explained(&self, about: &About, text: &str) -> Result<proto::Explanation, String>;
    /// Returns whether it does what it is there for; else why it does not.
    fn readiness(&self) -> Result<(), String>;
    /// The names of all coflows that are known, and of those that are drained.
    fn naming(&self) -> Naming;
    /// Finds what is to be drained, or says why there is no such thing.
    fn place_of(&self, what: Drained) -> Result<Drained, String>;
    /// Drains something; returns whether it was drained.
    fn set_drain(&mut self, drain: Drain) -> Result<bool, TooManyDrains>;
    /// Ends a drain; returns whether it held.
    fn lift_drain(&mut self, what: Drained) -> bool;
    /// Returns whether everything is drained, and what is drained by itself.
    fn drained(&self) -> (bool, &[Drain]);
    /// The coflows that were over lately, `most` of them, or all where that is zero.
    fn history(&self, now: Instant, most: usize) -> Result<proto::HistoryReply, String>;
}

impl Administered for Coordinator {
    const EVERYTHING: &'static str = "fabric";

    fn view(&self, now: Instant, about: &About, request: &proto::LookRequest) -> Result<proto::View, String> {
        let all: Vec<CoflowStatus> = self.status().collect();
        let naming = self.naming();
        let wanted = wanted(&naming, &request.coflow, &unreported)?;
        let coflows = all.iter().filter(|coflow| wanted.is_none_or(|wanted| coflow.key == wanted));
        let hosts = self.last_reports();
        let shown = |coflow: &CoflowStatus| {
            let drain =
                self.drain_of(coflow.key).map(|drain| draining::shown(&naming, Self::EVERYTHING, drain));
            proto::Coflow { drain, ..of_coordinator(now, about, &naming, self.ports(), coflow) }
        };
        Ok(proto::View {
            role: "coordinator".to_owned(),
            ports: self.ports(),
            policy: about.policy.clone(),
            term: Some(self.term()),
            shadow: about.shadow,
            drained: self.is_drained(),
            now_ns: now.0,
            rounds: self.rounds(),
            hosts: hosts.map(|(port, at)| proto::Host { port: port.0, silent_ns: now.since(at).0 }).collect(),
            coflows: in_order(coflows.map(shown), request.with_flows),
            drains: self
                .drains()
                .iter()
                .map(|drain| draining::shown(&naming, Self::EVERYTHING, drain))
                .collect(),
            ..Default::default()
        })
    }

    fn readiness(&self) -> Result<(), String> {
        let is_deposed = self.is_deposed();
        if is_deposed { Err("another coordinator leads".to_owned()) } else { Ok(()) }
    }

    fn naming(&self) -> Naming {
        let drained = self.drains().iter().filter_map(draining::key_of).map(|key| (key, None));
        naming(drained.chain(self.status().map(|coflow| (coflow.key, coflow.facts))))
    }

    fn place_of(&self, what: Drained) -> Result<Drained, String> {
        match what {
            Drained::Host { port } if port.0 >= self.ports() => {
                Err(format!("there is no host {} among {}: they count from 0", port.0, self.ports()))
            }
            what => Ok(what),
        }
    }

    fn set_drain(&mut self, drain: Drain) -> Result<bool, TooManyDrains> {
        Coordinator::set_drain(self, drain)
    }

    fn lift_drain(&mut self, what: Drained) -> bool {
        Coordinator::lift_drain(self, what)
    }

    fn drained(&self) -> (bool, &[Drain]) {
        (self.is_drained(), self.drains())
    }

    fn history(&self, now: Instant, most: usize) -> Result<proto::HistoryReply, String> {
        let most = if most == 0 { usize::MAX } else { most };
        let past: Vec<&PastCoflow> = Coordinator::history(self).take(most).collect();
        let naming = naming(past.iter().map(|past| (past.key, past.facts)));
        let coflows = past.into_iter().map(|past| of_past(&naming, past)).collect();
        Ok(proto::HistoryReply { coflows, now_ns: now.0 })
    }

    fn explained(&self, about: &About, text: &str) -> Result<proto::Explanation, String> {
        let naming = self.naming();
        let found = naming.find(text)?.and_then(|key| Some((key, self.why(key)?)));
        let (key, found) = found.ok_or_else(|| unreported(text))?;
        let drain = self.drain_of(key).map(|drain| draining::shown(&naming, Self::EVERYTHING, drain));
        Ok(explanation(about, &naming, key, &found, drain))
    }
}

impl Administered for Agent {
    const EVERYTHING: &'static str = "this host";

    fn view(&self, now: Instant, about: &About, request: &proto::LookRequest) -> Result<proto::View, String> {
        let naming = self.naming();
        let wanted = wanted(&naming, &request.coflow, &unknown)?;
        let mut flows: BTreeMap<CoflowKey, Vec<proto::Flow>> = BTreeMap::new();
        for flow in self.status() {
            let shown = of_agent(self, &flow, about);
            flows.entry(flow.coflow).or_default().push(shown);
        }
        let parts = self.parts().filter(|part| wanted.is_none_or(|wanted| part.key == wanted));
        let coflows = parts.map(|part| {
            let flows = flows.remove(&part.key).unwrap_or_default();
            let sent = flows.iter().fold(part.sent.0, |sum, flow| sum.saturating_add(flow.sent_bytes));
            let known = Known { key: part.key, facts: part.facts, owner: Some(part.user), sent: Bytes(sent) };
            let drain =
                self.drain_of(part.key).map(|drain| draining::shown(&naming, Self::EVERYTHING, drain));
            let shown = known.coflow(now, &naming, part.priority, flows);
            proto::Coflow { drain, left_alone: part.left_alone, ..shown }
        });
        Ok(proto::View {
            role: "agent".to_owned(),
            port: Some(self.port().0),
            ports: self.ports(),
            policy: about.policy.clone(),
            term: self.obeys(),
            shadow: about.shadow,
            drained: self.is_drained(),
            now_ns: now.0,
            clients: self.clients() as u32,
            orders_age_ns: self.orders_heard_at().map(|at| now.since(at).0),
            coflows: in_order(coflows, request.with_flows),
            drains: self
                .drains()
                .iter()
                .map(|drain| draining::shown(&naming, Self::EVERYTHING, drain))
                .collect(),
            ..Default::default()
        })
    }

    fn readiness(&self) -> Result<(), String> {
        match self.mode() {
            Mode::Coordinated if self.obeys().is_none() => {
                Err("no coordinator is obeyed: all flows go as plain TCP".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn naming(&self) -> Naming {
        let drained = self.drains().iter().filter_map(draining::key_of).map(|key| (key, None));
        naming(drained.chain(self.parts().map(|part| (part.key, part.facts))))
    }

    fn place_of(&self, what: Drained) -> Result<Drained, String> {
        match what {
            Drained::Host { port } if port == self.port() => Ok(Drained::All {}),
            Drained::Host { port } => Err(format!(
                "this agent stands at port {}, not {}: ask the coordinator, with --at",
                self.port().0,
                port.0
            )),
            what => Ok(what),
        }
    }

    fn set_drain(&mut self, drain: Drain) -> Result<bool, TooManyDrains> {
        Agent::set_drain(self, drain)
    }

    fn lift_drain(&mut self, what: Drained) -> bool {
        Agent::lift_drain(self, what)
    }

    fn drained(&self) -> (bool, &[Drain]) {
        (self.is_drained(), self.drains())
    }

    fn history(&self, _: Instant, _: usize) -> Result<proto::HistoryReply, String> {
        Err("an agent keeps no history: ask the coordinator, with --at".to_owned())
    }

    fn explained(&self, about: &About, text: &str) -> Result<proto::Explanation, String> {
        let naming = self.naming();
        let key = naming.find(text)?.ok_or_else(|| unknown(text))?;
        if let Some(found) = self.why(key) {
            let drain = self.drain_of(key).map(|drain| draining::shown(&naming, Self::EVERYTHING, drain));
            return Ok(explanation(about, &naming, key, &found, drain));
        }
        Err(match self.mode() {
            Mode::Coordinated => "this agent obeys a coordinator: ask there, with --at".to_owned(),
            Mode::Decentralised(_) => unknown(text),
        })
    }
}

fn naming(coflows: impl Iterator<Item = (CoflowKey, Option<Facts>)>) -> Naming {
    Naming::new(coflows.map(|(key, facts)| (key, facts.and_then(|facts| facts.name))))
}

/// The coflow that a request asks for: none where it asks for all. Where there is none such,
/// `missing` says so.
fn wanted(
    naming: &Naming,
    text: &str,
    missing: &dyn Fn(&str) -> String,
) -> Result<Option<CoflowKey>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    naming.find(text)?.ok_or_else(|| missing(text)).map(Some)
}

fn unreported(text: &str) -> String {
    format!("no agent has reported a coflow '{text}' (small ones are not)")
}

fn unknown(text: &str) -> String {
    format!("this agent knows no coflow '{text}'")
}

/// The knowledge of a coflow, from a coordinator or an agent.
struct Known {
    key: CoflowKey,
    facts: Option<Facts>,
    owner: Option<u32>,
    sent: Bytes,
}

impl Known {
    fn coflow(
        &self,
        now: Instant,
        naming: &Naming,
        priority: Priority,
        flows: Vec<proto::Flow>,
    ) -> proto::Coflow {
        let count = |gate: &str| flows.iter().filter(|flow| flow.gate == gate).count() as u32;
        let facts = self.facts;
        proto::Coflow {
            coflow: self.key.to_string(),
            id: naming.id(self.key),
            name: naming.name(self.key).map(|name| name.to_string()),
            class: u32::from(priority.class),
            order: priority.order,
            sent_bytes: self.sent.0,
            size_bytes: facts.and_then(|facts| facts.size).map(|size| size.0),
            age_ns: facts.map(|facts| now.since(facts.arrival).0),
            deadline_ns: facts.and_then(|facts| facts.deadline).map(|at| at.0.wrapping_sub(now.0) as i64),
            background: facts.is_some_and(|facts| facts.class == TaskClass::Background),
            weight: facts.map_or(1, |facts| facts.weight),
            owner: self.owner,
            open: count("open"),
            paced: count("paced"),
            off: count("off"),
            resting: count("rests"),
            outside: flows.iter().filter(|flow| flow.outside).count() as u32,
            flows,
            drain: None,
            left_alone: 0,
        }
    }
}

fn of_coordinator(
    now: Instant,
    about: &About,
    naming: &Naming,
    hosts: u32,
    coflow: &CoflowStatus,
) -> proto::Coflow {
    let flow = |flow: &CoflowFlow| {
        let (gate, rate_bps) = gate(flow.gate, flow.rests);
        proto::Flow {
            from: flow.from.0,
            from_address: about.address(flow.from),
            number: flow.number,
            to: flow.to.0,
            to_address: about.address(flow.to),
            outside: flow.to.0 >= hosts,
            sent_bytes: flow.sent.0,
            size_bytes: flow.size.map(|size| size.0),
            gate,
            rate_bps,
            class: u32::from(flow.priority.class),
            order: flow.priority.order,
        }
    };
    let CoflowStatus { key, facts, owner, sent, .. } = *coflow;
    let flows = coflow.flows.iter().map(flow).collect();
    Known { key, facts, owner, sent }.coflow(now, naming, coflow.priority, flows)
}

/// A flow as its agent sees it: what its client was told, or, where that is nothing, what was
/// decided.
fn of_agent(agent: &Agent, flow: &FlowStatus, about: &About) -> proto::Flow {
    let (port, is_decision) = (agent.port(), about.shadow || agent.is_drained());
    let decided = flow.ordered.map_or(Gate::Open {}, |order| order.gate);
    let (gate, rate_bps) = gate(if is_decision { decided } else { flow.told.gate }, flow.rests);
    proto::Flow {
        from: port.0,
        from_address: about.address(port),
        number: flow.flow,
        to: flow.to.0,
        to_address: about.address(flow.to),
        outside: flow.to.0 >= agent.ports(),
        sent_bytes: flow.sent.0,
        size_bytes: flow.size.map(|size| size.0),
        gate,
        rate_bps,
        class: u32::from(flow.priority.class),
        order: flow.priority.order,
    }
}

fn gate(gate: Gate, rests: bool) -> (String, Option<u64>) {
    let (name, rate) = match gate {
        _ if rests => ("rests", None),
        Gate::Open {} => ("open", None),
        Gate::Off {} => ("off", None),
        Gate::Paced { rate } => ("paced", Some(rate.0)),
    };
    (name.to_owned(), rate)
}

fn of_past(naming: &Naming, past: &PastCoflow) -> proto::PastCoflow {
    proto::PastCoflow {
        coflow: past.key.to_string(),
        id: naming.id(past.key),
        name: naming.name(past.key).map(|name| name.to_string()),
        class: u32::from(past.priority.class),
        order: past.priority.order,
        sent_bytes: past.sent.0,
        size_bytes: past.facts.and_then(|facts| facts.size).map(|size| size.0),
        ended_ns: past.ended.0,
        took_ns: past.facts.map(|facts| past.ended.since(facts.arrival).0),
        owner: past.owner,
        lost: past.is_lost,
        drain: past.drain.as_ref().map(|drain| draining::shown(naming, Coordinator::EVERYTHING, drain)),
    }
}

/// Puts coflows in the order in which they go; those with nothing to send, which the policy gives
/// no place, come last.
fn in_order(coflows: impl Iterator<Item = proto::Coflow>, with_flows: bool) -> Vec<proto::Coflow> {
    let mut coflows: Vec<proto::Coflow> = coflows.collect();
    if !with_flows {
        coflows.iter_mut().for_each(|coflow| coflow.flows.clear());
    }
    // Keys came in ascending order, and the sort keeps that among equals.
    coflows.sort_by_key(|coflow| {
        let has_nothing_to_send = coflow.open + coflow.paced + coflow.off == 0;
        (has_nothing_to_send, coflow.class, coflow.order)
    });
    coflows
}

/// An explanation in the words of the service, and as a sentence.
fn explanation(
    about: &About,
    naming: &Naming,
    key: CoflowKey,
    found: &cavalcade_control::Explanation,
    drain: Option<proto::Drain>,
) -> proto::Explanation {
    let blocker = |one: &cavalcade_control::Blocker| proto::Blocker {
        port: one.port.0,
        address: about.address(one.port),
        direction: match one.direction {
            Direction::Sending => "sending",
            Direction::Receiving => "receiving",
        }
        .to_owned(),
        flows: one.flows as u32,
        ahead: one.ahead.iter().map(CoflowKey::to_string).collect(),
        ahead_labels: one.ahead.iter().map(|&key| naming.label(key)).collect(),
        left_bytes: one.left.0,
        unknown: one.unknown as u32,
        time_ns: one.time.0,
    };
    let mut explanation = proto::Explanation {
        coflow: key.to_string(),
        label: naming.label(key),
        policy: about.policy.clone(),
        policy_title: about.title.clone(),
        class: u32::from(found.priority.class),
        order: found.priority.order,
        sent_bytes: found.sent.0,
        open: found.open as u32,
        paced: found.paced as u32,
        off: found.off as u32,
        resting: found.resting as u32,
        outside: found.outside as u32,
        blockers: found.blockers.iter().map(blocker).collect(),
        summary: String::new(),
    };
    explanation.summary = match drain {
        Some(drain) => {
            format!("goes as plain TCP: {} has drained {}: {}", drain.who, drain.what, drain.reason)
        }
        None => sentence(&explanation) + &leaving(&explanation),
    };
    explanation
}

/// The blocker that takes longest, in words; else what the flows do.
fn sentence(found: &proto::Explanation) -> String {
    let sending = found.open + found.paced;
    if let Some(first) = found.blockers.first() {
        let verb = if sending == 0 { "waits" } else { "waits in part" };
        let more = match found.blockers.len() - 1 {
            0 => String::new(),
            1 => ", and at one more port".to_owned(),
            more => format!(", and at {more} more ports"),
        };
        let ahead = match first.ahead.len() {
            1 => "one coflow".to_owned(),
            ahead => format!("{ahead} coflows"),
        };
        let host = first.address.as_ref().map_or_else(String::new, |address| format!(" ({address})"));
        return format!("{verb} behind {ahead} at port {}{host}, {}{more}", first.port, to_go(first));
    }
    match (sending, found.off, found.resting) {
        (0, 0, 0) => "has no open flows".to_owned(),
        (0, 0, _) => "has nothing to send".to_owned(),
        (0, ..) => "is held back by the policy, though no coflow goes before it at its ports".to_owned(),
        (_, 0, _) => "sends: nothing goes before it".to_owned(),
        _ => "sends in part: the policy holds the rest back".to_owned(),
    }
}

/// What is said of flows that leave the site.
fn leaving(found: &proto::Explanation) -> String {
    let verb = match found.outside {
        0 => return String::new(),
        1 => "flow leaves",
        _ => "flows leave",
    };
    format!("; {} {verb} the site, ordered at the sending host's link", found.outside)
}

fn to_go(blocker: &proto::Blocker) -> String {
    let seconds = blocker.time_ns as f64 / 1e9;
    let known = if seconds < 10.0 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") };
    match (blocker.time_ns, blocker.unknown) {
        (_, 0) => format!("{known} to go"),
        (0, _) => "of unknown sizes".to_owned(),
        (_, flows) => format!("more than {known} to go ({flows} of their flows have unknown sizes)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coflows_go_by_class_and_order_and_those_with_nothing_to_send_come_last() {
        let coflow = |coflow: &str, class, order, off, resting| proto::Coflow {
            coflow: coflow.to_owned(),
            class,
            order,
            off,
            resting,
            ..proto::Coflow::default()
        };
        let listed = [
            coflow("rests", 0, 0, 0, 1),
            coflow("second", 1, 0, 1, 0),
            coflow("first", 0, 7, 1, 1),
            coflow("idle", 0, 0, 0, 0),
        ];
        let keys: Vec<String> =
            in_order(listed.into_iter(), false).into_iter().map(|one| one.coflow).collect();
        assert_eq!(keys, ["first", "second", "rests", "idle"]);
    }
}
