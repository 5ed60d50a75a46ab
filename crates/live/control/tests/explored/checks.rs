//! What holds at any time, and what comes of a state once faults are over.

use std::collections::BTreeMap;

use cavalcade_control::{CoflowFlow, CoflowStatus, Coordinator};
use cavalcade_model::{Bytes, Instant, PortId};
use cavalcade_protocol::{
    CoflowEntry, CoflowKey, Directive, FlowEntry, Gate, Limit, Rank, Report, TaskCounter,
};

use super::host::USER;
use super::site::{RATE, Rule, Site, coordinator};

/// Periods after the last fault within which all has to be as without it: a lease until a silent
/// connection is given up, two until one on which nothing comes is, and some to report.
const RECOVERY: u32 = 32;
/// Periods between two looks.
const LOOK: u32 = 4;
/// Periods in which applications come to their ends then.
const END: u32 = 60;
/// Periods after which what is over is forgotten.
const LINGER: u32 = 12;

/// What others have reported of a coflow: its owner, its bytes, and flows: from, number, to, bytes
/// and whether they rest.
pub(super) type Others = Vec<(CoflowKey, Option<u32>, Bytes, Vec<(PortId, u32, PortId, Bytes, bool)>)>;

impl Site<'_> {
    /// What a coordinator knows from others than `port`, of coflows that are not that host's own.
    /// What an honest host says of what arrives may change what others' bytes count for, and
    /// whether their flows are waited for.
    pub(super) fn others_of(&self, at: usize, port: PortId) -> Others {
        let Some(coordinator) = &self.coordinators[at] else { return Vec::new() };
        let is_hostile = self.plan.lies > 0 && port == self.liar.port;
        let all = coordinator.status().filter_map(|coflow| {
            let is_home = TaskCounter::agent_of(coflow.key.serial, self.plan.ports()) == Some(port);
            let flows = coflow.flows.iter().filter(|flow| flow.from != port);
            let shown =
                |flow: &CoflowFlow| (flow.from, flow.number, flow.to, flow.sent, is_hostile && flow.rests);
            let flows: Vec<_> = flows.map(shown).collect();
            let sent = if is_hostile { coflow.sent } else { Bytes::ZERO };
            (!is_home && !flows.is_empty()).then_some((coflow.key, coflow.owner, sent, flows))
        });
        all.collect()
    }

    /// A coflow of another user, known from others before, that has flows of a report now.
    pub(super) fn intrusion(&self, at: usize, report: &Report, before: &Others) -> Option<CoflowKey> {
        let coordinator = self.coordinators[at].as_ref()?;
        let is_foreign = |(key, owner, ..): &&(CoflowKey, Option<u32>, Bytes, Vec<_>)| {
            let mut claims = report.coflows.iter().map(|(_, entry)| entry);
            claims.any(|entry| entry.key == *key && Some(entry.owner) != *owner)
        };
        let has_its_flows = |key: &CoflowKey| {
            let mut all = coordinator.status();
            all.any(|coflow| coflow.key == *key && coflow.flows.iter().any(|flow| flow.from == report.port))
        };
        before.iter().filter(is_foreign).map(|(key, ..)| *key).find(has_its_flows)
    }

    /// Checks what holds at any time.
    pub(super) fn check(&mut self) {
        for at in 0..self.hosts.len() {
            self.check_host(at);
        }
        let (term, is_thrown) = (self.term, self.is_thrown);
        for at in 0..self.coordinators.len() {
            let Some(coordinator) = &self.coordinators[at] else { continue };
            let (highest, is_drained) = (coordinator.highest_term(), coordinator.is_drained());
            let known = self.hosts.iter().flat_map(|host| &host.own);
            let counts = known.map(|&key| {
                let sent = self.sent.get(&key).copied().unwrap_or(0);
                (key, sent, coordinator.attained(key).map_or(0, |bytes| bytes.0))
            });
            let twice = counts.into_iter().find(|(_, sent, believed)| believed > sent);
            if highest > term || is_drained && !is_thrown {
                self.breaks(Rule::Standing, || {
                    format!("coordinator {at}: term {highest}, drained {is_drained}")
                });
            }
            if let Some((key, sent, believed)) = twice {
                self.breaks(Rule::Bytes, || {
                    format!("{key} has sent {sent}, coordinator {at} believes {believed}")
                });
            }
        }
    }

    fn check_host(&mut self, at: usize) {
        let (now, is_thrown) = (self.now, self.is_thrown);
        let host = &mut self.hosts[at];
        let obeyed = host.obeyed;
        if let Some(term) = host.agent.obeys() {
            host.obeyed = term;
        }
        let host = &self.hosts[at];
        if host.obeyed < obeyed {
            let term = host.obeyed;
            return self.breaks(Rule::Terms, || format!("host {at} obeys {term} after {obeyed}"));
        }
        let is_free = host.agent.obeys().is_none()
            && host.agent.status().all(|flow| flow.told == Directive::default())
            && host.flows.iter().all(|(flow, _)| host.client.directive(*flow) == Directive::default());
        if now >= host.holds_until && !is_free {
            return self.breaks(Rule::FailOpen, || format!("host {at} obeys orders that hold no longer"));
        }
        if host.agent.is_drained() && !is_thrown {
            return self.breaks(Rule::Standing, || format!("host {at} is drained"));
        }
        let flows = host.agent.status().count();
        let budget = *host.agent.budget();
        let counts = |(user, usage): (u32, cavalcade_control::Usage)| {
            let fits = Limit::ALL.iter().all(|&limit| usage.of(limit) <= budget.of(limit));
            fits && user == USER && usage.flows as usize == flows
        };
        if !host.agent.users().all(counts) {
            self.breaks(Rule::Budget, || format!("host {at} counts wrongly"));
        }
    }

    /// Lets faults be over and time pass: all has to become as without them, and applications to
    /// come to their ends.
    pub(super) fn recovers(&mut self) -> Result<(), String> {
        self.heal();
        let knew = self.hosts.iter().any(|host| host.agent.is_drained());
        let mut found = Ok(());
        for period in 1..=RECOVERY {
            self.pass();
            if period % LOOK == 0 {
                found = self.is_settled(knew);
                if found.is_ok() {
                    break;
                }
            }
        }
        found?;
        self.come_to_ends()?;
        (0..LINGER).for_each(|_| self.pass());
        // An attacker may say for ever that a coflow goes on with itself.
        let is_kept = |coflow: &CoflowStatus| {
            let is_own = |flow: &CoflowFlow| flow.from == self.liar.port;
            self.is_honest(coflow.key) && (self.plan.lies == 0 || !coflow.flows.iter().all(is_own))
        };
        let known = self.leader().status().find(is_kept);
        match known {
            Some(coflow) => Err(format!("{} is over and not forgotten", coflow.key)),
            None => self.broken.clone().map_or(Ok(()), |(rule, what)| Err(format!("{rule:?}: {what}"))),
        }
    }

    /// Applications go on until all are done.
    fn come_to_ends(&mut self) -> Result<(), String> {
        let mut waits = None;
        for _ in 0..END {
            for host in 0..self.hosts.len() {
                while self.may_act(host) {
                    self.act(host);
                }
            }
            let is_done = |&host: &usize| self.hosts[host].done == self.plan.scripts[host].len();
            waits = (0..self.hosts.len()).find(|host| !is_done(host));
            if waits.is_none() {
                break;
            }
            self.pass();
        }
        waits.map_or(Ok(()), |host| Err(format!("the application of host {host} waits for ever")))
    }

    /// A period passes; the attacker repeats what it said last.
    fn pass(&mut self) {
        self.lie_again();
        self.calm();
        self.check();
    }

    fn is_honest(&self, key: CoflowKey) -> bool {
        self.hosts.iter().any(|host| host.own.contains(&key))
    }

    pub(super) fn leader(&self) -> &Coordinator {
        let holder = self.holder.and_then(|holder| self.coordinators[holder].as_ref());
        holder.expect("faults are over")
    }

    /// Checks that all obey the leader, are told what a fresh one would tell them, and that it
    /// knows what they know.
    fn is_settled(&self, knew: bool) -> Result<(), String> {
        let leader = self.leader();
        let is_drained = leader.is_drained();
        if knew && !is_drained {
            return Err("the kill switch is forgotten".to_owned());
        }
        let expected = self.fresh_schedule();
        let mut sent: BTreeMap<CoflowKey, u64> = BTreeMap::new();
        for (at, host) in self.hosts.iter().enumerate() {
            if host.agent.obeys() != Some(leader.term()) || host.agent.is_drained() != is_drained {
                return Err(format!("host {at} obeys {:?} and not {}", host.agent.obeys(), leader.term()));
            }
            for part in host.agent.parts() {
                *sent.entry(part.key).or_default() += part.sent.0;
            }
            let mut told: Vec<Directive> = Vec::new();
            for flow in host.agent.status() {
                *sent.entry(flow.coflow).or_default() += flow.sent.0;
                told.push(flow.told);
                let want = expected.get(&(at, flow.flow)).copied().unwrap_or_default();
                let want = if is_drained { Directive::default() } else { want };
                // Whom an attacker's flows hold for how long is seen by when all come to their ends.
                if self.plan.lies == 0 && flow.told != want {
                    return Err(format!(
                        "host {at} is told {:?} of {}, and not {want:?}",
                        flow.told, flow.flow
                    ));
                }
            }
            let followed: Vec<Directive> =
                host.flows.iter().map(|(flow, _)| host.client.directive(*flow)).collect();
            if followed != told {
                return Err(format!("clients of host {at} follow {followed:?}, and not {told:?}"));
            }
        }
        // An agent forgets what is over, a coordinator while others take part does not.
        let is_over = self.hosts.iter().any(|host| host.done > 0 && host.flows.is_empty());
        for (key, sent) in sent {
            let believed = leader.attained(key).map_or(0, |bytes| bytes.0);
            if believed < sent || believed > sent && !is_over {
                return Err(format!("{key} has sent {sent}, as agents say; the leader believes {believed}"));
            }
        }
        Ok(())
    }

    /// What each flow would be told if a coordinator were given all that agents know at once.
    fn fresh_schedule(&self) -> BTreeMap<(usize, u32), Directive> {
        let mut fresh = coordinator(self.plan, u64::MAX);
        for host in &self.hosts {
            fresh.handle_report(self.now, snapshot(host, self.now));
        }
        fresh.handle_timeout(self.now);
        let mut told = BTreeMap::new();
        while let Some((port, orders)) = fresh.poll_orders() {
            let Some(host) = self.hosts.get(port.index()) else { continue };
            let parts: BTreeMap<CoflowKey, u32> =
                host.agent.parts().map(|part| (part.key, part.part)).collect();
            for flow in host.agent.status() {
                let order = orders.flows.get(flow.flow);
                let of_part = orders.priorities.get(parts[&flow.coflow]).copied().unwrap_or_default();
                let priority = match order.map(|order| order.rank) {
                    Some(Rank::Own { priority }) => priority,
                    _ => of_part,
                };
                let gate = order.map_or(Gate::Open {}, |order| order.gate);
                let directive = Directive { gate, class: Some(priority.class.min(7)) };
                told.insert((port.index(), flow.flow), directive);
            }
        }
        told
    }
}

/// All that the agent of a host knows, as it would report it.
fn snapshot(host: &super::host::Host, now: Instant) -> Report {
    let parts: BTreeMap<CoflowKey, u32> = host.agent.parts().map(|part| (part.key, part.part)).collect();
    let entry = |part: cavalcade_control::PartStatus| {
        let (key, facts, sent, owner) = (part.key, part.facts, part.sent, part.user);
        (part.part, CoflowEntry { key, facts, sent, owner })
    };
    let flow = |flow: cavalcade_control::FlowStatus| {
        let (coflow, to, size) = (parts[&flow.coflow], flow.to, flow.size);
        (flow.flow, FlowEntry { coflow, to, size, sent: flow.sent, idle: flow.rests })
    };
    Report {
        snapshot: true,
        coflows: host.agent.parts().map(entry).collect(),
        flows: host.agent.status().map(flow).collect(),
        ..Report::new(host.agent.port(), host.session, 1, now, RATE)
    }
}
