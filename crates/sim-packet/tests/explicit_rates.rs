//! Transports with explicit rates over queues and links: what their ports promise is what flows get.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_model::{BitsPerSec, Bytes, Flow, Instant, Nanos, PortId, Workload, WorkloadBuilder};
use cavalcade_sim_packet::{Link, Network, Options, Run, SimulationError, simulate};
use cavalcade_transport::{Definition, Visitor, parse};

/// 1 Gbps and 1 µs, as Baraat's testbed has it but for its slow stacks: a full packet takes 12 µs.
const LINK: Link = Link { rate: BitsPerSec(1_000_000_000), delay: Nanos(1_000) };

/// When it starts, in µs; its flows as (from, to, packets).
type Task<'a> = (u64, &'a [(u32, u32, u64)]);

fn workload(hosts: u32, tasks: &[Task<'_>]) -> Workload {
    let mut builder = WorkloadBuilder::new(hosts);
    for (number, (start, flows)) in tasks.iter().enumerate() {
        let flow = |&(src, dst, packets): &(u32, u32, u64)| Flow {
            src: PortId(src),
            dst: PortId(dst),
            size: Bytes(packets * 1_460),
            wave: Nanos::ZERO,
        };
        builder.coflow(number.to_string(), Instant(start * 1_000), flows.iter().map(flow).collect());
    }
    builder.build().unwrap()
}

struct Simulate<'a>(&'a Workload, &'a Network, &'a Options);

impl Visitor for Simulate<'_> {
    type Output = Result<Run, SimulationError>;

    fn visit<T: Definition>(self, transport: &T) -> Self::Output {
        simulate(self.0, self.1, transport, None, self.2, None)
    }
}

fn run(transport: &str, network: &Network, tasks: &[Task<'_>]) -> Run {
    let workload = workload(network.hosts(), tasks);
    parse(transport).unwrap().visit(Simulate(&workload, network, &Options::default())).unwrap()
}

/// What each flow took, in packets' times.
fn packet_times(run: &Run) -> Vec<f64> {
    let of = |(finish, start): (&Instant, Instant)| finish.since(start).as_f64() / 12_000.0;
    run.outcome.flow_finish.iter().zip(std::iter::repeat(Instant::ZERO)).map(of).collect()
}

fn lost(run: &Run) -> u64 {
    run.ports.iter().map(|port| port.dropped + port.lost).sum()
}

#[test]
fn a_flow_alone_asks_once_and_has_the_link() {
    let network = Network::star(2, LINK).unwrap();
    for transport in ["rcp"] {
        let time = packet_times(&run(transport, &network, &[(0, &[(0, 1, 1_000)])]))[0];
        // 1,000 packets, the second link, and a round trip of headers; in packets' times.
        let expected = 1_000.0 + 1.0 + 0.2 + 6.0 / 12.0;
        assert!((time - expected).abs() < 10.0, "{transport}: {time}, not {expected}");
        assert!(time >= expected - 1.0, "{transport}: {time}, not {expected}");
    }
}

#[test]
fn rcps_flows_share_a_link_fairly() {
    let network = Network::star(5, LINK).unwrap();
    let flows: Vec<_> = (0..4).map(|host| (host, 4, 1_000)).collect();
    let run = run("rcp", &network, &[(0, &flows)]);
    for time in packet_times(&run) {
        assert!((3_950.0..4_060.0).contains(&time), "{time}");
    }
    assert_eq!(lost(&run), 0);
}

/// Max–min fairness over two bottlenecks: the second flow leaves to the third what it cannot use.
#[test]
fn rcp_gives_away_what_flows_held_back_elsewhere_leave() {
    let network = Network::star(6, LINK).unwrap();
    // Two flows leave host 0, one of them into host 4, into which one of host 2 goes as well; and a second out of host 0
    // and a third make the share there a third.
    let flows = [(0, 3, 2_000), (0, 5, 2_000), (0, 4, 2_000), (2, 4, 4_000)];
    let run = run("rcp", &network, &[(0, &flows)]);
    let times = packet_times(&run);
    for time in &times[..3] {
        assert!((5_900.0..6_300.0).contains(time), "a third each: {times:?}");
    }
    // Two thirds of the link, not half: 6,000 packets' times, not 8,000.
    assert!(times[3] < 6_500.0, "{times:?}");
    assert_eq!(lost(&run), 0);
}
