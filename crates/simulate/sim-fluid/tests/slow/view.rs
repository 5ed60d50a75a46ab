//! What an instance may look at, worked out afresh at each question.

use std::collections::BTreeMap;

use cavalcade_model::{
    BitsPerSec, Bytes, CoflowFacts, CoflowId, FlowFacts, FlowId, Foresee, Iteration, LinkId, Observe, Path,
    Scope,
};

use super::{Engine, MILLIBYTE, grain, stages};

pub(super) struct View<'e, 'a> {
    pub(super) place: u32,
    pub(super) engine: &'e Engine<'a>,
}

impl View<'_, '_> {
    fn unfinished(&self, coflow: CoflowId) -> Vec<FlowId> {
        let flows = self.engine.flows_at(self.place, coflow);
        flows.into_iter().filter(|&flow| self.engine.is_active(flow)).collect()
    }

    /// So many bytes are rounding: what the fastest port sends in the time that counts as none, and
    /// the millibyte.
    fn rounding(&self) -> f64 {
        let of_ports = self.engine.capacity.iter().take(2 * self.engine.fabric.ports() as usize);
        let fastest = of_ports.copied().fold(0.0, f64::max);
        MILLIBYTE + fastest * 2.0 * grain(self.engine.now)
    }

    /// Bytes sent: whole ones, but for rounding.
    fn down(&self, bytes: f64) -> Bytes {
        Bytes((bytes + self.rounding()) as u64)
    }

    /// Bytes to send: begun ones, but for rounding.
    fn up(&self, bytes: f64) -> Bytes {
        Bytes((bytes - self.rounding()).max(0.0).ceil() as u64)
    }
}

impl Observe for View<'_, '_> {
    fn coflow(&self, coflow: CoflowId) -> CoflowFacts {
        let workload = self.engine.workload;
        let releases = stages::releases(workload, &self.engine.flows, self.engine.options.cpu_order);
        let arrival = workload.flow_ids(coflow).filter_map(|flow| releases[flow as usize]).min();
        CoflowFacts::of(workload, coflow, arrival.expect("a coflow that is asked about has arrived"))
    }

    fn iteration(&self, coflow: CoflowId) -> Option<Iteration> {
        self.engine.workload.iteration(coflow)
    }

    fn flow(&self, flow: FlowId) -> FlowFacts {
        FlowFacts::of(self.engine.workload, flow)
    }

    fn flows(&self, coflow: CoflowId, visit: &mut dyn FnMut(FlowId)) {
        self.unfinished(coflow).into_iter().for_each(visit);
    }

    fn attained(&self, coflow: CoflowId) -> Bytes {
        self.down(self.engine.attained(self.place, coflow))
    }

    fn flow_attained(&self, flow: FlowId) -> Bytes {
        Bytes(self.engine.workload.flow(flow).size.0 - self.flow_remaining(flow).0)
    }

    fn path(&self, flow: FlowId) -> Path {
        let record = self.engine.workload.flow(flow);
        self.engine.links.path(self.engine.fabric, record.src, record.dst)
    }

    fn capacity(&self, link: LinkId) -> BitsPerSec {
        self.engine.fabric.capacity(link)
    }
}

impl Foresee for View<'_, '_> {
    fn remaining(&self, coflow: CoflowId) -> Bytes {
        self.up(self.unfinished(coflow).iter().map(|flow| self.engine.flows[flow.index()].remaining).sum())
    }

    fn flow_remaining(&self, flow: FlowId) -> Bytes {
        self.up(self.engine.flows[flow.index()].remaining)
    }

    fn loads(&self, coflow: CoflowId, visit: &mut dyn FnMut(LinkId, Bytes, BitsPerSec)) {
        let mut loads: BTreeMap<LinkId, f64> = BTreeMap::new();
        for flow in self.unfinished(coflow) {
            let facts = self.engine.workload.flow(flow);
            for link in self.engine.links.path(self.engine.fabric, facts.src, facts.dst) {
                if self.engine.terms.scope != Scope::Link || link.0 == self.place {
                    *loads.entry(link).or_default() += self.engine.flows[flow.index()].remaining;
                }
            }
        }
        for (link, bytes) in loads {
            visit(link, self.up(bytes), self.engine.fabric.capacity(link));
        }
    }
}
