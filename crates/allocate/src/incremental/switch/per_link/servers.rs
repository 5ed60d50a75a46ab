//! Flows that are served: what each has left, and when the first of them ends.
//!
//! # The idea
//! The flows that get their rate in the same round at a link have the same rate, and mostly go on being served together when
//! that rate changes. They have one *server*, which keeps how much each of them was served so far, a virtual time; of a flow
//! it is only known where it ends on that scale. So a change of all rates costs a few operations for each server, and a
//! flow is touched when it gets another server: some fifty of 30,000 in an event.
//!
//! Which end is next is kept as a lower bound for each server, and found again where it seems to be the next of all.
//!
//! # Cost
//! An event: O(servers + flows that change servers); and for each flow that ends a look at all flows of its server.

use super::accounts::Accounts;
use super::fans::Fans;
use super::turns::Rounds;
use crate::bits::{members, set};
use crate::fill::{Due, NONE};
use crate::progress::tolerance::tolerance;

/// A flow.
#[derive(Clone, Debug)]
struct Flow {
    /// Its fans; [`NONE`] when it is not in the allocator.
    fans: [u32; 2],
    server: u32,
    /// Its place in the list of its server.
    place: u32,
    /// The service of its server at which it ends; without a server the bytes that it has left.
    end: f64,
    /// Bytes left at which it is next reported.
    milestone: f64,
}

/// The flows of a round.
#[derive(Clone, Debug, Default)]
struct Server {
    rate: f64,
    served: f64,
    /// The first flow is not due before this service.
    first: f64,
    flows: Vec<u32>,
    /// The fans and bits of its flows.
    fans: Vec<u32>,
    bits: Vec<u64>,
    is_kept: bool,
}

impl Server {
    /// The time until it may have served its first flow.
    fn wait(&self) -> f64 {
        if self.flows.is_empty() { f64::INFINITY } else { (self.first - self.served).max(0.0) / self.rate }
    }
}

/// All servers and flows.
#[derive(Debug)]
pub(super) struct Servers {
    words: usize,
    flows: Vec<Flow>,
    servers: Vec<Server>,
    /// The servers of a lane, in order of round.
    of_lane: Vec<Vec<u32>>,
    /// Servers with flows, and those of the refill before.
    active: Vec<u32>,
    before: Vec<u32>,
    /// Rounds that a lane has had in this refill.
    rounds: Vec<usize>,
    /// Flows that are to join servers.
    joining: Vec<(u32, u32)>,
    /// The time as of which service is known.
    since: f64,
}

impl Servers {
    pub(super) fn new(words: usize, lanes: usize, flows: usize) -> Self {
        let absent = Flow { fans: [NONE; 2], server: NONE, place: 0, end: 0.0, milestone: 0.0 };
        Self {
            words,
            flows: vec![absent; flows],
            servers: Vec::new(),
            of_lane: vec![Vec::new(); lanes],
            active: Vec::new(),
            before: Vec::new(),
            rounds: vec![0; lanes],
            joining: Vec::new(),
            since: 0.0,
        }
    }

    pub(super) fn add(&mut self, flow: u32, fans: [u32; 2], bytes: f64) {
        self.flows[flow as usize] = Flow { fans, server: NONE, place: 0, end: bytes, milestone: 0.0 };
    }

    pub(super) fn is_present(&self, flow: u32) -> bool {
        self.flows[flow as usize].fans[0] != NONE
    }

    pub(super) fn fans(&self, flow: u32) -> [u32; 2] {
        self.flows[flow as usize].fans
    }

    /// Takes out a flow that has nothing left.
    pub(super) fn remove(&mut self, flow: u32, fans: &Fans, accounts: &mut Accounts, now: f64) {
        let Flow { fans: own, server, .. } = self.flows[flow as usize];
        if server != NONE {
            let Server { fans: of, bits, .. } = &mut self.servers[server as usize];
            let at = of.iter().position(|fan| own.contains(fan)).expect("a server knows its flows");
            let other = fans.fan(if of[at] == own[0] { own[1] } else { own[0] }).lane;
            set(&mut bits[at * self.words..][..self.words], fans.line(other), false);
            self.leave(flow, fans, accounts, now);
        }
        self.flows[flow as usize].fans = [NONE; 2];
        self.flows[flow as usize].end = 0.0;
    }

    fn served_at(&self, server: u32, now: f64) -> f64 {
        let server = &self.servers[server as usize];
        server.served + server.rate * (now - self.since)
    }

    pub(super) fn remaining(&self, flow: u32, now: f64) -> f64 {
        let record = &self.flows[flow as usize];
        match record.server {
            NONE => record.end,
            server => (record.end - self.served_at(server, now)).max(0.0),
        }
    }

    pub(super) fn rate(&self, flow: u32) -> f64 {
        match self.flows[flow as usize].server {
            NONE => 0.0,
            server => self.servers[server as usize].rate,
        }
    }

    pub(super) fn watch(&mut self, flow: u32, remaining: f64) {
        if self.is_present(flow) {
            let record = &mut self.flows[flow as usize];
            record.milestone = remaining;
            if record.server != NONE {
                let first = &mut self.servers[record.server as usize].first;
                *first = first.min(record.end - remaining);
            }
        }
    }

    /// Calls `visit` with each flow that is served, and its rate.
    pub(super) fn visit_served(&self, mut visit: impl FnMut(u32, f64)) {
        for server in self.active.iter().map(|&server| &self.servers[server as usize]) {
            server.flows.iter().for_each(|&flow| visit(flow, server.rate));
        }
    }

    fn leave(&mut self, flow: u32, fans: &Fans, accounts: &mut Accounts, now: f64) {
        let left = self.remaining(flow, now);
        let record = &mut self.flows[flow as usize];
        let (server, place) = (std::mem::replace(&mut record.server, NONE), record.place as usize);
        record.end = left;
        record.fans.iter().for_each(|&fan| accounts.stop(fans.fan(fan).account));
        let list = &mut self.servers[server as usize].flows;
        list.swap_remove(place);
        if let Some(&moved) = list.get(place) {
            self.flows[moved as usize].place = place as u32;
        }
    }

    fn join(&mut self, flow: u32, to: u32, fans: &Fans, accounts: &mut Accounts, now: f64) {
        let (record, server) = (&mut self.flows[flow as usize], &mut self.servers[to as usize]);
        if server.flows.is_empty() {
            (server.served, server.first) = (0.0, f64::INFINITY);
        }
        record.end += server.served;
        (record.server, record.place) = (to, server.flows.len() as u32);
        server.first = server.first.min(record.end - record.milestone);
        server.flows.push(flow);
        record.fans.iter().for_each(|&fan| accounts.start(fans.fan(fan).account, now));
    }

    /// The server of the next round at a lane.
    fn server_of(&mut self, lane: u32) -> u32 {
        let (of_lane, round) = (&mut self.of_lane[lane as usize], &mut self.rounds[lane as usize]);
        if *round == of_lane.len() {
            of_lane.push(self.servers.len() as u32);
            self.servers.push(Server::default());
        }
        *round += 1;
        of_lane[*round - 1]
    }

    /// Has flows served as these rounds say.
    pub(super) fn serve(&mut self, rounds: &Rounds, fans: &Fans, accounts: &mut Accounts, now: f64) {
        std::mem::swap(&mut self.active, &mut self.before);
        self.active.clear();
        let elapsed = now - std::mem::replace(&mut self.since, now);
        for &server in &self.before {
            let server = &mut self.servers[server as usize];
            server.served += server.rate * elapsed;
            server.is_kept = false;
        }
        for number in 0..rounds.rounds.len() {
            let server = self.server_of(rounds.rounds[number].lane);
            self.active.push(server);
            self.servers[server as usize].is_kept = true;
            self.compare(server, rounds.fans(number), rounds.bits(number), fans, accounts, now);
        }
        for index in 0..self.before.len() {
            let server = self.before[index];
            if !self.servers[server as usize].is_kept {
                self.compare(server, &[], &[], fans, accounts, now);
                self.servers[server as usize].rate = 0.0;
            }
        }
        let mut joining = std::mem::take(&mut self.joining);
        for (flow, server) in joining.drain(..) {
            self.join(flow, server, fans, accounts, now);
        }
        self.joining = joining;
        for (round, &server) in rounds.rounds.iter().zip(&self.active) {
            self.servers[server as usize].rate = round.rate;
            self.rounds[round.lane as usize] = 0;
        }
    }

    /// Has flows leave a server, and notes who is to join it, so that it serves these.
    fn compare(
        &mut self,
        server: u32,
        to_serve: &[u32],
        bits: &[u64],
        fans: &Fans,
        accounts: &mut Accounts,
        now: f64,
    ) {
        let record = &mut self.servers[server as usize];
        if record.fans == to_serve && record.bits == bits {
            return;
        }
        let before = std::mem::replace(&mut record.fans, to_serve.to_vec());
        let bits_before = std::mem::replace(&mut record.bits, bits.to_vec());
        let words = self.words;
        let of = |list: &[u32], bits: &[u64], fan: u32| {
            let at = list.iter().position(|&other| other == fan);
            at.map_or_else(|| vec![0; words], |at| bits[at * words..][..words].to_vec())
        };
        let lane = |fan: u32| fans.first_lane(1 - fans.side(fans.fan(fan).lane));
        let mut leaving = Vec::new();
        for (&fan, was) in before.iter().zip(bits_before.chunks(words)) {
            let is = of(to_serve, bits, fan);
            let gone = members(was.iter().zip(&is).map(|(was, is)| was & !is));
            leaving.extend(gone.map(|line| fans.flow(fan, lane(fan) + line)));
        }
        for (&fan, is) in to_serve.iter().zip(bits.chunks(words)) {
            let was = of(&before, &bits_before, fan);
            let new = members(is.iter().zip(&was).map(|(is, was)| is & !was));
            self.joining.extend(new.map(|line| (fans.flow(fan, lane(fan) + line), server)));
        }
        leaving.into_iter().for_each(|flow| self.leave(flow, fans, accounts, now));
    }

    /// Returns the time at which the next flow is due, from `now` on.
    pub(super) fn next(&mut self, now: f64) -> f64 {
        loop {
            let waits = self.active.iter().map(|&server| (self.servers[server as usize].wait(), server));
            let least = |a: (f64, u32), b: (f64, u32)| if b.0 < a.0 { b } else { a };
            let (wait, server) = waits.fold((f64::INFINITY, NONE), least);
            if server == NONE {
                return f64::INFINITY;
            }
            let due = |&flow: &u32| self.flows[flow as usize].end - self.flows[flow as usize].milestone;
            let first = self.servers[server as usize].flows.iter().map(due).fold(f64::INFINITY, f64::min);
            let record = &mut self.servers[server as usize];
            record.first = first;
            if record.wait() <= wait {
                return (self.since + wait).max(now);
            }
        }
    }

    /// Takes out what is due. Flows that have ended are still served, until they are removed.
    pub(super) fn take_due(&mut self, now: f64, due: &mut Due) {
        let elapsed = now - self.since + tolerance(now);
        for &server in &self.active {
            let server = &mut self.servers[server as usize];
            let reached = server.served * (1.0 + 1e-14) + server.rate * elapsed;
            if server.first > reached {
                continue;
            }
            for &flow in &server.flows {
                let record = &mut self.flows[flow as usize];
                if record.end - record.milestone > reached {
                    continue;
                }
                if record.milestone > 0.0 {
                    record.milestone = 0.0;
                    due.flows.push(flow);
                } else {
                    due.finished.push(flow);
                }
            }
        }
    }
}
