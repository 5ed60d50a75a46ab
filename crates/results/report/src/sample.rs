//! A made-up comparison to test with and to look at. The workload is heavy-tailed; a run is a
//! single server of some capacity that shares itself among the coflows present by a power of what
//! remains of each, from shortest first through equal shares to longest first. The shapes are those
//! of real comparisons, the figures mean nothing.

use cavalcade_metrics::{
    CoflowDetails, CoflowRun, Comparison, Details, EngineCounts, LinkUse, LowerBound, Outcome, PolicyFacts,
    RunResult, Wait, analyse,
};
use cavalcade_model::{
    BitsPerSec, Bytes, CoflowId, Fabric, Flow, FlowId, Instant, LinkId, Nanos, PortId, Workload,
    WorkloadBuilder,
};

const PORTS: u32 = 40;
const NAMES: [&str; 15] = [
    "sebf",
    "fair",
    "sincronia",
    "dclas",
    "stf",
    "dclas:factor=4",
    "fifo_lm",
    "sff",
    "dcas",
    "tafe",
    "las",
    "pias",
    "karuna",
    "edf",
    "fifo",
];

/// `runs` runs of a workload of `coflows` coflows; the baseline is `fair` where there are two.
pub(crate) fn comparison(runs: usize, coflows: usize) -> Comparison {
    let workload = workload(coflows);
    let fabric = Fabric::big_switch(PORTS, BitsPerSec(100_000_000)).expect("ports and a rate");
    let alone = cavalcade_metrics::isolation_times(&workload, &fabric).expect("the fabric has the ports");
    let results: Vec<RunResult> = (0..runs)
        .map(|rank| RunResult {
            label: NAMES[rank % NAMES.len()].to_owned(),
            policy: NAMES[rank % NAMES.len()].split(':').next().unwrap_or_default().to_owned(),
            params: vec![
                ("queues".to_owned(), "10".to_owned()),
                ("first_threshold".to_owned(), "10MB".to_owned()),
            ],
            about: about(NAMES[rank % NAMES.len()]),
            named: false,
            transport: None,
            control: None,
            outcome: outcome(&workload, &fabric, &alone, rank as u64),
            wall_s: 0.08 + 0.11 * rank as f64,
        })
        .collect();
    analyse(&workload, &fabric, &results, 1.min(runs - 1)).expect("runs of this workload")
}

/// The origin of some of them, and what they are told.
fn about(name: &str) -> PolicyFacts {
    let told_sizes = ["sebf", "sincronia", "stf", "sff", "edf"].contains(&name);
    let paper = match name {
        "sebf" => "Varys, SIGCOMM 2014",
        "dclas" | "dclas:factor=4" => "Aalo, SIGCOMM 2015",
        "fifo_lm" => "Baraat, SIGCOMM 2014",
        _ => "",
    };
    PolicyFacts { told_sizes, paper: paper.to_owned(), ..PolicyFacts::default() }
}

/// A bound nine tenths of the best mean, as one that was searched for a while often is.
pub(crate) fn bound(comparison: &Comparison) -> LowerBound {
    let best = &comparison.runs[comparison.ranking()[0]];
    LowerBound {
        mean: Nanos((comparison.summary(best).mean_s * 0.9e9) as u64),
        misses: 0,
        method: "completions".into(),
        budget: "200 linear programs".into(),
        repeatable: true,
    }
}

/// The longest coflows up close under the first two runs: half of each coflow's time went to
/// itself, the rest to the ten after it.
pub(crate) fn details(comparison: &Comparison) -> Details {
    let runs: Vec<usize> = (0..comparison.runs.len().min(2)).collect();
    let longest = comparison.coflows.len().min(40);
    let up_close = |coflow: usize, run: &usize| {
        let (arrival, cct) = (comparison.runs[*run].arrival[coflow], comparison.runs[*run].cct[coflow]);
        let half = Nanos(cct.get() / 2);
        let ahead = (coflow + 1..(coflow + 11).min(comparison.coflows.len()))
            .map(|other| (CoflowId::from_index(other), Nanos(half.get() / 10)))
            .collect();
        let wait = Wait {
            link: LinkId(3),
            link_name: "ingress of port 3".to_owned(),
            lasting: cct,
            own: half,
            others: half,
            idle: Nanos::ZERO,
            ahead,
        };
        CoflowRun { sent: vec![(arrival, arrival + cct); 2], wait: (coflow > 0).then_some(wait) }
    };
    let coflow = |coflow: usize| CoflowDetails {
        coflow,
        flows: vec![FlowId(0), FlowId(1)],
        ends: vec![(3, 7, 2_000_000), (3, 39, 1)],
        runs: runs.iter().map(|run| up_close(coflow, run)).collect(),
    };
    Details { left_out: None, coflows: (0..longest).map(coflow).collect(), runs }
}

/// A comparison of one run over nothing.
#[cfg(test)]
pub(crate) fn empty() -> Comparison {
    let workload = WorkloadBuilder::new(2).build().expect("no task is wrong");
    let fabric = Fabric::big_switch(2, BitsPerSec(8)).expect("ports and a rate");
    let outcome = outcome(&workload, &fabric, &[], 0);
    let (label, policy) = ("fair".into(), "fair".into());
    let run = RunResult {
        label,
        policy,
        params: vec![],
        about: PolicyFacts::default(),
        named: false,
        transport: None,
        control: None,
        outcome,
        wall_s: 0.0,
    };
    analyse(&workload, &fabric, &[run], 0).expect("runs of this workload")
}

/// Two tasks on four ports at a byte a second, under one policy: one of a transfer and then
/// another, of 1 and 2 s alone, which takes 4 s where 3 s are its deadline; and one of a single
/// transfer.
#[cfg(test)]
pub(crate) fn staged() -> Comparison {
    use cavalcade_model::{Coflow, StageIndex, Task};
    let mut builder = WorkloadBuilder::new(4);
    let transfer = |src, dst, size| {
        let flow = Flow { src: PortId(src), dst: PortId(dst), size: Bytes(size), wave: Nanos::ZERO };
        vec![flow]
    };
    let one = Task::of_coflow("two", Instant(100 * 1_000_000_000));
    let mut stages = vec![one.stages[0].clone(); 2];
    stages[1].starts_after = vec![StageIndex(0)];
    let task = Task { stages, deadline: Some(Nanos::from_secs(3)), ..one };
    builder.push(task, [transfer(0, 1, 1), transfer(0, 1, 2)].map(|flows| Coflow { flows }).into());
    builder.coflow("one", Instant(101 * 1_000_000_000), transfer(2, 3, 5));
    let workload = builder.build().expect("no task is wrong");
    let fabric = Fabric::big_switch(4, BitsPerSec(8)).expect("ports and a rate");
    let at =
        |seconds: &[u64]| seconds.iter().map(|&second| Instant(second * 1_000_000_000)).collect::<Vec<_>>();
    let outcome = Outcome {
        coflow_arrival: at(&[0, 2, 1]),
        coflow_finish: at(&[2, 4, 6]),
        flow_finish: at(&[2, 4, 6]),
        task_finish: at(&[4, 6]),
        counts: EngineCounts::default(),
        link_use: None,
        queue_use: None,
        messages: None,
    };
    let run = |label: &str, outcome| RunResult {
        label: label.to_owned(),
        policy: label.to_owned(),
        params: vec![],
        about: PolicyFacts::default(),
        named: false,
        transport: None,
        control: None,
        outcome,
        wall_s: 0.0,
    };
    analyse(&workload, &fabric, &[run("fair", outcome)], 0).expect("runs of this workload")
}

/// A sequence that looks random (Knuth's linear congruential generator).
struct Sequence(u64);

impl Sequence {
    /// Below one.
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, bound: u32) -> u32 {
        (self.share() * f64::from(bound)) as u32
    }

    /// Heavy-tailed, at least one.
    fn tail(&mut self, most: f64) -> f64 {
        (1.0 / (1.0 - self.share())).min(most)
    }
}

fn workload(coflows: usize) -> Workload {
    let mut random = Sequence(7);
    let mut builder = WorkloadBuilder::new(PORTS);
    let mut arrival = 0.0;
    for index in 0..coflows {
        arrival += random.share() * 4e9 * random.tail(20.0);
        let width = if random.share() < 0.7 { 1 + random.below(20) } else { 20 + random.below(300) };
        let base = 250_000.0 * random.tail(1_000.0) * random.tail(300.0);
        let flows = (0..width)
            .map(|_| Flow {
                // Low ports are the busier ones.
                src: PortId((f64::from(PORTS) * random.share() * random.share()) as u32),
                dst: PortId((f64::from(PORTS) * random.share() * random.share()) as u32),
                size: Bytes((base * (0.5 + random.share())) as u64),
                wave: Nanos::ZERO,
            })
            .collect();
        builder.coflow(index.to_string(), Instant(arrival as u64), flows);
    }
    builder.build().expect("flows are within the ports and not empty")
}

/// The run of that rank: the worse, the less the server favours what is nearly done.
fn outcome(workload: &Workload, fabric: &Fabric, alone: &[Nanos], rank: u64) -> Outcome {
    let arrival: Vec<Instant> = workload.coflows().map(|coflow| coflow.task.arrival).collect();
    let favour = match rank {
        0 => 2.0,
        1 => 0.0,
        _ => 1.6 - 0.16 * rank as f64,
    };
    let finish = served(&arrival, alone, favour);
    let link_use = link_use(workload, fabric, &arrival, &finish);
    Outcome {
        task_finish: finish.clone(),
        flow_finish: vec![],
        counts: EngineCounts { events: 1_000 + rank, refills: 900, policy_calls: 2_000, messages: 0 },
        link_use: Some(link_use),
        queue_use: None,
        messages: None,
        coflow_arrival: arrival,
        coflow_finish: finish,
    }
}

/// Returns when each coflow is done by a server that gives each a share by its remaining time to
/// the power of `-favour`, at most what it could use alone.
fn served(arrival: &[Instant], alone: &[Nanos], favour: f64) -> Vec<Instant> {
    const STEP_S: f64 = 0.2;
    const CAPACITY: f64 = 1.0;
    let mut finish = arrival.to_vec();
    let mut present: Vec<(usize, f64)> = Vec::new();
    let (mut next, mut now) = (0, 0.0);
    while next < arrival.len() || !present.is_empty() {
        while next < arrival.len() && arrival[next].as_secs_f64() < now + STEP_S {
            present.push((next, alone[next].as_secs_f64()));
            next += 1;
        }
        let weights: Vec<f64> = present.iter().map(|(_, left)| libm::pow(*left, -favour)).collect();
        let total: f64 = weights.iter().sum();
        for ((coflow, left), weight) in present.iter_mut().zip(&weights) {
            let start = now.max(arrival[*coflow].as_secs_f64());
            let rate = (CAPACITY * weight / total).clamp(1e-3, 1.0);
            let needed = *left / rate;
            *left -= rate * (now + STEP_S - start);
            finish[*coflow] = Instant(((start + needed) * 1e9) as u64 + 1);
        }
        present.retain(|(_, left)| *left > 0.0);
        now += STEP_S;
    }
    finish
}

/// Every coflow's bytes, spread evenly over its life.
fn link_use(workload: &Workload, fabric: &Fabric, arrival: &[Instant], finish: &[Instant]) -> LinkUse {
    let end = finish.iter().map(|finish| finish.get()).max().unwrap_or(1).max(1);
    let (interval, links) = (end.div_ceil(200), fabric.link_count());
    let mut bytes = vec![0.0; 200 * links];
    for coflow in workload.coflows() {
        let (from, to) = (arrival[coflow.id.index()].get(), finish[coflow.id.index()].get());
        let (first, last) = ((from / interval) as usize, ((to / interval) as usize).min(199));
        for flow in coflow.flows {
            for LinkId(link) in fabric.path(flow.src, flow.dst) {
                for slot in first..=last {
                    bytes[slot * links + link as usize] += flow.size.as_f64() / (last - first + 1) as f64;
                }
            }
        }
    }
    LinkUse { interval: Nanos(interval), links, bytes }
}
