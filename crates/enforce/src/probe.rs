//! What this host can do for the kernel path, found out by doing it.
//!
//! The programs are loaded and attached at a control group without processes, take on connections of this host with
//! itself, and are removed again.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cavalcade_model::BitsPerSec;
use cavalcade_protocol::Gate;
use rustix::net::{self, AddressFamily, SocketType};

use crate::groups::{Group, Hierarchy};
use crate::{Control, Error, Flow, Kernel, Law, Limits, Order, Place};

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
    let mut trials = Vec::new();
    let loaded = load();
    let otherwise = "only connections of client libraries are scheduled";
    match loaded {
        Err(error) => {
            trials.push(Trial { feature: "kernel path", found: Err(error.to_string()), otherwise });
        }
        Ok((mut kernel, group)) => {
            let found = Ok("programs can be loaded that tag, count, gate and mark connections");
            trials.push(Trial { feature: "kernel path", found, otherwise });
            let otherwise = "coflows take turns, but keep to no rates in between";
            trials.push(Trial { feature: "kernel pacing", found: pace(&mut kernel, &group), otherwise });
            let otherwise =
                "connections that a program had before it was tagged are gated, but not paced or marked";
            trials.push(Trial { feature: "tagged later", found: take_over(&mut kernel), otherwise });
            let otherwise =
                "connections keep the system's congestion control, and queues are as long as it makes them";
            trials.push(Trial { feature: "congestion", found: congestion(&mut kernel), otherwise });
        }
    }
    let otherwise = "rates below some 50 Mbps go in bursts of 64 KB";
    trials.push(Trial { feature: "small bursts", found: small_bursts(), otherwise });
    let otherwise = "nothing rests on them yet";
    trials.push(Trial { feature: "BPF queues", found: queues(), otherwise });
    trials
}

/// Loads the programs where no process is.
fn load() -> Result<(Kernel, Group), Error> {
    // One process may try twice at the same time: its tests do.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("cavalcade-doctor-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let group = Group::make(&Hierarchy::find()?.root, &name)?;
    let place = Place { above: group.path().to_owned(), name };
    Ok((Kernel::load(place, Limits::default())?, group))
}

/// Sends at a rate from a process in the group, and looks whether that takes as long as it should.
fn pace(kernel: &mut Kernel, group: &Group) -> Result<&'static str, String> {
    // The kernel paces no connection's first ten packets, which have 64 KB each on loopback.
    let (rate, bytes) = (BitsPerSec(500_000_000), 5_000_000);
    let needed = Duration::from_millis(80);
    let coflow = 2;
    let flow = Flow { coflow, peer: Ipv4Addr::LOCALHOST.into() };
    let send = || send_from(group, bytes).map_err(|error| format!("no connection on loopback: {error}"));
    let order = |kernel: &mut Kernel, gate: Gate| {
        // Loading may have taken longer than the silence after which limits are lifted.
        let ordered = kernel.stay_alive().and_then(|()| kernel.order(flow, gate.into()));
        ordered.map_err(|error| error.to_string())
    };
    kernel.tag_group(group, coflow).map_err(|error| error.to_string())?;
    order(kernel, Gate::Open {})?;
    let free = send()?;
    order(kernel, Gate::Paced { rate })?;
    let paced = send()?;
    if paced < needed / 2 {
        return Err(format!("{bytes} bytes at {rate} took {paced:.0?} in place of {needed:?}"));
    }
    if free > needed / 2 {
        return Err(format!("cannot be told now: {bytes} bytes without a limit took {free:.0?}; try again"));
    }
    Ok("connections keep to the rate that they are told")
}

/// The time in which a process in the group sends so many bytes to this one.
fn send_from(group: &Group, bytes: usize) -> io::Result<Duration> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut sender = sender_in(group, listener.local_addr()?)?;
    let mut source = sender.stdin.take().expect("its input is a pipe");
    let (connection, _) = listener.accept()?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let began = Instant::now();
    let took = std::thread::scope(|scope| {
        // If reading fails, this ends with a broken pipe.
        scope.spawn(move || source.write_all(&vec![0; bytes]));
        let read = io::copy(&mut connection.take(bytes as u64), &mut io::sink());
        let took = began.elapsed();
        let _ = sender.kill();
        match read {
            Ok(all) if all == bytes as u64 => Ok(took),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Err(error),
        }
    });
    sender.wait()?;
    took
}

/// Starts a process in the group that sends what it is given. It has to make its connection itself: sockets belong to the group in
/// which they were made.
fn sender_in(group: &Group, to: SocketAddr) -> io::Result<Child> {
    let members = File::options().write(true).open(group.path().join("cgroup.procs"))?;
    let connect = move || {
        rustix::io::write(&members, b"0")?;
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        net::connect(&socket, &to)?;
        rustix::stdio::dup2_stdout(&socket)?;
        Ok(())
    };
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped());
    #[expect(unsafe_code, reason = "what runs between fork and exec may only do little")]
    // SAFETY: `connect` makes system calls and allocates nothing.
    unsafe {
        command.pre_exec(connect);
    }
    command.spawn()
}

/// Takes over a connection that was made before, as that of a process which is tagged later.
fn take_over(kernel: &mut Kernel) -> Result<&'static str, String> {
    let connected = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let socket = TcpStream::connect(listener.local_addr()?)?;
        Ok::<_, std::io::Error>((listener, socket))
    };
    let (_listener, _socket) = connected().map_err(|error| format!("no connection on loopback: {error}"))?;
    let coflow = 1;
    let flow = Flow { coflow, peer: Ipv4Addr::LOCALHOST.into() };
    let order = Order::from(Gate::Paced { rate: BitsPerSec(1_000_000_000) });
    let taken = kernel.announce(coflow).and_then(|()| {
        kernel.order(flow, order)?;
        kernel.take_over(std::process::id(), coflow)?;
        kernel.counts()
    });
    match taken {
        Ok(counts) if counts.iter().any(|(of, count)| *of == flow && count.sockets > 0) => {
            Ok("connections can be tagged that were made before")
        }
        Ok(_) => {
            Err("this kernel does not tell of connections that were made before: it takes Linux 6.12"
                .to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Registers each congestion control.
fn congestion(kernel: &mut Kernel) -> Result<&'static str, String> {
    let tried = Law::ALL.iter().try_for_each(|&law| kernel.control(Some(Control::new(law))));
    tried.and_then(|()| kernel.control(None)).map_err(|error| error.to_string())?;
    Ok("connections of coflows can have the congestion controls of 'cavalcade enforce --congestion'")
}

/// At round trips of microseconds TCP sends 64 KB at once, whatever the rate.
fn small_bursts() -> Result<&'static str, String> {
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

fn queues() -> Result<&'static str, String> {
    let types = fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    let name = b"\0bpf_struct_ops_Qdisc_ops\0";
    if types.windows(name.len()).any(|window| window == name) {
        return Ok("queueing disciplines can be written in BPF");
    }
    Err("the kernel is built without CONFIG_NET_SCH_BPF, or older than Linux 6.16".to_owned())
}
