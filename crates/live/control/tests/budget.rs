//! What one user's clients may have on a host, and that another user's have theirs all the same.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use cavalcade_control::{Agent, AgentConfig, AgentOutput, Budget, ClientId, Mode, Usage};
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, PortId, TaskClass};
use cavalcade_protocol::{
    AgentMessage, ClientMessage, CoflowKey, Endpoints, Limit, PROTOCOL, Refusal, Subject,
};

const NOW: Instant = Instant(1_000_000_000);
const GREEDY: u32 = 6;
const OTHER: u32 = 7;

fn address(host: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), 9)
}

fn agent() -> Agent {
    let directory = (0..2).map(|host| (address(host).ip(), PortId(u32::from(host)))).collect();
    let budget = Budget { connections: 2, coflows: 3, flows: 2, ..Budget::default() };
    let rate = BitsPerSec(1_000_000_000);
    let config = AgentConfig { directory, budget, ..AgentConfig::new(PortId(0), 2, 1, rate) };
    Agent::new(config, Mode::Coordinated)
}

fn greet(agent: &mut Agent, client: u64, user: u32) {
    agent.handle_connected(ClientId(client), user);
    agent.handle_client(NOW, ClientId(client), ClientMessage::Hello { protocol: PROTOCOL, client });
}

fn register(agent: &mut Agent, client: u64, request: u32) {
    let (deadline, size, class) = (None, None, TaskClass::Online);
    let message = ClientMessage::Register {
        request,
        parents: Vec::new(),
        deadline,
        size,
        class,
        weight: 1,
        name: None,
    };
    agent.handle_client(NOW, ClientId(client), message);
}

fn open(agent: &mut Agent, client: u64, flow: u32, coflow: CoflowKey) {
    let ends = Endpoints { local: address(0), remote: address(1) };
    let message = ClientMessage::Open { flow, coflow, ends, size: None, sent: Bytes::ZERO };
    agent.handle_client(NOW, ClientId(client), message);
}

/// Takes what clients were told since the last call: keys and refusals.
fn told(agent: &mut Agent) -> (Vec<CoflowKey>, Vec<(u64, Subject, Refusal)>) {
    let (mut keys, mut refusals) = (Vec::new(), Vec::new());
    while let Some(output) = agent.poll_output() {
        match output {
            AgentOutput::Client(_, AgentMessage::Registered { coflow, .. }) => keys.push(coflow),
            AgentOutput::Client(client, AgentMessage::Refused { subject, refusal }) => {
                refusals.push((client.0, subject, refusal));
            }
            AgentOutput::Drop(client) => agent.handle_gone(NOW, client),
            _ => {}
        }
    }
    (keys, refusals)
}

fn too_many(of: Limit, limit: u32) -> Refusal {
    Refusal::TooMany { of, limit }
}

#[test]
fn limits_count_for_all_connections_of_a_user_and_a_refusal_names_its_request() {
    let mut agent = agent();
    greet(&mut agent, 1, GREEDY);
    greet(&mut agent, 2, GREEDY);
    greet(&mut agent, 3, GREEDY);
    let (_, refused) = told(&mut agent);
    assert_eq!(refused, [(3, Subject::Connection {}, too_many(Limit::Connections {}, 2))]);
    assert_eq!(agent.clients(), 2, "the connection too many is closed");
    for request in 0..2 {
        register(&mut agent, 1, request);
        register(&mut agent, 2, 10 + request);
    }
    let (keys, refused) = told(&mut agent);
    assert_eq!(keys.len(), 3);
    assert_eq!(refused, [(2, Subject::Request { request: 11 }, too_many(Limit::Coflows {}, 3))]);
    for flow in 0..3 {
        open(&mut agent, 1, flow, keys[0]);
    }
    let (_, refused) = told(&mut agent);
    assert_eq!(refused, [(1, Subject::Flow { flow: 2 }, too_many(Limit::Flows {}, 2))]);
    let text = refused[0].2.to_string();
    assert_eq!(
        text,
        "one user may have 2 flows on this host: the agent's operator set that, and --user-budget flows=NUMBER raises it"
    );

    greet(&mut agent, 4, OTHER);
    register(&mut agent, 4, 5);
    let (keys, refused) = told(&mut agent);
    assert_eq!((keys.len(), refused), (1, Vec::new()), "another user has its own");
    let counted: Vec<_> = agent.refusals().collect();
    assert_eq!(counted, [("coflows", 1), ("connections", 1), ("flows", 1)]);
}

#[test]
fn what_ends_is_given_back_when_its_linger_is_over_and_not_before() {
    let mut agent = agent();
    greet(&mut agent, 1, GREEDY);
    (0..3).for_each(|request| register(&mut agent, 1, request));
    let (keys, _) = told(&mut agent);
    open(&mut agent, 1, 0, keys[0]);
    agent.handle_client(NOW, ClientId(1), ClientMessage::Close { flow: 0, sent: Bytes(5) });
    for &coflow in &keys {
        agent.handle_client(NOW, ClientId(1), ClientMessage::Unregister { coflow });
    }
    register(&mut agent, 1, 3);
    let (fresh, refused) = told(&mut agent);
    assert!(fresh.is_empty() && refused.len() == 1, "coflows that are over linger, and count");
    let later = NOW + Nanos::from_secs(60);
    agent.handle_timeout(later);
    register(&mut agent, 1, 4);
    assert_eq!(told(&mut agent).0.len(), 1);
    agent.handle_gone(later, ClientId(1));
    agent.handle_timeout(later + Nanos::from_secs(1));
    agent.handle_timeout(later + Nanos::from_secs(61));
    assert_eq!(agent.users().collect::<Vec<(u32, Usage)>>(), [], "nothing is left of a user that is gone");
}

#[test]
fn a_coflow_with_thousands_of_clients_that_came_and_went_keeps_their_bytes_in_bounded_memory() {
    let mut agent = agent();
    greet(&mut agent, 0, GREEDY);
    register(&mut agent, 0, 0);
    let (keys, _) = told(&mut agent);
    for client in 1..=3_000 {
        greet(&mut agent, client, GREEDY);
        let join = ClientMessage::Join { coflow: keys[0], facts: None, sent: Bytes(10) };
        agent.handle_client(NOW, ClientId(client), join);
        agent.handle_gone(NOW, ClientId(client));
    }
    let part = agent.parts().next().unwrap();
    assert_eq!(part.sent, Bytes(30_000), "no byte is lost");
}

#[test]
fn a_grant_counts_as_a_coflow_of_its_owner_until_the_coflow_is_forgotten() {
    let mut agent = agent();
    greet(&mut agent, 1, GREEDY);
    greet(&mut agent, 2, OTHER);
    register(&mut agent, 1, 0);
    let (keys, _) = told(&mut agent);
    let coflow = keys[0];
    for user in [OTHER, OTHER, 8, 9] {
        agent.handle_client(NOW, ClientId(1), ClientMessage::Grant { coflow, user });
    }
    let (_, refused) = told(&mut agent);
    assert_eq!(refused, [(1, Subject::Coflow { coflow }, too_many(Limit::Coflows {}, 3))], "one of a kind");
    agent.handle_client(NOW, ClientId(2), ClientMessage::Join { coflow, facts: None, sent: Bytes::ZERO });
    agent.handle_client(NOW, ClientId(2), ClientMessage::Grant { coflow, user: 10 });
    let (_, refused) = told(&mut agent);
    assert_eq!(refused, [(2, Subject::Coflow { coflow }, Refusal::NotYours {})], "only the owner grants");
    (1..=2).for_each(|client| agent.handle_gone(NOW, ClientId(client)));
    // A lingering coflow counts against its owner's budget, even if another user joins it again.
    greet(&mut agent, 3, OTHER);
    agent.handle_client(NOW, ClientId(3), ClientMessage::Join { coflow, facts: None, sent: Bytes::ZERO });
    agent.handle_gone(NOW, ClientId(3));
    agent.handle_timeout(NOW + Nanos::from_secs(1));
    agent.handle_timeout(NOW + Nanos::from_secs(60));
    assert_eq!(agent.users().collect::<Vec<(u32, Usage)>>(), []);
}
