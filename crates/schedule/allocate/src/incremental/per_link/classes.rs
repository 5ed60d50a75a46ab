//! Who is in which class at each link, and how many flows are in the first class at both of their
//! links: what is kept between two runs.
//!
//! Links are numbered by side: those where flows enter from 0, those where they leave from `lanes`
//! on, so that what is kept for each link of a side is one vector.
//!
//! # Invariants
//! - An account is in the order of its link while it has flows. Class and place of each are right
//!   after [`Classes::refresh`].
//! - The accounts of a coflow are a *group*: accounts that share flows. It has one account at a
//!   link.
//! - `in_turn` counts the flows of a link's first class, `held` those of them that are not in the
//!   first class at the other end. `both` counts flows of first classes at both ends, `behind[k]`
//!   those that wait at k and are in the first class at the other end.

use crate::bits::{has, members, set};
use crate::fill::{Key, NONE};

/// The first class of a link, whatever its key.
pub(super) const FIRST: u32 = NONE - 1;

/// The flows of a coflow at one link.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) key: Key,
    pub(super) link: usize,
    /// [`NONE`] while it has no flows.
    pub(super) group: u32,
    /// [`FIRST`], or the first account of its class; [`NONE`] until it is in one.
    pub(super) class: u32,
    /// Its place in the order of its link.
    pub(super) place: usize,
    /// Lane of the other end, and flow; in ascending order.
    pub(super) flows: Vec<(u32, u32)>,
    /// The lanes at the other side that it has flows to, and those to which it has several.
    pub(super) to: Vec<u64>,
    pub(super) several: Vec<u64>,
    /// Bytes of all flows that it ever had.
    pub(super) added: f64,
}

impl Account {
    fn new() -> Self {
        Self {
            key: Key::default(),
            link: 0,
            group: NONE,
            class: NONE,
            place: 0,
            flows: Vec::new(),
            to: Vec::new(),
            several: Vec::new(),
            added: 0.0,
        }
    }

    /// The flows to a lane.
    pub(super) fn flows_to(&self, lane: u32) -> impl Iterator<Item = u32> {
        let begin = self.flows.partition_point(|&(to, _)| to < lane);
        self.flows[begin..].iter().take_while(move |&&(to, _)| to == lane).map(|&(_, flow)| flow)
    }

    /// The number of flows to a lane that it has flows to.
    pub(super) fn count(&self, lane: u32) -> u32 {
        if has(&self.several, lane) { self.flows_to(lane).count() as u32 } else { 1 }
    }

    /// Brings the sets of lanes up to date.
    fn note_lane(&mut self, lane: u32) {
        let count = self.flows_to(lane).take(2).count();
        set(&mut self.to, lane, count > 0);
        set(&mut self.several, lane, count > 1);
    }
}

/// All accounts, and the first classes.
#[derive(Debug)]
pub(super) struct Classes {
    ports: usize,
    /// Ports, rounded up, and words of as many bits.
    pub(super) lanes: usize,
    pub(super) words: usize,
    pub(super) accounts: Vec<Account>,
    /// By group: its account at each link.
    groups: Vec<Vec<u32>>,
    unused: Vec<u32>,
    /// By group and side: the links where it is in the first class.
    pub(super) first_at: Vec<u64>,
    /// By link: accounts in order, and how many of them are in the first class.
    pub(super) order: Vec<Vec<u32>>,
    pub(super) first: Vec<usize>,
    pub(super) in_turn: Vec<f64>,
    pub(super) held: Vec<f64>,
    /// By link, for each lane of the other side; empty where there never was a flow.
    pub(super) both: Vec<Vec<f32>>,
    pub(super) behind: Vec<Vec<f32>>,
    /// The lanes for which `both` is not zero.
    pub(super) both_at: Vec<u64>,
    stale: Vec<usize>,
    is_stale: Vec<bool>,
}

impl Classes {
    pub(super) fn new(ports: usize) -> Self {
        let lanes = ports.next_multiple_of(16);
        let (links, words) = (2 * lanes, lanes.div_ceil(64));
        Self {
            ports,
            lanes,
            words,
            accounts: Vec::new(),
            groups: Vec::new(),
            unused: Vec::new(),
            first_at: Vec::new(),
            order: vec![Vec::new(); links],
            first: vec![0; links],
            in_turn: vec![0.0; links],
            held: vec![0.0; links],
            both: vec![Vec::new(); links],
            behind: vec![Vec::new(); links],
            both_at: vec![0; links * words],
            stale: Vec::new(),
            is_stale: vec![false; links],
        }
    }

    /// The number of a link of the fabric here.
    pub(super) fn number(&self, link: u32) -> usize {
        let link = link as usize;
        if link < self.ports { link } else { self.lanes + link - self.ports }
    }

    /// The number of a link in the fabric.
    pub(super) fn link(&self, number: usize) -> u32 {
        if number < self.lanes { number as u32 } else { (number - self.lanes + self.ports) as u32 }
    }

    pub(super) fn side(&self, link: usize) -> usize {
        usize::from(link >= self.lanes)
    }

    pub(super) fn lane(&self, link: usize) -> u32 {
        (link - self.side(link) * self.lanes) as u32
    }

    /// The link of the other side with a lane.
    pub(super) fn across(&self, link: usize, lane: u32) -> usize {
        (1 - self.side(link)) * self.lanes + lane as usize
    }

    pub(super) fn reserve(&mut self, count: usize) {
        self.accounts.resize_with(count.max(self.accounts.len()), Account::new);
    }

    /// The words of a group's links on one side, in a set of all of them.
    pub(super) fn of_group(&self, group: u32, side: usize) -> std::ops::Range<usize> {
        let begin = (2 * group as usize + side) * self.words;
        begin..begin + self.words
    }

    /// The account of the same coflow at a link that it has flows to.
    pub(super) fn partner(&self, account: u32, link: usize) -> u32 {
        self.groups[self.accounts[account as usize].group as usize][link]
    }

    /// Notes that the order of a link, or its classes, may be others.
    fn touch(&mut self, link: usize) {
        if !std::mem::replace(&mut self.is_stale[link], true) {
            self.stale.push(link);
        }
    }

    pub(super) fn set_key(&mut self, account: u32, key: Key) -> bool {
        let record = &mut self.accounts[account as usize];
        let is_new = std::mem::replace(&mut record.key, key) != key && !record.flows.is_empty();
        if is_new {
            let link = record.link;
            self.touch(link);
        }
        is_new
    }

    pub(super) fn add(&mut self, flow: u32, links: [usize; 2], accounts: [u32; 2], bytes: f64) {
        let group = self.join(links, accounts);
        for end in 0..2 {
            let (link, lane) = (links[end], self.lane(links[1 - end]));
            let record = &mut self.accounts[accounts[end] as usize];
            record.added += bytes;
            if record.flows.is_empty() {
                (record.link, record.group, record.class) = (link, group, NONE);
                (record.to, record.several) = (vec![0; self.words], vec![0; self.words]);
                self.order[link].push(accounts[end]);
                self.touch(link);
            }
            let record = &mut self.accounts[accounts[end] as usize];
            let at = record.flows.partition_point(|&other| other < (lane, flow));
            record.flows.insert(at, (lane, flow));
            record.note_lane(lane);
            if self.both[link].is_empty() {
                self.both[link] = vec![0.0; self.lanes];
                self.behind[link] = vec![0.0; self.lanes];
            }
        }
        self.tally(links, accounts.map(|account| self.is_first(account)), 1.0);
    }

    /// The group of two accounts with a common flow.
    fn join(&mut self, links: [usize; 2], accounts: [u32; 2]) -> u32 {
        let [one, other] = accounts.map(|account| self.accounts[account as usize].group);
        let group = match (one, other) {
            (NONE, NONE) => self.unused.pop().unwrap_or_else(|| {
                self.groups.push(vec![NONE; 2 * self.lanes]);
                self.first_at.resize(self.groups.len() * 2 * self.words, 0);
                self.groups.len() as u32 - 1
            }),
            (NONE, group) | (group, NONE) => group,
            (group, other) if group != other => {
                self.merge(group, other);
                group
            }
            (group, _) => group,
        };
        for (link, account) in links.into_iter().zip(accounts) {
            let own = std::mem::replace(&mut self.groups[group as usize][link], account);
            assert!(own == NONE || own == account, "a coflow has one account at a link");
        }
        group
    }

    /// Takes the accounts of another group into one.
    fn merge(&mut self, group: u32, other: u32) {
        for link in 0..2 * self.lanes {
            let account = std::mem::replace(&mut self.groups[other as usize][link], NONE);
            if account != NONE {
                let own = std::mem::replace(&mut self.groups[group as usize][link], account);
                assert!(own == NONE, "a coflow has one account at a link");
                self.accounts[account as usize].group = group;
            }
        }
        for side in 0..2 {
            let (into, from) = (self.of_group(group, side).start, self.of_group(other, side).start);
            for word in 0..self.words {
                self.first_at[into + word] |= std::mem::take(&mut self.first_at[from + word]);
            }
        }
        self.unused.push(other);
    }

    /// Takes out a flow.
    pub(super) fn remove(&mut self, flow: u32, links: [usize; 2], accounts: [u32; 2]) {
        self.tally(links, accounts.map(|account| self.is_first(account)), -1.0);
        for end in 0..2 {
            let lane = self.lane(links[1 - end]);
            let record = &mut self.accounts[accounts[end] as usize];
            let at = record.flows.binary_search(&(lane, flow)).expect("a flow is in the list of its account");
            record.flows.remove(at);
            record.note_lane(lane);
            if record.flows.is_empty() {
                self.leave(accounts[end], links[end]);
            }
        }
    }

    /// Takes an account without flows out of its link and its group.
    fn leave(&mut self, account: u32, link: usize) {
        let group = std::mem::replace(&mut self.accounts[account as usize].group, NONE);
        self.accounts[account as usize].class = NONE;
        self.order[link].retain(|&other| other != account);
        self.touch(link);
        self.set_first(group, link, false);
        let own = &mut self.groups[group as usize];
        own[link] = NONE;
        if own.iter().all(|&account| account == NONE) {
            self.unused.push(group);
        }
    }

    fn is_first(&self, account: u32) -> bool {
        self.accounts[account as usize].class == FIRST
    }

    fn set_first(&mut self, group: u32, link: usize, value: bool) {
        let (words, lane) = (self.of_group(group, self.side(link)), self.lane(link));
        set(&mut self.first_at[words], lane, value);
    }

    /// Counts flows between two links, told whether they are in the first class at each.
    fn tally(&mut self, links: [usize; 2], is_first: [bool; 2], count: f32) {
        let lanes = links.map(|link| self.lane(link));
        for (end, (link, lane)) in links.into_iter().zip([lanes[1], lanes[0]]).enumerate() {
            if is_first[end] {
                self.in_turn[link] += f64::from(count);
            }
            match (is_first[end], is_first[1 - end]) {
                (true, true) => {
                    let both = &mut self.both[link][lane as usize];
                    *both += count;
                    let words = link * self.words..(link + 1) * self.words;
                    set(&mut self.both_at[words], lane, *both > 0.0);
                }
                (true, false) => self.held[link] += f64::from(count),
                (false, true) => self.behind[link][lane as usize] += count,
                (false, false) => {}
            }
        }
    }

    /// Brings orders and classes up to date. Adds to `moved` the accounts that are in another class
    /// than before.
    pub(super) fn refresh(&mut self, moved: &mut Vec<u32>) {
        let mut stale = std::mem::take(&mut self.stale);
        for link in stale.drain(..) {
            self.is_stale[link] = false;
            let mut order = std::mem::take(&mut self.order[link]);
            order.sort_unstable_by_key(|&account| (self.accounts[account as usize].key, account));
            let key = |at: usize, of: &Self| of.accounts[order[at] as usize].key;
            let mut class = FIRST;
            self.first[link] = order.len();
            for (place, &account) in order.iter().enumerate() {
                if place > 0 && key(place - 1, self) != key(place, self) {
                    self.first[link] = self.first[link].min(place);
                    class = account;
                }
                self.accounts[account as usize].place = place;
                if self.accounts[account as usize].class != class {
                    self.classify(account, class);
                    moved.push(account);
                }
            }
            self.order[link] = order;
        }
        self.stale = stale;
    }

    /// Puts an account into a class.
    fn classify(&mut self, account: u32, class: u32) {
        let record = &self.accounts[account as usize];
        let (link, group, to) = (record.link, record.group, record.to.clone());
        let [was_first, is_first] = [record.class == FIRST, class == FIRST];
        if was_first != is_first {
            for lane in members(to.into_iter()) {
                let far = self.across(link, lane);
                let is_far_first = self.is_first(self.partner(account, far));
                let count = self.accounts[account as usize].count(lane) as f32;
                self.tally([link, far], [was_first, is_far_first], -count);
                self.tally([link, far], [is_first, is_far_first], count);
            }
            self.set_first(group, link, is_first);
        }
        self.accounts[account as usize].class = class;
    }
}
