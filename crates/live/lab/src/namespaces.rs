//! Hosts as network namespaces: one for each host, one for the switch between them, one for the
//! coordinator.
//!
//! A veth pair joins each host to a bridge in the switch's namespace. HTB stands at both ends of
//! the pair: at the host's for what it sends, at the bridge's for what it receives. Messages
//! between agents and coordinator have a class of their own there that goes first, as in a network
//! that is run well; it takes no more than a twentieth. Packets below 128 bytes have another: rates
//! are those of payload, whether as much flows the other way or not, and an acknowledgement for two
//! full packets takes 2 % of what these take. Packets that open and end a connection share that
//! class: a SYN that is lost in a full queue costs the first time-out, a second.
//!
//! # What a port is like
//! A switch of a data centre buffers a millisecond or so. At the rates of a lab that would be a few
//! packets, which no TCP can work with; but a new flow waits behind what stands in a queue on each
//! round trip of its slow start, and a flow goes on sending for as long after it was told to stop.
//! So the queue is [`QUEUE_MS`], and hosts hand over packets that are cut to fit
//! ([`PACKET_MICROS`]), not 64 KB at a time, which a short queue drops. It is no shorter than what
//! a hundred flows need to have a packet each on the way: with less they wait for timers.
//!
//! Hosts use Reno, which every kernel has and lets everybody use; under BBR flows share a link over
//! seconds, if at all. A tail that is lost costs a time-out as well, of 200 ms as kernels come,
//! which is as long as a whole coflow here: hosts' least one is 10 ms ([`LEAST_TIMEOUT_MICROS`]).
//! How often one expires is counted ([`Losses`]). `docs/lab.md` says what each of these is worth.
//!
//! # Ports with classes
//! With [`Ports::Classes`] what a port sends as data has eight queues, of which a higher one always
//! goes first, by the DSCP of packets: what PIAS, Karuna and TAFE ask of a switch, and what a
//! policy of hosts needs, since no sender knows what meets at a receiver's port. HTB does that by
//! itself: eight classes that are entitled to next to nothing and may borrow everything, the higher
//! ones first. Packets without a DSCP are in the highest class, where a flow is before it is told
//! its class. Each queue is as long as that of a plain port, as marks and drops of one class are
//! not to be another's.
//!
//! At a host's own end nothing is dropped, as in the packet engine: there TCP waits for its device,
//! and keeps some bursts of each connection in the queue. In queues as short as the switch's a
//! class would be full of several connections' bursts, and each drop would cut a window. Plain
//! ports keep the short queue.
//!
//! With [`Ports::Marking`] those of the switch that lead to hosts also mark packets (ECN), by a
//! program in the kernel (`marks`), and all queues are as long as the transport asks that marks are
//! for. A port's queue is where flows of several hosts meet; a host's own link marks nothing.
//!
//! Names tell the lab and the process that made it: `cvl-PID-h3`. A namespace whose process is gone
//! is a crashed lab's.

use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cavalcade_model::{BitsPerSec, Bytes};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::LabError;
use crate::host::BACKLOG;
use crate::marks::{Marking, Marks};

/// The prefix of names of namespaces.
pub(crate) const PREFIX: &str = "cvl-";
/// The port of coordinators: what goes to or from there goes first on every link.
pub const CONTROL_PORT: u16 = 7336;
/// The port of agents' datagrams.
pub(crate) const PEER_PORT: u16 = 7338;
/// The folder of named namespaces.
const FOLDER: &str = "/run/netns";

/// The buffer of a port, in milliseconds of its rate; and at least in bytes.
const QUEUE_MS: u128 = 4;
const SHORTEST_QUEUE: u128 = 100_000;
/// The bytes of a class that may wait at a host's own end of its link: more than its connections
/// ever have there.
const HOSTS_QUEUE: Bytes = Bytes(16_000_000);
/// The burst handed to a port at once, in microseconds of its rate; and in bytes, from two packets
/// to the most that there is.
const PACKET_MICROS: u128 = 350;
const PACKETS: [u128; 2] = [3_100, 65_536];

/// The least time after which a host takes a segment for lost, in microseconds; kernels before
/// Linux 6.11 keep theirs.
const LEAST_TIMEOUT_MICROS: u32 = 10_000;

/// The entries of a host's table of connections.
const CONNECTIONS: u32 = 1_024;

/// The DSCP of each class, the highest first: the one of packets without a mark.
pub(crate) const CLASSES: [u8; 8] = [0, 8, 16, 24, 32, 40, 48, 56];
/// The rate guaranteed to a class behind busy higher ones, in bits per second: HTB does not take
/// zero.
const ENTITLED: u128 = 8_000;

const CURE: &str = "use --transport loopback, or run as root on Linux with iproute2 installed";

/// The order in which a port sends what waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ports {
    /// As it came.
    #[default]
    Plain,
    /// By class.
    Classes,
    /// By class, and with marks where the switch's ports lead to hosts.
    Marking(Marking),
}

/// Namespaces of one lab; dropping removes them.
#[derive(Debug)]
pub struct Namespaces {
    pub(crate) marks: Vec<Marks>,
    prefix: String,
    names: Vec<String>,
}

impl Namespaces {
    /// Builds a switch, `hosts` hosts on ports of `rate` of payload each way, and a place for the
    /// coordinator.
    ///
    /// # Errors
    /// If this user or machine cannot make namespaces.
    pub fn build(hosts: u32, rate: BitsPerSec) -> Result<Self, LabError> {
        Self::build_with(hosts, rate, Ports::Plain)
    }

    /// The same with ports of a kind.
    ///
    /// # Errors
    /// As [`Namespaces::build`].
    pub fn build_with(hosts: u32, rate: BitsPerSec, ports: Ports) -> Result<Self, LabError> {
        let mut built = Self::none();
        let switch = built.add("sw")?;
        let seed = built.add_seed()?;
        ip(Some(&switch), "link add br0 type bridge\nlink set br0 up\n")?;
        for host in 0..hosts {
            let namespace = built.add_from(&seed, &format!("h{host}"))?;
            join((&namespace, "eth0"), (&switch, &port_of(host)), host_address(host))?;
            ip(Some(&namespace), &format!("link set dev eth0 gso_max_size {}\n", packet(rate)))?;
            use_reno(&namespace)?;
            shape(&namespace, "eth0", rate, ports, End::Host)?;
            shape(&switch, &port_of(host), rate, ports, End::Switch)?;
        }
        let to_hosts: Vec<String> = (0..hosts).map(port_of).collect();
        built.mark(&switch, &to_hosts, rate, ports)?;
        let coordinator = built.add("co")?;
        join((&coordinator, "eth0"), (&switch, "pco"), coordinator_address())?;
        built.introduce(hosts, &coordinator)?;
        Ok(built)
    }

    /// Has hosts and the coordinator know each other's hardware addresses. Else all namespaces
    /// share the kernel's one table of those that were asked for, which at 1,024 entries is full
    /// with 33 hosts; entries that were given do not count.
    fn introduce(&self, hosts: u32, coordinator: &str) -> Result<(), LabError> {
        let addresses = || (0..hosts).map(host_address).chain([coordinator_address()]);
        let known: String = addresses()
            .map(|address| {
                format!("neigh replace {address} lladdr {} dev eth0 nud permanent\n", hardware(address))
            })
            .collect();
        let hosts = (0..hosts).map(|host| self.of_host(host));
        hosts.chain([coordinator.to_owned()]).try_for_each(|place| ip(Some(&place), &known))
    }

    /// Has ports of a switch, with links of `rate` of payload, mark, where they are such.
    pub(crate) fn mark(
        &mut self,
        switch: &str,
        devices: &[String],
        rate: BitsPerSec,
        ports: Ports,
    ) -> Result<(), LabError> {
        let Ports::Marking(marking) = ports else { return Ok(()) };
        let [rate, burst] = [frames(rate) / 8, burst(frames(rate))];
        let [rate, burst] = [rate, burst].map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX));
        self.marks.push(Marks::put(switch, devices, (rate, burst), marking)?);
        Ok(())
    }

    /// Joins `hosts` hosts and a place for the coordinator by a network beside their own, as
    /// testbeds have one for what runs them.
    pub(crate) fn add_control(&mut self, hosts: u32) -> Result<(), LabError> {
        let coordinator = self.add("co")?;
        let own = control_coordinator_address();
        ip(
            Some(&coordinator),
            &format!("link add br0 type bridge\nlink set br0 up\naddr add {own}/16 dev br0\n"),
        )?;
        (0..hosts).try_for_each(|host| {
            join((&self.of_host(host), "control"), (&coordinator, &port_of(host)), control_address(host))
        })
    }

    /// The name of a host's namespace.
    pub fn of_host(&self, host: u32) -> String {
        format!("{}h{host}", self.prefix)
    }

    /// The name of a part's.
    pub(crate) fn of(&self, part: &str) -> String {
        format!("{}{part}", self.prefix)
    }

    /// The name of the coordinator's.
    pub fn of_coordinator(&self) -> String {
        format!("{}co", self.prefix)
    }

    /// Cuts the cable of a host, or of the coordinator where it is none, at the switch; or mends
    /// it.
    ///
    /// # Errors
    /// If there is no such host.
    pub fn set_link(&self, host: Option<u32>, is_up: bool) -> Result<(), LabError> {
        let port = host.map_or_else(|| "pco".to_owned(), port_of);
        let state = if is_up { "up" } else { "down" };
        ip(Some(&self.of("sw")), &format!("link set {port} {state}\n"))
    }

    /// Begins without any.
    pub(crate) fn none() -> Self {
        Self { marks: Vec::new(), prefix: format!("{PREFIX}{}-", std::process::id()), names: Vec::new() }
    }

    /// Adds one.
    pub(crate) fn add(&mut self, part: &str) -> Result<String, LabError> {
        let name = format!("{}{part}", self.prefix);
        ip(None, &format!("netns add {name}\n"))?;
        self.names.push(name.clone());
        Ok(name)
    }

    /// Adds one from which hosts are made ([`Namespaces::add_from`]), so that their tables of
    /// connections are small.
    pub(crate) fn add_seed(&mut self) -> Result<String, LabError> {
        let seed = self.add("seed")?;
        give_small_tables(&seed);
        Ok(seed)
    }

    /// Adds one out of another, whose settings for namespaces made in it hold there.
    pub(crate) fn add_from(&mut self, seed: &str, part: &str) -> Result<String, LabError> {
        let name = format!("{}{part}", self.prefix);
        let seed = format!("--net={}", path_of(seed).display());
        let added = Command::new("nsenter").args([&seed, "ip", "netns", "add", &name]).output();
        if !added.is_ok_and(|output| output.status.success()) {
            return self.add(part);
        }
        self.names.push(name.clone());
        Ok(name)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.names.drain(..).for_each(|name| remove(&name));
    }
}

/// The address of a host.
pub fn host_address(host: u32) -> IpAddr {
    address(77, host + 1)
}

/// The address of the coordinator.
pub fn coordinator_address() -> IpAddr {
    address(77, COORDINATOR)
}

/// The address of a host on the network beside.
fn control_address(host: u32) -> IpAddr {
    address(78, host + 1)
}

/// The address of the coordinator on the network beside.
pub(crate) fn control_coordinator_address() -> IpAddr {
    address(78, COORDINATOR)
}

/// No host has so high a number.
const COORDINATOR: u32 = 0xff01;

fn address(network: u8, number: u32) -> IpAddr {
    let [.., high, low] = number.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, network, high, low))
}

/// Returns the names of namespaces of labs whose processes are gone.
pub(crate) fn find_stale() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(FOLDER) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_stale(name)).collect()
}

/// Tells whether the process is gone whose lab has made this.
pub(crate) fn is_stale(name: &str) -> bool {
    let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')).map(|(owner, _)| owner);
    owner.and_then(|owner| owner.parse().ok()).is_some_and(is_gone)
}

/// The file that stands for a namespace.
pub(crate) fn path_of(namespace: &str) -> PathBuf {
    Path::new(FOLDER).join(namespace)
}

/// Does something in a namespace, on a thread of its own: namespaces are those of threads.
///
/// # Errors
/// If there is no such namespace, or no right to enter it.
///
/// # Panics
/// If `work` does.
pub(crate) fn within<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let file = File::open(path_of(namespace))?;
    let enter = || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(work())
    };
    std::thread::scope(|scope| {
        scope.spawn(enter).join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked))
    })
}

/// Tells whether there is no process of that number.
pub(crate) fn is_gone(process: u32) -> bool {
    !Path::new(&format!("/proc/{process}")).exists()
}

/// Removes a namespace.
pub(crate) fn remove(name: &str) {
    // Its devices go with it. A failure cannot be reported here; the next lab tries again.
    let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
}

/// The hardware address of a device with this address.
fn hardware(address: IpAddr) -> String {
    let bytes = match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(address) => address.octets()[12..].try_into().unwrap_or_default(),
    };
    let parts = [0x02, 0xcf].into_iter().chain(bytes).map(|byte| format!("{byte:02x}"));
    parts.collect::<Vec<_>>().join(":")
}

/// The port of the switch that leads to a host.
fn port_of(host: u32) -> String {
    format!("p{host}")
}

/// Joins a device of a namespace, with an address, to the bridge of another.
fn join(
    (namespace, device): (&str, &str),
    (switch, port): (&str, &str),
    address: IpAddr,
) -> Result<(), LabError> {
    let hardware = hardware(address);
    let ends = format!("type veth peer name {port} netns {switch}");
    ip(None, &format!("link add {device} netns {namespace} address {hardware} {ends}\n"))?;
    ip(Some(switch), &format!("link set {port} master br0 up\n"))?;
    ip(
        Some(namespace),
        &format!("addr add {address}/16 dev {device}\nlink set lo up\nlink set {device} up\n"),
    )
}

/// Returns the most that a host hands over at once.
pub(crate) fn packet(rate: BitsPerSec) -> u128 {
    (u128::from(rate.0) * PACKET_MICROS / 8_000_000).clamp(PACKETS[0], PACKETS[1])
}

/// Gives namespaces that are made in `seed` tables of connections of their own, of the size that a
/// host of a lab needs. Else they share the machine's, and each walk over the connections of one of
/// 16 hosts goes through 262,144 entries. Kernels before Linux 6.1 have no such setting, and walks
/// take longer there.
fn give_small_tables(seed: &str) {
    let setting = format!("echo {CONNECTIONS} > /proc/sys/net/ipv4/tcp_child_ehash_entries");
    let _ = output(&["ip", "netns", "exec", seed, "sh", "-c", &setting]);
}

/// Has connections in `namespace` use Reno, wait to be accepted by the thousand, find losses soon,
/// and send bursts that are short at low rates too, as `doctor` asks of hosts with an enforcer.
pub(crate) fn use_reno(namespace: &str) -> Result<(), LabError> {
    let folder = "/proc/sys/net/ipv4";
    let commands = format!(
        "echo {BACKLOG} > /proc/sys/net/core/somaxconn; echo {BACKLOG} > {folder}/tcp_max_syn_backlog; \
         echo {LEAST_TIMEOUT_MICROS} 2>/dev/null > {folder}/tcp_rto_min_us; echo 0 2>/dev/null > {folder}/tcp_tso_rtt_log; \
         echo reno > {folder}/tcp_congestion_control"
    );
    let written = Command::new("ip")
        .args(["netns", "exec", namespace, "sh", "-c", &commands])
        .stderr(Stdio::null())
        .status();
    match written {
        Ok(status) if status.success() => Ok(()),
        _ => Err(LabError::Missing {
            what: "TCP's congestion control cannot be chosen in a network namespace on this machine"
                .to_owned(),
            cure: CURE,
        }),
    }
}

/// The bytes that may wait for a port of `rate` of payload, in each class.
pub fn port_buffer(rate: BitsPerSec) -> Bytes {
    let queue = (frames(rate) / 8_000 * QUEUE_MS).max(SHORTEST_QUEUE);
    Bytes(u64::try_from(queue).unwrap_or(u64::MAX))
}

/// The rate of frames that carries `rate` of payload: a full packet carries 1448 bytes and is
/// counted with 1514.
fn frames(rate: BitsPerSec) -> u128 {
    u128::from(rate.0) * 1514 / 1448
}

/// The bytes that a port sends at once after a pause, at a rate of frames: two milliseconds, which
/// is what a timer may be late by.
fn burst(rate: u128) -> u128 {
    (rate / 8 / 500).max(2 * PACKETS[0])
}

/// The end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Host,
    Switch,
}

/// Holds what leaves an end of a link to `rate` of payload, in queues of a kind.
pub(crate) fn shape(
    namespace: &str,
    device: &str,
    rate: BitsPerSec,
    ports: Ports,
    end: End,
) -> Result<(), LabError> {
    let buffer = match ports {
        Ports::Classes | Ports::Marking(_) if end == End::Host => HOSTS_QUEUE,
        Ports::Marking(marking) => marking.buffer,
        Ports::Plain | Ports::Classes => port_buffer(rate),
    };
    tc(namespace, &shaping(device, rate, ports, buffer))
}

/// Commands that hold what leaves `device` to `rate`, with queues of `buffer`.
fn shaping(device: &str, rate: BitsPerSec, ports: Ports, buffer: Bytes) -> String {
    let queue = buffer.0;
    let rate = frames(rate);
    let control = (rate / 20).max(1_000);
    // An acknowledgement is counted with 66 bytes or, with holes reported, a few more.
    let acknowledgements = (rate / 32).max(1_000);
    let whole = rate + acknowledgements;
    let data = rate - control;
    let burst = burst(rate);
    // Packets without a mark.
    let default = match ports {
        Ports::Plain => "20",
        Ports::Classes | Ports::Marking(_) => "40",
    };
    let mut text = format!(
        "qdisc add dev {device} root handle 1: htb default {default}\n\
         class add dev {device} parent 1: classid 1:1 htb rate {whole}bit ceil {whole}bit burst {burst} cburst {burst} quantum 60000\n\
         class add dev {device} parent 1:1 classid 1:10 htb rate {control}bit ceil {rate}bit burst {burst} cburst {burst} prio 0 quantum 60000\n\
         class add dev {device} parent 1:1 classid 1:20 htb rate {data}bit ceil {rate}bit burst {burst} cburst {burst} prio 1 quantum 60000\n\
         class add dev {device} parent 1:1 classid 1:30 htb rate {acknowledgements}bit ceil {acknowledgements}bit burst {burst} cburst {burst} prio 1 quantum 60000\n\
         qdisc add dev {device} parent 1:10 bfifo limit {queue}\n\
         qdisc add dev {device} parent 1:30 bfifo limit {queue}\n"
    );
    text += &match ports {
        Ports::Plain => format!("qdisc add dev {device} parent 1:20 bfifo limit {queue}\n"),
        Ports::Classes | Ports::Marking(_) => classes(device, rate, burst, queue),
    };
    for (side, port) in [("dport", CONTROL_PORT), ("sport", CONTROL_PORT), ("dport", PEER_PORT)] {
        text += &format!(
            "filter add dev {device} parent 1: protocol ip prio 1 u32 match ip {side} {port} 0xffff flowid 1:10\n"
        );
    }
    // By the length of the IP packet, below 128 bytes.
    text += &format!(
        "filter add dev {device} parent 1: protocol ip prio 2 u32 match u16 0x0000 0xff80 at 2 flowid 1:30\n"
    );
    text
}

/// Commands that sort what is in the class of data by its DSCP.
fn classes(device: &str, rate: u128, burst: u128, queue: u64) -> String {
    // Two full packets: a class that has waited for long may not send more at once.
    let owed = PACKETS[0];
    let of_class = |(class, dscp): (usize, &u8)| {
        let filter = match dscp {
            0 => String::new(),
            dscp => {
                let tos = dscp << 2;
                format!(
                    "filter add dev {device} parent 1: protocol ip prio 3 u32 match u8 {tos:#x} 0xfc at 1 flowid 1:4{class}\n"
                )
            }
        };
        format!(
            "class add dev {device} parent 1:20 classid 1:4{class} htb rate {ENTITLED}bit ceil {rate}bit burst {owed} cburst {burst} prio {class} quantum 60000\n\
             qdisc add dev {device} parent 1:4{class} bfifo limit {queue}\n{filter}"
        )
    };
    CLASSES.iter().enumerate().map(of_class).collect()
}

/// The losses of a run, at all hosts together: what makes one run slower than the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// SYNs and SYN-ACKs that were sent again.
    pub syns_again: u64,
    /// Time-outs after which TCP sent something again.
    pub timeouts: u64,
    /// Packets that full queues dropped.
    pub drops: u64,
    /// Packets that ports marked, where they do.
    pub marked: Option<u64>,
    /// Bytes of data that hosts sent in each class, the highest first, where ports have classes.
    pub by_class: [u64; CLASSES.len()],
}

impl Namespaces {
    /// The losses since the lab was built; nothing where this machine does not tell.
    pub(crate) fn losses(&self) -> Option<Losses> {
        let mut losses = Losses::default();
        for name in self.names.iter().filter(|name| !name.ends_with("-co") && !name.ends_with("-seed")) {
            let counters = output(&["ip", "netns", "exec", name, "cat", "/proc/net/netstat"])?;
            losses.syns_again += counter(&counters, "TCPSynRetrans")?;
            losses.timeouts += counter(&counters, "TCPTimeouts")?;
            let queues = queues(&output(&["tc", "-n", name, "-s", "-j", "qdisc", "show"])?)?;
            losses.drops += of_queues(&queues, "drops", |_| true);
            // Switches count the same packets again.
            if self.is_host(name) {
                for (class, sum) in losses.by_class.iter_mut().enumerate() {
                    *sum += of_queues(&queues, "bytes", |parent| parent == format!("1:4{class}"));
                }
            }
        }
        losses.marked = self.marked().map(|(_, marked)| marked);
        Some(losses)
    }

    /// The packets that ports could have marked so far, and those that they have; none where ports
    /// do not mark.
    pub fn marked(&self) -> Option<(u64, u64)> {
        let passed: Vec<(u64, u64)> = self.marks.iter().map(Marks::passed).collect::<Result<_, _>>().ok()?;
        let sum = |(all, marked), of: (u64, u64)| (all + of.0, marked + of.1);
        (!passed.is_empty()).then(|| passed.into_iter().fold((0, 0), sum))
    }

    fn is_host(&self, name: &str) -> bool {
        name.strip_prefix(&self.prefix).is_some_and(|part| part.starts_with('h'))
    }
}

fn output(command: &[&str]) -> Option<String> {
    let output = Command::new(command[0]).args(&command[1..]).stderr(Stdio::null()).output().ok()?;
    String::from_utf8(output.stdout).ok().filter(|_| output.status.success())
}

/// A counter of `/proc/net/netstat`: a line of names above one of values.
fn counter(text: &str, name: &str) -> Option<u64> {
    let lines: Vec<&str> = text.lines().collect();
    lines.chunks_exact(2).find_map(|pair| {
        let place = pair[0].split(' ').position(|word| word == name)?;
        pair[1].split(' ').nth(place)?.parse().ok()
    })
}

/// The queues in the JSON of tc.
fn queues(text: &str) -> Option<Vec<serde_json::Value>> {
    serde_json::from_str(text).ok()
}

/// Sums a count of the queues whose class is asked for; what stands above queues counts the same
/// packets again.
fn of_queues(queues: &[serde_json::Value], count: &str, is_asked: impl Fn(&str) -> bool) -> u64 {
    let is_its = |queue: &&serde_json::Value| {
        queue["kind"] == "bfifo" && is_asked(queue["parent"].as_str().unwrap_or_default())
    };
    queues.iter().filter(is_its).filter_map(|queue| queue[count].as_u64()).sum()
}

/// Runs commands of `ip`.
pub(crate) fn ip(namespace: Option<&str>, commands: &str) -> Result<(), LabError> {
    batch("ip", namespace, commands)
}

/// Runs commands of `tc`.
pub(crate) fn tc(namespace: &str, commands: &str) -> Result<(), LabError> {
    batch("tc", Some(namespace), commands)
}

fn batch(program: &str, namespace: Option<&str>, commands: &str) -> Result<(), LabError> {
    let missing = |what: String| LabError::Missing { what, cure: CURE };
    let mut command = Command::new(program);
    if let Some(name) = namespace {
        command.args(["-n", name]);
    }
    let piped =
        command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = piped.spawn().map_err(|error| missing(format!("cannot run {program}: {error}")))?;
    if let Some(mut input) = child.stdin.take() {
        // Where it ended early, its exit says so.
        let _ = input.write_all(commands.as_bytes());
    }
    let done = child.wait_with_output().map_err(LabError::system(format!("run {program}")))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let said = said.lines().find(|line| !line.starts_with("Warning")).unwrap_or("no reason given");
    Err(missing(format!("this machine has no network namespaces to build a lab with: {program}: {said}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_of_labs_whose_process_is_gone_are_stale() {
        let own = std::process::id();
        assert!(!is_stale(&format!("cvl-{own}-h0")));
        assert!(is_stale("cvl-4294967294-sw"));
        for foreign in ["blue", "cvl-", "cvl-x-h0", "cni-4294967294-h0"] {
            assert!(!is_stale(foreign), "{foreign}");
        }
    }

    #[test]
    fn every_class_has_a_queue_and_all_but_packets_without_a_mark_a_filter() {
        let rate = BitsPerSec(200_000_000);
        let plain = shaping("eth0", rate, Ports::Plain, port_buffer(rate));
        let text = shaping("eth0", rate, Ports::Classes, port_buffer(rate));
        let count = |what: &str| text.matches(what).count();
        assert_eq!((count("parent 1:4"), count("at 1 flowid 1:4")), (8, 7));
        // What no filter names would else leave without a limit: an inner class holds nothing.
        assert!(plain.contains("htb default 20\n") && plain.contains("parent 1:20 bfifo"));
        assert!(text.contains("htb default 40\n") && !text.contains("parent 1:20 bfifo"));
        let marks: std::collections::BTreeSet<u8> = CLASSES.into_iter().collect();
        assert!(marks.len() == 8 && CLASSES[0] == 0 && marks.iter().all(|mark| *mark < 64));
    }

    #[test]
    fn counters_are_read_by_name_and_only_queues_count_drops() {
        let text = "TcpExt: SyncookiesSent TCPTimeouts TCPSynRetrans\nTcpExt: 0 17 3\nIpExt: InMcastPkts\nIpExt: 5\n";
        assert_eq!((counter(text, "TCPTimeouts"), counter(text, "TCPSynRetrans")), (Some(17), Some(3)));
        assert_eq!(counter(text, "TCPAbort"), None);
        let text = r#"[{"kind":"htb","drops":9},{"kind":"bfifo","parent":"1:40","drops":7},{"kind":"bfifo","drops":2}]"#;
        let found = queues(text).unwrap();
        let of = |class: &str| of_queues(&found, "drops", |parent| parent.starts_with(class));
        assert_eq!((of(""), of("1:40"), queues("no JSON")), (9, 7, None));
    }

    #[test]
    fn every_host_has_an_address_of_its_own_and_none_the_coordinators() {
        let addresses: std::collections::BTreeSet<IpAddr> = (0..1000).map(host_address).collect();
        assert_eq!(addresses.len(), 1000);
        assert!(!addresses.contains(&coordinator_address()));
    }
}
