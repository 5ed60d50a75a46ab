//! Every value comes back from its bytes, and bytes that are read are written the same.

mod property;

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, Payload, PortId, Priority, TaskClass};
use cavalcade_protocol::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..300, any::<u64>(), Just(u64::MAX)]
}

fn key() -> impl Strategy<Value = CoflowKey> {
    (number(), 0u16..4, number()).prop_map(|(task, stage, serial)| CoflowKey { task, stage, serial })
}

fn name() -> impl Strategy<Value = CoflowName> {
    "[a-zA-Z][-a-zA-Z0-9_.:/@+]{0,38}".prop_map(|text| text.parse().expect("it is a name"))
}

fn facts() -> impl Strategy<Value = Facts> {
    let numbers = (number(), option::of(number()), option::of(number()));
    (numbers, any::<bool>(), 1u32..9, option::of(name())).prop_map(
        |((arrival, deadline, size), background, weight, name)| Facts {
            arrival: Instant(arrival),
            deadline: deadline.map(Instant),
            size: size.map(Bytes),
            class: if background { TaskClass::Background } else { TaskClass::Online },
            weight,
            name,
        },
    )
}

fn gate() -> impl Strategy<Value = Gate> {
    prop_oneof![
        Just(Gate::Off {}),
        Just(Gate::Open {}),
        number().prop_map(|rate| Gate::Paced { rate: BitsPerSec(rate) })
    ]
}

fn priority() -> impl Strategy<Value = Priority> {
    (any::<u16>(), number()).prop_map(|(class, order)| Priority::new(class, order))
}

fn keyed<T: std::fmt::Debug>(items: impl Strategy<Value = T>) -> impl Strategy<Value = Keyed<T>> {
    vec((prop_oneof![0u32..40, any::<u32>()], items), 0..8).prop_map(|items| items.into_iter().collect())
}

fn switch() -> impl Strategy<Value = Option<KillSwitch>> {
    let switch = (number(), number(), any::<bool>());
    option::of(switch.prop_map(|(term, throw, is_on)| KillSwitch { term, throw, is_on }))
}

fn report() -> impl Strategy<Value = Report> {
    let entry = (key(), option::of(facts()), number(), any::<u32>())
        .prop_map(|(key, facts, sent, owner)| CoflowEntry { key, facts, sent: Bytes(sent), owner });
    let flow = (any::<u32>(), 0u32..9, option::of(number()), number(), any::<bool>()).prop_map(
        |(coflow, to, size, sent, idle)| FlowEntry {
            coflow,
            to: PortId(to),
            size: size.map(Bytes),
            sent: Bytes(sent),
            idle,
        },
    );
    let progress = (number(), any::<bool>()).prop_map(|(sent, idle)| Progress { sent: Bytes(sent), idle });
    let head = (any::<u16>(), any::<u32>(), number(), number(), number(), any::<(bool, bool)>());
    let bytes = || keyed(number().prop_map(Bytes));
    let said = (bytes(), keyed(vec(any::<u32>(), 0..4)));
    let lists = (keyed(entry), keyed(flow), keyed(progress), bytes(), keyed(Just(())), said);
    (head, sealed(), number(), number(), lists).prop_map(|(head, standing, up, down, lists)| Report {
        protocol: head.0,
        port: PortId(head.1),
        session: head.2,
        sequence: head.3,
        clock: Instant(head.4),
        snapshot: head.5.0,
        resync: head.5.1,
        standing,
        up: BitsPerSec(up),
        down: BitsPerSec(down),
        arrived: lists.5.0,
        coflows: lists.0,
        grants: lists.5.1,
        flows: lists.1,
        progress: lists.2,
        closed: lists.3,
        left: lists.4,
    })
}

fn sealed() -> impl Strategy<Value = Sealed> {
    vec(any::<u8>(), 0..=Sealed::LONGEST).prop_map(Sealed::new)
}

fn orders() -> impl Strategy<Value = Orders> {
    let rank = prop_oneof![
        Just(Rank::OfCoflow {}),
        priority().prop_map(|priority| Rank::Own { priority }),
        Just(Rank::Plain {}),
    ];
    let order = (gate(), rank).prop_map(|(gate, rank)| FlowOrder { gate, rank });
    let head = (any::<u16>(), number(), number(), number(), any::<(bool, bool, bool, bool)>());
    let said = (keyed(priority()), keyed(order), keyed(Just(())));
    (head, switch(), sealed(), number(), number(), number(), said).prop_map(
        |(head, switch, standing, lease, period, quiet, (priorities, flows, refused))| Orders {
            protocol: head.0,
            term: head.1,
            session: head.2,
            sequence: head.3,
            snapshot: head.4.0,
            resync: head.4.1,
            enforce: head.4.2,
            confirm: head.4.3,
            switch,
            standing,
            lease: Nanos(lease),
            period: Nanos(period),
            quiet: Bytes(quiet),
            priorities,
            flows,
            refused,
        },
    )
}

fn client_message() -> impl Strategy<Value = ClientMessage> {
    let address =
        || any::<std::net::SocketAddr>().prop_map(|all| std::net::SocketAddr::new(all.ip(), all.port()));
    let ends = (address(), address()).prop_map(|(local, remote)| Endpoints { local, remote });
    let register = (any::<u32>(), vec(key(), 0..4), facts()).prop_map(|(request, parents, facts)| {
        let deadline = facts.deadline.map(|deadline| Nanos(deadline.0));
        let Facts { size, class, weight, name, .. } = facts;
        ClientMessage::Register { request, parents, deadline, size, class, weight, name }
    });
    prop_oneof![
        (any::<u16>(), number()).prop_map(|(protocol, client)| ClientMessage::Hello { protocol, client }),
        register,
        (key(), option::of(facts()), number()).prop_map(|(coflow, facts, sent)| ClientMessage::Join {
            coflow,
            facts,
            sent: Bytes(sent)
        }),
        key().prop_map(|coflow| ClientMessage::Unregister { coflow }),
        (any::<u32>(), key(), ends, option::of(number()), number()).prop_map(
            |(flow, coflow, ends, size, sent)| ClientMessage::Open {
                flow,
                coflow,
                ends,
                size: size.map(Bytes),
                sent: Bytes(sent)
            }
        ),
        (any::<u32>(), number(), any::<bool>()).prop_map(|(flow, sent, idle)| ClientMessage::Sent {
            flow,
            sent: Bytes(sent),
            idle
        }),
        (any::<u32>(), number()).prop_map(|(flow, sent)| ClientMessage::Close { flow, sent: Bytes(sent) }),
    ]
}

fn agent_message() -> impl Strategy<Value = AgentMessage> {
    let refusal = prop_oneof![
        any::<u16>().prop_map(|ours| Refusal::Protocol { ours }),
        Just(Refusal::NotYours {}),
        Just(Refusal::BadFlow {}),
        Just(Refusal::OutOfTurn {}),
        (prop::sample::select(&Limit::ALL), any::<u32>())
            .prop_map(|(of, limit)| Refusal::TooMany { of, limit }),
    ];
    let subject = prop_oneof![
        Just(Subject::Connection {}),
        any::<u32>().prop_map(|request| Subject::Request { request }),
        key().prop_map(|coflow| Subject::Coflow { coflow }),
        any::<u32>().prop_map(|flow| Subject::Flow { flow }),
    ];
    prop_oneof![
        (any::<u16>(), any::<u32>(), number(), number()).prop_map(|(protocol, port, period, lease)| {
            AgentMessage::Welcome { protocol, port: PortId(port), period: Nanos(period), lease: Nanos(lease) }
        }),
        (any::<u32>(), key(), facts()).prop_map(|(request, coflow, facts)| AgentMessage::Registered {
            request,
            coflow,
            facts
        }),
        (any::<u32>(), gate(), option::of(any::<u16>())).prop_map(|(flow, gate, class)| {
            AgentMessage::Direct { flow, directive: Directive { gate, class } }
        }),
        Just(AgentMessage::Alive {}),
        (subject, refusal).prop_map(|(subject, refusal)| AgentMessage::Refused { subject, refusal }),
    ]
}

fn datagram() -> impl Strategy<Value = Datagram> {
    let statement = (key(), vec(any::<u8>(), 0..=Payload::LONGEST)).prop_map(|(coflow, bytes)| Statement {
        coflow,
        payload: Payload::new(&bytes).expect("no more bytes than fit"),
    });
    let ends = (any::<u32>(), any::<u32>(), option::of(number()));
    (any::<u16>(), ends, number(), number(), number(), vec(statement, 0..8)).prop_map(
        |(protocol, (from, to, to_session), session, sequence, sent_at, statements)| Datagram {
            protocol,
            from: PortId(from),
            session,
            to: PortId(to),
            to_session,
            sequence,
            sent_at: Instant(sent_at),
            statements,
        },
    )
}

fn comes_back<M: Message + PartialEq + std::fmt::Debug>(message: &M) -> Result<(), TestCaseError> {
    let bytes = message.to_bytes();
    let read = M::decode(&bytes);
    prop_assert_eq!(read.as_ref(), Ok(message));
    for length in 0..bytes.len() {
        prop_assert!(M::decode(&bytes[..length]).is_err(), "cut at {}", length);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_message_comes_back_from_its_bytes_and_from_no_part_of_them(
        report in report(),
        orders in orders(),
        client in client_message(),
        agent in agent_message(),
        datagram in datagram(),
    ) {
        comes_back(&report)?;
        comes_back(&orders)?;
        comes_back(&client)?;
        comes_back(&agent)?;
        comes_back(&datagram)?;
    }

    #[test]
    fn a_changed_byte_is_refused_or_gives_another_message_of_the_same_form(
        report in report(),
        place in any::<prop::sample::Index>(),
        change in 1u8..=255,
    ) {
        let mut bytes = report.to_bytes();
        let place = place.index(bytes.len());
        bytes[place] ^= change;
        property::decoding_holds::<Report>(&bytes);
        if let Ok(other) = Report::decode(&bytes) {
            prop_assert_ne!(other, report);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_written_the_same(bytes in vec(any::<u8>(), 0..60)) {
        property::everything_holds(&bytes);
    }
}

#[test]
fn a_report_of_a_hundred_flows_takes_three_bytes_for_each() {
    let progress: Keyed<Progress> =
        (5_000..5_100).map(|flow| (flow, Progress { sent: Bytes(100), idle: false })).collect();
    let report = Report {
        progress,
        ..Report::new(
            PortId(3),
            1_700_000_000_000_000_000,
            4_000,
            Instant(1_700_000_000_000_000_000),
            BitsPerSec(1_000_000_000),
        )
    };
    assert_eq!(report.to_bytes().len(), 343);
}
