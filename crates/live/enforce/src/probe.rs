//! What this host can do for the kernel path, found out by doing it.
//!
//! The programs are loaded and attached at a control group without processes, take on connections
//! of this host with itself, and are removed again.

mod connections;

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cavalcade_client::DscpMap;
use cavalcade_model::{BitsPerSec, Bytes, Demotion, Nanos};
use cavalcade_protocol::{Directive, Gate};
use rustix::net::sockopt;

use crate::groups::{Group, Hierarchy};
use crate::vouch::seen_from_peer;
use crate::{Control, Error, Flow, Kernel, Law, Limits, Order, Place};
use connections::connect;

/// The coflows of trials.
const LATE: u32 = 1;
const PACED: u32 = 2;
const MARKED: u32 = 3;
const PUSHED: u32 = 4;
const SAID: u32 = 5;
const HEARD: u32 = 6;
const SORTED: u32 = 7;

/// The finding, or the reason why there is none.
type Found = Result<&'static str, String>;

/// One feature.
#[derive(Debug)]
pub struct Trial {
    /// Its name.
    pub feature: &'static str,
    /// The finding, or the reason why it is not there, with a cure.
    pub found: Result<&'static str, String>,
    /// The consequence of its absence.
    pub otherwise: &'static str,
}

/// Tries everything. Where the programs cannot be loaded, what rests on them is not tried.
pub fn try_all() -> Vec<Trial> {
    let mut trials = match load() {
        Ok((mut kernel, group)) => try_programs(&mut kernel, &group),
        Err(error) => vec![kernel_path(Err(error.to_string()))],
    };
    let otherwise = "rates below some 50 Mbps go in bursts of 64 KB";
    trials.push(Trial { feature: "small bursts", found: small_bursts(), otherwise });
    let otherwise = "nothing rests on them yet";
    trials.push(Trial { feature: "BPF queues", found: queues(), otherwise });
    trials
}

fn kernel_path(found: Found) -> Trial {
    Trial { feature: "kernel path", found, otherwise: "only connections of client libraries are scheduled" }
}

/// Tries what rests on the programs; processes of coflows would be below `group`.
fn try_programs(kernel: &mut Kernel, group: &Group) -> Vec<Trial> {
    let tried = |feature, found, otherwise| Trial { feature, found, otherwise };
    vec![
        kernel_path(Ok("programs can be loaded that tag, count, gate and mark connections")),
        tried("kernel pacing", pace(kernel, group), "coflows take turns, but keep to no rates in between"),
        tried(
            "kernel marks",
            mark(kernel, group),
            "switches do not see the classes of packets; gates and rates hold",
        ),
        tried(
            "kernel push",
            push(kernel, group),
            "what waits at a gate that opens begins when TCP tries next, tenths of seconds later",
        ),
        tried(
            "SYN option",
            announces_in_syn(kernel, group),
            "a server's answers go under its client's coflow only after a walk over all connections",
        ),
        tried(
            "tagged later",
            take_over(kernel),
            "connections that a program had before it was tagged are gated, but not paced or marked",
        ),
        tried(
            "congestion",
            congestion(kernel),
            "connections keep the system's congestion control, and queues are as long as it makes them",
        ),
        // It goes on for all connections that come later.
        tried(
            "demotion",
            demote(kernel, group),
            "'cavalcade enforce --demote' sorts nothing: classes come from orders alone",
        ),
    ]
}

/// Loads the programs where no process is.
fn load() -> Result<(Kernel, Group), Error> {
    // One process may try twice at the same time: its tests do.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("cavalcade-doctor-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let group = Group::make(&Hierarchy::find()?.root, &name)?;
    let place = Place { above: group.path().to_owned(), name };
    // However late this process wakes, it begins no new message by that.
    let limits = Limits { idle: Nanos::from_secs(60), ..Limits::default() };
    Ok((Kernel::load(place, limits)?, group))
}

/// The flow of a coflow on this host.
fn flow_of(coflow: u32) -> Flow {
    Flow { coflow, peer: Ipv4Addr::LOCALHOST.into() }
}

/// Makes a group for a coflow. Trials may have taken longer than the silence after which limits are
/// lifted.
fn begin(kernel: &mut Kernel, group: &Group, coflow: u32) -> Result<Group, Error> {
    kernel.stay_alive()?;
    kernel.tag(group.path(), coflow)
}

/// For `map_err`: the reason as text.
fn said(error: impl ToString) -> String {
    error.to_string()
}

/// Sends at a rate from the group of a coflow, and looks whether that takes as long as it should.
fn pace(kernel: &mut Kernel, group: &Group) -> Found {
    // The kernel paces no connection's first ten packets, which have 64 KB each on loopback.
    let (rate, bytes) = (BitsPerSec(500_000_000), 5_000_000);
    let needed = Duration::from_millis(80);
    let tagged = begin(kernel, group, PACED).map_err(said)?;
    let mut send = |gate: Gate| {
        kernel.stay_alive().and_then(|()| kernel.order(flow_of(PACED), gate.into())).map_err(said)?;
        let (sender, receiver) = connect(&tagged, group)?;
        transfer(sender, receiver, bytes).map_err(|error| format!("no bytes on loopback: {error}"))
    };
    let free = send(Gate::Open {})?;
    let paced = send(Gate::Paced { rate })?;
    if paced < needed / 2 {
        return Err(format!("{bytes} bytes at {rate} took {paced:.0?} in place of {needed:?}"));
    }
    if free > needed / 2 {
        return Err(format!("cannot be told now: {bytes} bytes without a limit took {free:.0?}; try again"));
    }
    Ok("connections keep to the rate that they are told")
}

/// The time in which so many bytes go over a connection.
fn transfer(mut sender: TcpStream, receiver: TcpStream, bytes: usize) -> io::Result<Duration> {
    const PATIENCE: Duration = Duration::from_secs(5);
    receiver.set_read_timeout(Some(PATIENCE))?;
    let began = Instant::now();
    std::thread::scope(|scope| {
        // If reading fails, this ends with the receiver.
        scope.spawn(move || sender.write_all(&vec![0; bytes]));
        match io::copy(&mut receiver.take(bytes as u64), &mut io::sink())? {
            all if all == bytes as u64 => Ok(began.elapsed()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    })
}

/// Orders a class, and looks at the byte that all packets of the connection have. Where this kernel
/// takes a congestion control, the connection agrees on marks, so that there are bits in it to be
/// kept.
fn mark(kernel: &mut Kernel, group: &Group) -> Found {
    let has_control = kernel.control(Some(Control::new(Law::Dctcp))).is_ok();
    let marked = mark_by_class(kernel, group);
    let ended = if has_control { kernel.control(None) } else { Ok(()) };
    let (before, after) = marked?;
    ended.map_err(said)?;
    let dscp = DscpMap::default().0[1];
    if after != dscp << 2 | before & ECN {
        return Err(format!("the TOS of a connection was {before}, and is {after} in place of DSCP {dscp}"));
    }
    Ok(match before & ECN {
        0 => "packets have the DSCP of their class",
        _ => "packets have the DSCP of their class, and keep their bits for ECN",
    })
}

/// The bits of a TOS that are for ECN.
const ECN: u8 = 3;

/// The TOS of a connection, before and after it has a class.
fn mark_by_class(kernel: &mut Kernel, group: &Group) -> Result<(u8, u8), String> {
    let tagged = begin(kernel, group, MARKED).map_err(said)?;
    let (mut sender, _receiver) = connect(&tagged, group)?;
    // With the first byte it says that it takes marks.
    sender.write_all(b"x").map_err(said)?;
    let before = sockopt::ip_tos(&sender).map_err(said)?;
    let class = Directive { gate: Gate::Open {}, class: Some(1) };
    let order = Order::new(class, DscpMap::default());
    kernel.order(flow_of(MARKED), order).and_then(|()| kernel.refresh()).map_err(said)?;
    Ok((before, sockopt::ip_tos(&sender).map_err(said)?))
}

/// Opens a gate at which data waits, and looks whether it has passed as soon as it was pushed.
fn push(kernel: &mut Kernel, group: &Group) -> Found {
    /// One write may be what a flow that is off sends now and then.
    const WRITES: usize = 10;
    let flow = flow_of(PUSHED);
    let tagged = begin(kernel, group, PUSHED).map_err(said)?;
    let (mut sender, _receiver) = connect(&tagged, group)?;
    kernel.order(flow, Gate::Off {}.into()).map_err(said)?;
    let waits = |kernel: &Kernel| kernel.count(flow).is_some_and(|count| count.waits);
    if !(0..WRITES).any(|_| sender.write_all(b"x").is_ok() && waits(kernel)) {
        return Err("no data waits at a gate that is off".to_owned());
    }
    kernel.order(flow, Gate::Open {}.into()).map_err(said)?;
    kernel.push(std::process::id());
    if waits(kernel) {
        return Err("data still waits at a gate that has opened".to_owned());
    }
    Ok("what waits at a gate that opens is sent at once")
}

/// Has a SYN name a coflow, has the other end be told the same, and looks whether what that sends
/// is counted.
fn announces_in_syn(kernel: &mut Kernel, group: &Group) -> Found {
    const SERIAL: u64 = 0x0123_4567_89ab_cdef;
    let tagged = begin(kernel, group, SAID).map_err(said)?;
    // No walk: it would have all listeners of this host keep SYNs.
    let connected = kernel.name(SAID, SERIAL).and_then(|()| kernel.announce_in_syns(true)).map_err(said);
    let connected = connected.and_then(|()| connect(&tagged, group));
    let ended = kernel.announce_in_syns(false);
    let (_client, mut server) = connected?;
    ended.map_err(said)?;
    let Some(&made) = kernel.made().first() else {
        return Err("the programs tell of no connection that was made".to_owned());
    };
    let told = kernel.announce(HEARD).and_then(|()| kernel.claim(seen_from_peer(made), HEARD, SERIAL));
    if !told.map_err(said)? {
        return Err("the SYN of a connection has not brought the coflow along".to_owned());
    }
    server.write_all(b"x").map_err(said)?;
    match kernel.count(flow_of(HEARD)) {
        Some(count) if count.sent == Bytes(1) => {
            Ok("a server's answers can go under its client's coflow from the first byte on")
        }
        _ => Err("a server's answer is not counted under its client's coflow".to_owned()),
    }
}

/// Has a message pass a threshold, and looks at the marks of the packets before and behind it.
fn demote(kernel: &mut Kernel, group: &Group) -> Found {
    let classes = DscpMap::default();
    let rule = Demotion { first: 0, thresholds: vec![Bytes(5_000)], by_size: false, patience: 1..=1 };
    kernel.demote(&rule, classes).map_err(said)?;
    let tagged = begin(kernel, group, SORTED).map_err(said)?;
    let (mut sender, _receiver) = connect(&tagged, group)?;
    let mut mark_after = |bytes: usize| {
        sender.write_all(&vec![0; bytes]).map_err(said)?;
        sockopt::ip_tos(&sender).map(|tos| tos >> 2).map_err(said)
    };
    // The packet with which a threshold is passed may be in either class, and the next is behind
    // it.
    let before = mark_after(1)?;
    mark_after(10_000)?;
    let marks = [before, mark_after(1)?];
    if marks != [classes.0[0], classes.0[1]] {
        let [before, behind] = marks;
        return Err(format!("the DSCP of a message is {before} before a threshold, and {behind} behind it"));
    }
    Ok("a message that passes a threshold goes on in the next class")
}

/// Takes over a connection that was made before, as that of a process which is tagged later.
fn take_over(kernel: &mut Kernel) -> Found {
    let connected = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let socket = TcpStream::connect(listener.local_addr()?)?;
        Ok::<_, io::Error>((listener, socket))
    };
    let (_listener, _socket) = connected().map_err(|error| format!("no connection on loopback: {error}"))?;
    let flow = flow_of(LATE);
    let order = Order::from(Gate::Paced { rate: BitsPerSec(1_000_000_000) });
    let taken = kernel.announce(LATE).and_then(|()| {
        kernel.order(flow, order)?;
        kernel.take_over(std::process::id(), LATE)?;
        kernel.counts()
    });
    match taken.map_err(said)? {
        counts if counts.iter().any(|(of, count)| *of == flow && count.sockets > 0) => {
            Ok("connections can be tagged that were made before")
        }
        _ => {
            Err("this kernel does not tell of connections that were made before: it takes Linux 6.12"
                .to_owned())
        }
    }
}

/// Registers each congestion control.
fn congestion(kernel: &mut Kernel) -> Found {
    let tried = Law::ALL.iter().try_for_each(|&law| kernel.control(Some(Control::new(law))));
    tried.and_then(|()| kernel.control(None)).map_err(|error| error.to_string())?;
    Ok("connections of coflows can have the congestion controls of 'cavalcade enforce --congestion'")
}

/// At round trips of microseconds TCP sends 64 KB at once, whatever the rate.
fn small_bursts() -> Found {
    let setting = "/proc/sys/net/ipv4/tcp_tso_rtt_log";
    match fs::read_to_string(setting).map(|text| text.trim().to_owned()) {
        Ok(text) if text == "0" => Ok("short round trips do not make bursts longer"),
        Ok(text) => Err(format!("net.ipv4.tcp_tso_rtt_log is {text}: 'sysctl net.ipv4.tcp_tso_rtt_log=0'")),
        // Before Linux 5.18 nothing made bursts longer.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok("short round trips do not make bursts longer")
        }
        Err(error) => Err(format!("cannot read {setting}: {error}")),
    }
}

fn queues() -> Found {
    let types = fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    let name = b"\0bpf_struct_ops_Qdisc_ops\0";
    if types.windows(name.len()).any(|window| window == name) {
        return Ok("queueing disciplines can be written in BPF");
    }
    Err("the kernel is built without CONFIG_NET_SCH_BPF, or older than Linux 6.16".to_owned())
}
