//! Real processes' worth of sockets on one machine: agents, a coordinator, and applications that
//! send real bytes.
//!
//! Waiting is for something to become so, with a bound far above what it takes; nothing is
//! measured.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use cavalcade_client::{CoflowStream, Gate, Limit, Refusal, RegisterError, Registration, Session};
use cavalcade_control::{Agent, AgentConfig, Budget, Coordinator, CoordinatorConfig, Mode};
use cavalcade_protocol::{AgentMessage, ClientMessage, CoflowKey, Frames, PROTOCOL, frame};
use cavalcade_runtime::administration::Administrator;
use cavalcade_runtime::{
    AgentSockets, Clock, CoordinatorSockets, bind_administration_socket, bind_client_socket, block_on,
    serve_agent, serve_coordinator,
};
use cavalcade_testing::eventually;
use support::{PORTS, RATE, Running, address, agent_config, policy};
use tokio::sync::watch;

const OFF: Gate = Gate::Off {};

/// Runs a coordinator on `listen`, or on any free port.
fn coordinator(spec: &'static str, listen: Option<SocketAddr>) -> (Running, SocketAddr) {
    let (stop, stopped) = watch::channel(false);
    let listen = listen.unwrap_or_else(|| "127.0.0.1:0".parse().unwrap());
    let listener = TcpListener::bind(listen).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        block_on(async {
            let config = CoordinatorConfig::new(Clock::default().now().0, PORTS, RATE);
            let listener = tokio::net::TcpListener::from_std(listener)?;
            serve_coordinator(Coordinator::new(config, policy(spec)), listener, stopped).await
        })
        .unwrap();
    });
    (Running::new(stop, thread), address)
}

fn agent(port: u32, folder: &std::path::Path, coordinators: Vec<SocketAddr>) -> (Running, PathBuf) {
    agent_with(Budget::default(), port, folder, coordinators)
}

fn agent_with(
    budget: Budget,
    port: u32,
    folder: &std::path::Path,
    coordinators: Vec<SocketAddr>,
) -> (Running, PathBuf) {
    let (stop, stopped) = watch::channel(false);
    let path = folder.join(format!("agent{port}.sock"));
    let at = path.clone();
    let (up, is_up) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        block_on(async {
            let config = AgentConfig { budget, ..agent_config(port) };
            let sockets = AgentSockets { coordinators, ..AgentSockets::new(bind_client_socket(&at)?) };
            up.send(()).unwrap();
            serve_agent(Agent::new(config, Mode::Coordinated), sockets, stopped).await
        })
        .unwrap();
    });
    is_up.recv().unwrap();
    (Running::new(stop, thread), path)
}

/// Receives `streams` connections, and returns what came by first byte.
fn receiver(streams: usize) -> (SocketAddr, JoinHandle<BTreeMap<u8, Vec<u8>>>) {
    let listener = TcpListener::bind(SocketAddr::new(address(2), 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let readers: Vec<_> = (0..streams)
            .map(|_| {
                let (mut socket, _) = listener.accept().unwrap();
                std::thread::spawn(move || {
                    let mut bytes = Vec::new();
                    socket.read_to_end(&mut bytes).unwrap();
                    bytes
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).map(|bytes| (bytes[0], bytes)).collect()
    });
    (at, thread)
}

/// A stream whose bytes all follow from `seed`, of which the first is `seed`.
fn contents(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|place| seed.wrapping_add((place * place / 7) as u8)).collect()
}

fn open(session: &Session, at: SocketAddr, coflow: cavalcade_client::CoflowKey, first: u8) -> CoflowStream {
    let mut stream = session.stream(TcpStream::connect(at).unwrap(), coflow, None).unwrap();
    stream.write_all(&[first]).unwrap();
    stream
}

/// Sends a little of the rest. A flow that makes no progress is taken to be idle: it gives up its
/// place, and has none to wait for.
fn go_on(stream: &mut CoflowStream, rest: &mut &[u8]) {
    let (piece, behind) = rest.split_at(rest.len().min(1_000));
    stream.write_all(piece).unwrap();
    *rest = behind;
}

#[test]
fn the_later_coflow_waits_and_goes_on_when_the_first_is_done_or_the_coordinator_gone_and_all_bytes_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let (lead, at_lead) = coordinator("fifo", None);
    let (agent0, path0) = agent(0, folder.path(), vec![at_lead]);
    let (agent1, path1) = agent(1, folder.path(), vec![at_lead]);
    let (sessions, paths) =
        ((Session::open(&path0).unwrap(), Session::open(&path1).unwrap()), (path0, path1));
    assert!(sessions.0.wait_ready(Duration::from_secs(60)) && sessions.1.wait_ready(Duration::from_secs(60)));
    let first = sessions.0.register(Registration::default()).unwrap();
    let second = sessions.1.register(Registration::default()).unwrap();
    assert!(first < second);

    let (to, received) = receiver(2);
    let mut early = open(&sessions.0, to, first, 1);
    let mut late = open(&sessions.1, to, second, 2);
    let (mut early_rest, mut late_rest) = (&contents(1, 40_000_000)[1..], &contents(2, 3_000_000)[1..]);
    eventually("the second waits", || {
        late.directive().gate == OFF || {
            go_on(&mut early, &mut early_rest);
            go_on(&mut late, &mut late_rest);
            false
        }
    });
    let late_rest = late_rest.to_vec();
    let writing = std::thread::spawn(move || {
        late.write_all(&late_rest).unwrap();
        late
    });
    go_on(&mut early, &mut early_rest);
    lead.stop();
    // Its lease is over, so the second can finish although the first is not done.
    drop(writing.join().unwrap());
    early.write_all(early_rest).unwrap();
    drop(early);
    let received = received.join().unwrap();
    assert!(received[&1] == contents(1, 40_000_000) && received[&2] == contents(2, 3_000_000));
    agent0.stop();
    agent1.stop();
    assert!(!paths.0.exists() && !paths.1.exists(), "socket files are removed");
}

#[test]
fn without_an_agent_everything_works_and_one_that_comes_later_is_told_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent0.sock");
    let session = Session::open(&path).unwrap();
    let (first, second) = (
        session.register(Registration::default()).unwrap(),
        session.register(Registration::default()).unwrap(),
    );
    assert!(first < second);
    let (to, received) = receiver(2);
    let mut early = open(&session, to, first, 1);
    let mut late = open(&session, to, second, 2);
    assert_eq!(late.directive().gate, Gate::Open {});

    let (lead, at_lead) = coordinator("fifo", None);
    let late_waits = |early: &mut CoflowStream, late: &mut CoflowStream| {
        late.directive().gate == OFF || {
            go_on(early, &mut &[1][..]);
            go_on(late, &mut &[2][..]);
            false
        }
    };
    let (running, _) = agent(0, folder.path(), vec![at_lead]);
    eventually("orders come", || late_waits(&mut early, &mut late));
    running.stop();
    eventually("and end with the agent", || late.directive().gate == Gate::Open {});
    let (running, _) = agent(0, folder.path(), vec![at_lead]);
    eventually("and come again with the next", || late_waits(&mut early, &mut late));
    drop((early, late));
    assert_eq!(received.join().unwrap().len(), 2);
    running.stop();
    lead.stop();
}

#[test]
fn garbage_on_either_port_closes_its_connection_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (lead, at_lead) = coordinator("fair", None);
    let (running, path) = agent(0, folder.path(), vec![at_lead]);
    let garbage: Vec<u8> = (0..5_000u32).map(|at| (at * 31 % 251) as u8).collect();
    let mut socket = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let _ = socket.write_all(&garbage);
    let mut rest = Vec::new();
    let _ = socket.read_to_end(&mut rest);
    let mut socket = TcpStream::connect(at_lead).unwrap();
    let _ = socket.write_all(&garbage);
    let _ = socket.read_to_end(&mut rest);
    let session = Session::open(&path).unwrap();
    assert!(session.wait_ready(Duration::from_secs(60)));
    session.register(Registration::default()).unwrap();
    running.stop();
    lead.stop();
}

#[test]
fn what_is_too_much_for_one_user_is_refused_with_its_reason_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let budget = Budget { coflows: 2, connections: 3, ..Budget::default() };
    let (running, path) = agent_with(budget, 0, folder.path(), Vec::new());
    let session = Session::open(&path).unwrap();
    assert!(session.wait_ready(Duration::from_secs(60)));
    let first = session.try_register(Registration::default()).unwrap();
    session.try_register(Registration::default()).unwrap();
    let refused = session.try_register(Registration::default()).unwrap_err();
    let RegisterError::Refused(refused) = refused else { panic!("{refused}") };
    assert_eq!(refused.reason, Refusal::TooMany { of: Limit::Coflows {}, limit: 2 });
    assert!(refused.to_string().contains("--user-budget coflows=NUMBER"), "{refused}");
    let refused = session.register(Registration::default()).unwrap();
    assert_ne!(refused.serial % 2, first.serial % 2, "a key of the client's own");
    assert_eq!(session.refusals().len(), 2);

    let silent: Vec<_> = (0..2).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let mut told = String::new();
    let mut third = UnixStream::connect(&path).unwrap();
    // It is told why, and that its connection is closed: the bytes are a frame, and no text.
    let _ = third.read_to_string(&mut told);
    for mut one in silent {
        assert_eq!(one.read(&mut [0; 8]).unwrap(), 0, "who says no hello within a second is cut off");
    }
    let another = Session::open(&path).unwrap();
    assert!(another.wait_ready(Duration::from_secs(60)), "there is room again");
    running.stop();
}

#[test]
fn a_client_that_says_more_than_it_may_is_slowed_down_and_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let budget = Budget { messages: 2_000, ..Budget::default() };
    let (running, path) = agent_with(budget, 0, folder.path(), Vec::new());
    let session = Session::open(&path).unwrap();
    assert!(session.wait_ready(Duration::from_secs(60)));
    let too_fast = Refusal::TooMany { of: Limit::Messages {}, limit: 2_000 };
    eventually("it is told that it is too fast", || {
        (0..500).for_each(|_| session.unregister(session.register(Registration::default()).unwrap()));
        session.refusals().iter().any(|refused| refused.reason == too_fast)
    });
    running.stop();
}

#[test]
fn a_client_that_comes_again_and_again_is_counted_as_one_that_stays() {
    let folder = tempfile::tempdir().unwrap();
    let budget = Budget { messages: 2_000, ..Budget::default() };
    let (running, path) = agent_with(budget, 0, folder.path(), Vec::new());
    // No answer is due to what it says, but for the hello.
    let mut bytes = Vec::new();
    frame(&ClientMessage::Hello { protocol: PROTOCOL, client: 1 }, &mut bytes).unwrap();
    let coflow = CoflowKey::new(1, &[]);
    (0..1_500).for_each(|_| frame(&ClientMessage::Unregister { coflow }, &mut bytes).unwrap());
    let is_too_fast = || {
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(&bytes).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let (mut said, mut frames) = (Vec::new(), Frames::default());
        client.read_to_end(&mut said).unwrap();
        frames.push(&said);
        let of_messages = |said: &AgentMessage| {
            matches!(
                said,
                AgentMessage::Refused { refusal: Refusal::TooMany { of: Limit::Messages {}, .. }, .. }
            )
        };
        std::iter::from_fn(|| frames.pop::<AgentMessage>().unwrap()).any(|said| of_messages(&said))
    };
    let told = (0..4).filter(|_| is_too_fast()).count();
    assert!(told > 0, "6000 messages at once are too many on four connections as on one");
    running.stop();
}

#[test]
fn who_begins_too_long_a_message_or_says_nothing_is_cut_off_by_a_coordinator_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (lead, at_lead) = coordinator("fair", None);
    let mut greedy = TcpStream::connect(at_lead).unwrap();
    greedy.write_all(&(300u32 << 10).to_le_bytes()).unwrap();
    assert_eq!(greedy.read(&mut [0; 8]).unwrap(), 0, "the first message of a stranger is short");
    let mut silent = TcpStream::connect(at_lead).unwrap();
    let mut half = TcpStream::connect(at_lead).unwrap();
    half.write_all(&(200u32 << 10).to_le_bytes()).unwrap();
    half.write_all(&[0; 1_000]).unwrap();
    let (running, path) = agent(0, folder.path(), vec![at_lead]);
    let session = Session::open(&path).unwrap();
    assert!(session.wait_ready(Duration::from_secs(60)));
    for one in [&mut silent, &mut half] {
        assert_eq!(one.read(&mut [0; 8]).unwrap(), 0, "a first report takes five seconds at most");
    }
    running.stop();
    lead.stop();
}

#[test]
fn a_silent_administrator_is_cut_off_and_the_next_one_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (clients, admin) = (folder.path().join("agent.sock"), folder.path().join("admin.sock"));
    let (stop, stopped) = watch::channel(false);
    let (at, socket) = (clients.clone(), admin.clone());
    let thread = std::thread::spawn(move || {
        block_on(async {
            let administration = Some(bind_administration_socket(&socket)?);
            let sockets = AgentSockets { administration, ..AgentSockets::new(bind_client_socket(&at)?) };
            serve_agent(Agent::new(agent_config(0), Mode::Coordinated), sockets, stopped).await
        })
        .unwrap();
    });
    let running = Running::new(stop, thread);
    eventually("it is there", || admin.exists());
    let mut silent = UnixStream::connect(&admin).unwrap();
    let _ = silent.read_to_end(&mut Vec::new());
    let view = block_on(async {
        let mut administrator = Administrator::at_socket(&admin).await.map_err(std::io::Error::other)?;
        administrator.look("", false).await.map_err(std::io::Error::other)
    });
    assert_eq!(view.unwrap().role, "agent");
    running.stop();
}

#[test]
fn a_second_agent_does_not_take_the_socket_of_one_that_runs_but_that_of_one_that_crashed() {
    let folder = tempfile::tempdir().unwrap();
    let (running, path) = agent(0, folder.path(), Vec::new());
    let bind = |path: PathBuf| block_on(async move { bind_client_socket(&path).map(drop) });
    assert_eq!(bind(path.clone()).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    running.stop();
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "as after a crash");
    bind(path.clone()).unwrap();
    assert!(!path.exists(), "a listener that is dropped takes its file with it");
    std::fs::write(&path, "precious").unwrap();
    assert_eq!(bind(path.clone()).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
}

#[test]
fn figures_are_open_metrics_with_labels_of_few_values() {
    let folder = tempfile::tempdir().unwrap();
    let (stop, stopped) = watch::channel(false);
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        block_on(async {
            let agents = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            let metrics = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            tell.send((agents.local_addr()?, metrics.local_addr()?)).unwrap();
            let config = CoordinatorConfig::new(Clock::default().now().0, PORTS, RATE);
            let sockets = CoordinatorSockets { metrics: Some(metrics), ..agents.into() };
            serve_coordinator(Coordinator::new(config, policy("fifo")), sockets, stopped).await
        })
        .unwrap();
    });
    let lead = Running::new(stop, thread);
    let (at_lead, at_figures) = told.recv().unwrap();
    let (running, path) = agent(0, folder.path(), vec![at_lead]);
    let session = Session::open(&path).unwrap();
    assert!(session.wait_ready(Duration::from_secs(60)));
    let (to, received) = receiver(1);
    let coflow = session.register(Registration::default()).unwrap();
    let mut stream = open(&session, to, coflow, 1);
    let mut text = String::new();
    eventually("bytes are counted", || {
        stream.write_all(&[1; 1000]).unwrap();
        text = support::http_get(at_figures);
        !text.contains("cavalcade_sent_bytes_total{class=\"0\"} 0\n")
    });
    drop(stream);
    received.join().unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/openmetrics-text"), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    for name in ["rounds_total", "reports_total", "orders_total", "agents", "coflows", "fallbacks_total"] {
        let expected = name != "fallbacks_total";
        assert_eq!(body.contains(&format!("\ncavalcade_{name} ")), expected, "{name} in {body}");
    }
    assert!(
        body.contains("cavalcade_round_seconds_bucket") && body.contains("cavalcade_report_age_seconds_sum")
    );
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let Some((_, rest)) = line.split_once('{') else { continue };
        let label = rest.split('=').next().unwrap();
        assert!(["class", "gate", "kind", "le", "version"].contains(&label), "{line}");
    }
    running.stop();
    lead.stop();
}
