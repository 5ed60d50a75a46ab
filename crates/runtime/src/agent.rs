//! The agent: clients on a Unix socket, a coordinator over TCP, other agents over UDP.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use cavalcade_control::{Agent, AgentOutput, ClientId};
use cavalcade_model::PortId;
use cavalcade_wire::{
    AgentMessage, ClientMessage, Datagram, MAX_DATAGRAM, MAX_FRAME, Message, Orders, Report,
};
use tokio::net::{TcpStream, UdpSocket, UnixListener, UnixStream};
use tokio::sync::mpsc;

use crate::Stop;
use crate::clock::{Clock, sleep_until};
use crate::connection::{self, Outlet};

/// The longest message of a client: a registration with a few thousand parents.
const CLIENT_FRAME: usize = 64 << 10;
/// Pauses between attempts to reach a coordinator.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What an agent talks through.
#[derive(Debug)]
pub struct AgentSockets {
    /// Where clients connect; see [`bind_client_socket`].
    pub clients: UnixListener,
    /// Where coordinators listen, tried in turn; none in decentralised mode.
    pub coordinators: Vec<SocketAddr>,
    /// The socket for other agents, and where they listen.
    pub peers: Option<(UdpSocket, BTreeMap<PortId, SocketAddr>)>,
}

enum Incoming {
    Client(ClientId, ClientMessage),
    ClientGone(ClientId),
    Coordinator(Outlet<Report>),
    Orders(Orders),
}

/// Listens for clients at `path`. A socket file that a crashed agent left behind is replaced; one at which somebody listens
/// is not. Every user of the host may connect: an agent tells users apart by what the kernel says of them.
///
/// # Errors
/// Where somebody listens there already, or the file cannot be made.
pub fn bind_client_socket(path: &Path) -> io::Result<UnixListener> {
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        let message = format!("an agent listens at {} already", path.display());
        return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
            std::fs::remove_file(path)?
        }
        Ok(_) => {
            let message = format!("{} exists and is no socket: name another path", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Connections of the agent.
struct Shell {
    clients: BTreeMap<ClientId, Outlet<AgentMessage>>,
    coordinator: Option<Outlet<Report>>,
    peers: Option<(UdpSocket, BTreeMap<PortId, SocketAddr>)>,
}

/// Runs `agent` until told to stop; then puts all flows back to plain TCP and removes the socket file.
///
/// # Errors
/// Where the listener fails.
pub async fn serve_agent(mut agent: Agent, sockets: AgentSockets, mut stop: Stop) -> io::Result<()> {
    let clock = Clock::default();
    let AgentSockets { clients: listener, coordinators, peers } = sockets;
    let path = listener.local_addr()?.as_pathname().map(Path::to_path_buf);
    let (sender, mut inbox) = mpsc::unbounded_channel();
    if !coordinators.is_empty() {
        tokio::task::spawn_local(seek_coordinator(coordinators, sender.clone(), clock));
    }
    let mut shell = Shell { clients: BTreeMap::new(), coordinator: None, peers };
    let mut next_client = 0;
    let mut datagram = vec![0; MAX_DATAGRAM];
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let id = ClientId(next_client);
                    next_client += 1;
                    if let Some(outlet) = attend(&mut agent, stream, id, sender.clone()) {
                        shell.clients.insert(id, outlet);
                    }
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(incoming) = inbox.recv() => {
                take_in(&mut agent, &mut shell, clock, incoming);
                while let Ok(incoming) = inbox.try_recv() {
                    take_in(&mut agent, &mut shell, clock, incoming);
                }
            }
            received = hear_peers(shell.peers.as_ref(), &mut datagram) => {
                if let Ok(datagram) = Datagram::decode(received) {
                    agent.handle_datagram(clock.now(), datagram);
                }
            }
            () = sleep_until(clock, agent.poll_timeout()) => {}
            _ = stop.changed() => break,
        }
        agent.handle_timeout(clock.now());
        shell.send(&mut agent, clock);
    }
    agent.drain(true);
    shell.send(&mut agent, clock);
    drop(shell);
    // Writers end once their queues are empty.
    tokio::time::sleep(Duration::from_millis(5)).await;
    match path {
        Some(path) => std::fs::remove_file(path),
        None => Ok(()),
    }
}

/// Begins to serve a client; none where the kernel does not say who it is.
fn attend(
    agent: &mut Agent,
    stream: UnixStream,
    id: ClientId,
    sender: mpsc::UnboundedSender<Incoming>,
) -> Option<Outlet<AgentMessage>> {
    let user = stream.peer_cred().ok()?.uid();
    agent.handle_connected(id, user);
    let gone = sender.clone();
    Some(connection::run(
        stream,
        CLIENT_FRAME,
        move |message| drop(sender.send(Incoming::Client(id, message))),
        move || drop(gone.send(Incoming::ClientGone(id))),
    ))
}

fn take_in(agent: &mut Agent, shell: &mut Shell, clock: Clock, incoming: Incoming) {
    match incoming {
        Incoming::Client(id, message) => agent.handle_client(clock.now(), id, message),
        Incoming::ClientGone(id) => {
            shell.clients.remove(&id);
            agent.handle_gone(clock.now(), id);
        }
        Incoming::Coordinator(outlet) => {
            shell.coordinator = Some(outlet);
            agent.handle_coordinator_connected();
        }
        Incoming::Orders(orders) => agent.handle_orders(clock.now(), orders),
    }
}

async fn hear_peers<'a>(
    peers: Option<&(UdpSocket, BTreeMap<PortId, SocketAddr>)>,
    buffer: &'a mut [u8],
) -> &'a [u8] {
    let Some((socket, _)) = peers else { return std::future::pending().await };
    match socket.recv_from(buffer).await {
        Ok((length, _)) => &buffer[..length],
        // A peer that is not there: the kernel reports it on the next call.
        Err(_) => &[],
    }
}

impl Shell {
    fn send(&mut self, agent: &mut Agent, clock: Clock) {
        while let Some(output) = agent.poll_output() {
            match output {
                AgentOutput::Client(id, message) => {
                    let sent = self.clients.get(&id).map(|outlet| outlet.try_send(message));
                    if matches!(sent, Some(Err(_))) {
                        self.clients.remove(&id);
                        agent.handle_gone(clock.now(), id);
                    }
                }
                AgentOutput::Drop(id) => {
                    self.clients.remove(&id);
                    agent.handle_gone(clock.now(), id);
                }
                AgentOutput::Coordinator(report) => {
                    if self.coordinator.as_ref().is_some_and(|outlet| outlet.try_send(report).is_err()) {
                        self.coordinator = None;
                    }
                }
                AgentOutput::Peer(to, datagram) => {
                    let Some((socket, addresses)) = &self.peers else { continue };
                    if let Some(&address) = addresses.get(&to) {
                        // Statements are repeated while they matter.
                        let _ = socket.try_send_to(&datagram.to_bytes(), address);
                    }
                }
            }
        }
    }
}

/// Keeps a connection to one of the coordinators.
async fn seek_coordinator(
    coordinators: Vec<SocketAddr>,
    sender: mpsc::UnboundedSender<Incoming>,
    clock: Clock,
) {
    let mut pause = FIRST_PAUSE;
    for address in coordinators.iter().cycle() {
        if let Ok(Ok(stream)) = tokio::time::timeout(LONGEST_PAUSE, TcpStream::connect(address)).await {
            pause = FIRST_PAUSE;
            let _ = stream.set_nodelay(true);
            let (over, is_over) = tokio::sync::oneshot::channel();
            let orders = sender.clone();
            let outlet = connection::run(
                stream,
                MAX_FRAME,
                move |heard| drop(orders.send(Incoming::Orders(heard))),
                move || _ = over.send(()),
            );
            if sender.send(Incoming::Coordinator(outlet)).is_err() {
                return;
            }
            let _ = is_over.await;
        }
        // Spread by the time at which each agent came here.
        let spread = Duration::from_nanos(clock.now().0 % pause.as_nanos() as u64);
        tokio::time::sleep(pause / 2 + spread / 2).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
