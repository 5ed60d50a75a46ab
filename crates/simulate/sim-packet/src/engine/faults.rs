//! Cables that go away for a time. What waits for one or is on it is lost; hosts wait with what
//! they have not sent.

use cavalcade_transport::Transport;

use super::{Engine, OUTAGE, shared_by};
use crate::pool::List;
use crate::port::Kind;

impl<T: Transport> Engine<'_, T> {
    /// A cable goes away or comes back.
    pub(super) fn outage(&mut self) {
        while let Some(&(when, link, away)) = self.outages.get(self.next_outage) {
            if when > self.now {
                self.wheel.schedule(2 * self.links + OUTAGE, when);
                return;
            }
            self.next_outage += 1;
            for link in [link, link ^ 1] {
                if away {
                    self.take_down(link);
                } else {
                    self.bring_up(link);
                }
            }
        }
    }

    pub(super) fn take_down(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        port.down += 1;
        port.free_at = port.free_at.min(self.now);
        let mut on_link = std::mem::take(&mut port.pipe);
        self.wheel.cancel(link);
        self.lose_all(link, &mut on_link);
        match self.ports[link as usize].kind {
            Kind::Host(host) => {
                let mut answers = std::mem::take(&mut self.nics[host as usize].answers);
                self.lose_all(link, &mut answers);
            }
            Kind::Queued(queue) => loop {
                let shared = shared_by(self.network, &mut self.shared, link);
                let Some(id) = self.queues[queue as usize].pop(&mut self.pool, shared) else { break };
                self.ports[link as usize].counts.lost += 1;
                self.lose(id);
            },
            Kind::InOrder => {}
        }
    }

    pub(super) fn lose_all(&mut self, link: u32, list: &mut List) {
        while let Some(id) = list.pop(&self.pool) {
            self.ports[link as usize].counts.lost += 1;
            self.lose(id);
        }
    }

    pub(super) fn bring_up(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        port.down -= 1;
        if let (0, Kind::Host(host)) = (port.down, port.kind) {
            self.serve(host);
        }
    }
}
