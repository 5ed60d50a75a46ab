//! Leaving out ticks that change nothing.
//!
//! A policy that ranks what is under way at regular intervals does so ten or a hundred times a
//! second for as long as a flow lasts, and a flow may last for months. Ranks matter only where two
//! accounts meet at a link. Where none do, ticks are left out up to the policy's memory before the
//! next event ([`Ticks`](cavalcade_model::Ticks)), which is exact.
//!
//! Cost: whether any meet is looked at when nothing is to happen for longer than that memory. Two
//! flows that met still do until one of them ends; else all flows under way are passed over, once
//! for the same flows.

use std::collections::BTreeSet;

use cavalcade_model::{CoflowId, FlowId, Instant, Workload};

use crate::engine::Engine;

/// The coflows under way, and what is known of the links that they share.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    coflows: BTreeSet<CoflowId>,
    /// Flows of two accounts that were found to cross the same link.
    meeting: Option<[FlowId; 2]>,
    /// True if none did when last looked at, and no flows have come since.
    none_meet: bool,
}

impl UnderWay {
    /// All flows of the coflows under way, those that have ended too.
    pub(crate) fn flows<'a>(&'a self, workload: &'a Workload) -> impl Iterator<Item = FlowId> + 'a {
        self.coflows.iter().flat_map(|&coflow| workload.flow_ids(coflow)).map(FlowId)
    }

    /// Flows of a coflow have come.
    pub(crate) fn come(&mut self, coflow: CoflowId) {
        self.coflows.insert(coflow);
        self.none_meet = false;
    }

    /// Flows have ended, all of a coflow's where it `is_over`.
    pub(crate) fn end(&mut self, coflow: CoflowId, is_over: bool) {
        if is_over {
            self.coflows.remove(&coflow);
        }
    }
}

impl Engine<'_> {
    /// Leaves out the ticks before `until`, when something else happens, that change nothing.
    pub(crate) fn skip_ticks(&mut self, until: Instant) {
        let (Some(ticks), Some(next)) = (self.run.terms.ticks, self.host.next_wake()) else { return };
        let is_near = until.since(next).0.saturating_sub(ticks.memory.0) < ticks.every.0;
        let is_never = self.fill.next() == f64::INFINITY;
        if !is_near
            && !is_never
            && !self.host.has_amounts()
            && self.host.next_message().is_none()
            && !self.do_any_meet()
        {
            self.host.skip_ticks(ticks, until);
        }
    }

    /// Returns whether flows of two accounts cross the same link.
    fn do_any_meet(&mut self) -> bool {
        let (workload, fabric, links) = (&*self.run.workload, self.run.fabric, &self.run.links);
        let now = self.clock.now();
        let is_there = |&flow: &FlowId| {
            let number = self.numbers.of(workload, flow.0);
            number.is_some_and(|number| self.fill.remaining(number, now) > 0.0)
        };
        if self.under_way.meeting.is_some_and(|both| both.iter().all(is_there)) {
            return true;
        }
        if self.under_way.none_meet {
            return false;
        }
        let account = |flow: FlowId| self.accounts.of_flow(workload, fabric, flow)[0];
        let there = self.under_way.flows(workload).filter(is_there);
        let crossings = there.flat_map(|flow| {
            let record = workload.flow(flow);
            links.path(fabric, record.src, record.dst).into_iter().map(move |link| (link, flow))
        });
        let mut holders: Vec<Option<FlowId>> = vec![None; fabric.link_count()];
        let meeting = { crossings }.find_map(|(link, flow)| {
            let holder = *holders[link.index()].get_or_insert(flow);
            (account(holder) != account(flow)).then_some([holder, flow])
        });
        self.under_way.meeting = meeting;
        self.under_way.none_meet = meeting.is_none();
        meeting.is_some()
    }
}
