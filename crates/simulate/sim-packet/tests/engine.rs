//! What holds for every run, whatever is simulated.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_model::{
    BitsPerSec, Bytes, FabricError, FabricSpec, Flow, Instant, Nanos, PortId, Workload, WorkloadBuilder,
};
use cavalcade_sim_packet::{
    Alpha, Buffer, Discipline, Link, Marking, Measured, Network, Options, Outage, QueueConfig, Run,
    SimulationError, simulate,
};
use cavalcade_transport::{Configured, Definition, PortLogic, Visitor, dctcp::Dctcp, parse, registry};
use proptest::prelude::*;

const LINK: Link = Link { rate: BitsPerSec(10_000_000_000), delay: Nanos(1_000) };

/// Flows as (from, to, bytes, start).
fn workload(hosts: u32, flows: &[(u32, u32, u64, u64)]) -> Workload {
    let mut builder = WorkloadBuilder::new(hosts);
    for (number, &(src, dst, size, start)) in flows.iter().enumerate() {
        let flow = Flow { src: PortId(src), dst: PortId(dst), size: Bytes(size), wave: Nanos::ZERO };
        builder.coflow(number.to_string(), Instant(start), vec![flow]);
    }
    builder.build().unwrap()
}

/// A fabric of links of 10 Gbps, where the text does not say otherwise.
fn network(text: &str) -> Network {
    Network::new(&text.parse::<FabricSpec>().unwrap().build(LINK.rate).unwrap()).unwrap()
}

struct Simulate<'a> {
    workload: &'a Workload,
    network: &'a Network,
    options: &'a Options,
}

impl Visitor for Simulate<'_> {
    type Output = Result<Run, SimulationError>;

    fn visit<T: Definition>(self, transport: &T) -> Self::Output {
        simulate(self.workload, self.network, transport, None, self.options, None)
    }
}

fn run(transport: &Configured, workload: &Workload, network: &Network, options: &Options) -> Run {
    transport.visit(Simulate { workload, network, options }).unwrap()
}

struct HasPortLogic;

impl Visitor for HasPortLogic {
    type Output = bool;

    fn visit<T: Definition>(self, _: &T) -> bool {
        <T::PortLogic as PortLogic<T::Extra>>::PRESENT
    }
}

fn refusal(network: &Network, options: &Options) -> SimulationError {
    let workload = workload(2, &[(0, 1, 1_000, 0)]);
    parse("dctcp").unwrap().visit(Simulate { workload: &workload, network, options }).unwrap_err()
}

fn flows(hosts: u32) -> impl Strategy<Value = Vec<(u32, u32, u64, u64)>> {
    let size = prop_oneof![1u64..3_000, 1u64..400_000];
    let flows = prop::collection::vec((0..hosts, 0..hosts, size, 0u64..200_000), 1..12);
    // In order of start, so that flows are numbered as they are here.
    flows.prop_map(|mut flows| {
        flows.sort_by_key(|&(_, _, _, start)| start);
        flows
    })
}

#[test]
fn one_flow_alone_takes_what_its_packets_take() {
    let (network, options) = (Network::star(2, LINK).unwrap(), Options::default());
    let one = workload(2, &[(0, 1, 5 * 1_460, 0)]);
    // Explicit rates are asked for first (`explicit_rates`).
    for transport in registry().into_iter().filter(|transport| !transport.visit(HasPortLogic)) {
        let run = run(&transport, &one, &network, &options);
        // Five packets behind each other, and the last crosses a second link; the window of all is
        // larger than five.
        assert_eq!(run.outcome.flow_finish[0], Instant(6 * 1_200 + 2 * 1_000), "{}", transport.name());
        assert_eq!(run.hops(), 5 * 2 + 5 * 2);
    }
}

#[test]
fn a_trace_that_begins_late_is_run_as_one_that_begins_at_once() {
    let network = network("tree:pods=1,racks=2,hosts=2,oversubscription=2,delay=1us");
    let flows = [(0, 1, 100_000, 0), (2, 1, 100_000, 100), (0, 3, 5_000, 90_000)];
    let late = flows.map(|(src, dst, size, start)| (src, dst, size, start + 1_700_000_000_000_000_007));
    for transport in registry() {
        let run = |flows| run(&transport, &workload(4, flows), &network, &Options::default());
        assert_eq!(run(&flows), run(&late), "{}", transport.name());
    }
}

#[test]
fn a_span_beyond_the_clock_is_refused_before_the_run() {
    let late = workload(2, &[(0, 1, 1_000, 7), (0, 1, 1_000, 101 * 86_400_000_000_000)]);
    let network = Network::star(2, LINK).unwrap();
    let refused = simulate(&late, &network, &Dctcp::default(), None, &Options::default(), None).unwrap_err();
    assert_eq!(refused, SimulationError::TooLong { span: Nanos(101 * 86_400_000_000_000 - 7) });
}

#[test]
fn a_last_packet_that_is_short_is_short_on_the_wire() {
    let network = Network::star(2, LINK).unwrap();
    let run = run(&parse("dctcp").unwrap(), &workload(2, &[(0, 1, 1_461, 0)]), &network, &Options::default());
    assert_eq!(run.ports[0].bytes, 1_500 + 41);
    // 41 bytes take 33 ns (32.8, rounded up in the end) on each of two links behind the full
    // packet's first.
    assert_eq!(run.outcome.flow_finish[0], Instant(1_200 + 1_200 + 33 + 2_000));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_transport_delivers_every_byte_over_lossy_links_that_go_away(
        flows in flows(6),
        loss in 0.0..0.05f64,
        cable in 0u32..9,
        from in 0u64..2_000_000,
        seed in any::<u64>(),
    ) {
        let network = network("leafspine:leaves=3,spines=1,hosts=2,oversubscription=2,delay=1us");
        let outages = vec![Outage { link: 2 * cable, from: Instant(from), until: Instant(from + 10_000_000) }];
        let options = Options { loss, outages, seed, ..Options::default() };
        let workload = workload(6, &flows);
        for transport in registry() {
            let run = run(&transport, &workload, &network, &options);
            let lost: u64 = run.ports.iter().map(|port| port.lost).sum();
            let carried: u64 = run.ports.iter().map(|port| port.bytes).sum();
            // Between two hosts lie at least two links.
            let least: u64 = flows.iter().filter(|flow| flow.0 != flow.1).map(|flow| 2 * flow.2).sum();
            prop_assert!(carried >= least + lost * 40, "{}: {carried} of {least}, {lost} lost", transport.name());
            for (flow, &(_, _, size, start)) in run.outcome.flow_finish.iter().zip(&flows) {
                let least = size * 8 / 10 + 2_000;
                let finish = workload.in_trace(*flow).unwrap();
                prop_assert!(finish.get() >= start + least, "no flow is faster than its link");
            }
        }
    }

    #[test]
    fn the_same_run_twice_is_the_same(flows in flows(4), seed in any::<u64>()) {
        let network = network("tree:pods=1,racks=2,hosts=2,oversubscription=2,delay=1us");
        let options = Options { loss: 0.01, seed, ..Options::default() };
        let workload = workload(4, &flows);
        for transport in registry() {
            prop_assert_eq!(
                run(&transport, &workload, &network, &options),
                run(&transport, &workload, &network, &options)
            );
        }
    }

    #[test]
    fn a_queue_as_a_clock_is_a_queue(
        flows in flows(5),
        rate in prop_oneof![Just(10_000_000_000u64), Just(1_000_000_000), 1_000_000u64..10_000_000_000],
        buffer in 3_000u64..60_000,
        share in 1u64..100,
    ) {
        let network = Network::star(5, Link { rate: BitsPerSec(rate), delay: Nanos(700) }).unwrap();
        let workload = workload(5, &flows);
        let marking = Some(Marking { at: Bytes(buffer * share / 101), measured: Measured::Queue });
        let simulated = |discipline| {
            let queues = QueueConfig { discipline, buffer: Buffer::PerPort(Bytes(buffer)), marking };
            let options = Options { queues: Some(queues), ..Options::default() };
            run(&parse("dctcp").unwrap(), &workload, &network, &options)
        };
        let (clock, queue) = (simulated(Discipline::DropTail), simulated(Discipline::Strict { queues: 1 }));
        if 8_000_000_000_000 % rate == 0 {
            prop_assert_eq!(clock.ports, queue.ports);
            prop_assert_eq!(clock.outcome.flow_finish, queue.outcome.flow_finish);
        } else {
            // Thresholds fall between two picoseconds; one packet's mark may differ, and with it
            // what follows.
            prop_assert!(clock.hops() > 0 && queue.hops() > 0);
        }
    }
}

#[test]
fn a_shared_buffer_serves_many_switches_and_ends_empty() {
    let network = network("leafspine:leaves=2,spines=2,hosts=4,oversubscription=2,delay=1us");
    let flows: Vec<_> = (0..7).map(|host| (host + 1, 0, 300_000, 0)).collect();
    let buffer = Buffer::Shared { total: Bytes(100_000), alpha: Alpha { numerator: 1, denominator: 1 } };
    let queues = QueueConfig { discipline: Discipline::DropTail, buffer, marking: None };
    let options = Options { queues: Some(queues), ..Options::default() };
    let run = run(&parse("reno").unwrap(), &workload(8, &flows), &network, &options);
    let dropped: u64 = run.ports.iter().map(|port| port.dropped).sum();
    assert!(dropped > 0, "seven senders overflow half of 100 KB");
}

#[test]
fn what_could_not_work_is_refused_before_the_run() {
    let network = Network::star(2, LINK).unwrap();
    let with = |change: fn(&mut Options)| {
        let mut options = Options::default();
        change(&mut options);
        refusal(&network, &options).to_string()
    };
    assert!(with(|options| options.packet = 40).contains("no room for payload"));
    assert!(with(|options| options.loss = 1.0).contains("a share from 0 to 0.9"));
    let none =
        QueueConfig { discipline: Discipline::DropTail, buffer: Buffer::PerPort(Bytes(0)), marking: None };
    let options = Options { queues: Some(none), ..Options::default() };
    assert!(refusal(&network, &options).to_string().contains("holds no packet of 1500 bytes"));
    let outage = Outage { link: 4, from: Instant(0), until: Instant(1) };
    let options = Options { outages: vec![outage], ..Options::default() };
    assert!(refusal(&network, &options).to_string().contains("there are 4 links"));
    let one = Network::star(1, LINK).unwrap();
    assert!(matches!(
        refusal(&one, &Options::default()),
        SimulationError::Fabric(FabricError::TooFewPorts { needed: 2, ports: 1 })
    ));
}

/// pFabric's hosts do as its switches: the short flow of a host passes the long one that came
/// before.
#[test]
fn where_switches_send_the_shortest_first_so_do_hosts() {
    let list = workload(3, &[(0, 1, 3_000 * 1_460, 0), (0, 2, 100 * 1_460, 500_000)]);
    let network = Network::star(3, LINK).unwrap();
    let short = |transport: &str| {
        let run = run(&parse(transport).unwrap(), &list, &network, &Options::default());
        run.outcome.flow_finish[1].as_secs_f64() * 1e6 - 500.0
    };
    let alone = 101.0 * 1.2 + 2.0;
    assert!(short("pfabric") < 1.1 * alone, "{} µs, alone {alone} µs", short("pfabric"));
    assert!(short("dctcp") > 1.8 * alone, "{} µs, alone {alone} µs", short("dctcp"));
}

#[test]
fn a_flow_to_its_own_host_crosses_both_of_its_links() {
    let network = Network::star(2, LINK).unwrap();
    let run = run(&parse("dctcp").unwrap(), &workload(2, &[(1, 1, 1_460, 0)]), &network, &Options::default());
    assert_eq!(run.outcome.flow_finish[0], Instant(2 * 1_200 + 2_000));
}

/// DCTCP §3.3, N flows in step over a pipe of C·d packets and a threshold of K: the queue rises to
/// K + N and falls by A = ½·√(2N·(C·d + K)) below that; so it never runs empty, and the link is
/// always busy.
///
/// The paper's flows are fluid and in step; here windows are whole packets and flows drift apart,
/// so one tooth is some packets deeper or flatter than the next. What is held is the highest, to
/// two packets, and the twentieth from below, to five.
#[test]
fn dctcps_queue_is_the_sawtooth_of_its_paper() {
    let threshold = 65.0;
    for flows in [2u32, 10] {
        let network = Network::star(flows + 1, Link { delay: Nanos(20_000), ..LINK }).unwrap();
        let each = 90_000_000 / u64::from(flows);
        let list: Vec<_> = (0..flows).map(|host| (host + 1, 0, each, 0)).collect();
        let options =
            Options { watch: vec![network.link_to(0)], sample_every: Nanos(1_000), ..Options::default() };
        let run =
            simulate(&workload(flows + 1, &list), &network, &Dctcp::default(), None, &options, None).unwrap();

        let end = run.outcome.makespan().get();
        let busy = run.ports[network.link_to(0) as usize].bytes as f64 * 0.8 / end as f64;
        assert!(busy > 0.995, "{flows} flows keep the link busy: {busy}");
        assert_eq!(run.ports.iter().map(|port| port.dropped + port.lost).sum::<u64>(), 0);

        let queue = &run.samples[0];
        let mut steady = queue[queue.len() / 4..queue.len() * 9 / 10].to_vec();
        steady.sort_unstable();
        let packets = |rank: usize| steady[rank] as f64 / 1_500.0;
        let (low, high) = (packets(steady.len() / 20), packets(steady.len() - 1));
        let pipe = network.longest_round_trip(1_500, 40).as_f64() / 1_200.0;
        let n = f64::from(flows);
        let amplitude = (2.0 * n * (pipe + threshold)).sqrt() / 2.0;
        assert!((high - (threshold + n)).abs() <= 2.0, "{flows} flows: highest {high}");
        let expected = threshold + n - amplitude;
        assert!((low - expected).abs() <= 5.0, "{flows} flows: lowest {low}, not {expected}");
    }
}
