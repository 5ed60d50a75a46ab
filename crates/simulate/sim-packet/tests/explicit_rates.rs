//! Transports with explicit rates over queues and links: what their ports promise is what flows
//! get.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_model::{BitsPerSec, Bytes, Flow, Instant, Nanos, PortId, Workload, WorkloadBuilder};
use cavalcade_sim_packet::network::MOST_HOPS;
use cavalcade_sim_packet::{Link, Network, Options, Run, SimulationError, simulate};
use cavalcade_transport::spc::PORTS;
use cavalcade_transport::{Definition, Visitor, parse};

/// 1 Gbps and 1 µs, as Baraat's testbed has it but for its slow stacks: a full packet takes 12 µs.
const LINK: Link = Link { rate: BitsPerSec(1_000_000_000), delay: Nanos(1_000) };

const _: () = assert!(MOST_HOPS <= PORTS, "every port of a path has room for its answer in SPC's header");

/// Time at which it starts, in µs; its flows as (from, to, packets).
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

/// Returns the duration of each flow, in packet times.
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
    for transport in ["rcp", "spc", "d3", "pdq"] {
        let time = packet_times(&run(transport, &network, &[(0, &[(0, 1, 1_000)])]))[0];
        // 1,000 packets, the second link, and a round trip of headers; in packets' times.
        let expected = 1_000.0 + 1.0 + 0.2 + 6.0 / 12.0;
        assert!((time - expected).abs() < 10.0, "{transport}: {time}, not {expected}");
        assert!(time >= expected - 1.0, "{transport}: {time}, not {expected}");
    }
}

#[test]
fn flows_of_a_task_share_a_link_fairly() {
    let network = Network::star(5, LINK).unwrap();
    let flows: Vec<_> = (0..4).map(|host| (host, 4, 1_000)).collect();
    for transport in ["rcp", "spc"] {
        let run = run(transport, &network, &[(0, &flows)]);
        for time in packet_times(&run) {
            assert!((3_950.0..4_080.0).contains(&time), "{transport}: {time}");
        }
        assert_eq!(lost(&run), 0, "{transport}");
    }
}

/// Baraat Table 2, strict priority: each task as if those behind it were not there.
#[test]
fn spcs_tasks_go_one_after_the_other() {
    let network = Network::star(4, LINK).unwrap();
    let tasks: &[Task<'_>] = &[(0, &[(0, 3, 1_000)]), (0, &[(1, 3, 1_000)]), (0, &[(2, 3, 1_000)])];
    let run = run("spc", &network, tasks);
    let times = packet_times(&run);
    for (place, time) in times.iter().enumerate() {
        let expected = 1_000.0 * (place + 1) as f64;
        assert!((expected..expected + 17.0 * (place + 1) as f64).contains(time), "{times:?}");
    }
    assert_eq!(lost(&run), 0);
}

/// Baraat §4.1: counters that do not talk to each other may give a task that came later the lower
/// id.
#[test]
fn spcs_tasks_go_in_the_order_of_the_ids_that_counters_gave_them() {
    let network = Network::star(3, LINK).unwrap();
    let tasks: &[Task<'_>] = &[(0, &[(2, 0, 1_000)]), (0, &[(2, 0, 1_000)]), (0, &[(2, 1, 1_000)])];
    // Client 0 counts 0 and 2, client 1 begins with 1.
    let workload = workload(3, tasks).with_counters(2.try_into().unwrap()).unwrap();
    let options = Options::default();
    let run = parse("spc").unwrap().visit(Simulate(&workload, &network, &options)).unwrap();
    let times = packet_times(&run);
    for (time, expected) in times.iter().zip([1_000.0, 3_000.0, 2_000.0]) {
        assert!((expected..expected * 1.03).contains(time), "{times:?}");
    }
}

/// Work conservation over two bottlenecks (Baraat §4.2): the first task's two flows meet at their
/// sender's link, so each has half of a link; the other half of the second flow's last link goes to
/// a later task.
#[test]
fn spc_conserves_work_over_two_bottlenecks() {
    let network = Network::star(4, LINK).unwrap();
    let tasks: &[Task<'_>] = &[(0, &[(0, 2, 2_000), (0, 3, 2_000)]), (0, &[(1, 3, 2_000)])];
    let run = run("spc", &network, tasks);
    let times = packet_times(&run);
    assert!(times[..2].iter().all(|time| (3_970.0..4_100.0).contains(time)), "{times:?}");
    assert!(times[2] < 4_150.0, "not 6,000, as behind priority queues: {times:?}");
    assert_eq!(lost(&run), 0);
}

/// The price of Fig 7 at a round trip of 1 ms, where its gain needs a δ of the whole link: a flow
/// then demands all of every link whatever it gets, so what it cannot use at its sender is kept
/// from later tasks.
#[test]
fn with_a_delta_of_the_whole_link_spc_does_not_conserve_work_in_a_shuffle() {
    let network = Network::star(7, LINK).unwrap();
    let shuffle = |task: u32| -> Vec<(u32, u32, u64)> {
        let receivers = [4 + task % 3, 4 + (task + 1) % 3];
        (0..4).flat_map(|sender| receivers.map(|receiver| (sender, receiver, 100))).collect()
    };
    let flows: Vec<_> = (0..12).map(shuffle).collect();
    let tasks: Vec<Task<'_>> = flows.iter().map(|flows| (0, flows.as_slice())).collect();
    // Of twelve tasks each receiver has eight, with 400 packets each.
    let busiest = 3_200.0;
    let last = |transport: &str| {
        packet_times(&run(transport, &network, &tasks)).into_iter().fold(0.0, f64::max) / busiest
    };
    let (conserving, keeping) = (last("spc"), last("spc:delta=125"));
    assert!((1.0..1.25).contains(&conserving), "{conserving}");
    assert!(keeping > 1.4, "{keeping}");
}

/// Heavy-task support: with a threshold, a small task gets past a large one that came before.
#[test]
fn spcs_heavy_tasks_share_with_the_next() {
    let network = Network::star(4, LINK).unwrap();
    let tasks: &[Task<'_>] = &[(0, &[(0, 3, 4_000)]), (12_000, &[(1, 3, 500)]), (12_000, &[(2, 3, 500)])];
    let fifo = packet_times(&run("spc", &network, tasks));
    let mixed = packet_times(&run("spc:heavy=1MB", &network, tasks));
    assert!(fifo[1] > 4_400.0 && fifo[2] > 4_900.0, "{fifo:?}");
    // From 1,000 on, one after the other at half of the link.
    assert!((1_990.0..2_060.0).contains(&mixed[1]), "{mixed:?}");
    assert!((2_990.0..3_120.0).contains(&mixed[2]), "{mixed:?}");
}

/// Preemption and convergence: how much later than in an ideal network a flow is done that comes
/// while another has the link; in round trips. Under SPC it is of an earlier task and takes the
/// link; under RCP it shares.
#[test]
fn who_comes_later_has_its_rate_within_a_few_round_trips() {
    let network = Network::star(4, LINK).unwrap();
    let mut builder = WorkloadBuilder::new(4);
    let flow = |src, dst, packets: u64, wave| Flow {
        src: PortId(src),
        dst: PortId(dst),
        size: Bytes(packets * 1_460),
        wave: Nanos(wave),
    };
    // The first task begins elsewhere, and comes to the link after 12 ms: 1,000 packets' times.
    builder.coflow("0", Instant::ZERO, vec![flow(0, 3, 1, 0), flow(0, 2, 200, 12_000_000)]);
    builder.coflow("1", Instant(1_000), vec![flow(1, 2, 3_000, 0)]);
    let workload = builder.build().unwrap();
    let round_trip = network.longest_round_trip(1_500, 40).as_f64();
    let late = |transport: &str, ideal_packets: f64| {
        let options = Options::default();
        let run = parse(transport).unwrap().visit(Simulate(&workload, &network, &options)).unwrap();
        assert_eq!(lost(&run), 0, "{transport}");
        (run.outcome.flow_finish[1].as_secs_f64() * 1e9 - 12_000_000.0 - ideal_packets * 12_000.0)
            / round_trip
    };
    // Both pay a round trip for the question and the last packet's way; RCP's newcomer is done in
    // 400 packets' times.
    let (spc, rcp) = (late("spc", 200.0), late("rcp", 400.0));
    // Measured: 1.8 and 1.3.
    assert!((0.0..4.0).contains(&spc), "spc: {spc} round trips");
    assert!((0.0..4.0).contains(&rcp), "rcp: {rcp} round trips");
}

/// The mean completion time of Baraat's Fig 7, in ms: a client reads 400 KB from each of three
/// servers, `n` times at once.
fn batched_requests(transport: &str, delay: Nanos, n: u32) -> f64 {
    let network = Network::star(4, Link { delay, ..LINK }).unwrap();
    let flows: Vec<_> = (1..=3).map(|server| (server, 0, REQUEST)).collect();
    let tasks: Vec<Task<'_>> = (0..n).map(|_| (0, &flows[..])).collect();
    let run = run(transport, &network, &tasks);
    assert_eq!(lost(&run), 0, "{transport}");
    let total: f64 = run.outcome.coflow_finish.iter().map(|time| time.as_secs_f64()).sum();
    total / f64::from(n) * 1e3
}

/// 400 KB in packets, and what the three of a task take on the wire in ms.
const REQUEST: u64 = 400_000u64.div_ceil(1_460);
const ALONE: f64 = 3.0 * REQUEST as f64 * 0.012;

/// Baraat Fig 7 (claims B15, B16). Fair shares end all at once; tasks one after the other take
/// (n + 1) / 2n of that on average. Measured over the closed form: RCP at most 0.5 %; SPC 5.7 % for 8
/// tasks, of which the questions of waiting flows are a good part.
#[test]
fn batched_requests_take_what_baraat_says() {
    let delay = LINK.delay;
    for n in [1, 2, 4, 8] {
        let (fair, serial) = (ALONE * f64::from(n), ALONE * f64::from(n + 1) / 2.0);
        let (rcp, spc) = (batched_requests("rcp", delay, n), batched_requests("spc", delay, n));
        assert!((0.0..0.02).contains(&(rcp / fair - 1.0)), "{n}: rcp {rcp} ms, not {fair}");
        assert!((0.0..0.07).contains(&(spc / serial - 1.0)), "{n}: spc {spc} ms, not {serial}");
        if n == 8 {
            // "Almost 40 %" in the paper; 43.75 % in the closed form.
            assert!((0.38..0.4375).contains(&(1.0 - spc / rcp)), "spc {spc} ms, rcp {rcp} ms");
        }
    }
}

/// The same with the round trip that the paper names for its testbed, 1 ms. One task takes the
/// paper's 12 ms and somewhat more under both. But from task to task the link is handed over in
/// three to four round trips: freed, asked for with δ, asked for with all. With eight tasks that
/// leaves less than 30 % of RCP's time to gain (measured: 58.6 ms of 82.6), not 40 %: the paper's
/// figure does not follow from its algorithms at that round trip.
#[test]
fn a_long_round_trip_eats_up_a_part_of_the_gain() {
    let delay = Nanos(250_000);
    let (rcp, spc) = (batched_requests("rcp", delay, 1), batched_requests("spc", delay, 1));
    assert!((spc / rcp - 1.0).abs() < 0.03, "alike where there is one task: {spc} ms, {rcp} ms");
    assert!(
        (ALONE + 1.5..ALONE + 3.5).contains(&spc),
        "two to three round trips more than its bytes: {spc} ms"
    );
    let gain = 1.0 - batched_requests("spc", delay, 8) / batched_requests("rcp", delay, 8);
    assert!((0.2..0.35).contains(&gain), "{gain}");
}

/// Headers that are lost leak no bandwidth: with every two hundredth packet lost on each link,
/// twelve tasks take not much longer.
#[test]
fn lost_headers_cost_little() {
    let network = Network::star(4, LINK).unwrap();
    let list: Vec<_> = (0..12).map(|task| (0, [(task % 3, 3, 1_000)])).collect();
    let tasks: Vec<Task<'_>> = list.iter().map(|(start, flows)| (*start, &flows[..])).collect();
    let workload = workload(4, &tasks);
    for transport in ["rcp", "spc"] {
        let end = |loss: f64| {
            let options = Options { loss, ..Options::default() };
            let run = parse(transport).unwrap().visit(Simulate(&workload, &network, &options)).unwrap();
            packet_times(&run).into_iter().fold(0.0, f64::max)
        };
        let (calm, lossy) = (end(0.0), end(0.005));
        // Measured: 0.6 % under RCP, 3.1 % under SPC.
        assert!(lossy / calm < 1.06, "{transport}: {lossy}, without loss {calm}");
    }
}

/// Switch state is of tasks, not of flows: both are counted at the port that all share.
#[test]
fn spc_keeps_tasks_where_rcp_keeps_flows() {
    use cavalcade_transport::{Header, Kind, PortLogic, PortSetup, Transport, rcp::Rcp, spc::Spc};

    let setup = PortSetup { rate: LINK.rate, delay: LINK.delay, base_rtt: Nanos(30_000), port: 0 };
    let (mut rcp, mut spc) = (Rcp::default().port_logic(&setup), Spc::default().port_logic(&setup));
    for flow in 0..1_000u32 {
        let mut header = Header { flow, kind: Kind::Probe, size: 66, ..Header::default() };
        rcp.arrive(Instant(1), Bytes::ZERO, &mut header, &mut Default::default());
        let question = cavalcade_transport::spc::SpcHeader::new(
            flow / 100,
            cavalcade_transport::spc::scale_for(LINK.rate),
        );
        let mut question = question.asking(0, 125, &Default::default());
        spc.arrive(Instant(1), Bytes::ZERO, &mut header, &mut question);
    }
    assert_eq!((rcp.flows(), spc.tasks(), spc.flows()), (1_000, 10, 1_000));
}

/// Forty flows at 10 Gbps, where a header's unit is 8 bytes/µs and a share 3.9 of them: what
/// rounding takes is carried over.
#[test]
fn many_flows_of_a_task_fill_a_fast_link() {
    let network = Network::star(41, Link { rate: BitsPerSec(10_000_000_000), ..LINK }).unwrap();
    let flows: Vec<_> = (0..40).map(|host| (host, 40, 500)).collect();
    for transport in ["rcp", "spc"] {
        let run = run(transport, &network, &[(0, &flows)]);
        let end = packet_times(&run).into_iter().fold(0.0, f64::max) * 10.0;
        // Measured: 0.6 % more than their bytes under RCP, 4.8 % under SPC.
        assert!((20_000.0..21_200.0).contains(&end), "{transport}: {end} packets' times");
        assert_eq!(lost(&run), 0, "{transport}");
    }
}

/// A flow hears its rate with its own packets. Where many share a link that is longer than a round
/// trip, and ports that move again before they are heard swing: 160 flows took 19 % longer than
/// their bytes do, 640 took 24.
#[test]
fn rcp_fills_a_link_with_any_number_of_flows() {
    for (flows, packets) in [(10, 2_880), (40, 720), (160, 180), (640, 45)] {
        let network = Network::star(flows + 1, LINK).unwrap();
        let task: Vec<_> = (0..flows).map(|host| (host, flows, packets)).collect();
        let end = packet_times(&run("rcp", &network, &[(0, &task)])).into_iter().fold(0.0, f64::max);
        // Measured: 0.1, 0.2, 0.8 and 2.5 % more than their bytes.
        assert!((28_800.0..29_700.0).contains(&end), "{flows} flows: {end} packets' times");
    }
}

/// The same where tasks of many flows meet, and ports whose rate could not rise while flows come
/// and go: 15 % longer.
#[test]
fn rcp_loses_little_where_tasks_of_many_flows_meet() {
    let network = Network::star(41, LINK).unwrap();
    let flows: Vec<_> = (0..40).map(|host| (host, 40, 180)).collect();
    let tasks: Vec<_> = (0..4).map(|task| (task * 28_800, flows.as_slice())).collect();
    let end = packet_times(&run("rcp", &network, &tasks)).into_iter().fold(0.0, f64::max);
    // Measured: 1.6 % more than their bytes.
    assert!((28_800.0..29_500.0).contains(&end), "{end} packets' times");
}

/// Questions of those who wait take a part of the link that does not grow with the queue: here 360
/// flows wait.
#[test]
fn spcs_waiting_flows_leave_the_link_to_those_who_send() {
    let network = Network::star(41, LINK).unwrap();
    let flows: Vec<_> = (0..40).map(|host| (host, 40, 180)).collect();
    let tasks: Vec<_> = (0..10).map(|_| (0, flows.as_slice())).collect();
    let end = packet_times(&run("spc", &network, &tasks)).into_iter().fold(0.0, f64::max);
    // Measured: 5.9 % more than their bytes; 53 % where each asks every sixteen packets' times.
    assert!((72_000.0..78_000.0).contains(&end), "{end} packets' times");
}
