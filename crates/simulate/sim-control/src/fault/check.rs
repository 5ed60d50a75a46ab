//! Checks of what must hold, after every turn and after the faults.

use std::collections::BTreeMap;

use cavalcade_control::{Agent, Coordinator, CoordinatorConfig};
use cavalcade_model::{BitsPerSec, Bytes, FineInstant, FlowId, Instant, Nanos, PortId};
use cavalcade_protocol::{CoflowEntry, CoflowKey, Directive, FlowEntry, Gate, Orders, Rank, Report};

use super::greedy;
use super::trial::Trial;
use super::{FAILOVER, HOSTILE_PATIENCE, INSPECTION, PATIENCE, RATE, Violation, millis, passed};
use crate::applications::Flow;
use crate::host::{Host, TRICKLE};
use crate::machine::Machine;
use crate::network::Node;

/// The longest time without a byte moved while flows are under way.
const STANDSTILL: Nanos = Nanos::from_secs(20);

impl Trial<'_> {
    pub(super) fn violation(&self, what: String) -> Violation {
        Violation { at: passed(self.drive.world.now), what }
    }

    /// Coordinators that believe that they lead; one that hangs believes nothing.
    fn leaders(&self) -> impl Iterator<Item = &Coordinator> {
        let now = self.drive.world.now;
        let machines = self.drive.world.machines.iter().filter(move |machine| machine.acts(now));
        machines.filter_map(|machine| machine.coordinator.as_ref())
    }

    /// Checks that agents which can reach the leader do not stay with another, or alone.
    fn check_agents_find_the_leader(&mut self) -> Result<(), Violation> {
        if !self.choice.is_connected {
            return Ok(());
        }
        let world = &self.drive.world;
        let now = world.now;
        let leads = |(_, machine): &(usize, &Machine)| machine.acts(now) && machine.coordinator.is_some();
        let leader = world.machines.iter().enumerate().find(leads);
        let leader =
            leader.and_then(|(number, machine)| Some((number, machine.coordinator.as_ref()?.term())));
        let mut lost = None;
        for (index, host) in world.hosts.iter().enumerate() {
            let obeys = host.agent.as_ref().and_then(Agent::obeys);
            let reaches = |(number, _): &(usize, u64)| {
                host.acts(now) && !world.network.is_cut(Node::Host(host.port), Node::Machine(*number), now)
            };
            let missed = leader.filter(reaches).filter(|(_, term)| obeys != Some(*term));
            let since = &mut self.lost_since[index];
            *since = missed.map(|(_, term)| match *since {
                Some((known, at)) if known == term => (term, at),
                _ => (term, now),
            });
            if since.is_some_and(|(_, at)| now.since(at) > FAILOVER) {
                lost = lost.or(Some(index));
            }
        }
        match lost {
            Some(index) => {
                let span = millis(FAILOVER);
                Err(self.violation(format!("agent {index} has not found the leader for {span} ms")))
            }
            None => Ok(()),
        }
    }

    /// Checks what holds at any time.
    pub(super) fn check(&mut self) -> Result<(), Violation> {
        self.check_agents_find_the_leader()?;
        if let Some(what) = &self.drive.world.unread {
            return Err(self.violation(what.clone()));
        }
        let leaders = self.leaders().count();
        if leaders > 1 {
            return Err(self.violation(format!("{leaders} coordinators believe that they lead")));
        }
        self.check_only_coordinators_are_believed()?;
        self.check_terms_rise()?;
        if let Some(operator) = &mut self.operator
            && let Err(what) = operator.check(&self.drive.world)
        {
            return Err(self.violation(what));
        }
        if self.drive.world.now < self.inspects_at {
            return Ok(());
        }
        self.inspects_at = self.drive.world.now + INSPECTION;
        if !self.drive.is_held {
            self.check_progress()?;
        }
        self.check_shares()?;
        self.check_no_byte_twice()
    }

    /// Checks that users have their budgets, and connections of an enforcer their flow's rate.
    fn check_shares(&self) -> Result<(), Violation> {
        let budget = greedy::budget(self.drive.fluid.workload);
        for host in &self.drive.world.hosts {
            if self.choice.greedy().is_some() {
                greedy::check(host, &budget).map_err(|what| self.violation(what))?;
            }
            for (gate, busy, idle) in host.processes.iter().flat_map(|process| process.enforced()) {
                let cap = |flow: &FlowId| self.drive.applications.flows.get(flow).map(|flow| flow.cap);
                let caps: Vec<_> = busy.iter().filter_map(cap).collect();
                let parts = caps.len() as u64;
                let sum: Option<u64> = caps.iter().map(|cap| cap.map(|rate| rate.0)).sum();
                let holds = match gate {
                    Gate::Off {} => sum.is_some_and(|sum| sum <= TRICKLE.0),
                    Gate::Open {} => caps.iter().all(Option::is_none),
                    // What does not come out even is left over.
                    Gate::Paced { rate } => {
                        let all = rate.0.saturating_sub(parts)..=rate.0;
                        caps.is_empty() || sum.is_some_and(|sum| all.contains(&sum))
                    }
                };
                if !holds || idle.iter().filter_map(cap).any(|cap| cap != Some(BitsPerSec::ZERO)) {
                    let what = format!("a flow of host {} goes through {gate:?}", host.port.0);
                    return Err(self.violation(format!("{what}, its connections through {caps:?}")));
                }
            }
        }
        Ok(())
    }

    fn check_terms_rise(&mut self) -> Result<(), Violation> {
        for (index, host) in self.drive.world.hosts.iter().enumerate() {
            let Some(agent) = &host.agent else {
                self.obeyed[index] = 0;
                continue;
            };
            let Some(term) = agent.obeys() else { continue };
            let before = std::mem::replace(&mut self.obeyed[index], term);
            if term < before {
                return Err(self.violation(format!("agent {index} obeys term {term} after term {before}")));
            }
        }
        Ok(())
    }

    /// Checks that bytes move, and that no flow is off while its links are idle.
    fn check_progress(&mut self) -> Result<(), Violation> {
        let now = self.drive.fluid.clock.point();
        let (fluid, flows) = (&self.drive.fluid, &self.drive.applications.flows);
        let ends = |flow: FlowId| {
            let flow = fluid.workload.flow(flow);
            (flow.src.index(), self.ports as usize + flow.dst.index())
        };
        let mut busy = vec![false; 2 * self.ports as usize];
        let under_way: BTreeMap<FlowId, u64> = flows.keys().map(|&flow| (flow, fluid.sent(flow))).collect();
        for (&flow, &sent) in under_way.iter().chain(&self.seen) {
            let before = self.seen.get(&flow).copied().unwrap_or(0);
            // A trickle leaves links idle.
            let is_held = flows.get(&flow).is_some_and(Flow::is_held);
            let trickle = if is_held { TRICKLE.bytes_per_nano() * INSPECTION.as_f64() } else { 0.0 };
            // What is over has sent its last bytes since.
            if sent.saturating_sub(before) as f64 > trickle.ceil() || !under_way.contains_key(&flow) {
                (busy[ends(flow).0], busy[ends(flow).1]) = (true, true);
            }
        }
        if busy.contains(&true) || under_way.is_empty() {
            self.moved_at = now;
        }
        let waits = |flow: &FlowId| flows[flow].is_held() && !busy[ends(*flow).0] && !busy[ends(*flow).1];
        let since = |flow: FlowId| (flow, self.idle_since.get(&flow).copied().unwrap_or(self.inspected_at));
        let idle_since: BTreeMap<FlowId, FineInstant> =
            under_way.keys().copied().filter(|flow| waits(flow)).map(since).collect();
        (self.seen, self.idle_since, self.inspected_at) = (under_way, idle_since, now);
        let patience = if self.choice.is_hostile { HOSTILE_PATIENCE } else { PATIENCE };
        if let Some((flow, _)) =
            self.idle_since.iter().find(|(_, since)| now.since(**since) > patience.as_f64())
        {
            let (flow, patience) = (flow.0, millis(patience));
            let what = format!("flow {flow} is off though its links have been idle for {patience} ms");
            return Err(self.violation(what));
        }
        if now.since(self.moved_at) > STANDSTILL.as_f64() {
            let flows: Vec<u32> = self.seen.keys().map(|flow| flow.0).collect();
            return Err(self.violation(format!("these flows do not come to an end: {flows:?}")));
        }
        Ok(())
    }

    /// Checks that terms come from the store, and throws of the kill switch from the operator.
    fn check_only_coordinators_are_believed(&self) -> Result<(), Violation> {
        let given = self.drive.world.store.as_ref().map_or(0, |store| store.term);
        for coordinator in self.leaders() {
            let believed = coordinator.highest_term();
            if believed > given {
                let what = format!("a coordinator believes in term {believed}, the highest is {given}");
                return Err(self.violation(what));
            }
        }
        if self.operator.as_ref().is_some_and(|operator| operator.is_thrown) {
            return Ok(());
        }
        let mut agents = self.drive.world.hosts.iter().filter_map(|host| host.agent.as_ref());
        let mut leaders = self.leaders();
        if agents.any(|agent| agent.is_drained()) || leaders.any(|leader| leader.is_drained()) {
            return Err(self.violation("the kill switch is on and was not thrown".to_owned()));
        }
        Ok(())
    }

    fn check_no_byte_twice(&self) -> Result<(), Violation> {
        for (&coflow, record) in &self.drive.applications.coflows {
            let Some(key) = record.key else { continue };
            let sent = self.drive.fluid.sent_of(coflow);
            for believed in self.leaders().filter_map(|leader| leader.attained(key)) {
                if believed.0 > sent {
                    let believed = believed.0;
                    let what =
                        format!("coflow {key} has sent {sent} bytes, the coordinator believes {believed}");
                    return Err(self.violation(what));
                }
            }
        }
        Ok(())
    }

    /// Checks what holds a while after the faults, while the workload is held.
    pub(crate) fn check_recovery(&self) -> Result<(), Violation> {
        self.check_agents_know_their_flows()?;
        self.check_no_byte_lost()?;
        if self.choice.greedy().is_some() {
            let mut hosts = self.drive.world.hosts.iter();
            hosts.try_for_each(greedy::check_left).map_err(|what| self.violation(what))?;
        }
        if self.choice.is_decentralised {
            return Ok(());
        }
        // A coordinator that was given everything at once knows nothing of flows that were waited
        // for in vain.
        let is_compared = !self.choice.greedy().is_some_and(|greedy| greedy.holds);
        let expected = self.faultless_schedule();
        for (index, host) in self.drive.world.hosts.iter().enumerate() {
            let Some(agent) = &host.agent else { continue };
            if agent.obeys().is_none() {
                return Err(self.violation(format!("agent {index} has no coordinator")));
            }
            if agent.is_drained() {
                return Err(self.violation(format!("agent {index} has not heard the end of the kill switch")));
            }
            for flow in agent.status() {
                let want = expected[index].get(&flow.flow).copied().unwrap_or_default();
                if flow.told != want && is_compared {
                    let what = format!(
                        "flow {} of coflow {} at host {index} is told {:?}, without faults it would be {want:?}",
                        flow.flow, flow.coflow, flow.told
                    );
                    return Err(self.violation(what));
                }
            }
        }
        Ok(())
    }

    /// Checks that clients and agents agree on what flows there are and what they have sent.
    fn check_agents_know_their_flows(&self) -> Result<(), Violation> {
        for (index, host) in self.drive.world.hosts.iter().enumerate() {
            let Some(agent) = &host.agent else {
                return Err(self.violation(format!("agent {index} has not started again")));
            };
            let mut known: Vec<u64> = agent.status().map(|flow| flow.sent.0).collect();
            let mut real: Vec<u64> = host.processes.iter().flat_map(|process| process.counted()).collect();
            known.sort_unstable();
            real.sort_unstable();
            if known != real {
                let what =
                    format!("agent {index} believes that its flows have sent {known:?}, they have {real:?}");
                return Err(self.violation(what));
            }
        }
        Ok(())
    }

    /// Checks that the coordinator believes what all agents do; and that is all that was sent,
    /// where nothing that knew of it crashed.
    fn check_no_byte_lost(&self) -> Result<(), Violation> {
        let mut believed: BTreeMap<CoflowKey, u64> = BTreeMap::new();
        for agent in self.drive.world.hosts.iter().filter_map(|host| host.agent.as_ref()) {
            for part in agent.parts() {
                *believed.entry(part.key).or_default() += part.sent.0;
            }
            for flow in agent.status() {
                *believed.entry(flow.coflow).or_default() += flow.sent.0;
            }
        }
        for (&coflow, record) in &self.drive.applications.coflows {
            let Some(key) = record.key else { continue };
            let sent = self.drive.fluid.sent_of(coflow);
            let agents = believed.get(&key).copied().unwrap_or(0);
            let is_lost = agents < sent && !self.has_forgotten;
            if agents > sent || is_lost {
                let what = format!("coflow {key} has sent {sent} bytes, agents believe {agents}");
                return Err(self.violation(what));
            }
            let known = self.leaders().next().map(|leader| leader.attained(key).map_or(0, |bytes| bytes.0));
            if known.is_some_and(|known| known != agents) {
                let what = format!(
                    "agents believe that coflow {key} has sent {agents} bytes, the coordinator {known:?}"
                );
                return Err(self.violation(what));
            }
        }
        Ok(())
    }

    /// Returns what agents would tell clients if a coordinator were given the whole state at once:
    /// for each host, by flow. What is served stays served, so it first hears of the flows that are
    /// let through, and then of all.
    fn faultless_schedule(&self) -> Vec<BTreeMap<u32, Directive>> {
        // All was confirmed by now.
        let config =
            CoordinatorConfig { term: u64::MAX, confirm: false, ..self.drive.world.site.coordinator };
        let period = config.period;
        let mut coordinator = Coordinator::new(config, self.choice.factory());
        let mut now = Instant(u64::MAX / 2);
        let mut schedule = vec![BTreeMap::new(); self.drive.world.hosts.len()];
        for (sequence, all) in [(1, false), (2, true)] {
            for host in &self.drive.world.hosts {
                coordinator.handle_report(now, self.snapshot(host, sequence, all));
            }
            coordinator.handle_timeout(now);
            while let Some((port, orders)) = coordinator.poll_orders() {
                self.carry_out(port, &orders, &mut schedule[port.index()]);
            }
            now = now + period;
        }
        schedule
    }

    fn carry_out(&self, port: PortId, orders: &Orders, told: &mut BTreeMap<u32, Directive>) {
        let Some(agent) = &self.drive.world.hosts[port.index()].agent else { return };
        let parts: BTreeMap<CoflowKey, u32> = agent.parts().map(|part| (part.key, part.part)).collect();
        for flow in agent.status() {
            let order = orders.flows.get(flow.flow);
            let of_part = orders.priorities.get(parts[&flow.coflow]).copied().unwrap_or_default();
            let priority = match order.map(|order| order.rank) {
                Some(Rank::Own { priority }) => priority,
                _ => of_part,
            };
            let gate = order.map_or(Gate::Open {}, |order| order.gate);
            told.insert(flow.flow, Directive { gate, class: Some(priority.class.min(7)) });
        }
    }

    /// Returns all that the agent of a host knows, as it would report it; without `all`, only flows
    /// that are let through.
    fn snapshot(&self, host: &Host, sequence: u64, all: bool) -> Report {
        let agent = host.agent.as_ref().expect("all agents run after the faults");
        let numbers: BTreeMap<CoflowKey, u32> = agent.parts().map(|part| (part.key, part.part)).collect();
        let entry = |part: cavalcade_control::PartStatus| {
            // Users that share a coflow are granted it.
            let (key, facts, sent, owner) = (part.key, part.facts, part.sent, 0);
            (part.part, CoflowEntry { key, facts, sent, owner })
        };
        let flow = |flow: cavalcade_control::FlowStatus| {
            let (coflow, sent): (u32, Bytes) = (numbers[&flow.coflow], flow.sent);
            (flow.flow, FlowEntry { coflow, to: flow.to, size: flow.size, sent, idle: flow.rests })
        };
        Report {
            snapshot: true,
            resync: all,
            coflows: agent.parts().map(entry).collect(),
            flows: agent.status().filter(|flow| all || flow.told.gate != Gate::Off {}).map(flow).collect(),
            ..Report::new(host.port, 1, sequence, Instant(u64::MAX / 2), RATE)
        }
    }
}
