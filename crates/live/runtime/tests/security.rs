//! Certificates on real sockets: who is let in, who is not, and what that costs the others
//! (nothing).
//!
//! Waiting is for something to become so, with a bound far above what it takes; nothing is
//! measured.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cavalcade_control::{Agent, Coordinator, CoordinatorConfig, Decentralised, Mode};
use cavalcade_model::{Payload, PortId};
use cavalcade_runtime::administration::Administrator;
use cavalcade_runtime::security::{issue, revoke};
use cavalcade_runtime::{
    AgentSockets, Clock, CoordinatorSockets, Identity, bind_administration_socket, bind_client_socket,
    block_on, serve_agent, serve_coordinator,
};
use cavalcade_testing::eventually;
use support::{PORTS, RATE, Running, agent_config, policy};
use tokio::sync::watch;

/// Certificates of a site in `folder`, one folder for each component.
fn site(folder: &Path) {
    let day = std::time::Duration::from_secs(86_400);
    let now = std::time::SystemTime::now();
    for component in issue(PORTS, now - day, now + day).unwrap() {
        let folder = folder.join(component.folder);
        std::fs::create_dir_all(&folder).unwrap();
        for file in component.files {
            let path = folder.join(file.name);
            std::fs::write(&path, &*file.contents).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
}

/// Writes a list that revokes `components` of the site in `folder` into the folder of `reader`, as
/// a whole.
fn revoke_for(folder: &Path, reader: &str, components: &[&str]) {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let key = String::from_utf8(read("authority/key.pem")).unwrap();
    let components: Vec<_> =
        components.iter().map(|component| read(&format!("{component}/certificate.pem"))).collect();
    let list = revoke(&[&key], None, &components, std::time::SystemTime::now()).unwrap();
    let (new, list_file) = (folder.join(reader).join("new"), folder.join(reader).join("revoked.pem"));
    std::fs::write(&new, list).unwrap();
    std::fs::rename(&new, &list_file).unwrap();
}

fn identity(folder: &Path, component: &str) -> Identity {
    Identity::load(&folder.join(component)).unwrap()
}

/// A coordinator with a certificate, where it listens, and where it is administrated.
fn coordinator(folder: &Path) -> (Running, std::net::SocketAddr, std::path::PathBuf) {
    let (stop, stopped) = watch::channel(false);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let at = listener.local_addr().unwrap();
    let identity = identity(folder, "coordinator");
    let path = folder.join("coordinator.sock");
    let socket = path.clone();
    let thread = std::thread::spawn(move || {
        block_on(async {
            let config = CoordinatorConfig::new(Clock::default().now().0, PORTS, RATE);
            let sockets = CoordinatorSockets {
                identity: Some(identity),
                administration: Some(bind_administration_socket(&socket)?),
                ..tokio::net::TcpListener::from_std(listener)?.into()
            };
            serve_coordinator(Coordinator::new(config, policy("fifo")), sockets, stopped).await
        })
        .unwrap();
    });
    (Running::new(stop, thread), at, path)
}

/// An agent at `port` that shows `identity` to the coordinator.
fn agent(port: u32, folder: &Path, at: std::net::SocketAddr, identity: Option<Identity>) -> Running {
    let (stop, stopped) = watch::channel(false);
    let path = folder.join(format!("agent{port}.sock"));
    let thread = std::thread::spawn(move || {
        block_on(async {
            let clients = bind_client_socket(&path)?;
            let sockets = AgentSockets { coordinators: vec![at], identity, ..AgentSockets::new(clients) };
            serve_agent(Agent::new(agent_config(port), Mode::Coordinated), sockets, stopped).await
        })
        .unwrap();
    });
    Running::new(stop, thread)
}

/// The ports of the agents that the coordinator hears of, and how many connections it has refused.
fn heard(path: &Path) -> Vec<u32> {
    block_on(async {
        let mut administrator = Administrator::at_socket(path).await.map_err(std::io::Error::other)?;
        let view = administrator.look("", false).await.map_err(std::io::Error::other)?;
        Ok(view.hosts.into_iter().map(|host| host.port).collect())
    })
    .unwrap()
}

#[test]
fn an_agent_is_heard_for_its_own_port_with_the_right_certificate_and_nobody_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    site(folder.path());
    site(elsewhere.path());
    let (lead, at, path) = coordinator(folder.path());
    eventually("the coordinator is there", || path.exists());
    // Without a certificate, with another site's, with another agent's, and with one that is no
    // agent's.
    let intruders = [
        agent(1, elsewhere.path(), at, None),
        agent(2, folder.path(), at, Some(identity(elsewhere.path(), "agent-2"))),
        agent(1, folder.path(), at, Some(identity(folder.path(), "agent-2"))),
        agent(2, elsewhere.path(), at, Some(identity(folder.path(), "administrator"))),
    ];
    let mut garbage = TcpStream::connect(at).unwrap();
    let _ = garbage.write_all(&[0x55; 4096]);
    let right = agent(0, folder.path(), at, Some(identity(folder.path(), "agent-0")));
    eventually("the right agent is heard", || heard(&path) == [0]);
    // As long again as it took: no other is let in meanwhile.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(heard(&path), [0]);
    intruders.into_iter().for_each(Running::stop);
    right.stop();
    lead.stop();
    assert!(!path.exists(), "the socket file is removed");
}

#[test]
fn an_agent_obeys_no_coordinator_without_a_coordinators_certificate() {
    let folder = tempfile::tempdir().unwrap();
    site(folder.path());
    // An agent's certificate is signed by the right authority, and does not make a coordinator.
    let coordinator_folder = folder.path().join("coordinator");
    std::fs::remove_dir_all(&coordinator_folder).unwrap();
    std::fs::rename(folder.path().join("agent-1"), &coordinator_folder).unwrap();
    let (impostor, at, path) = coordinator(folder.path());
    let running = agent(0, folder.path(), at, Some(identity(folder.path(), "agent-0")));
    eventually("the impostor is there", || path.exists());
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(heard(&path).is_empty());
    running.stop();
    impostor.stop();
}

#[test]
fn who_is_revoked_is_not_let_in_and_who_was_let_in_is_cut_off_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    site(folder.path());
    revoke_for(folder.path(), "coordinator", &["agent-1"]);
    let (lead, at, path) = coordinator(folder.path());
    eventually("the coordinator is there", || path.exists());
    let agents = [0, 1, 2]
        .map(|port| agent(port, folder.path(), at, Some(identity(folder.path(), &format!("agent-{port}")))));
    eventually("those that are not revoked are heard", || heard(&path) == [0, 2]);
    revoke_for(folder.path(), "coordinator", &["agent-1", "agent-2"]);
    // An agent may also be missing for a moment because its lease ran out: the list is read within
    // two seconds.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    eventually("one more is cut off", || heard(&path) == [0]);
    // What is no list changes nothing, and the next list counts again.
    std::fs::write(folder.path().join("coordinator/revoked.pem"), "garbage").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    assert!(!heard(&path).contains(&2), "the former list holds");
    revoke_for(folder.path(), "coordinator", &["agent-1"]);
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    assert_eq!(heard(&path), [0], "a list that leaves out a revoked certificate is refused");
    // An agent heeds a list as well, and leaves its coordinator.
    revoke_for(folder.path(), "agent-0", &["coordinator"]);
    eventually("an agent obeys no coordinator that is revoked", || heard(&path).is_empty());
    agents.into_iter().for_each(Running::stop);
    lead.stop();
}

#[test]
fn an_administrator_is_let_in_from_elsewhere_with_its_certificate_and_an_agent_is_not() {
    let folder = tempfile::tempdir().unwrap();
    site(folder.path());
    let (lead, at, _) = coordinator(folder.path());
    let look = |component: &str| {
        let identity = identity(folder.path(), component);
        block_on(async move {
            let mut administrator =
                Administrator::at_address(at, &identity).await.map_err(std::io::Error::other)?;
            administrator.look("", false).await.map_err(std::io::Error::other)
        })
    };
    assert_eq!(look("administrator").unwrap().role, "coordinator");
    assert!(look("agent-0").is_err());
    lead.stop();
}

#[test]
fn a_datagram_is_heard_only_as_that_of_the_host_that_has_made_it() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    site(folder.path());
    site(elsewhere.path());
    let cases = [(folder.path(), 1, 1, true), (folder.path(), 1, 0, false), (elsewhere.path(), 1, 1, false)];
    for (site, by, as_of, is_heard) in cases {
        let pairs = identity(site, &format!("agent-{by}")).pairs().unwrap();
        let heard = negotiating_agent(folder.path(), pairs, PortId(as_of));
        assert_eq!(heard, is_heard, "a datagram of {as_of} by agent {by} of {}", site.display());
    }
}

/// Returns whether an agent that decides by itself takes a datagram as that of `from`, closed with
/// `pairs`.
fn negotiating_agent(folder: &Path, mut pairs: cavalcade_runtime::Pairs, from: PortId) -> bool {
    use cavalcade_protocol::{CoflowKey, Datagram, Message, PROTOCOL, Statement};
    let (stop, stopped) = watch::channel(false);
    let (at_sender, at) = std::sync::mpsc::channel();
    let identity = identity(folder, "agent-0");
    let path = folder.join("negotiating.sock");
    let thread = std::thread::spawn(move || {
        block_on(async {
            let clients = bind_client_socket(&path)?;
            let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
            let metrics = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            at_sender.send((socket.local_addr()?, metrics.local_addr()?)).unwrap();
            let sockets = AgentSockets {
                peers: Some((socket, Default::default())),
                identity: Some(identity),
                metrics: Some(metrics),
                ..AgentSockets::new(clients)
            };
            let config = agent_config(0);
            let own = Decentralised::new(&config, policy("dcas"));
            serve_agent(Agent::new(config, Mode::Decentralised(Box::new(own))), sockets, stopped).await
        })
        .unwrap();
    });
    let running = Running::new(stop, thread);
    let (to, metrics) = at.recv().unwrap();
    let statements = vec![Statement { coflow: CoflowKey::new(4, &[]), payload: Payload::of_number(0, 3) }];
    let sent_at = Clock::default().now();
    let datagram = Datagram {
        protocol: PROTOCOL,
        from,
        session: 9,
        to: PortId(0),
        to_session: None,
        sequence: 1,
        sent_at,
        statements,
    };
    let mut bytes = datagram.to_bytes();
    assert!(pairs.close(PortId(0), &mut bytes));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    // Twice: the second is left out because it comes twice, if it is heard at all.
    socket.send_to(&bytes, to).unwrap();
    socket.send_to(&bytes, to).unwrap();
    let mut is_heard = None;
    eventually("both are counted", || {
        let text = support::http_get(metrics);
        is_heard = match (
            support::figure(&text, "datagrams_left_out_total"),
            support::figure(&text, "datagrams_garbled_total"),
        ) {
            (1, 0) => Some(true),
            (0, 2) => Some(false),
            _ => None,
        };
        is_heard.is_some()
    });
    running.stop();
    is_heard.unwrap()
}
