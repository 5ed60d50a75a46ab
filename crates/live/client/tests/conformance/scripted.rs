//! An agent that says what a test says, and a look at a driver's process from outside.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cavalcade_client::CoflowKey;
use cavalcade_model::{Instant, Nanos, PortId};
use cavalcade_protocol::{AgentMessage, ClientMessage, Directive, Facts, Frames, Gate, PROTOCOL, frame};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

#[derive(Debug, Default)]
struct Heard {
    all: Vec<ClientMessage>,
    /// Open flows, of the connection that is.
    flows: Vec<u32>,
    client: Option<UnixStream>,
    serial: u64,
    /// How flows that open are to be sent.
    first: Directive,
    is_silent: bool,
}

impl Heard {
    fn say(&mut self, message: &AgentMessage) {
        let mut bytes = Vec::new();
        frame(message, &mut bytes).unwrap();
        // Where the client is gone, another one comes.
        if let Some(mut client) = self.client.as_ref() {
            let _ = client.write_all(&bytes);
        }
    }

    fn take(&mut self, message: ClientMessage) {
        match &message {
            ClientMessage::Hello { .. } => {
                let (period, lease) = (Nanos::from_millis(10), Nanos::from_millis(1_000));
                self.say(&AgentMessage::Welcome { protocol: PROTOCOL, port: PortId(0), period, lease });
            }
            &ClientMessage::Register { request, size, class, weight, name, .. } => {
                self.serial += 2;
                let coflow = CoflowKey { task: self.serial, stage: 0, serial: self.serial };
                let facts = Facts { arrival: Instant(1), deadline: None, size, class, weight, name };
                self.say(&AgentMessage::Registered { request, coflow, facts });
            }
            &ClientMessage::Open { flow, .. } => {
                self.flows.push(flow);
                let directive = self.first;
                self.say(&AgentMessage::Direct { flow, directive });
            }
            ClientMessage::Close { flow, .. } => self.flows.retain(|open| open != flow),
            _ => {}
        }
        self.all.push(message);
    }
}

/// An agent. Dropping it ends it, and its client's connection.
pub(crate) struct Agent {
    heard: Arc<Mutex<Heard>>,
    path: PathBuf,
}

impl Agent {
    /// Listens at `path`; flows that open are to be sent as `first` says.
    pub(crate) fn listen(path: &Path, first: Gate) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let first = Directive { gate: first, class: Some(0) };
        let heard = Arc::new(Mutex::new(Heard { serial: 1_000, first, ..Heard::default() }));
        let (accepting, living) = (Arc::clone(&heard), Arc::downgrade(&heard));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, weak) = (client.unwrap(), Arc::downgrade(&accepting));
                if Arc::strong_count(&accepting) == 1 {
                    return;
                }
                let reading = client.try_clone().unwrap();
                {
                    let mut heard = accepting.lock().unwrap();
                    (heard.client, heard.is_silent) = (Some(client), false);
                    heard.flows.clear();
                }
                std::thread::spawn(move || {
                    let (mut reading, mut frames, mut chunk) = (reading, Frames::default(), [0; 4096]);
                    while let Ok(length @ 1..) = reading.read(&mut chunk) {
                        frames.push(&chunk[..length]);
                        let Some(heard) = weak.upgrade() else { return };
                        while let Some(message) = frames.pop().unwrap() {
                            heard.lock().unwrap().take(message);
                        }
                    }
                });
            }
        });
        std::thread::spawn(move || {
            while let Some(heard) = living.upgrade() {
                let mut heard = heard.lock().unwrap();
                if !heard.is_silent {
                    heard.say(&AgentMessage::Alive {});
                }
                drop(heard);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Self { heard, path: path.to_owned() }
    }

    /// Returns what it has heard that a client says of coflows and flows.
    pub(crate) fn heard(&self) -> Vec<ClientMessage> {
        let heard = self.heard.lock().unwrap();
        heard.all.iter().filter(|message| !matches!(message, ClientMessage::Hello { .. })).cloned().collect()
    }

    /// Returns how many flows are open.
    pub(crate) fn flows(&self) -> usize {
        self.heard.lock().unwrap().flows.len()
    }

    /// Directs all flows, now and from now on.
    pub(crate) fn direct(&self, gate: Gate) {
        let mut heard = self.heard.lock().unwrap();
        heard.first = Directive { gate, class: Some(0) };
        let directive = heard.first;
        for flow in heard.flows.clone() {
            heard.say(&AgentMessage::Direct { flow, directive });
        }
    }

    /// Says nothing more, until a client connects anew.
    pub(crate) fn fall_silent(&self) {
        self.heard.lock().unwrap().is_silent = true;
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        if let Some(client) = self.heard.lock().unwrap().client.take() {
            let _ = client.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// A copy of the connection to `peer` of another process; nothing where it has none.
pub(crate) fn connection_of(process: u32, peer: SocketAddr) -> Option<OwnedFd> {
    let handle = pidfd_open(Pid::from_raw(process as i32)?, PidfdFlags::empty()).unwrap();
    let copies = (3..256).filter_map(|number| pidfd_getfd(&handle, number, PidfdGetfdFlags::empty()).ok());
    let is_it = |socket: &OwnedFd| {
        let found = rustix::net::getpeername(socket).ok().flatten();
        let found = found.and_then(|found| SocketAddr::try_from(found).ok());
        found.is_some_and(|found| (found.ip().to_canonical(), found.port()) == (peer.ip(), peer.port()))
    };
    copies.into_iter().find(is_it)
}

/// The options of a connection that a library may set: rate, mark, unsent bytes. Java marks as IPv6
/// has it, also over IPv4.
pub(crate) fn options(socket: &OwnedFd) -> (u64, i32, i32) {
    let rate = option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
    let word = |bytes: [u8; 4]| i32::from_ne_bytes(bytes);
    let is_v6 = rustix::net::sockopt::socket_domain(socket).unwrap() == rustix::net::AddressFamily::INET6;
    let of_v6 = if is_v6 { word(option(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS)) } else { 0 };
    let mark = word(option(socket, libc::IPPROTO_IP, libc::IP_TOS)) | of_v6;
    (u64::from_ne_bytes(rate), mark, word(option(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT)))
}

fn option<const SIZE: usize>(socket: &OwnedFd, level: i32, name: i32) -> [u8; SIZE] {
    let (mut value, mut length) = ([0; SIZE], SIZE as u32);
    #[expect(unsafe_code, reason = "rustix has not all of these options")]
    // SAFETY: the descriptor is open, and the kernel writes at most `length` bytes to a value that
    // is as long.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut length)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    value
}

/// The open descriptors of a process.
pub(crate) fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// Returns the processor time that a process has taken. Exact: what `/proc` has is charged by the
/// tick, all of it to who runs when the timer that woke it ends.
pub(crate) fn processor_time(process: u32) -> Duration {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[expect(unsafe_code, reason = "no safe wrapper names the clock of another process")]
    // SAFETY: both calls write to the place that they are given, and to nothing else.
    let failed = unsafe {
        libc::clock_getcpuclockid(process as libc::pid_t, &mut clock) | libc::clock_gettime(clock, &mut time)
    };
    assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
