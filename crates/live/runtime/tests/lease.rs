//! Standby and restart: a lease in a real etcd, and a coordinator that rebuilds what it knows from
//! its agents.
//!
//! The tests with etcd need its server (`etcd`, Debian's package `etcd-server`) and are reported as
//! skipped without it.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::fs::Permissions;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cavalcade_client::{Gate, Registration, Session};
use cavalcade_control::{Agent, Coordinator, CoordinatorConfig, Mode};
use cavalcade_runtime::administration::{Administrator, proto};
use cavalcade_runtime::lease::{LeaseCertificates, LeasePlace, acquire};
use cavalcade_runtime::{
    AgentSockets, Clock, CoordinatorSockets, bind_administration_socket, bind_client_socket, block_on,
    serve_agent, serve_coordinator,
};
use cavalcade_testing::{eventually, free_port};
use support::{PORTS, RATE, Running, address, agent_config, policy};
use tokio::sync::watch;

/// A server of etcd with its data in a folder, killed when the test ends.
struct Etcd {
    process: Child,
    at: SocketAddr,
    is_secure: bool,
}

impl Etcd {
    /// Starts a server; where there is no etcd on this machine the test is reported as skipped.
    fn start(folder: &Path) -> Option<Self> {
        Self::start_with(folder, "http", &[])
    }

    fn start_with(folder: &Path, scheme: &'static str, more: &[&str]) -> Option<Self> {
        let free = || SocketAddr::from(([127, 0, 0, 1], free_port()));
        let (at, peers) = (free(), free());
        let (client, peer) = (format!("{scheme}://{at}"), format!("http://{peers}"));
        let started = Command::new("etcd")
            .arg("--data-dir")
            .arg(folder.join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(process) => Some(Self { process, at, is_secure: scheme == "https" }),
            Err(_) => {
                cavalcade_testing::skipped("etcd (Debian: etcd-server)");
                None
            }
        }
    }

    fn place(&self) -> LeasePlace {
        LeasePlace::Etcd { servers: vec![self.at], key: "site/leader".to_owned(), is_secure: self.is_secure }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn of_two_one_leads_with_etcd_and_when_it_gives_up_the_other_does_with_a_higher_term() {
    let folder = tempfile::tempdir().unwrap();
    let Some(etcd) = Etcd::start(folder.path()) else { return };
    block_on(async {
        let first = tokio::time::timeout(Duration::from_secs(30), acquire(&etcd.place(), None, 0)).await??;
        let place = etcd.place();
        let second = tokio::task::spawn_local(async move { acquire(&place, None, 0).await });
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(!second.is_finished(), "the first one renews its lease beyond its time to live");
        let term = first.term();
        first.give_up().await;
        let second = tokio::time::timeout(Duration::from_secs(20), second).await???;
        assert!(second.term() > term);
        Ok(())
    })
    .unwrap();
}

/// An authority in `folder`, with what it signed for etcd's server and for a coordinator as its
/// client.
fn authority(folder: &Path) {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    for (part, name) in [("server", "127.0.0.1"), ("client", "coordinator")] {
        let (folder, key) = (folder.join(part), KeyPair::generate().unwrap());
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &authority);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("authority.pem"), authority.pem()).unwrap();
        std::fs::write(folder.join("certificate.pem"), certificate.unwrap().pem()).unwrap();
        std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
        std::fs::set_permissions(folder.join("key.pem"), Permissions::from_mode(0o600)).unwrap();
    }
}

#[test]
fn an_etcd_that_asks_for_certificates_gives_its_lease_to_who_has_the_right_ones_and_is_checked_itself() {
    let [folder, elsewhere] = [0, 1].map(|_| tempfile::tempdir().unwrap());
    [&folder, &elsewhere].into_iter().for_each(|folder| authority(folder.path()));
    let of_server = |name: &str| folder.path().join("server").join(name).display().to_string();
    let (ca, certificate, key) =
        (of_server("authority.pem"), of_server("certificate.pem"), of_server("key.pem"));
    let secured =
        ["--client-cert-auth", "--trusted-ca-file", &ca, "--cert-file", &certificate, "--key-file", &key];
    let Some(etcd) = Etcd::start_with(folder.path(), "https", &secured) else { return };
    let load = |folder: &Path| LeaseCertificates::load(&folder.join("client")).unwrap();
    let place = etcd.place();
    block_on(async {
        let own = load(folder.path());
        let leader = tokio::time::timeout(Duration::from_secs(30), acquire(&place, Some(&own), 0)).await??;
        leader.give_up().await;
        // Who trusts another authority, or has nothing to show, gets none; and clear text is not
        // tried in its place.
        let foreign = load(elsewhere.path());
        let refused = tokio::time::timeout(Duration::from_secs(2), acquire(&place, Some(&foreign), 0)).await;
        assert!(refused.is_err());
        std::fs::remove_file(folder.path().join("client/certificate.pem"))?;
        let nobody = load(folder.path());
        let refused = tokio::time::timeout(Duration::from_secs(2), acquire(&place, Some(&nobody), 0)).await;
        assert!(refused.is_err());
        assert!(acquire(&place, None, 0).await.is_err());
        Ok(())
    })
    .unwrap();
}

#[test]
fn who_leads_knows_that_the_lease_is_lost_when_etcd_is() {
    let folder = tempfile::tempdir().unwrap();
    let Some(etcd) = Etcd::start(folder.path()) else { return };
    block_on(async {
        let mut leader =
            tokio::time::timeout(Duration::from_secs(30), acquire(&etcd.place(), None, 0)).await??;
        let early = tokio::time::timeout(Duration::from_millis(500), leader.lost()).await;
        assert!(early.is_err(), "it is not lost while etcd answers");
        drop(etcd);
        tokio::time::timeout(Duration::from_secs(20), leader.lost()).await?;
        leader.lost().await;
        leader.give_up().await;
        Ok(())
    })
    .unwrap();
}

/// A coordinator that is administrated at `path`, and listens at `at` or any free port.
fn coordinator(path: &Path, at: Option<SocketAddr>) -> (Running, SocketAddr) {
    let (stop, stopped) = watch::channel(false);
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = TcpListener::bind(at.unwrap_or(any)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let at = listener.local_addr().unwrap();
    let path = path.to_owned();
    let thread = std::thread::spawn(move || {
        block_on(async {
            let config = CoordinatorConfig::new(Clock::default().now().0, PORTS, RATE);
            let sockets = CoordinatorSockets {
                administration: Some(bind_administration_socket(&path)?),
                ..tokio::net::TcpListener::from_std(listener)?.into()
            };
            serve_coordinator(Coordinator::new(config, policy("fifo")), sockets, stopped).await
        })
        .unwrap();
    });
    (Running::new(stop, thread), at)
}

/// An agent with its clients' socket at `path`, which is administrated beside it.
fn agent(port: u32, path: &Path, coordinators: Vec<SocketAddr>) -> Running {
    let (stop, stopped) = watch::channel(false);
    let path = path.to_owned();
    let thread = std::thread::spawn(move || {
        block_on(async {
            let sockets = AgentSockets {
                coordinators,
                administration: Some(bind_administration_socket(&administration(&path))?),
                ..AgentSockets::new(bind_client_socket(&path)?)
            };
            serve_agent(Agent::new(agent_config(port), Mode::Coordinated), sockets, stopped).await
        })
        .unwrap();
    });
    Running::new(stop, thread)
}

/// The place where an agent is administrated whose clients' socket is at `path`.
fn administration(path: &Path) -> PathBuf {
    path.with_extension("administration")
}

fn look(path: &Path) -> Option<proto::View> {
    block_on(async {
        let mut administrator = Administrator::at_socket(path).await.map_err(std::io::Error::other)?;
        administrator.look("", true).await.map_err(std::io::Error::other)
    })
    .ok()
}

#[test]
fn an_agent_leaves_a_coordinator_that_hangs_for_one_that_leads() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| folder.path().join(name);
    // It takes connections and never says anything, as one that was stopped.
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let (lead, at) = coordinator(&of("lead.sock"), None);
    let agent = agent(0, &of("agent.sock"), vec![hung.local_addr().unwrap(), at]);
    let knows = || look(&of("lead.sock")).is_some_and(|view| view.hosts.len() == 1);
    eventually("the agent comes to the coordinator that leads", knows);
    agent.stop();
    lead.stop();
}

#[test]
fn a_standby_that_takes_over_knows_after_its_first_round_what_the_former_coordinator_knew() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| folder.path().join(name);
    let (lead, at_lead) = coordinator(&of("lead.sock"), None);
    // No process listens at the standby's place until it leads.
    let reserved = TcpListener::bind("127.0.0.1:0").unwrap();
    let at_standby = reserved.local_addr().unwrap();
    drop(reserved);
    let agents: Vec<Running> = (0..2)
        .map(|port| agent(port, &of(&format!("agent{port}.sock")), vec![at_lead, at_standby]))
        .collect();
    let sessions = [0, 1].map(|port| Session::open(of(&format!("agent{port}.sock"))).unwrap());
    assert!(sessions.iter().all(|session| session.wait_ready(Duration::from_secs(60))));
    let receiver = TcpListener::bind(SocketAddr::new(address(2), 0)).unwrap();
    let connect = || TcpStream::connect(receiver.local_addr().unwrap()).unwrap();
    let streams: Vec<_> = sessions
        .iter()
        .flat_map(|session| (0..20).map(move |_| session))
        .map(|session| {
            let coflow = session.register(Registration::default()).unwrap();
            session.stream(connect(), coflow, Some(cavalcade_client::Bytes(1_000_000))).unwrap()
        })
        .collect();
    // What was decided is compared without times: who goes in which order, how far it is, and how
    // its flows go.
    let known = |view: &proto::View| {
        let flow = |flow: &proto::Flow| (flow.from, flow.number, flow.to, flow.sent_bytes, flow.gate.clone());
        let coflow = |one: &proto::Coflow| {
            (one.coflow.clone(), one.class, one.sent_bytes, one.flows.iter().map(flow).collect::<Vec<_>>())
        };
        view.coflows.iter().map(coflow).collect::<Vec<_>>()
    };
    // Flows that have not begun make no progress, and rest after a while; then nothing changes any
    // more.
    let settled = |view: &proto::View, coflows| {
        view.coflows.len() == coflows && view.coflows.iter().all(|coflow| coflow.open == 0 && coflow.off == 0)
    };
    // The coordinator loses its patience with a host before the host's agent says that its flows
    // rest. A standby hears of the latter alone.
    for port in 0..2 {
        let place = administration(&of(&format!("agent{port}.sock")));
        let rests = || look(&place).is_some_and(|view| settled(&view, 20));
        eventually("each agent says that its flows rest", rests);
    }
    let mut before = None;
    eventually("the first coordinator knows all", || {
        before = look(&of("lead.sock")).filter(|view| settled(view, 40));
        before.is_some()
    });
    lead.stop();
    eventually("without it all is open", || {
        streams.iter().all(|stream| stream.directive().gate == Gate::Open {})
    });
    let (standby, _) = coordinator(&of("standby.sock"), Some(at_standby));
    let mut after = None;
    eventually("the standby knows what the former one knew", || {
        after = look(&of("standby.sock")).filter(|view| known(view) == known(before.as_ref().unwrap()));
        after.is_some()
    });
    // One round with the snapshot of each agent, and one more where something has changed since.
    assert!(after.as_ref().unwrap().rounds <= 3, "{:?}", after.map(|view| view.rounds));
    drop(streams);
    agents.into_iter().for_each(Running::stop);
    standby.stop();
}
