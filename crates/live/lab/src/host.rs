//! A host's application: it sends the flows that it is told to, receives those of others, and says
//! what arrived.
//!
//! It runs as a process of its own. One thread sends each flow and one receives it, which is how
//! most applications that move bulk data work, and what the client library's blocking face is for.
//! A connection begins with eight bytes, the flow's number and how often it was begun before; all
//! after that is the flow's.

use std::io::{self, BufRead, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cavalcade_client::{Bytes, Session};
use cavalcade_enforce::Group;
use cavalcade_model::{BitsPerSec, Nanos};
use cavalcade_spc::{Endpoint, Options, Rates, Settings, SpcListener};
use socket2::{Domain, Socket, Type};

use crate::bucket::Bucket;
use crate::error::LabError;
use crate::message::{Command, Event, Start};
use crate::payload::{Digest, Payload};
use crate::senders::{KernelPath, Senders};

/// Bytes written or read at once where no bucket says less.
const PIECE: usize = 256 << 10;
/// The largest packet where buckets stand for ports, as on Ethernet: loopback's own of 64 KB are
/// each as long as several Δ when a flow is paced at a few Mbps.
const PACKET: u32 = 1448;
/// The time within which an agent answers at the start.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes that come with less than this between them, in nanoseconds, are of one burst.
const PAUSE: u64 = 5_000_000;
/// The most bursts of a flow that are told apart.
const MOST_BURSTS: usize = 64;
/// The bytes with which each connection begins, before the flow's own.
pub(crate) const HEAD: u64 = 8;
/// The connections that may wait to be accepted, where the kernel allows as many: a coflow opens
/// thousands at once, and one that finds no room is asked for again and again, until it fails.
pub(crate) const BACKLOG: i32 = 16_384;
/// Threads here hold no data of their own.
const STACK: usize = 256 << 10;

/// The options of a host's application.
#[derive(Clone, Debug)]
pub struct HostSetup {
    /// Its address.
    pub address: IpAddr,
    /// The socket of its agent; none for plain TCP.
    pub agent: Option<PathBuf>,
    /// Its control group, where it has an enforcer.
    pub group: Option<PathBuf>,
    /// Its enforcer, where flows are sent by processes that know no library.
    pub kernel: Option<KernelPath>,
    /// The rate of its port each way, where it is to be held here.
    pub rate: Option<BitsPerSec>,
    /// The fabric as streams are told, where flows are those of SPC.
    pub streams: Option<Streams>,
}

/// The fabric as SPC streams are told.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// The rate of the host's link.
    pub rate: BitsPerSec,
    /// The round trip of the fabric.
    pub round_trip: Nanos,
    /// True if they ask switches for fair shares, as RCP does.
    pub fair: bool,
}

pub(crate) struct Host<W> {
    address: IpAddr,
    session: Option<Session>,
    rate: Option<BitsPerSec>,
    endpoint: Option<Endpoint>,
    up: Option<Bucket>,
    down: Option<Bucket>,
    payload: Payload,
    out: Mutex<W>,
}

/// Does what `commands` say until they end, and writes what comes of it to `out`. The lab's own
/// processes run this.
///
/// # Errors
/// If the address cannot be bound, the agent does not answer, or a command cannot be read.
pub fn serve_host<W: Write + Send + 'static>(
    setup: &HostSetup,
    commands: impl BufRead,
    out: W,
) -> Result<(), LabError> {
    let listening = || LabError::system(format!("listen at {}", setup.address));
    let endpoint =
        setup.streams.map(|streams| endpoint(setup.address, streams)).transpose().map_err(listening())?;
    // What the enforcer does for listeners it does for those of its group's processes.
    if let Some(group) = &setup.group {
        let entered = Group::found(group.clone()).and_then(|group| group.admit(std::process::id()));
        entered.map_err(|error| LabError::system("enter a control group")(io::Error::other(error)))?;
    }
    let listener = listen(setup).map_err(listening())?;
    let mut senders = setup.kernel.clone().map(|kernel| Senders::new(setup.address, kernel)).transpose()?;
    let at = match &endpoint {
        Some(endpoint) => endpoint.local_addr(),
        None => listener.local_addr(),
    };
    let at = at.map_err(LabError::system("tell where it listens"))?;
    let session = setup.agent.as_ref().map(Session::open).transpose();
    let session = session.map_err(LabError::system("reach the agent"))?;
    if session.as_ref().is_some_and(|session| !session.wait_ready(PATIENCE)) {
        let what = "the agent".to_owned();
        return Err(LabError::Process { what, how: "does not answer the application".to_owned() });
    }
    let bucket = || setup.rate.map(|rate| Bucket::new(rate.0));
    let (up, down, payload) = (bucket(), bucket(), Payload::new());
    let (address, rate, out) = (setup.address, setup.rate, Mutex::new(out));
    let host = Arc::new(Host { address, session, rate, endpoint, up, down, payload, out });
    host.reply(&Event::Ready(at));
    let receiving = host.clone();
    match host.endpoint.as_ref().map(Endpoint::listen) {
        Some(streams) => spawn(move || receiving.accept_streams(&streams))?,
        None => spawn(move || receiving.accept(&listener))?,
    };
    for line in commands.lines() {
        let line = line.map_err(LabError::system("read commands"))?;
        let command = serde_json::from_str(&line);
        match command.map_err(|error| LabError::system("understand a command")(error.into()))? {
            Command::Start(start) => match (&mut senders, &start.coflow) {
                (Some(senders), Some(key)) => senders.send(key, &start)?,
                _ => {
                    let sending = host.clone();
                    spawn(move || sending.send(&start))?;
                }
            },
            Command::Part(part) => {
                if let Some(senders) = &mut senders {
                    senders.begin(&part)?;
                }
            }
            Command::Over(coflow) => {
                if let Some(senders) = &mut senders {
                    senders.over(&coflow)?;
                }
                if let (Some(session), Ok(coflow)) = (&host.session, coflow.parse()) {
                    session.unregister(coflow);
                }
            }
        }
    }
    host.reply(&Event::Cost(client_library_nanos()));
    Ok(())
}

/// The time since 1970, in nanoseconds.
pub(crate) fn since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, LabError> {
    let spawned = std::thread::Builder::new().stack_size(STACK).spawn(work);
    spawned.map_err(LabError::system("start a thread"))
}

/// Kernel buffers where buckets stand for ports: a millisecond of the rate, and the kernel takes
/// twice that at each end. What is in them has left its sender and not arrived, for every flow for
/// itself, and is in the way of what a receiver gets by an order that was given later: a port's
/// queue is one for all.
fn short_buffer(rate: BitsPerSec) -> usize {
    ((rate.0 / 8_000) as usize).clamp(8 << 10, 64 << 10)
}

fn endpoint(address: IpAddr, streams: Streams) -> io::Result<Endpoint> {
    let rates = if streams.fair { Rates::OfFlows } else { Rates::OfTasks };
    let settings =
        Settings { line_rate: streams.rate, base_rtt: streams.round_trip, rates, ..Settings::default() };
    Endpoint::bind((address, 0), Options { settings, backlog: 1024, ..Options::default() })
}

fn listen(setup: &HostSetup) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(SocketAddr::new(setup.address, 0)), Type::STREAM, None)?;
    if let Some(rate) = setup.rate {
        socket.set_recv_buffer_size(short_buffer(rate))?;
        socket.set_tcp_mss(PACKET)?;
    }
    socket.bind(&SocketAddr::new(setup.address, 0).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

impl<W: Write + Send + 'static> Host<W> {
    /// A host that only sends, over plain TCP.
    pub(crate) fn of_sender(address: IpAddr, out: W) -> Self {
        let (session, endpoint, payload, out) = (None, None, Payload::new(), Mutex::new(out));
        Self { address, session, rate: None, endpoint, up: None, down: None, payload, out }
    }

    fn reply(&self, event: &Event) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // The reader of a failure here is gone.
        let _ = serde_json::to_writer(&mut *out, event).map_err(io::Error::from).and_then(|()| {
            out.write_all(b"\n")?;
            out.flush()
        });
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        loop {
            let Ok((socket, _)) = listener.accept() else {
                // Out of descriptors: those that are open will close.
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            let host = self.clone();
            if let Err(error) = spawn(move || host.receive(socket)) {
                self.reply(&Event::Failed { flow: None, reason: error.to_string() });
            }
        }
    }

    fn accept_streams(self: Arc<Self>, listener: &SpcListener) {
        loop {
            let accepted = listener.accept().map_err(LabError::system("accept SPC streams"));
            let host = self.clone();
            if let Err(error) = accepted.and_then(|(stream, _)| spawn(move || host.receive(stream))) {
                self.reply(&Event::Failed { flow: None, reason: error.to_string() });
                return;
            }
        }
    }

    fn receive(&self, mut socket: impl Read) {
        let (mut flow, mut attempt) = ([0; 4], [0; 4]);
        // A peer that connects and sends nothing is no sender of ours.
        if socket.read_exact(&mut flow).and_then(|()| socket.read_exact(&mut attempt)).is_err() {
            return;
        }
        let (flow, attempt) = (u32::from_le_bytes(flow), u32::from_le_bytes(attempt));
        let (digest, bursts, end) = self.drain(&mut socket);
        let at = since_1970();
        match end {
            Ok(()) => {
                let (bytes, digest) = (digest.length(), digest.finish());
                self.reply(&Event::Received { flow, attempt, bytes, digest, at, bursts });
            }
            Err(error) => self.fail(flow, attempt, &format!("receiving: {error}")),
        }
    }

    /// Reads all that comes, and returns when each burst of it began and its bytes.
    fn drain(&self, socket: &mut impl Read) -> (Digest, Vec<(u64, u64)>, io::Result<()>) {
        let mut digest = Digest::default();
        let (mut bursts, mut last) = (Vec::new(), 0);
        let mut buffer = vec![0; self.down.as_ref().map_or(PIECE, Bucket::piece)];
        loop {
            match socket.read(&mut buffer) {
                Ok(0) => return (digest, bursts, Ok(())),
                Ok(length) => {
                    let now = since_1970();
                    if now.saturating_sub(last) > PAUSE && bursts.len() < MOST_BURSTS {
                        bursts.push((now, 0));
                    }
                    last = now;
                    if let Some((_, bytes)) = bursts.last_mut() {
                        *bytes += length as u64;
                    }
                    if let Some(bucket) = &self.down {
                        bucket.take(length);
                    }
                    digest.take(&buffer[..length]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (digest, bursts, Err(error)),
            }
        }
    }

    /// Sends a flow, and says so where that fails.
    pub(crate) fn send(&self, start: &Start) {
        if let Err(error) = self.try_send(start) {
            self.fail(start.flow, start.attempt, &format!("sending: {error}"));
        }
    }

    fn fail(&self, flow: u32, attempt: u32, reason: &str) {
        self.reply(&Event::Failed { flow: Some((flow, attempt)), reason: reason.to_owned() });
    }

    fn try_send(&self, start: &Start) -> io::Result<()> {
        let head = [start.flow.to_le_bytes(), start.attempt.to_le_bytes()].concat();
        if let Some(endpoint) = &self.endpoint {
            let mut stream = endpoint.connect(start.to, start.task)?;
            stream.write_all(&head)?;
            self.write(&mut stream, start)?;
            stream.shutdown(Shutdown::Write)?;
            return stream.wait_acknowledged();
        }
        let mut socket = self.connect(start.to)?;
        socket.write_all(&head)?;
        match (&self.session, &start.coflow) {
            (Some(session), Some(key)) => {
                let key = key.parse().map_err(|()| io::Error::other(format!("{key} is no key")))?;
                let mut stream = session.stream(socket, key, Some(Bytes(start.size)))?;
                self.write(&mut stream, start)
            }
            _ => self.write(&mut socket, start),
        }
    }

    fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        if let Some(rate) = self.rate {
            socket.set_send_buffer_size(short_buffer(rate))?;
            socket.set_tcp_mss(PACKET)?;
        }
        socket.bind(&SocketAddr::new(self.address, 0).into())?;
        socket.connect(&to.into())?;
        Ok(socket.into())
    }

    fn write(&self, out: &mut impl Write, start: &Start) -> io::Result<()> {
        let most = self.up.as_ref().map_or(PIECE, Bucket::piece);
        let mut sent = 0;
        while sent < start.size {
            let left = usize::try_from(start.size - sent).unwrap_or(usize::MAX);
            let piece = self.payload.piece(start.flow, sent, left.min(most));
            if let Some(bucket) = &self.up {
                bucket.take(piece.len());
            }
            out.write_all(piece)?;
            sent += piece.len() as u64;
        }
        Ok(())
    }
}

/// Returns the processor time of the client library's threads, as the kernel counts it; zero where
/// it does not say.
fn client_library_nanos() -> u64 {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let of_thread = |path: PathBuf| {
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        name.starts_with("cavalcade-cl").then(|| crate::process::nanos_of_thread(&path))
    };
    threads.flatten().filter_map(|entry| of_thread(entry.path())).sum()
}
