//! What must hold, at every step and after the faults.

use std::collections::BTreeMap;

use cavalcade_control::{Coordinator, CoordinatorConfig};
use cavalcade_model::{Bytes, Instant, PortId};
use cavalcade_protocol::{
    CoflowEntry, CoflowKey, Directive, FlowEntry, Gate, Keyed, Orders, PROTOCOL, Report, Sealed,
};

use crate::operator::Operator;
use crate::world::World;
use crate::{HOSTILE_PATIENCE_MS, PATIENCE_MS, Violation};

impl World {
    /// What holds in every millisecond.
    pub(crate) fn check_step(&mut self) -> Result<(), Violation> {
        let patience = if self.choice.is_hostile { HOSTILE_PATIENCE_MS } else { PATIENCE_MS };
        for (index, flow) in self.traffic.flows.iter().enumerate() {
            if flow.waits_ms > patience {
                let what = format!("flow {index} is off though its links have been idle for {patience} ms");
                return Err(self.violation(what));
            }
        }
        let leaders = self.machines.iter().filter(|machine| machine.coordinator.is_some()).count();
        if leaders > 1 {
            return Err(self.violation(format!("{leaders} coordinators believe that they lead")));
        }
        self.check_only_coordinators_are_believed()?;
        for index in 0..self.hosts.len() {
            let host = &mut self.hosts[index];
            let Some(term) = host.agent.as_ref().and_then(|agent| agent.obeys()) else { continue };
            let before = std::mem::replace(&mut host.highest_term, term);
            if term < before {
                let what = format!("agent {index} obeys term {term} after term {before}");
                return Err(self.violation(what));
            }
        }
        if let Some(operator) = &mut self.operator
            && let Err(what) = operator.check(self.now, &self.hosts, &self.machines)
        {
            return Err(self.violation(what));
        }
        // Amounts are compared now and then, they are many.
        if self.now.is_multiple_of(10) { self.check_no_byte_twice() } else { Ok(()) }
    }

    /// Terms come from the store, and the kill switch is thrown by the operator.
    fn check_only_coordinators_are_believed(&self) -> Result<(), Violation> {
        for coordinator in self.machines.iter().filter_map(|machine| machine.coordinator.as_ref()) {
            let (believed, given) = (coordinator.highest_term(), self.highest_term());
            if believed > given {
                let what = format!("a coordinator believes in term {believed}, the highest is {given}");
                return Err(self.violation(what));
            }
        }
        if self.operator.as_ref().is_some_and(Operator::is_thrown) {
            return Ok(());
        }
        let mut agents = self.hosts.iter().filter_map(|host| host.agent.as_ref());
        let mut leaders = self.machines.iter().filter_map(|machine| machine.coordinator.as_ref());
        if agents.any(|agent| agent.is_drained()) || leaders.any(|leader| leader.is_drained()) {
            return Err(self.violation("the kill switch is on and was not thrown".to_owned()));
        }
        Ok(())
    }

    fn check_no_byte_twice(&self) -> Result<(), Violation> {
        // Of what is over somebody else may say what they like.
        let hostile = self.choice.is_hostile;
        for coflow in self.traffic.coflows.iter().filter(|coflow| !(hostile && coflow.is_over)) {
            let Some(key) = coflow.key else { continue };
            let coordinators = self.machines.iter().filter_map(|machine| machine.coordinator.as_ref());
            for believed in coordinators.filter_map(|coordinator| coordinator.attained(key)) {
                if believed.0 > coflow.sent {
                    let sent = coflow.sent;
                    let what = format!(
                        "coflow {key} has sent {sent} bytes, the coordinator believes {}",
                        believed.0
                    );
                    return Err(self.violation(what));
                }
            }
        }
        Ok(())
    }

    /// What holds a while after the faults, while no bytes move.
    pub(crate) fn check_recovery(&self) -> Result<(), Violation> {
        self.check_agents_know_their_flows()?;
        self.check_no_byte_lost()?;
        if self.choice.is_decentralised {
            return Ok(());
        }
        let expected = self.faultless_schedule();
        for (index, host) in self.hosts.iter().enumerate() {
            let Some(agent) = &host.agent else { continue };
            if agent.obeys().is_none() {
                return Err(self.violation(format!("agent {index} has no coordinator")));
            }
            if agent.is_drained() {
                return Err(self.violation(format!("agent {index} has not heard the end of the kill switch")));
            }
            for flow in agent.status() {
                let want = expected[index].get(&flow.flow).copied().unwrap_or_default();
                if flow.told != want {
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

    /// Clients and agents agree on what flows there are and what they have sent.
    fn check_agents_know_their_flows(&self) -> Result<(), Violation> {
        for (index, host) in self.hosts.iter().enumerate() {
            let Some(agent) = &host.agent else {
                return Err(self.violation(format!("agent {index} has not started again")));
            };
            let mut known: Vec<u64> = agent.status().map(|flow| flow.sent.0).collect();
            let open = self.traffic.flows.iter().filter(|flow| flow.host == index);
            let sent = |flow: &crate::traffic::Flow| {
                let client = host.processes[flow.process].client.as_ref()?;
                client.bytes_of(flow.number?).map(|bytes| bytes.0)
            };
            let mut real: Vec<u64> = open.filter_map(sent).collect();
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

    /// The coordinator believes what all agents do; and that is all that was sent, where nothing that knew of it crashed.
    fn check_no_byte_lost(&self) -> Result<(), Violation> {
        let mut believed: BTreeMap<CoflowKey, u64> = BTreeMap::new();
        for agent in self.hosts.iter().filter_map(|host| host.agent.as_ref()) {
            for part in agent.parts() {
                *believed.entry(part.key).or_default() += part.sent.0;
            }
            for flow in agent.status() {
                *believed.entry(flow.coflow).or_default() += flow.sent.0;
            }
        }
        for coflow in self.traffic.coflows.iter().filter(|coflow| !coflow.is_over) {
            let Some(key) = coflow.key else { continue };
            let agents = believed.get(&key).copied().unwrap_or(0);
            let is_lost = agents < coflow.sent && !self.has_forgotten;
            if agents > coflow.sent || is_lost {
                let what = format!("coflow {key} has sent {} bytes, agents believe {agents}", coflow.sent);
                return Err(self.violation(what));
            }
            let leader = self.machines.iter().find_map(|machine| machine.coordinator.as_ref());
            let known = leader.map(|leader| leader.attained(key).map_or(0, |bytes| bytes.0));
            if known.is_some_and(|known| known != agents) {
                let what = format!(
                    "agents believe that coflow {key} has sent {agents} bytes, the coordinator {known:?}"
                );
                return Err(self.violation(what));
            }
        }
        Ok(())
    }

    /// What agents would tell clients if a coordinator were given the whole state at once: for each host, by flow. What is
    /// served stays served, so it first hears of the flows that are let through, and then of all.
    fn faultless_schedule(&self) -> Vec<BTreeMap<u32, Directive>> {
        let config = CoordinatorConfig::new(u64::MAX, self.choice.ports(), self.choice.rate);
        let period = config.period;
        let mut coordinator = Coordinator::new(config, self.choice.factory());
        let mut now = Instant(u64::MAX / 2);
        let mut schedule = vec![BTreeMap::new(); self.hosts.len()];
        for (sequence, all) in [(1, false), (2, true)] {
            for host in &self.hosts {
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
        let Some(agent) = &self.hosts[port.index()].agent else { return };
        let parts: BTreeMap<CoflowKey, u32> = agent.parts().map(|part| (part.key, part.part)).collect();
        for flow in agent.status() {
            let order = orders.flows.get(flow.flow);
            let of_part = orders.priorities.get(parts[&flow.coflow]).copied().unwrap_or_default();
            let priority = order.and_then(|order| order.priority).unwrap_or(of_part);
            let gate = order.map_or(Gate::Open {}, |order| order.gate);
            told.insert(flow.flow, Directive { gate, class: priority.class.min(7) });
        }
    }

    /// All that the agent of a host knows, as it would report it; without `all`, only flows that are let through.
    fn snapshot(&self, host: &crate::host::Host, sequence: u64, all: bool) -> Report {
        let agent = host.agent.as_ref().expect("all agents run after the faults");
        let numbers: BTreeMap<CoflowKey, u32> = agent.parts().map(|part| (part.key, part.part)).collect();
        let entry = |part: cavalcade_control::PartStatus| {
            let (key, facts, sent, owner) = (part.key, part.facts, part.sent, part.user);
            (part.part, CoflowEntry { key, facts, sent, owner })
        };
        let flow = |flow: cavalcade_control::FlowStatus| {
            let (coflow, sent): (u32, Bytes) = (numbers[&flow.coflow], flow.sent);
            (flow.flow, FlowEntry { coflow, to: flow.to, size: flow.size, sent, idle: flow.rests })
        };
        Report {
            protocol: PROTOCOL,
            port: host.port,
            session: 1,
            sequence,
            clock: Instant(u64::MAX / 2),
            snapshot: true,
            resync: all,
            standing: Sealed::default(),
            up: self.choice.rate,
            down: self.choice.rate,
            coflows: agent.parts().map(entry).collect(),
            flows: agent.status().filter(|flow| all || flow.told.gate != Gate::Off {}).map(flow).collect(),
            progress: Keyed::default(),
            closed: Keyed::default(),
            left: Keyed::default(),
        }
    }
}
