//! The second carrier: frames whose way is known never leave the kernel.
//!
//! An XDP program at each port (`bpf/switch.bpf.c`) finds the way of a frame, answers SPC's
//! questions by the logic of `transport`, and hands the frame to the other port's driver. All else
//! comes to this process, and the [`Switch`](crate::Switch) that also carries frames alone does it:
//! beacons and the search for loops, what goes to all ports, refusals. So this module loads, tells,
//! and counts.
//!
//! # Invariants
//! - Nothing is forwarded before the process says so, which it does once its time of watching is
//!   over.
//! - A program is attached by a link that only this process holds. It goes with the process,
//!   however that ends.
//! - What the process sends is counted in the kernel's queues (`relayed`), so that both together
//!   keep to the link's rate.
//!
//! # What differs from the process
//! The kernel has no queues here, so a port polices where the process would hold packets back, and
//! SPC overtakes nothing; no shares for flows (RCP). The head of `bpf/switch.bpf.c` says why. A
//! question that goes to all ports, since no frame has come from its destination, is answered by
//! the process with sums of its own; they are gone after two epochs.
//!
//! # Rejected
//! - A spin lock of the kernel's in each port: no loop may stand under one, and Algorithm 1 walks
//!   the tasks before a question's own.
//! - To go on in the mode without a driver's help where that has no XDP: it takes no frame larger
//!   than the MTU, so senders' large TCP would be lost in silence; the process cuts it.
//! - AF_XDP instead of packet sockets (measured in the crate's own documentation): a driver that
//!   could do better than copy carries these programs as well, without a way through a process.
//! - A program at the traffic control's hook, behind which a queueing discipline could let SPC go
//!   first: switches that leave disciplines behind when they are killed were not wanted. Not
//!   measured.

mod features;
#[cfg(test)]
mod functions;
#[cfg(test)]
mod queues;

use std::fmt;

use aya::maps::{Array, DevMap, HashMap, MapData, PerCpuArray};
use aya::programs::links::FdLink;
use aya::programs::{ProgramError, Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader};
use cavalcade_model::{BitsPerSec, Instant, Nanos};
use cavalcade_transport::spc::GRAIN;
use cavalcade_transport::{PortSetup, Transport};

use crate::device::Device;
use crate::error::SwitchError;
use crate::packet::Address;
use crate::port::ClassCounters;
use crate::shared::{self, CountsWords, MOST_PORTS, MOST_TASKS, PROGRAMS, PlaceWords, PortWords, StateWords};
use crate::switch::{Report, Setup};

/// Addresses are counted this often.
const COUNT_ADDRESSES: Nanos = Nanos(1_000_000_000);

/// Tells why this build has no program for the kernel; `None` where it has one.
pub fn missing() -> Option<&'static str> {
    PROGRAMS.err()
}

/// The switch in the kernel; dropping ends it.
pub(crate) struct Kernel {
    tables: Tables,
    state: shared::State,
    /// What the kernel was told that the process has sent, for each port.
    relayed: Vec<u64>,
    /// Addresses that it knew when they were last counted, and the time of that.
    addresses: (usize, Instant),
    _links: Vec<FdLink>,
    _programs: Ebpf,
}

struct Tables {
    ports: Array<MapData, PortWords>,
    interfaces: HashMap<MapData, u32, u32>,
    links: DevMap<MapData>,
    learned: HashMap<MapData, u64, PlaceWords>,
    said: HashMap<MapData, u64, PlaceWords>,
    relayed: Array<MapData, u64>,
    state: Array<MapData, StateWords>,
    counts: PerCpuArray<MapData, CountsWords>,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Kernel").finish_non_exhaustive()
    }
}

impl Kernel {
    /// Loads the program and attaches it at these interfaces, which are the ports of `setup`. It
    /// forwards nothing yet.
    ///
    /// # Errors
    /// If this build has no program, or the kernel or a driver refuses it.
    pub(crate) fn attach(devices: &[Device], setup: &Setup) -> Result<Self, SwitchError> {
        for device in devices {
            if features::takes_redirected(device.index()) == Some(false) {
                return Err(SwitchError::NoRedirect { name: device.name().to_owned() });
            }
        }
        let mut programs = load(setup)?;
        let mut tables = Tables::take_from(&mut programs)?;
        for (port, device) in (0..).zip(devices) {
            let words = told(setup, port as usize, device.index());
            tables.set_port(port, words).map_err(refused("the tables")).map_err(|error| of(device, error))?;
        }
        for &(address, port) in &setup.routes {
            let place = shared::Place { port: port as u64, ..shared::Place::default() };
            tables.said.insert(number(address), place.to_words(), 0).map_err(refused("the routes"))?;
        }
        let program: &mut Xdp = programs
            .program_mut("forward")
            .expect("it is in bpf/switch.bpf.c")
            .try_into()
            .map_err(refused("the program"))?;
        program.load().map_err(refused("the program"))?;
        let mut links = Vec::with_capacity(devices.len());
        for device in devices {
            links.push(at_interface(program, device).map_err(|error| of(device, error))?);
        }
        let (relayed, addresses) = (vec![0; devices.len()], (0, Instant::ZERO));
        let state = shared::State::default();
        Ok(Self { tables, state, relayed, addresses, _links: links, _programs: programs })
    }

    /// Begins to forward.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn forward(&mut self) -> Result<(), SwitchError> {
        self.state.forwards = 1;
        self.tables.state.set(0, self.state.to_words(), 0).map_err(refused("the tables"))
    }

    /// Forgets all that was learned, at the cost of one call: who has it done may be a host that
    /// made up the reason.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn forget_learned(&mut self) -> Result<(), SwitchError> {
        self.state.era += 1;
        self.tables.state.set(0, self.state.to_words(), 0).map_err(refused("the tables"))
    }

    /// Finds the port behind which an address is.
    pub(crate) fn port_of(&self, address: Address) -> Option<usize> {
        let key = number(address);
        let said = self.tables.said.get(&key, 0).map(shared::Place::from_words);
        let learned = || Some(shared::Place::from_words(self.tables.learned.get(&key, 0).ok()?));
        let place = said.ok().or_else(|| learned().filter(|place| place.era == self.state.era))?;
        Some(place.port as usize)
    }

    /// Forgets the addresses behind a port whose link is cut.
    pub(crate) fn forget(&mut self, port: usize) {
        let learned = &mut self.tables.learned;
        let behind = learned
            .iter()
            .flatten()
            .filter(|(_, place)| shared::Place::from_words(*place).port == port as u64);
        let behind: Vec<u64> = behind.map(|(address, _)| address).collect();
        // One that has made room meanwhile is gone as well.
        behind.iter().for_each(|address| drop(learned.remove(address)));
    }

    /// Says how many bytes the process has sent by a port.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn relay(&mut self, port: usize, bytes: u64) -> Result<(), SwitchError> {
        if self.relayed[port] != bytes {
            self.relayed[port] = bytes;
            self.tables.relayed.set(port as u32, bytes, 0).map_err(refused("the tables"))?;
        }
        Ok(())
    }

    /// Adds what the kernel has counted to a report, and to what each interface did not take.
    pub(crate) fn add_to(&mut self, now: Instant, report: &mut Report, unsent: &mut [u64]) {
        if now.since(self.addresses.1) >= COUNT_ADDRESSES {
            // A call for each.
            self.addresses = (self.tables.learned.keys().count(), now);
        }
        for counts in self.tables.counts.get(&0, 0).iter().flat_map(|all| all.iter()) {
            let counts = shared::Counts::from_words(*counts);
            report.counters.received += counts.received;
            report.counters.malformed += counts.malformed;
            report.counters.too_large += counts.too_large;
            report.counters.filtered += counts.filtered;
        }
        report.addresses = report.addresses.max(self.addresses.0);
        for (at, (port, unsent)) in report.ports.iter_mut().zip(unsent).enumerate() {
            let Ok(words) = self.tables.ports.get(&(at as u32), 0) else { continue };
            let kernel = shared::Port::from_words(words);
            add(&mut port.spc, kernel.spc());
            add(&mut port.plain, kernel.plain());
            port.tasks += kernel.tasks as usize;
            port.granted = BitsPerSec(port.granted.get() + kernel.granted * GRAIN.get());
            port.questions += kernel.questions;
            *unsent += kernel.busy;
        }
    }
}

fn add(sum: &mut ClassCounters, more: ClassCounters) {
    sum.packets += more.packets;
    sum.bytes += more.bytes;
    sum.dropped += more.dropped;
    sum.queued += more.queued;
    sum.longest = sum.longest.max(more.longest);
}

impl shared::Port {
    fn spc(&self) -> ClassCounters {
        ClassCounters {
            packets: self.spc_packets,
            bytes: self.spc_bytes,
            dropped: self.spc_dropped,
            queued: self.spc_queued,
            longest: self.spc_longest,
        }
    }

    fn plain(&self) -> ClassCounters {
        ClassCounters {
            packets: self.plain_packets,
            bytes: self.plain_bytes,
            dropped: self.plain_dropped,
            queued: self.plain_queued,
            longest: self.plain_longest,
        }
    }
}

fn refused<E: fmt::Display>(what: &'static str) -> impl FnOnce(E) -> SwitchError {
    move |error| SwitchError::KernelRefused { what, why: error.to_string() }
}

/// What went wrong with an interface: where it has gone meanwhile, that.
fn of(device: &Device, error: SwitchError) -> SwitchError {
    if device.is_gone() { SwitchError::Gone { name: device.name().to_owned() } } else { error }
}

/// An address as the kernel's tables have it.
fn number(address: Address) -> u64 {
    address.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Loads the tables, in the sizes that the setup asks for.
fn load(setup: &Setup) -> Result<Ebpf, SwitchError> {
    let programs = PROGRAMS.map_err(|why| SwitchError::NoPrograms { why })?;
    let tasks = setup.tasks.saturating_mul(setup.ports.len());
    if setup.ports.len() > MOST_PORTS as usize {
        return Err(SwitchError::TooMany { what: "ports", most: MOST_PORTS });
    }
    if tasks > MOST_TASKS as usize {
        return Err(SwitchError::TooMany { what: "tasks of all ports", most: MOST_TASKS });
    }
    EbpfLoader::new()
        .map_max_entries("tasks", tasks.max(1) as u32)
        .map_max_entries("learned", u32::try_from(setup.addresses.max(1)).unwrap_or(u32::MAX))
        .map_max_entries("said", setup.routes.len().max(1) as u32)
        .load(programs)
        .map_err(refused("the tables"))
}

/// Returns what a port is told at the start, by its number and that of its interface.
fn told(setup: &Setup, port: usize, interface: u32) -> shared::Port {
    let (_, rate, mtu) = setup.ports[port];
    let of_link = PortSetup { rate, delay: Nanos::ZERO, base_rtt: setup.base_rtt, port: 0 };
    let constants = setup.spc.port_logic(&of_link).constants();
    let rate = rate.get().max(1);
    shared::Port {
        interface: u64::from(interface),
        mtu: u64::from(mtu),
        rate,
        buffer: setup.spc.buffer.get(),
        emptied_after: u64::MAX / 2 / rate,
        spare_gain: u64::from(constants.gains.spare),
        queue_gain: u64::from(constants.gains.queue),
        interval: constants.interval.get(),
        heavy: constants.heavy,
        epoch_length: constants.epoch.get(),
        link: constants.link,
        most: setup.tasks.max(1) as u64,
        capacity: rate,
        backlog: u64::MAX,
        epoch_end: constants.epoch.get(),
        ..shared::Port::default()
    }
}

/// Attaches the program in the driver of an interface.
fn at_interface(program: &mut Xdp, device: &Device) -> Result<FdLink, SwitchError> {
    let name = || device.name().to_owned();
    let link = program.attach_to_if_index(device.index(), XdpMode::Driver);
    let link = link.map_err(|error| {
        let ProgramError::SyscallError(failed) = &error else {
            return SwitchError::KernelRefused { what: "the program's place", why: error.to_string() };
        };
        match failed.io_error.raw_os_error() {
            Some(libc::EBUSY) => SwitchError::Occupied { name: name() },
            Some(libc::ENOSPC) => SwitchError::FewQueues { name: name() },
            Some(libc::EOPNOTSUPP) => SwitchError::NoXdp { name: name() },
            Some(libc::EPERM | libc::EACCES) => SwitchError::NoPrivilege { name: name() },
            _ => SwitchError::KernelRefused { what: "the program's place", why: failed.io_error.to_string() },
        }
    })?;
    // One that is no link of its own would outlive the process.
    let link = program.take_link(link).map_err(refused("the program's place"))?;
    link.try_into().map_err(refused("the program's place"))
}

impl Tables {
    fn take_from(loaded: &mut Ebpf) -> Result<Self, SwitchError> {
        let mut take = |name: &str| loaded.take_map(name).expect("it is in bpf/switch.bpf.c");
        let refused = || refused("the tables");
        Ok(Self {
            ports: take("ports").try_into().map_err(refused())?,
            interfaces: take("interfaces").try_into().map_err(refused())?,
            links: take("links").try_into().map_err(refused())?,
            learned: take("learned").try_into().map_err(refused())?,
            said: take("said").try_into().map_err(refused())?,
            relayed: take("relayed").try_into().map_err(refused())?,
            state: take("state").try_into().map_err(refused())?,
            counts: take("counts").try_into().map_err(refused())?,
        })
    }

    fn set_port(&mut self, port: u32, told: shared::Port) -> Result<(), aya::maps::MapError> {
        let interface = told.interface as u32;
        self.ports.set(port, told.to_words(), 0)?;
        self.interfaces.insert(interface, port, 0)?;
        self.links.set(port, interface, None, 0).map_err(|error| match error {
            aya::maps::xdp::XdpMapError::MapError(error) => error,
            aya::maps::xdp::XdpMapError::ChainedProgramNotSupported => aya::maps::MapError::ElementNotFound,
        })
    }
}
