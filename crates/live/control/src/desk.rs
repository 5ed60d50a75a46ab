//! Carries out what a policy decides where flows are only reported: ranks and limits go into the
//! table, messages wait to be sent, and amounts are watched until a report shows that they are
//! reached.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_harness::{Driver, Watch};
use cavalcade_model::{BitsPerSec, Bytes, CoflowId, FlowId, Message, PortId, Priority, Target};
use cavalcade_protocol::{CoflowKey, Statement};

use crate::numbering::Numbering;
use crate::table::Table;

/// The state that decisions are carried out on, beside the table.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) coflow_ids: Numbering<CoflowKey>,
    pub(crate) watches: BTreeMap<Target, u64>,
    pub(crate) statements: Vec<(PortId, Statement)>,
    /// Coflows whose priority has changed.
    pub(crate) changed: BTreeSet<CoflowKey>,
    /// True if gates may differ from those computed last.
    pub(crate) is_dirty: bool,
}

/// Carries decisions out.
pub(crate) struct Desk<'a> {
    pub(crate) kept: &'a mut Kept,
    pub(crate) table: &'a mut Table,
}

impl Driver for Desk<'_> {
    fn sees(&self, _place: u32, _target: Target) -> bool {
        // Numbers of what is over are used again: what is not there is passed over below.
        true
    }

    fn has_peer(&self, port: PortId) -> bool {
        port.0 < self.table.ports()
    }

    fn set_coflow(&mut self, _place: u32, coflow: CoflowId, priority: Priority) {
        let Some(record) = self.table.coflows.get_mut(&coflow) else { return };
        if std::mem::replace(&mut record.priority, priority) != priority {
            self.kept.changed.insert(record.key);
            self.kept.is_dirty = true;
        }
        let flows: Vec<FlowId> = record.flows.values().copied().collect();
        for flow in flows {
            if let Some(flow) = self.table.find_mut(flow) {
                self.kept.is_dirty |= flow.priority.take().is_some();
            }
        }
    }

    fn set_flow(&mut self, _place: u32, flow: FlowId, priority: Priority) {
        if let Some(flow) = self.table.find_mut(flow) {
            self.kept.is_dirty |= flow.priority.replace(priority) != Some(priority);
        }
    }

    fn set_cap(&mut self, flow: FlowId, cap: Option<BitsPerSec>) {
        if let Some(flow) = self.table.find_mut(flow) {
            self.kept.is_dirty |= std::mem::replace(&mut flow.cap, cap) != cap;
        }
    }

    fn watch(&mut self, place: u32, target: Target, bytes: Bytes) -> Watch {
        if self.table.sent_by(target) >= bytes.0 {
            self.kept.watches.remove(&target);
            return Watch::Reached(place);
        }
        self.kept.watches.insert(target, bytes.0);
        Watch::Pending(place)
    }

    fn post(&mut self, _from: u32, to: PortId, message: Message) -> bool {
        if to.0 >= self.table.hosts() {
            // Outside the site, where no agent receives it.
            return true;
        }
        // A coflow that is no longer reported has no key, and a message about it is of no use.
        if let Some(coflow) = self.kept.coflow_ids.name(message.coflow.0) {
            self.kept.statements.push((to, Statement { coflow, payload: message.payload }));
        }
        true
    }
}
