//! The switch side of SPC: classes of tasks, and what a flow is granted (Baraat §4.3.1, §4.3.2,
//! Algorithm 1).
//!
//! A port keeps for each task the sum of its flows' demands and grants, and their number; nothing
//! for a flow. A flow's question returns what it was counted with before and is counted again. With
//! V the virtual capacity and A all grants, and with the sums D and F over the flow's class k:
//!
//! > available = max(0, V − Σ D of the classes before);
//! > NR = demand if available − D_k > demand, else available / F_k;
//! > AR = min(NR, V − A)
//!
//! Tasks are classes in the order of their ids. A task that has reserved more than a threshold is
//! heavy, and the next one joins its class (FIFO-LM).
//!
//! # Lost headers
//! A question that is lost behind this port, or a lost answer, makes the sender return something
//! else than what was counted; a lost farewell is never returned. So sums drift, and here they are
//! *rebuilt*: beside each sum runs a second one that begins at zero with every epoch and replaces
//! the first at its end. To count a flow once in it, the port must know whether what is returned
//! was counted in this epoch or before: it writes its epoch's parity into the answer, and senders
//! return it. Grants expire at senders after an epoch, so that a parity is never older than that.
//! Hence what any loss leaves behind is gone after two epochs, and a flow that falls silent as
//! well.
//!
//! # Invariants
//! - State per task: `tasks` is as long as there are tasks with flows here, and those silent for at
//!   most two epochs.
//! - The total of grants is the sum over tasks; sums never go below zero.
//! - A flow is counted with no more than the link, whatever it says that it demands. One that holds
//!   the whole link and sends nothing therefore costs later tasks some intervals: V rises by what
//!   is unused, and they are given that.
//! - Integers throughout. What rounding takes from one flow's AR is added to the next one's
//!   (`carry`), so that forty shares of 3.9 are not forty times 3. NR is rounded down, always
//!   alike: a sender takes a change of it for a change of its bottleneck.
//!
//! Cost: a question is linear in the tasks before its own; other packets are constant.

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos};

use super::header::{GRAIN, PORTS, SpcHeader, scale_for};
use crate::capacity::{Gains, VirtualCapacity};
use crate::contract::{PortLogic, PortSetup};
use crate::packet::Header;

/// Sums over the flows of a task, rates in [`GRAIN`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    granted: u64,
    demand: u64,
    flows: u64,
}

impl Sums {
    fn add(&mut self, granted: u64, demand: u64) {
        self.granted += granted;
        self.demand += demand;
        self.flows += 1;
    }

    fn take(&mut self, granted: u64, demand: u64) {
        self.granted = self.granted.saturating_sub(granted);
        self.demand = self.demand.saturating_sub(demand);
        self.flows = self.flows.saturating_sub(1);
    }
}

/// State of a task at a port.
#[derive(Clone, Debug)]
struct Task {
    id: u32,
    now: Sums,
    /// Sums of this epoch.
    rebuilt: Sums,
    /// Grains times nanoseconds that were granted up to `since`: the task's size as seen at this
    /// port.
    reserved: u64,
    since: Instant,
    /// The epoch in which it last asked.
    heard: u64,
}

impl Task {
    fn new(id: u32, since: Instant) -> Self {
        let (now, rebuilt) = (Sums::default(), Sums::default());
        Self { id, now, rebuilt, reserved: 0, since, heard: 0 }
    }

    fn reserve(&mut self, now: Instant) {
        let time = now.since(self.since).get();
        self.reserved = self.reserved.saturating_add(self.now.granted.saturating_mul(time));
        self.since = now;
    }
}

/// A class, as one of its flows sees it.
struct Class {
    /// Demands of all classes before it.
    before: u64,
    demand: u64,
    flows: u64,
}

/// Fractions of a grain that shares are worked out in.
const FRACTION: u64 = 8;
/// Grains times nanoseconds of a byte.
const OF_A_BYTE: u64 = 8_000_000_000 / GRAIN.get();

/// What the logic of a port is told once, for another carrier of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortConstants {
    /// Time between two moves of the virtual capacity.
    pub interval: Nanos,
    /// The gains of these moves.
    pub gains: Gains,
    /// Grains times nanoseconds above which a task is heavy; the largest number where none is.
    pub heavy: u64,
    /// Length of an epoch.
    pub epoch: Nanos,
    /// The most that a flow is counted with, in grains.
    pub link: u64,
}

/// The logic of one port.
#[derive(Clone, Debug)]
pub struct Port {
    rate: BitsPerSec,
    /// The same in grains, rounded up to a whole unit of flows whose own link is as fast.
    link: u64,
    capacity: VirtualCapacity,
    /// In grains times nanoseconds; `None` where no task is.
    heavy: Option<u64>,
    epoch_length: Nanos,
    epoch: u64,
    epoch_end: Instant,
    granted: u64,
    demand: u64,
    carry: u64,
    /// By id.
    tasks: Vec<Task>,
    /// The most tasks that it keeps.
    most: usize,
}

impl Port {
    /// A port whose epochs last `epoch_length`, where tasks of more than `heavy` bytes share their
    /// class.
    pub fn new(setup: &PortSetup, gains: Gains, epoch_length: Nanos, heavy: Option<Bytes>) -> Self {
        let unit = 1 << scale_for(setup.rate);
        Self {
            rate: setup.rate,
            link: (setup.rate.get() / GRAIN.get()).next_multiple_of(unit),
            capacity: VirtualCapacity::new(setup.rate, setup.base_rtt, gains),
            heavy: heavy.map(|bytes| bytes.get().saturating_mul(OF_A_BYTE)),
            epoch_length,
            epoch: 0,
            epoch_end: Instant::ZERO + epoch_length,
            granted: 0,
            demand: 0,
            carry: 0,
            tasks: Vec::new(),
            most: usize::MAX,
        }
    }

    /// Keeps at most so many tasks, so that a flood of ids cannot exhaust memory.
    #[must_use]
    pub fn with_at_most(self, tasks: usize) -> Self {
        Self { most: tasks.max(1), ..self }
    }

    /// Returns what it was told.
    pub fn constants(&self) -> PortConstants {
        PortConstants {
            interval: self.capacity.interval(),
            gains: self.capacity.gains(),
            heavy: self.heavy.unwrap_or(u64::MAX),
            epoch: self.epoch_length,
            link: self.link,
        }
    }

    /// For how many tasks it keeps anything.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Returns the number of flows in its sums.
    pub fn flows(&self) -> u64 {
        self.tasks.iter().map(|task| task.now.flows).sum()
    }

    /// Returns the sum of its grants.
    pub fn granted(&self) -> BitsPerSec {
        BitsPerSec(self.granted * GRAIN.get())
    }

    fn parity(&self) -> bool {
        self.epoch % 2 == 1
    }

    /// Ends epochs whose time has come: what was counted in the last one replaces all sums.
    fn end_epochs(&mut self, now: Instant) {
        if now < self.epoch_end {
            return;
        }
        let length = self.epoch_length.get();
        let ended = 1 + now.since(self.epoch_end).get() / length;
        for task in &mut self.tasks {
            task.reserve(now);
            // No request came in an epoch after the one just counted.
            task.now = if ended == 1 { task.rebuilt } else { Sums::default() };
            task.rebuilt = Sums::default();
        }
        self.epoch += ended;
        self.epoch_end = self.epoch_end + Nanos(ended * length);
        let epoch = self.epoch;
        self.tasks.retain(|task| task.now.flows > 0 || task.heard + 2 >= epoch);
        self.granted = self.tasks.iter().map(|task| task.now.granted).sum();
        self.demand = self.tasks.iter().map(|task| task.now.demand).sum();
    }

    /// Finds or makes a task's place; `None` where the port is full of tasks that are as recent and
    /// before it.
    fn place_of(&mut self, id: u32, now: Instant) -> Option<usize> {
        match self.tasks.binary_search_by_key(&id, |task| task.id) {
            Ok(place) => Some(place),
            Err(_) if self.tasks.len() >= self.most && !self.evict(id) => None,
            Err(_) => {
                let place = self.tasks.partition_point(|task| task.id < id);
                self.tasks.insert(place, Task::new(id, now));
                Some(place)
            }
        }
    }

    /// Forgets the task that has been silent for longest, of several the last one; unless that is
    /// the task `id` itself.
    fn evict(&mut self, id: u32) -> bool {
        let heard = |task: &Task| (task.heard, core::cmp::Reverse(task.id));
        let Some(place) = (0..self.tasks.len()).min_by_key(|&place| heard(&self.tasks[place])) else {
            return false;
        };
        let victim = &self.tasks[place];
        if victim.heard == self.epoch && victim.id < id {
            return false;
        }
        self.granted -= victim.now.granted;
        self.demand -= victim.now.demand;
        self.tasks.remove(place);
        true
    }

    /// Algorithm 1, line 1: takes back what the flow was counted with.
    fn take_back(&mut self, place: usize, extra: &SpcHeader) {
        if extra.previous_demand == 0 {
            return;
        }
        let (rate, parity) = extra.returned_here();
        let counted_now = parity == self.parity();
        let [rate, demand] =
            [rate, extra.previous_demand].map(|units| self.within_link(units, extra.unit()) * extra.unit());
        let task = &mut self.tasks[place];
        let before = task.now;
        task.now.take(rate, demand);
        if counted_now {
            task.rebuilt.take(rate, demand);
        }
        self.granted -= before.granted - task.now.granted;
        self.demand -= before.demand - task.now.demand;
    }

    /// Returns the units that a flow is counted with.
    fn within_link(&self, units: u8, unit: u64) -> u64 {
        u64::from(units).min(self.link / unit)
    }

    /// Line 2: the classifier.
    fn class_of(&self, place: usize) -> Class {
        let mut class = Class { before: 0, demand: 0, flows: 0 };
        let mut found = false;
        for (at, task) in self.tasks.iter().enumerate() {
            if task.now.flows == 0 && at != place {
                continue;
            }
            class.demand += task.now.demand;
            class.flows += task.now.flows;
            found |= at == place;
            if self.heavy.is_some_and(|heavy| task.reserved > heavy) {
                continue;
            }
            if found {
                break;
            }
            class = Class { before: class.before + class.demand, demand: 0, flows: 0 };
        }
        class
    }

    /// Lines 3 to 10: nominal and actual rate in units.
    fn grant(&mut self, place: usize, demand: u64, unit: u64) -> (u64, u64) {
        let class = self.class_of(place);
        let virtual_capacity = self.capacity.rate().get() / (GRAIN.get() / FRACTION);
        let available = virtual_capacity.saturating_sub(class.before * FRACTION);
        let share = available.saturating_sub(class.demand * FRACTION);
        let left = virtual_capacity.saturating_sub(self.granted * FRACTION) / (unit * FRACTION);
        let most = demand.min(left);
        if share > demand * unit * FRACTION {
            return (demand, most);
        }
        // Line 8; the flow is one of its class.
        let exact = available / (class.flows + 1);
        if exact == 0 {
            return (0, 0);
        }
        let carried = exact + self.carry;
        let actual = (carried / (unit * FRACTION)).min(most);
        // What could not be granted now may be to the next, but is not saved up.
        self.carry = (carried - actual * unit * FRACTION).min(unit * FRACTION);
        ((exact / (unit * FRACTION)).min(demand), actual)
    }

    fn question(&mut self, now: Instant, extra: &mut SpcHeader) {
        self.end_epochs(now);
        let Some(place) = self.place_of(extra.task(), now) else {
            extra.answer(0, 0, self.parity());
            return;
        };
        self.tasks[place].reserve(now);
        self.tasks[place].heard = self.epoch;
        self.take_back(place, extra);
        if (extra.demand == 0) != (extra.previous_demand == 0) {
            self.capacity.hold(now);
        }
        if extra.demand == 0 {
            extra.answer(0, 0, self.parity());
            return;
        }
        let demand = self.within_link(extra.demand, extra.unit());
        let (nominal, actual) = self.grant(place, demand, extra.unit());
        let (rate, demand) = (actual * extra.unit(), demand * extra.unit());
        let task = &mut self.tasks[place];
        task.now.add(rate, demand);
        task.rebuilt.add(rate, demand);
        self.granted += rate;
        self.demand += demand;
        // Neither is more than the demand, which is a byte.
        extra.answer(nominal as u8, actual as u8, self.parity());
    }
}

impl PortLogic<SpcHeader> for Port {
    fn arrive(&mut self, now: Instant, backlog: Bytes, header: &mut Header, extra: &mut SpcHeader) {
        // More than the link is given away only where it is asked for.
        let wanted = self.demand.saturating_mul(GRAIN.get()).min(2 * self.rate.get());
        // Flows ask by a clock of their own.
        self.capacity.arrive(now, header.size, backlog, BitsPerSec(wanted), 0);
        if extra.asks() && extra.hop() < PORTS {
            self.question(now, extra);
        }
    }
}

#[cfg(test)]
mod tests;
