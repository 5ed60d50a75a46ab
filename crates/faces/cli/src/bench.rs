//! `cavalcade bench`: what the engines cost, on workloads that are always the same. The fluid one
//! is measured here.
//!
//! What a flow costs must not grow with the number of servers where each has the same load:
//! `cavalcade bench fluid --workloads tree-900,tree-9000,tree-36000 --policy fifo_lm` has it in the
//! column `µs/flow`. What is left of growth is memory: events come from all over the fabric, and
//! what is active at 36,000 servers does not fit into a cache. Large pages help
//! (`GLIBC_TUNABLES=glibc.malloc.hugetlb=1`: 12 to 20 % with 9,600 servers).

#[cfg(feature = "live")]
mod agent;
#[cfg(feature = "live")]
mod agents;
#[cfg(feature = "live")]
mod coordinator;
#[cfg(feature = "live")]
mod enforce;
mod packet;
#[cfg(feature = "live")]
mod switch;

use std::time::Instant;

use cavalcade::{Conditions, Scenario};
use cavalcade_model::{BitsPerSec, FabricSpec, History};
use cavalcade_report::{Cells, Grid};
use cavalcade_sim_fluid::{Options, StreamOptions, simulate_stream};
use cavalcade_trace::generate::speed::{Aggregators, Arrivals, PartitionAggregate, on_a_switch};
use serde_json::{Value, json};

use crate::arguments::{Bench, FluidBench};
use crate::failure::{Failure, Kind};
use crate::output::{print, tell};
use crate::policies::configured;
use crate::terminal::fit;

const RATE: BitsPerSec = BitsPerSec(1_000_000_000);

/// Workloads on one switch: name, arrivals, hosts, flows.
const ON_A_SWITCH: [(&str, Arrivals, u32, u32); 5] = [
    ("pois-100", Arrivals::Poisson, 100, 10_000),
    ("pois-1000", Arrivals::Poisson, 1000, 100_000),
    ("batch-100", Arrivals::Batch, 100, 10_000),
    ("coflow-1000", Arrivals::Shuffles, 1000, 24_000),
    ("coflow-1000-long", Arrivals::Shuffles, 1000, 120_000),
];

/// Workloads on a tree: name, pods × racks × hosts, tasks, aggregators. Tasks go with pods, so that
/// every server has the same load for as long: what a flow costs on 900 and on 9,000 servers
/// differs only by how many there are.
const ON_A_TREE: [(&str, [u32; 3], u32, Aggregators); 5] = [
    ("tree-900", [1, 30, 30], 333, Aggregators::Fixed),
    ("tree-9000", [10, 30, 30], 3_330, Aggregators::Fixed),
    ("tree-36000", [30, 30, 40], 10_000, Aggregators::Fixed),
    ("tree-900-drawn", [1, 30, 30], 333, Aggregators::Drawn),
    ("tree-36000-drawn", [30, 30, 40], 10_000, Aggregators::Drawn),
];

/// Runs the command.
///
/// # Errors
/// If a policy or workload is not there, or the policy cannot be run.
pub(crate) fn run(command: &Bench) -> Result<(), Failure> {
    match command {
        Bench::Packet(options) => packet::run(options),
        Bench::Fluid(options) => fluid(options),
        #[cfg(feature = "live")]
        Bench::Coordinator(options) => coordinator::run(options),
        #[cfg(feature = "live")]
        Bench::Enforce(options) => enforce::run(options),
        #[cfg(feature = "live")]
        Bench::Agent(options) => agent::run(options),
        #[cfg(feature = "live")]
        Bench::Switch(options) => switch::run(options),
        #[cfg(feature = "live")]
        Bench::Agents(options) => agents::run(options),
    }
}

fn fluid(options: &FluidBench) -> Result<(), Failure> {
    let policy = configured(&options.policy)?;
    let names = || ON_A_SWITCH.iter().map(|entry| entry.0).chain(ON_A_TREE.iter().map(|entry| entry.0));
    if let Some(unknown) = options.workloads.iter().find(|asked| names().all(|name| name != asked.as_str())) {
        return Err(Failure::usage(format!("there is no workload {unknown}"))
            .help(format!("workloads are {}", names().collect::<Vec<_>>().join(", "))));
    }
    let is_asked =
        |name: &str| options.workloads.is_empty() || options.workloads.iter().any(|asked| asked == name);
    let mut lines = Lines::new(&COLUMNS, options.json, options.room.wide);
    for (name, arrivals, hosts, flows) in ON_A_SWITCH.into_iter().filter(|entry| is_asked(entry.0)) {
        let begin = Instant::now();
        let workload = on_a_switch(arrivals, hosts, flows);
        let scenario = Scenario::new(workload, Conditions { rate: RATE, ..Conditions::default() })?;
        let (outcome, workload) = (scenario.with_policy(policy.clone()).run()?, scenario.workload());
        let times =
            workload.tasks().iter().zip(&outcome.task_finish).map(|(task, finish)| finish.0 - task.arrival.0);
        let mean = times.sum::<u64>() as f64 / workload.tasks().len() as f64;
        line(&mut lines, name, workload.flows().len(), begin, mean)?;
    }
    for (name, shape, tasks, aggregators) in ON_A_TREE.into_iter().filter(|entry| is_asked(entry.0)) {
        let begin = Instant::now();
        let [pods, racks, hosts] = shape;
        let spec: FabricSpec = format!("tree:pods={pods},racks={racks},hosts={hosts},oversubscription=2")
            .parse()
            .expect("this is a tree");
        let fabric = spec.build(RATE).expect("this is a tree");
        let mut stream = PartitionAggregate::new(shape, aggregators, 0.8, tasks, 1);
        let past = PartitionAggregate::new(shape, aggregators, 0.8, 200, 2);
        let history = History::new(
            past.flat_map(|(_, coflows)| coflows)
                .map(|coflow| coflow.flows.iter().map(|flow| flow.size).sum()),
        );
        let mut sum = Sum::default();
        let about = StreamOptions { history: &history, is_wide: false, is_exact: false };
        simulate_stream(&mut stream, &fabric, &policy, about, &Options::default(), Some(&mut sum))
            .map_err(|error| Failure::new(Kind::Runtime, error.to_string()))?;
        let mean = sum.nanos as f64 / f64::from(tasks);
        line(&mut lines, name, (tasks * racks * (hosts + 1)) as usize, begin, mean)?;
    }
    lines.end()
}

const COLUMNS: [(&str, Cells); 6] = [
    ("workload", Cells::Text),
    ("flows", Cells::Figures),
    ("seconds", Cells::Figures),
    ("flows/s", Cells::Figures),
    ("µs/flow", Cells::Figures),
    ("mean TCT ms", Cells::Figures),
];

/// The lines of a benchmark: JSON as each is measured; else a table in the end, and on the way the
/// name of what is done.
struct Lines<'a> {
    columns: &'a [(&'a str, Cells)],
    rows: Vec<Vec<String>>,
    as_json: bool,
    wide: bool,
}

impl<'a> Lines<'a> {
    fn new(columns: &'a [(&'a str, Cells)], as_json: bool, wide: bool) -> Self {
        Self { columns, rows: Vec::new(), as_json, wide }
    }

    /// Adds a line, as JSON and as cells.
    fn add(&mut self, json: &Value, cells: Vec<String>) -> Result<(), Failure> {
        if self.as_json {
            return print(&format!("{json}\n"));
        }
        tell(&format!("measured: {}", cells[0]));
        self.rows.push(cells);
        Ok(())
    }

    /// Prints the table.
    fn end(self) -> Result<(), Failure> {
        if self.as_json {
            Ok(())
        } else {
            print(&Grid::of_rows(self.columns, self.rows).show(fit(self.wide)))
        }
    }
}

fn line(
    lines: &mut Lines<'_>,
    name: &str,
    flows: usize,
    begin: Instant,
    mean_nanos: f64,
) -> Result<(), Failure> {
    let seconds = begin.elapsed().as_secs_f64();
    let (rate, cost) = (flows as f64 / seconds, seconds * 1e6 / flows as f64);
    let cells = vec![
        name.to_owned(),
        flows.to_string(),
        format!("{seconds:.3}"),
        format!("{rate:.0}"),
        format!("{cost:.2}"),
        format!("{:.3}", mean_nanos / 1e6),
    ];
    let mean_tct_s = mean_nanos / 1e9;
    lines.add(
        &json!({ "workload": name, "flows": flows, "seconds": seconds, "mean_tct_s": mean_tct_s }),
        cells,
    )
}

/// Adds up how long tasks took.
#[derive(Default)]
struct Sum {
    nanos: u128,
}

impl cavalcade_sim_fluid::Observer for Sum {
    fn wants_segments(&self) -> bool {
        false
    }

    fn task_finished(
        &mut self,
        _: cavalcade_model::TaskId,
        arrival: cavalcade_model::Instant,
        finish: cavalcade_model::Instant,
    ) {
        self.nanos += u128::from(finish.0 - arrival.0);
    }
}
