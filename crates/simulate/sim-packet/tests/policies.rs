//! Policies over packets: every one finishes everything, and what it decides is what happens.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_model::{
    BitsPerSec, Bytes, Flow, Instant, Nanos, PolicyFactory, PortId, Scope, Workload, WorkloadBuilder,
};
use cavalcade_sim_packet::{Link, Network, Options, Run, SimulationError, simulate};
use cavalcade_transport::{dctcp::Dctcp, pfabric::Pfabric};

const LINK: Link = Link { rate: BitsPerSec(10_000_000_000), delay: Nanos(1_000) };

/// Time at which it starts; its flows as (from, to, bytes).
type Coflow<'a> = (u64, &'a [(u32, u32, u64)]);

fn workload(coflows: &[Coflow<'_>]) -> Workload {
    let mut builder = WorkloadBuilder::new(4);
    for (number, (start, flows)) in coflows.iter().enumerate() {
        let flow = |&(src, dst, size)| Flow {
            src: PortId(src),
            dst: PortId(dst),
            size: Bytes(size),
            wave: Nanos::ZERO,
        };
        builder.coflow(number.to_string(), Instant(*start), flows.iter().map(flow).collect());
    }
    builder.build().unwrap()
}

fn run(policy: &str, workload: &Workload) -> Result<Run, SimulationError> {
    let policy = cavalcade_policy::parse(policy).unwrap();
    let network = Network::star(4, LINK).unwrap();
    simulate(workload, &network, &Dctcp::default(), Some(&policy), &Options::default(), None)
}

fn ccts(run: &Run) -> Vec<f64> {
    let times = run.outcome.coflow_finish.iter().zip(&run.outcome.coflow_arrival);
    times.map(|(finish, arrival)| finish.since(*arrival).as_f64() / 1e6).collect()
}

#[test]
fn every_policy_of_fabric_or_host_finishes_every_coflow_over_packets() {
    let list: &[Coflow<'_>] = &[
        (0, &[(0, 1, 2_000_000), (2, 3, 500_000), (0, 3, 30_000)]),
        (100_000, &[(1, 3, 3_000_000), (0, 3, 200_000)]),
        (150_000, &[(2, 1, 12_000_000)]),
        (2_000_000, &[(3, 0, 1), (3, 1, 40_000)]),
    ];
    let workload = workload(list);
    for info in cavalcade_policy::registry() {
        let policy = cavalcade_policy::parse(info.name).unwrap();
        if policy.terms().scope == Scope::Link {
            continue;
        }
        let first = run(info.name, &workload).unwrap();
        assert_eq!(first.outcome.coflow_arrival[1], Instant(100_000));
        for (coflow, finish) in workload.coflows().zip(&first.outcome.coflow_finish) {
            let last =
                workload.flow_ids(coflow.id).map(|flow| first.outcome.flow_finish[flow as usize]).max();
            assert_eq!(last, Some(*finish), "{}", info.name);
            assert!(*finish > coflow.task.arrival, "{}", info.name);
        }
        assert_eq!(run(info.name, &workload).unwrap(), first, "{}: the same again", info.name);
    }
}

#[test]
fn a_policy_per_link_is_refused() {
    let workload = workload(&[(0, &[(0, 1, 1_000)])]);
    assert_eq!(run("las:at=link", &workload).unwrap_err(), SimulationError::LinkScope);
}

/// Two coflows out of one host: under `fifo` the first has the link to itself, under `fair` they
/// share it.
#[test]
fn priorities_hold_at_the_sending_host() {
    let workload = workload(&[(0, &[(0, 1, 5_000_000)]), (1_000, &[(0, 2, 5_000_000)])]);
    // 5 MB are 3,425 packets of 1.2 µs: 4.11 ms.
    let fifo = ccts(&run("fifo", &workload).unwrap());
    assert!((fifo[0] - 4.11).abs() < 0.05, "{fifo:?}");
    assert!((fifo[1] - 8.22).abs() < 0.05, "{fifo:?}");
    let fair = ccts(&run("fair", &workload).unwrap());
    assert!(fair.iter().all(|cct| (cct - 8.22).abs() < 0.1), "{fair:?}");
}

/// D-CAS's senders and receivers negotiate over the network that they share with the data, in the
/// live system's datagrams.
#[test]
fn datagrams_cross_the_network_and_what_is_lost_stops_nobody() {
    let flows: Vec<_> = (0..3).map(|host| (host, 3, 2_000_000)).collect();
    let list: &[Coflow<'_>] = &[(0, &flows), (1_000, &[(0, 3, 100_000), (1, 3, 100_000)])];
    let workload = workload(list);
    let policy = cavalcade_policy::parse("dcas").unwrap();
    let network = Network::star(4, LINK).unwrap();
    let with = |loss: f64, in_band: bool| {
        let options = Options { loss, in_band, ..Options::default() };
        simulate(&workload, &network, &Dctcp::default(), Some(&policy), &options, None).unwrap()
    };
    let (told, sent) = (with(0.0, false), with(0.0, true));
    assert_eq!(told.outcome.messages, None);
    let said = sent.outcome.messages.unwrap();
    assert!(said.sent > 0 && said.statements >= said.sent, "{said:?}");
    assert_eq!((said.arrived, said.lost, said.left_out), (said.sent, 0, 0));
    assert_eq!(said.statements, sent.outcome.counts.messages);
    // A datagram with its headers is at most 100 bytes, 80 ns on each of two links of 1 µs; it
    // waits for one packet at most.
    let mean = said.mean_delay().get();
    assert!((2_050..2_160 + 2 * 1_200).contains(&mean), "{mean} ns");
    // Two links each, with 40 bytes of headers.
    assert_eq!(said.carried.get(), 2 * (said.payload.get() + 40 * said.sent));
    assert!(said.share() > 0.0 && said.share() < 0.001, "{}", said.share());
    assert!(ccts(&sent)[1] < 1.2 * ccts(&told)[1] + 0.1, "{:?}, {:?}", ccts(&sent), ccts(&told));
    let lossy = with(0.3, true);
    let said = lossy.outcome.messages.unwrap();
    assert!(said.lost > 0 && said.arrived + said.lost == said.sent, "{said:?}");
    let slower = ccts(&lossy).iter().zip(ccts(&sent)).all(|(lossy, sent)| *lossy > sent);
    assert!(slower, "what is lost is sent again: {:?}, {:?}", ccts(&lossy), ccts(&sent));
}

#[test]
fn packets_that_cannot_hold_a_datagram_are_refused() {
    let workload = workload(&[(0, &[(0, 1, 1_000)])]);
    let policy = cavalcade_policy::parse("dcas").unwrap();
    let network = Network::star(4, LINK).unwrap();
    let options = Options { packet: 1_439, in_band: true, ..Options::default() };
    let refused = simulate(&workload, &network, &Dctcp::default(), Some(&policy), &options, None);
    assert_eq!(refused.unwrap_err(), SimulationError::DatagramsDoNotFit { payload: 1_399, longest: 1_400 });
}

/// Two coflows into one host from two: switches tell classes apart, so what D-CLAS has demoted
/// waits.
#[test]
fn classes_hold_in_switches() {
    // The first coflow is demoted after 1 MB, long before the second comes.
    let workload = workload(&[(0, &[(0, 3, 20_000_000)]), (5_000_000, &[(1, 3, 900_000)])]);
    let spec = "dclas:queues=4,first_threshold=1MB,weighted=false,sync=0ms";
    let dclas = ccts(&run(spec, &workload).unwrap());
    let alone = 617.0 * 0.0012;
    assert!(dclas[1] < 1.1 * alone + 0.02, "the new one goes first: {dclas:?}, alone {alone}");
    let fair = ccts(&run("fair", &workload).unwrap());
    assert!(fair[1] > 1.5 * alone, "and shares without it: {fair:?}");
}

/// pFabric's switches order by the policy's order before what remains: a long flow of an earlier
/// coflow goes before a short one.
#[test]
fn orders_hold_in_pfabrics_switches() {
    let workload = workload(&[(0, &[(0, 3, 5_000_000)]), (1_000_000, &[(1, 3, 100_000)])]);
    let network = Network::star(4, LINK).unwrap();
    let with = |policy: Option<&dyn PolicyFactory>| {
        let run = simulate(&workload, &network, &Pfabric::default(), policy, &Options::default(), None);
        ccts(&run.unwrap())
    };
    let fifo = with(Some(&cavalcade_policy::parse("fifo").unwrap()));
    assert!((fifo[0] - 4.11).abs() < 0.05, "the first is not held up: {fifo:?}");
    let alone = with(None);
    assert!(alone[1] < 0.2, "by itself pFabric serves the short one at once: {alone:?}");
}
