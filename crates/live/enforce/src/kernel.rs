//! The programs in the kernel, loaded, and the tables through which they are told and tell.

mod descriptors;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use aya::maps::{Array, HashMap, Map, MapData, RingBuf, SkStorage};
use aya::programs::cgroup_sockopt::CgroupSockoptLink;
use aya::programs::links::FdLink;
use aya::programs::{
    CgroupAttachMode, CgroupSkb, CgroupSkbAttachType, CgroupSock, CgroupSockopt, Iter, Program, ProgramError,
    SockOps,
};
use aya::{Btf, Ebpf, EbpfLoader};
use cavalcade_client::DscpMap;
use cavalcade_model::{Bytes, Demotion, Nanos};
use rustix::time::{ClockId, clock_gettime};

use crate::congestion::{self, Control, Goal};
use crate::flow::{self, Count, Flow, Order};
use crate::groups::{self, Group, Hierarchy};
use crate::namespaces::{Walkers, walk_everywhere};
use crate::pins::Pins;
use crate::place::Place;
use crate::shared::{
    Claim, ClaimWords, ClassWords, Coflow, CoflowWords, CountWords, DemotionWords, EVERYBODY, FlowWords,
    GROUPS, GoalWords, Made, MadeWords, NetworkWords, OrderWords, PROGRAMS, Pair, PairWords, Settings,
    SettingsWords, SocketWords,
};
use crate::{Error, demotion, leftovers};

/// Names of what is pinned; programs and tables have the same in `bpf/enforce.bpf.c`.
pub(crate) const SETTINGS: &str = "settings";
pub(crate) const REFRESH: &str = "refresh";
const TAG: &str = "tag";
const CONNECTIONS: &str = "connections";
/// The same for kernels that do not say whose a subflow of MPTCP is.
const CONNECTIONS_ALONE: &str = "connections_alone";
const TOUCH: &str = "touch";
const GATE: &str = "gate";

/// The times by which the kernel's side acts without being told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Without a sign of life for so long all limits are lifted.
    pub silence: Nanos,
    /// A flow that is off may send a segment in so long, and each of its connections one in ten
    /// times as long: none is given up, and a gate that opens by silence is noticed.
    pub trickle: Nanos,
    /// After so long without new data, with all that was written sent and acknowledged, the next
    /// byte of a connection begins a message (PIAS §4.1).
    pub idle: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Self { silence: Nanos::from_secs(2), trickle: Nanos::from_millis(200), idle: Nanos(500_000) }
    }
}

/// The tables that programs and this process share.
struct Tables {
    groups: HashMap<MapData, u64, u32>,
    users: HashMap<MapData, u32, u32>,
    ports: HashMap<MapData, u32, u32>,
    coflows: HashMap<MapData, u32, CoflowWords>,
    claims: HashMap<MapData, PairWords, ClaimWords>,
    made: RingBuf<MapData>,
    turned: RingBuf<MapData>,
    orders: HashMap<MapData, FlowWords, OrderWords>,
    counts: HashMap<MapData, FlowWords, CountWords>,
    /// By coflow, bytes that were not sent by TCP.
    strays: HashMap<MapData, u32, u64>,
    /// By user, the flows that have been taken out of the counts.
    ended: HashMap<MapData, u32, u64>,
    settings: Array<MapData, SettingsWords>,
    sockets: SkStorage<MapData, SocketWords>,
    goals: HashMap<MapData, FlowWords, GoalWords>,
    network: Array<MapData, NetworkWords>,
    demotion: Array<MapData, DemotionWords>,
    classes: Array<MapData, ClassWords>,
    /// Those that congestion controls use.
    of_controls: BTreeMap<&'static str, OwnedFd>,
}

/// The loaded programs. Dropping it lifts all limits and removes everything; so does the next
/// [`Kernel::load`] where this process was killed.
#[derive(Debug)]
pub struct Kernel {
    tables: Tables,
    /// What has setting an option reach one connection, where the kernel takes it; attached until
    /// this is dropped.
    _touch: Option<CgroupSockoptLink>,
    walkers: Walkers,
    /// The users in whose shares of the table the groups of coflows are, by group.
    groups: BTreeMap<u64, u32>,
    generation: u32,
    vouches: bool,
    /// True in a walk that gives connections from before to the rules for their ports.
    takes_ports: bool,
    /// The processes that [`Kernel::mark`] has marked connections of.
    marked: BTreeSet<u32>,
    control: Option<congestion::Loaded>,
    limits: Limits,
    hierarchy: Hierarchy,
    place: Place,
    /// The kernel's number of the place's group.
    above: u64,
    pins: Pins,
}

impl Kernel {
    /// Loads the programs and attaches them at `place`. What an enforcer that was killed has left
    /// there is lifted and removed first.
    ///
    /// # Errors
    /// If the build has no programs, the kernel or the process's rights do not suffice, or another
    /// enforcer is at work there; nothing is left behind then.
    pub fn load(place: Place, limits: Limits) -> Result<Self, Error> {
        let programs = PROGRAMS.map_err(Error::NotBuilt)?;
        let hierarchy = Hierarchy::find()?;
        let group = File::open(&place.above).map_err(Error::file("open", &place.above))?;
        let above = group.metadata().map_err(Error::file("read", &place.above))?.ino();
        leftovers::fix(&place)?;
        let pins = Pins::take(&place.name)?;
        match attach(programs, &group, settings(limits, above), &pins) {
            Ok((tables, touch)) => {
                let walkers = Walkers::new(pins.path(REFRESH));
                Ok(Self {
                    tables,
                    _touch: touch,
                    walkers,
                    groups: BTreeMap::new(),
                    generation: 0,
                    vouches: false,
                    takes_ports: false,
                    marked: BTreeSet::new(),
                    control: None,
                    limits,
                    hierarchy,
                    place,
                    above,
                    pins,
                })
            }
            Err(error) => {
                pins.clear();
                Err(error)
            }
        }
    }

    /// The place at which the programs are attached.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Makes a control group for processes of a coflow, below `parent`.
    ///
    /// # Errors
    /// If there is no right to, or there are too many.
    pub fn tag(&mut self, parent: &Path, coflow: u32) -> Result<Group, Error> {
        let group = Group::make(parent, &format!("{}.{coflow}", self.place.name))?;
        self.tag_group(&group, coflow)?;
        Ok(group)
    }

    /// The group below which one for `process` is to be made: its own, so that what limits its
    /// memory and processor goes on to do so and it is there again when the coflow ends.
    pub(crate) fn parent_for(&self, process: u32) -> Result<PathBuf, Error> {
        let own = self.group_of(process).ok_or(Error::NoGroups)?;
        Ok(if own.starts_with(&self.place.above) { own } else { self.place.above.clone() })
    }

    /// The group in which a process is.
    pub(crate) fn group_of(&self, process: u32) -> Option<PathBuf> {
        groups::of_process(&self.hierarchy, process)
    }

    /// Makes an existing control group stand for a coflow: sockets that its processes make from now
    /// on belong to it.
    ///
    /// A user may have as many groups as are free: whoever wants all gets half of the table, and
    /// the next one a part of the rest.
    ///
    /// # Errors
    /// If the coflow's user has too many.
    pub fn tag_group(&mut self, group: &Group, coflow: u32) -> Result<(), Error> {
        self.announce(coflow)?;
        let owner = self.known(coflow).map_or_else(own_user, |known| known.owner) as u32;
        let have = self.groups.iter().filter(|&(&id, &of)| of == owner && id != group.id()).count();
        if !self.groups.contains_key(&group.id())
            && have >= (GROUPS as usize).saturating_sub(self.groups.len())
        {
            return Err(Error::NoRoom { have });
        }
        self.tables.groups.insert(group.id(), coflow, 0).map_err(Error::refused("one more group"))?;
        self.groups.insert(group.id(), owner);
        Ok(())
    }

    /// Makes a group stand for nothing any more. What its processes have of sockets belongs to the
    /// coflow until they are given to another, or to none ([`Kernel::retag`]).
    pub(crate) fn forget_group(&mut self, group: &Group) {
        let _ = self.tables.groups.remove(&group.id());
        self.groups.remove(&group.id());
    }

    /// Makes a user stand for a coflow: sockets that the user's processes make from now on belong
    /// to it, unless their control group says otherwise.
    ///
    /// # Errors
    /// If there are too many such rules.
    pub fn tag_user(&mut self, user: u32, coflow: u32) -> Result<(), Error> {
        self.announce(coflow)?;
        self.tables.users.insert(user, coflow, 0).map_err(Error::refused("one more rule"))
    }

    /// Makes a port stand for a coflow: connections to it, and those accepted at it, belong to the
    /// coflow from now on, unless their sockets belong to one already. Those that are there follow
    /// with the next walk ([`Kernel::refresh_everywhere`]).
    ///
    /// # Errors
    /// If there are too many such rules.
    pub fn tag_port(&mut self, port: u16, coflow: u32) -> Result<(), Error> {
        self.announce(coflow)?;
        self.tables.ports.insert(u32::from(port), coflow, 0).map_err(Error::refused("one more rule"))
    }

    /// There is such a coflow: its flows are counted.
    pub(crate) fn announce(&mut self, coflow: u32) -> Result<(), Error> {
        match self.known(coflow) {
            Some(_) => Ok(()),
            None => self.know(coflow, Coflow { serial: 0, owner: own_user() }),
        }
    }

    /// Makes a coflow's flows count towards this user's share of the kernel's table: they are as
    /// many as are free there at most, and the connections beyond are plain TCP. To be said before
    /// the coflow has any; without it they are those of this process's user.
    ///
    /// # Errors
    /// If there are too many coflows.
    pub fn assign(&mut self, coflow: u32, user: u32) -> Result<(), Error> {
        let known = self.known(coflow).unwrap_or_default();
        self.know(coflow, Coflow { owner: u64::from(user), ..known })
    }

    /// Says which serial a coflow has: SYNs of its connections say it, where this enforcer vouches
    /// for them.
    pub(crate) fn name(&mut self, coflow: u32, serial: u64) -> Result<(), Error> {
        let owner = self.known(coflow).map_or_else(own_user, |known| known.owner);
        self.know(coflow, Coflow { serial, owner })
    }

    fn known(&self, coflow: u32) -> Option<Coflow> {
        self.tables.coflows.get(&coflow, 0).ok().map(Coflow::from_words)
    }

    fn know(&mut self, coflow: u32, known: Coflow) -> Result<(), Error> {
        self.tables.coflows.insert(coflow, known.to_words(), 0).map_err(Error::refused("one more coflow"))
    }

    /// Has connections say their coflow to the other end, and tells of them ([`Kernel::made`]).
    /// What listens already reads what SYNs say from now on.
    pub(crate) fn vouch(&mut self) -> Result<(), Error> {
        self.announce_in_syns(true)?;
        self.refresh_everywhere()
    }

    /// The same of connections, and of what listens, from now on alone; or ends it.
    pub(crate) fn announce_in_syns(&mut self, vouches: bool) -> Result<(), Error> {
        self.vouches = vouches;
        self.stay_alive()
    }

    /// The descriptor that can be read when connections have been made.
    pub(crate) fn made_descriptor(&self) -> BorrowedFd<'_> {
        self.tables.made.as_fd()
    }

    /// The connections of tagged sockets that were made since the last call.
    pub(crate) fn made(&mut self) -> Vec<Made> {
        let mut all = Vec::new();
        while let Some(bytes) = self.tables.made.next() {
            let mut words = MadeWords::default();
            read_words(&mut words, &bytes);
            all.push(Made::from_words(words));
        }
        all
    }

    /// Gives a connection from outside to a coflow. Returns whether its SYN said so too; where it
    /// did not, the connection has the coflow after the next walk.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn claim(&mut self, pair: Pair, coflow: u32, serial: u64) -> Result<bool, Error> {
        let (serial_low, serial_high) = (serial as u32, (serial >> 32) as u32);
        let known = self.tables.claims.get(&pair.to_words(), 0).map(Claim::from_words).unwrap_or_default();
        let claim = Claim { serial_low, serial_high, coflow };
        let inserted = self.tables.claims.insert(pair.to_words(), claim.to_words(), 0);
        inserted.map_err(Error::refused("one more connection from outside"))?;
        Ok((known.serial_low, known.serial_high) == (serial_low, serial_high))
    }

    /// Follows the members of a group into network namespaces that they have entered.
    pub fn follow(&mut self, group: &Group) {
        group.members().into_iter().for_each(|process| self.walkers.follow(process));
    }

    /// Follows a process into the network namespace that it is in.
    pub(crate) fn follow_process(&mut self, process: u32) {
        self.walkers.follow(process);
    }

    /// Leaves network namespaces in which no tagged process has been for a while.
    pub(crate) fn leave_empty_namespaces(&mut self) {
        self.walkers.leave_empty();
    }

    /// Says how a flow is to be sent. It holds for what is sent from now on; [`Kernel::refresh`]
    /// makes it hold for connections that wait.
    ///
    /// # Errors
    /// If there are too many flows.
    pub fn order(&mut self, flow: Flow, order: Order) -> Result<(), Error> {
        self.insert_order(flow, |generation| order.to_kernel(generation))
    }

    /// Has a flow be plain TCP, until it gets another order: it has neither gate nor rate nor class
    /// by order, and its connections take the congestion control back that they had. Demotion goes
    /// on, as it needs no orders. Reaches connections as [`Kernel::order`] does.
    ///
    /// # Errors
    /// If there are too many flows.
    pub fn release(&mut self, flow: Flow) -> Result<(), Error> {
        self.insert_order(flow, flow::plain)
    }

    fn insert_order(&mut self, flow: Flow, words: impl Fn(u32) -> OrderWords) -> Result<(), Error> {
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        let words = words(self.generation);
        self.tables.orders.insert(flow.to_kernel(), words, 0).map_err(Error::refused("one more order"))
    }

    /// Forgets the order of a flow.
    pub fn cancel(&mut self, flow: Flow) {
        // One that there was not is as good as gone.
        let _ = self.tables.orders.remove(&flow.to_kernel());
    }

    /// Goes over all TCP sockets: sets what has changed, and pushes what waited at gates that have
    /// opened.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.walkers.walk().map_err(|error| Error::refused("a walk over sockets")(error))
    }

    /// The same in every network namespace of this host, also where no process is tagged.
    /// Connections from before that belong to no coflow are given to the rules for their ports.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn refresh_everywhere(&mut self) -> Result<(), Error> {
        self.takes_ports = true;
        self.stay_alive()?;
        let walked = walk_everywhere(self.pins.path(REFRESH));
        self.takes_ports = false;
        self.stay_alive()?;
        walked.map_err(|error| Error::refused("a walk over sockets")(error))
    }

    /// Gives connections of coflows a congestion control, in place of the one that they have: those
    /// that are made from now on, and those that are there and have agreed with their other end on
    /// marks. None gives them back their own.
    ///
    /// # Errors
    /// If the kernel takes no such controls; all keep their own then.
    pub fn control(&mut self, control: Option<Control>) -> Result<(), Error> {
        let former = self.control.take();
        if let Some(control) = control {
            let words = control.to_kernel().to_words();
            self.tables.network.set(0, words, 0).map_err(Error::refused("the network's rates"))?;
            let tables = self.tables.of_controls.iter().map(|(&name, table)| (name, table.as_fd())).collect();
            self.control = Some(congestion::Loaded::new(control, &self.place.name, &tables)?);
        }
        self.stay_alive()?;
        if former.is_some() || self.control.is_some() { self.refresh() } else { Ok(()) }
    }

    /// Says what a flow is to reach, to laws that go by it.
    ///
    /// # Errors
    /// If there are too many flows.
    pub fn aim(&mut self, flow: Flow, goal: Goal) -> Result<(), Error> {
        let words = goal.to_kernel().to_words();
        self.tables.goals.insert(flow.to_kernel(), words, 0).map_err(Error::refused("one more goal"))
    }

    /// Has this host sort messages of coflows by itself, with classes as DSCP by `map`: connections
    /// that belong to a coflow from now on are marked by what they have sent, or are to send,
    /// whatever class the orders say, unless that is one of deadlines. It holds without any orders.
    ///
    /// # Errors
    /// If the rule has too many classes, or the kernel refuses.
    pub fn demote(&mut self, rule: &Demotion, map: DscpMap) -> Result<(), Error> {
        let (words, classes) = demotion::to_kernel(rule, map)
            .map_err(|reason| Error::Refused { what: "the rule of demotion", reason })?;
        for (class, words) in classes {
            self.tables.classes.set(class, words, 0).map_err(Error::refused("a class"))?;
        }
        self.tables.demotion.set(0, words, 0).map_err(Error::refused("the rule of demotion"))
    }

    /// Gives the sign of life without which all limits end after [`Limits::silence`].
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn stay_alive(&mut self) -> Result<(), Error> {
        let vouches = u64::from(self.vouches);
        let [control_0, control_1] = self.control.as_ref().map_or([0; 2], congestion::Loaded::name_words);
        let answers = u64::from(self.control.as_ref().is_some_and(|control| control.answers));
        let others = settings(self.limits, self.above);
        let takes_ports = u64::from(self.takes_ports);
        let words = Settings { vouches, control_0, control_1, answers, takes_ports, ..others }.to_words();
        self.tables.settings.set(0, words, 0).map_err(Error::refused("a sign of life"))
    }

    /// The descriptor that can be read when flows have turned.
    pub(crate) fn turned_descriptor(&self) -> BorrowedFd<'_> {
        self.tables.turned.as_fd()
    }

    /// The flows that have begun to be counted, got their first connection or lost their last since
    /// the last call; those of a great many at once only [`Kernel::counts`] has.
    pub fn turned(&mut self) -> Vec<Flow> {
        let mut all = Vec::new();
        while let Some(bytes) = self.tables.turned.next() {
            let mut words = FlowWords::default();
            read_words(&mut words, &bytes);
            all.push(Flow::from_kernel(words));
        }
        all
    }

    /// The count of a flow, where it is counted.
    pub fn count(&self, flow: Flow) -> Option<Count> {
        self.tables.counts.get(&flow.to_kernel(), 0).ok().map(Count::from_kernel)
    }

    /// Bytes of packets that sockets of a coflow have sent by other means than TCP: nothing orders
    /// these.
    pub fn strayed(&self, coflow: u32) -> Bytes {
        Bytes(self.tables.strays.get(&coflow, 0).unwrap_or(0))
    }

    /// The counts of all flows, in order of flows. It takes a look at every place of their table,
    /// some 0.1 ms.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn counts(&self) -> Result<Vec<(Flow, Count)>, Error> {
        let mut counts = Vec::new();
        for entry in self.tables.counts.iter() {
            let (flow, count) = entry.map_err(Error::refused("the counts"))?;
            counts.push((Flow::from_kernel(flow), Count::from_kernel(count)));
        }
        counts.sort_by_key(|&(flow, _)| flow);
        Ok(counts)
    }

    /// Forgets a coflow with its groups, orders and counts. Connections that are still open are
    /// plain TCP.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn forget(&mut self, coflow: u32, groups: Vec<Group>) -> Result<(), Error> {
        let owner = self.known(coflow).map(|known| known.owner as u32);
        groups.iter().for_each(|group| self.forget_group(group));
        let _ = self.tables.coflows.remove(&coflow);
        drop(groups);
        self.clear_of(coflow, owner)
    }

    /// Forgets a coflow's orders and counts.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn clear(&mut self, coflow: u32) -> Result<(), Error> {
        self.clear_of(coflow, self.known(coflow).map(|known| known.owner as u32))
    }

    /// Forgets the orders and counts of a coflow of this user.
    fn clear_of(&mut self, coflow: u32, owner: Option<u32>) -> Result<(), Error> {
        let is_its = |flow: &Result<FlowWords, _>| flow.as_ref().is_ok_and(|flow| flow[0] == coflow);
        let orders: Vec<FlowWords> = self.tables.orders.keys().filter(is_its).flatten().collect();
        let goals: Vec<FlowWords> = self.tables.goals.keys().filter(is_its).flatten().collect();
        let counts: Vec<FlowWords> = self.tables.counts.keys().filter(is_its).flatten().collect();
        let _ = self.tables.strays.remove(&coflow);
        orders.iter().for_each(|flow| drop(self.tables.orders.remove(flow)));
        goals.iter().for_each(|flow| drop(self.tables.goals.remove(flow)));
        let is_open = |flow: &FlowWords| {
            self.tables.counts.get(flow, 0).is_ok_and(|count| Count::from_kernel(count).sockets > 0)
        };
        if counts.iter().any(is_open) {
            self.refresh()?;
            self.mark_again();
        }
        let ended = counts.iter().filter(|flow| self.tables.counts.remove(flow).is_ok()).count();
        owner.into_iter().chain([EVERYBODY]).try_for_each(|user| self.end_flows(user, ended as u64))
    }

    /// Gives back the room that so many flows of a user had.
    fn end_flows(&mut self, user: u32, more: u64) -> Result<(), Error> {
        if more == 0 {
            return Ok(());
        }
        let before = self.tables.ended.get(&user, 0).unwrap_or(0);
        self.tables.ended.insert(user, before + more, 0).map_err(Error::refused("the end of flows"))
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        leftovers::lift(&self.pins);
        self.mark_again();
        self.pins.clear();
        groups::of_place(&self.place.above, &self.place.name).iter().for_each(|group| groups::remove(group));
    }
}

/// The user of this process.
fn own_user() -> u64 {
    u64::from(rustix::process::geteuid().as_raw())
}

/// Programs that are attached by links stand beside those of others without any flag.
const BESIDE_OTHERS: CgroupAttachMode = CgroupAttachMode::Single;

/// Reads what a program has put into a ring.
fn read_words(words: &mut [u32], bytes: &[u8]) {
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
}

/// Settings with a sign of life from now, for programs at the group with this number.
pub(crate) fn settings(limits: Limits, above: u64) -> Settings {
    let alive_at = monotonic().0;
    let Limits { silence, trickle, idle } = limits;
    Settings { alive_at, silence: silence.0, trickle: trickle.0, idle: idle.0, above, ..Settings::default() }
}

/// The kernel's monotonic clock.
pub(crate) fn monotonic() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Loads, attaches and pins the programs, which begin with these settings.
fn attach(
    programs: &[u8],
    above: &File,
    settings: Settings,
    pins: &Pins,
) -> Result<(Tables, Option<CgroupSockoptLink>), Error> {
    let btf = Btf::from_sys_fs().map_err(|error| Error::NoTypes(error.to_string()))?;
    let mut loaded =
        EbpfLoader::new().btf(Some(&btf)).load(programs).map_err(Error::refused("the tables"))?;
    let shared = loaded.map(SETTINGS).expect("it is in bpf/enforce.bpf.c");
    shared.pin(pins.path(SETTINGS)).map_err(Error::refused("the settings"))?;
    let mut tables = Tables::take_from(&mut loaded)?;
    let alive = tables.settings.set(0, settings.to_words(), 0);
    alive.map_err(Error::refused("the settings"))?;
    // Each after what it rests on: nothing is limited before it can be lifted.
    pinned(pins, REFRESH, || {
        let program: &mut Iter = program(&mut loaded, REFRESH)?;
        program.load("tcp", &btf)?;
        let link = program.attach()?;
        Ok(program.take_link(link)?.try_into()?)
    })?;
    pinned(pins, CONNECTIONS, || {
        let refused = program::<SockOps>(&mut loaded, CONNECTIONS)?.load().err();
        let name = if refused.is_none() { CONNECTIONS } else { CONNECTIONS_ALONE };
        let program: &mut SockOps = program(&mut loaded, name)?;
        if let Some(reason) = refused {
            tracing::warn!(%reason, "subflows of MPTCP are left alone: the kernel does not say whose they are");
            program.load()?;
        }
        let link = program.attach(above, BESIDE_OTHERS)?;
        Ok(program.take_link(link)?.try_into()?)
    })?;
    pinned(pins, GATE, || {
        let program: &mut CgroupSkb = program(&mut loaded, GATE)?;
        program.load()?;
        let link = program.attach(above, CgroupSkbAttachType::Egress, BESIDE_OTHERS)?;
        Ok(program.take_link(link)?.try_into()?)
    })?;
    pinned(pins, TAG, || {
        let program: &mut CgroupSock = program(&mut loaded, TAG)?;
        program.load()?;
        let link = program.attach(above, BESIDE_OTHERS)?;
        Ok(program.take_link(link)?.try_into()?)
    })?;
    // Without it connections wait for a walk.
    let touch = attach_touch(&mut loaded, above).ok();
    Ok((tables, touch))
}

/// Attaches what brings one connection up to date. It is not pinned: nothing that lifts limits
/// rests on it.
fn attach_touch(loaded: &mut Ebpf, above: &File) -> Result<CgroupSockoptLink, ProgramError> {
    let program: &mut CgroupSockopt = program(loaded, TOUCH)?;
    program.load()?;
    let link = program.attach(above, BESIDE_OTHERS)?;
    program.take_link(link)
}

fn program<'a, T>(loaded: &'a mut Ebpf, name: &str) -> Result<&'a mut T, ProgramError>
where
    &'a mut T: TryFrom<&'a mut Program, Error = ProgramError>,
{
    loaded.program_mut(name).expect("it is in bpf/enforce.bpf.c").try_into()
}

/// Pins what `attach` has attached, under the program's name.
fn pinned(
    pins: &Pins,
    name: &'static str,
    attach: impl FnOnce() -> Result<FdLink, Box<dyn std::error::Error>>,
) -> Result<(), Error> {
    let refused = |error: Box<dyn std::error::Error>| Error::refused(name)(&*error);
    let link = attach().map_err(refused)?;
    link.pin(pins.path(name)).map(drop).map_err(Error::refused(name))
}

/// What all kinds of tables are in aya.
fn data_of(table: &Map) -> &MapData {
    match table {
        Map::HashMap(data) | Map::Array(data) | Map::SkStorage(data) => data,
        _ => unreachable!("controls use no other kind"),
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

impl Tables {
    fn take_from(loaded: &mut Ebpf) -> Result<Self, Error> {
        let of_controls = congestion::TABLES
            .iter()
            .map(|&name| {
                let table = data_of(loaded.map(name).expect("it is in bpf/flow.h"));
                let copied = table.fd().as_fd().try_clone_to_owned();
                Ok((name, copied.map_err(Error::refused("one more descriptor"))?))
            })
            .collect::<Result<_, Error>>()?;
        let mut take = |name: &str| loaded.take_map(name).expect("it is in bpf/enforce.bpf.c");
        let refused = || Error::refused("the tables");
        Ok(Self {
            groups: take("groups").try_into().map_err(refused())?,
            users: take("users").try_into().map_err(refused())?,
            ports: take("ports").try_into().map_err(refused())?,
            coflows: take("coflows").try_into().map_err(refused())?,
            claims: take("claims").try_into().map_err(refused())?,
            made: take("made").try_into().map_err(refused())?,
            turned: take("turned").try_into().map_err(refused())?,
            orders: take("orders").try_into().map_err(refused())?,
            counts: take("counts").try_into().map_err(refused())?,
            strays: take("strays").try_into().map_err(refused())?,
            ended: take("ended").try_into().map_err(refused())?,
            settings: take(SETTINGS).try_into().map_err(refused())?,
            sockets: take("sockets").try_into().map_err(refused())?,
            goals: take("goals").try_into().map_err(refused())?,
            network: take("network").try_into().map_err(refused())?,
            demotion: take("demotion").try_into().map_err(refused())?,
            classes: take("classes").try_into().map_err(refused())?,
            of_controls,
        })
    }
}
