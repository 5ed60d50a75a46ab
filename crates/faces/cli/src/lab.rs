//! `cavalcade lab`: a trace over real sockets, under each policy in turn, beside what the fluid
//! engine predicts.

mod congestion;
mod fabric;
mod runs;

use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use cavalcade::{Conditions, Engine, Packets, Policy, Scenario, Transport as Carrier};
use cavalcade_lab::{
    Cost, Enforcement, Fault, HostSetup, KernelPath, LabError, Losses, Prepared, Recovery, Scheduler, Setup,
    Streams, Transport, Victim,
};
use cavalcade_metrics::{Outcome, Summary};
use cavalcade_model::{
    BitsPerSec, Bytes, CoflowId, FabricSpec, History, Nanos, PolicyFactory, Scope, Workload,
};
use cavalcade_report::Grid;
use serde_json::{Value, json};

use congestion::{Asked, Windows};
use runs::Runs;

use crate::arguments::{Lab, LabEnforcement, LabHost, LabTransport};
use crate::failure::{Failure, Kind};
use crate::input::parse;
use crate::output::{print, tell};
use crate::policies::configured;
use crate::terminal::fit;

/// The name of plain TCP among contenders.
const PLAIN: &str = "tcp";
/// The policy that predicts plain TCP in the fluid engine.
const PLAIN_PREDICTED: &str = "fair";
/// The contenders where none is named.
const DEFAULT: [&str; 4] = [PLAIN, "dclas", "sebf", "dcas"];

/// Policies of a coordinator whose papers have switches sort by class. Those of hosts need it
/// anyway: no sender knows what meets at a receiver.
const SORTED_BY_SWITCHES: [&str; 1] = ["tafe"];

/// The default number of runs of each.
const REPEAT: u32 = 5;

/// True if the user has interrupted a run.
pub(crate) static STOPPED: AtomicBool = AtomicBool::new(false);

/// A policy that is run, and what is expected of it.
pub(crate) struct Contender {
    label: String,
    scheduler: Scheduler,
    predicted: Policy,
    /// The same for ports that hold to classes, where its order is theirs.
    sorted: Option<Policy>,
    /// The congestion control of its connections under the kernel path; without one they keep Reno.
    windows: Option<Windows>,
}

/// The result of a contender.
pub(crate) struct Row {
    label: String,
    runs: Runs,
    predicted: Outcome,
    /// The same with the control plane in the way; none for plain TCP, which has none, and where
    /// ports hold to classes.
    controlled: Option<Outcome>,
    /// The same over packets, where ports hold to classes.
    packets: Option<Outcome>,
    /// The congestion control of connections, where it is not Reno.
    windows: Option<Windows>,
}

/// `cavalcade lab`.
///
/// # Errors
/// If the command line or the trace cannot be used, the machine cannot carry a lab, or a run fails.
pub(crate) fn run(options: &Lab) -> Result<(), Failure> {
    let source = options.input.open()?;
    let (workload, _) = parse(&source, options.input.format)?;
    stop_when_interrupted();
    cavalcade_lab::remove_stale()
        .iter()
        .for_each(|what| tell(&format!("removed what a crashed lab left: {what}")));
    let prepared = cavalcade_lab::prepare(&workload, options.scale).map_err(failure)?;
    if let Some(argument) = &options.fabric {
        return fabric::run(options, argument, &prepared);
    }
    let ways = ways(options)?;
    let contenders = contenders(options, &asked(options, &ways)?)?;
    let faults = options.fault.clone();
    refuse_ports(&prepared.workload, options.hosts, &faults)?;
    let transport = match options.transport {
        LabTransport::Netns => Transport::Namespaces,
        LabTransport::Loopback => Transport::Loopback,
    };
    let conditions = Conditions { rate: options.rate, ..Conditions::default() };
    let repeat = options.repeat.unwrap_or(if faults.is_empty() { REPEAT } else { 1 });
    let rows =
        measure(&contenders, &ways, prepared.workload.clone(), conditions, &faults, repeat, |predicted| {
            Setup {
                hosts: options.hosts.unwrap_or(0),
                limit: limit(options, predicted),
                ..setup(transport, options.rate, options.period)
            }
        })?;
    if options.json {
        return print(&format!("{:#}\n", as_json(&rows, &prepared, options)));
    }
    print(&table(&rows).show(fit(options.room.wide)))?;
    print(&footnotes(&rows, &prepared, options))
}

/// Has an interrupt end runs, which then leave nothing.
pub(crate) fn stop_when_interrupted() {
    // Without the handler an interrupt ends the program, and the next lab cleans up.
    let _ = ctrlc::set_handler(|| STOPPED.store(true, Ordering::Relaxed));
}

/// Conditions of runs on as many hosts as the trace has ports.
pub(crate) fn setup(transport: Transport, rate: BitsPerSec, period: Nanos) -> Setup {
    let program = std::env::current_exe().unwrap_or_else(|_| "cavalcade".into());
    Setup {
        program,
        transport,
        enforcement: Enforcement::Library,
        by_class: false,
        congestion: None,
        demotion: None,
        hosts: 0,
        rate,
        period,
        with_decisions: false,
        limit: Nanos::MAX,
    }
}

/// The time after which a run has failed that was predicted like this.
fn limit(options: &Lab, predicted: &Outcome) -> Nanos {
    options.timeout.unwrap_or(Nanos(20 * predicted.makespan().0 + 60_000_000_000))
}

/// The parts that carry out orders, in the order in which they are named.
fn ways(options: &Lab) -> Result<Vec<Enforcement>, Failure> {
    let ways = options.enforce.iter().map(|way| match way {
        LabEnforcement::Library => Enforcement::Library,
        LabEnforcement::Kernel => Enforcement::Kernel,
        LabEnforcement::Handed => Enforcement::Handed,
    });
    let ways: Vec<Enforcement> = ways.collect();
    if has_enforcers(&ways) && options.transport == LabTransport::Loopback {
        return Err(Failure::usage(
            "--enforce kernel or handed: hosts that share one loopback share one kernel path",
        )
        .help("leave out --transport loopback"));
    }
    Ok(ways)
}

fn has_enforcers(ways: &[Enforcement]) -> bool {
    ways.iter().any(|way| way.has_enforcers())
}

/// `cavalcade lab-host`, which the lab starts at every host.
///
/// # Errors
/// If it cannot listen, or its agent does not answer.
pub(crate) fn host(options: &LabHost) -> Result<(), Failure> {
    let told = options.stream_rate.zip(options.round_trip);
    let streams = told.map(|(rate, round_trip)| Streams { rate, round_trip, fair: options.fair });
    let LabHost { address, agent, door, group, rate, sender, coflows, .. } = options.clone();
    let kernel = door.zip(group.clone()).map(|(door, group)| KernelPath { door, group, coflows });
    if let Some(kernel) = kernel.as_ref().filter(|_| sender) {
        return cavalcade_lab::serve_sender(address, kernel, io::stdin().lock(), io::stdout())
            .map_err(failure);
    }
    let setup = HostSetup { address, agent, group, kernel, rate, streams };
    cavalcade_lab::serve_host(&setup, io::stdin().lock(), io::stdout()).map_err(failure)
}

/// Runs each contender in each of `ways`, after the fluid engine has. `setup` is made from the
/// prediction.
///
/// # Errors
/// As [`run`].
pub(crate) fn measure(
    contenders: &[Contender],
    ways: &[Enforcement],
    workload: Workload,
    conditions: Conditions,
    faults: &[Fault],
    repeat: u32,
    setup: impl Fn(&Outcome) -> Setup,
) -> Result<Vec<Row>, Failure> {
    let history = History::of(&workload);
    let scenario = Scenario::new(workload, conditions)?;
    let mut rows = Vec::new();
    for Contender { label, scheduler, predicted: policy, sorted, windows } in contenders {
        let (scheduler, demotion) = &settled(scheduler, &history)?;
        let fluid = scenario.with_policy(policy.clone());
        let predicted = fluid.run()?;
        let setup = setup(&predicted);
        let controlled = match scheduler {
            Scheduler::Tcp => None,
            _ => Some(fluid.on(Engine::Control { period: setup.period }).run()?),
        };
        tell(&format!(
            "{label}: {} coflows, predicted to take {}",
            scenario.workload().coflow_count(),
            seconds(predicted.makespan().0)
        ));
        // Plain TCP has nothing to carry out.
        let ways = if *scheduler == Scheduler::Tcp { &[Enforcement::Library] } else { ways };
        for &enforcement in ways {
            let sorted = sorted.as_ref().filter(|_| enforcement.has_enforcers());
            let windows = windows.clone().filter(|_| enforcement.has_enforcers());
            let congestion = windows.as_ref().and_then(Windows::congestion);
            let by_class = sorted.is_some();
            let demotion = demotion.clone().filter(|_| enforcement.has_enforcers());
            let setup = Setup { enforcement, by_class, congestion, demotion, ..setup.clone() };
            let packets = sorted.map(|policy| over_packets(&scenario, policy, windows.as_ref(), setup.rate));
            let packets = packets.transpose()?;
            let run = || cavalcade_lab::run(&setup, scenario.workload(), scheduler, faults, &STOPPED);
            let runs = Runs::make(repeat, run).map_err(failure)?;
            let label = match enforcement {
                Enforcement::Library => label.clone(),
                Enforcement::Kernel => format!("{label}, kernel"),
                Enforcement::Handed => format!("{label}, handed"),
            };
            let controlled = controlled.clone().filter(|_| packets.is_none());
            rows.push(Row { label, runs, predicted: predicted.clone(), controlled, packets, windows });
        }
    }
    Ok(rows)
}

/// The scheduler as live programs are told of it, who have no history of their own; and the policy
/// by whose rule kernels sort messages, where hosts do.
fn settled(scheduler: &Scheduler, history: &History) -> Result<(Scheduler, Option<String>), Failure> {
    let Scheduler::Hosts(spec) = scheduler else { return Ok((scheduler.clone(), None)) };
    let policy = configured(spec)?.settled(history);
    let demotion = policy.demotion(history).map(|_| policy.spec());
    Ok((Scheduler::Hosts(policy.spec()), demotion))
}

/// The packets of a lab: Ethernet frames as HTB counts them, with what they carry of TCP's payload.
const FRAME: u16 = 1_514;
const HEADERS: u16 = 66;

/// Runs `policy` on the packet engine over links, queues and timers like those of a lab's ports of
/// `rate`.
fn over_packets(
    scenario: &Scenario,
    policy: &Policy,
    windows: Option<&Windows>,
    rate: BitsPerSec,
) -> Result<Outcome, Failure> {
    let transport = congestion::for_prediction(windows, rate)?;
    let rate = BitsPerSec((u128::from(rate.0) * u128::from(FRAME) / u128::from(FRAME - HEADERS)) as u64);
    let in_band = policy.terms().scope == Scope::Host;
    let packets =
        Packets { mtu: FRAME, headers: HEADERS, in_band, ..Packets::over(Carrier::from(&transport)) };
    let fabric = scenario.conditions().fabric.clone().map(|fabric| FabricSpec { rate: Some(rate), ..fabric });
    let conditions = Conditions { rate, fabric, ..scenario.conditions().clone() };
    let over = scenario.with_conditions(conditions)?.with_policy(policy.clone());
    over.on(Engine::Packet(packets)).run()
}

/// Replays `workload`, `scale` times as large, on loopback under each of `policies`, and returns
/// the table.
///
/// # Errors
/// As [`run`].
pub(crate) fn demonstrate(
    workload: Workload,
    scale: f64,
    policies: &[&str],
    rate: BitsPerSec,
) -> Result<Grid, Failure> {
    let contenders = policies.iter().map(|spec| contender(spec)).collect::<Result<Vec<_>, _>>()?;
    let workload = cavalcade_lab::prepare(&workload, scale).map_err(failure)?.workload;
    let conditions = Conditions { rate, ..Conditions::default() };
    let rows = measure(&contenders, &[Enforcement::Library], workload, conditions, &[], 1, |_| Setup {
        limit: Nanos::from_secs(20),
        ..setup(Transport::Loopback, rate, Nanos::from_millis(10))
    })?;
    Ok(table(&rows))
}

fn contenders(options: &Lab, asked: &Asked) -> Result<Vec<Contender>, Failure> {
    let named: Vec<&str> = options.policies.iter().chain(&options.policy).map(String::as_str).collect();
    let specs = if named.is_empty() { DEFAULT.to_vec() } else { named };
    specs.into_iter().map(|spec| with_windows(spec, asked)).collect()
}

/// The contender that `spec` names, with the congestion control that is asked for.
fn with_windows(spec: &str, asked: &Asked) -> Result<Contender, Failure> {
    let windows = match spec {
        PLAIN => None,
        _ => asked.for_policy(configured(spec)?.name()),
    };
    Ok(Contender { windows, ..contender(spec)? })
}

/// The congestion control that the command line asks for under the kernel path.
fn asked(options: &Lab, ways: &[Enforcement]) -> Result<Asked, Failure> {
    let asked = Asked::read(options.congestion.as_deref())?;
    if options.congestion.is_some() && !has_enforcers(ways) {
        return Err(Failure::usage("--congestion: hosts have one under the kernel path only")
            .help("add --enforce kernel"));
    }
    match cavalcade_lab::marks_missing() {
        Some(reason) if asked != Asked::Nothing && has_enforcers(ways) => {
            tell(&format!("ports mark nothing, and connections keep Reno: {reason}"));
            Ok(Asked::Nothing)
        }
        _ => Ok(asked),
    }
}

/// The contender that `spec` names.
///
/// # Errors
/// If it is no policy.
pub(crate) fn contender(spec: &str) -> Result<Contender, Failure> {
    if spec == PLAIN {
        let predicted = Policy::from(configured(PLAIN_PREDICTED)?);
        let (label, scheduler) = (spec.to_owned(), Scheduler::Tcp);
        return Ok(Contender { label, scheduler, predicted, sorted: None, windows: None });
    }
    let policy = configured(spec)?;
    let sorted = (policy.terms().scope == Scope::Host || SORTED_BY_SWITCHES.contains(&policy.name()))
        .then(|| Policy::from(policy.for_queues(cavalcade_control::CLASSES as u32)));
    let predicted = Policy::from(policy);
    let scheduler = match predicted.terms().scope {
        Scope::Fabric => Scheduler::Coordinator(spec.to_owned()),
        _ => Scheduler::Hosts(spec.to_owned()),
    };
    Ok(Contender { label: predicted.label().to_owned(), scheduler, predicted, sorted, windows: None })
}

fn refuse_ports(workload: &Workload, hosts: Option<u32>, faults: &[Fault]) -> Result<(), Failure> {
    let ports = workload.ports();
    let hosts = hosts.unwrap_or(ports);
    if hosts < ports {
        return Err(Failure::usage(format!("the trace has {ports} ports, and there are {hosts} hosts"))
            .help(format!("give --hosts {ports}, or leave it out")));
    }
    let beyond = faults.iter().find_map(|fault| match fault.victim {
        Victim::Agent(host) | Victim::Application(host) if host >= hosts => Some(host),
        _ => None,
    });
    match beyond {
        Some(host) => Err(Failure::usage(format!("--fault names host {host}, and there are {hosts} hosts"))
            .help("hosts count from 0")),
        None => Ok(()),
    }
}

pub(crate) fn failure(error: LabError) -> Failure {
    match error {
        LabError::Missing { ref what, cure } => Failure::new(Kind::Capability, what.clone()).help(cure),
        LabError::Trace(what) => Failure::input(what)
            .help("name a trace of coflows; 'cavalcade trace generate facebook' makes one"),
        LabError::Interrupted => Failure::new(Kind::Interrupted, "interrupted: nothing of the lab is left"),
        LabError::TimedOut { .. } => Failure::new(Kind::Runtime, error.to_string())
            .help("give it longer with --timeout, or less to do with --scale"),
        other => Failure::new(Kind::Runtime, other.to_string()),
    }
}

fn ccts(outcome: &Outcome) -> Vec<Nanos> {
    (0..outcome.coflow_finish.len()).map(|coflow| outcome.cct(CoflowId::from_index(coflow))).collect()
}

fn mean(outcome: &Outcome) -> f64 {
    Summary::of(&ccts(outcome)).mean_s
}

/// One row for each run, in the order in which they were made.
pub(crate) fn table(rows: &[Row]) -> Grid {
    let plain = rows.iter().find(|row| row.label == PLAIN);
    let nothing = || "–".to_owned();
    let measured = |row: &Row| mean(&row.runs.median().outcome);
    let cells = |of: &dyn Fn(&Row) -> String| rows.iter().map(of).collect::<Vec<String>>();
    let factors = |of: &dyn Fn(&Row) -> f64| {
        cells(&|row| plain.map_or(nothing(), |plain| format!("{:.2}×", of(plain) / of(row))))
    };
    let seconds = |mean: f64| format!("{mean:.3} s");
    let predictions = |of: fn(&Row) -> Option<&Outcome>| {
        let off = |row: &Row, predicted: f64| format!("{:+.1} %", 100.0 * (measured(row) / predicted - 1.0));
        let times = cells(&|row| of(row).map(mean).map_or(nothing(), seconds));
        (times, cells(&|row| of(row).map(mean).map_or(nothing(), |predicted| off(row, predicted))))
    };
    let (predicted, off_by) = predictions(|row| Some(&row.predicted));
    let (controlled, controlled_off) = predictions(|row| row.controlled.as_ref());
    let cpu = |row: &Row| match row.runs.median().cost {
        Cost { agents: Nanos(0), .. } => nothing(),
        cost => format!("{:.1} %", 100.0 * cost.core_share_at_gigabit()),
    };
    let mut grid = Grid::default()
        .text("policy", cells(&|row| row.label.clone()))
        .figures("mean CCT", cells(&|row| seconds(measured(row))))
        .figures(format!("vs {PLAIN}"), factors(&measured))
        .figures(format!("predicted vs {PLAIN}"), factors(&|row| mean(&row.predicted)))
        .figures("from – to", cells(&|row| row.runs.range()))
        .figures("predicted", predicted)
        .figures("off by", off_by)
        .figures("with Δ", controlled)
        .figures("Δ off by", controlled_off);
    // Where ports hold to classes there are two columns more.
    if rows.iter().any(|row| row.packets.is_some()) {
        let (packets, packets_off) = predictions(|row| row.packets.as_ref());
        grid = grid.figures("packets", packets).figures("packets off by", packets_off);
    }
    grid.figures("p95", cells(&|row| seconds(Summary::of(&ccts(&row.runs.median().outcome)).p95_s)))
        .figures("makespan", cells(&|row| seconds(row.runs.median().outcome.makespan().0 as f64 / 1e9)))
        .figures("cpu/Gbps", cells(&cpu))
}

fn footnotes(rows: &[Row], prepared: &Prepared, options: &Lab) -> String {
    let workload = &prepared.workload;
    let mut text = format!(
        "\n{} coflows, {} flows, {:.1} MB on {} hosts at {}, {}. All bytes of all runs arrived as they were sent.\n",
        workload.coflow_count(),
        workload.flows().len(),
        workload.bytes().0 as f64 / 1e6,
        options.hosts.unwrap_or(workload.ports()),
        options.rate,
        match options.transport {
            LabTransport::Netns => "network namespaces",
            LabTransport::Loopback => "loopback",
        }
    );
    text += "predicted: by the fluid engine, without delays; plain TCP as fair sharing. with Δ: by the control plane itself, over links that share at once. cpu/Gbps: agent and client library, or agent and enforcer, share of a core.\n";
    if rows.iter().any(|row| row.packets.is_some()) {
        text += "packets: by the packet engine over ports and congestion controls like these, whose eight queues hold to the class of packets; gates are left open there.\n";
    }
    if prepared.local_flows > 0 {
        let (flows, bytes) = (prepared.local_flows, prepared.local_bytes);
        let _ = writeln!(text, "{flows} flows of {} stay on their host and were left out.", amount(bytes));
    }
    if rows.iter().any(|row| row.runs.all().len() > 1) {
        let runs = rows[0].runs.all().len();
        let _ = writeln!(
            text,
            "Each was run {runs} times: medians by mean CCT. Judge by 'with Δ'; 'predicted' knows no delays."
        );
    }
    for row in rows {
        let losses: Vec<Losses> = row.runs.all().iter().filter_map(|run| run.losses).collect();
        if !losses.is_empty() {
            let of = |count: fn(&Losses) -> u64| {
                let counts: Vec<String> = losses.iter().map(|losses| count(losses).to_string()).collect();
                counts.join(" ")
            };
            let (syns, timeouts, drops) = (of(|of| of.syns_again), of(|of| of.timeouts), of(|of| of.drops));
            let marked = match &row.windows {
                Some(windows) => {
                    format!("; over {}, packets marked {}", windows.label(), of(|of| of.marked.unwrap_or(0)))
                }
                None => String::new(),
            };
            let _ = writeln!(
                text,
                "{}: SYNs sent again {syns}; time-outs {timeouts}; packets dropped {drops}{marked} (a number for each run)",
                row.label
            );
        }
        for recovery in &row.runs.median().recoveries {
            let _ = writeln!(text, "{}: {}", row.label, told(recovery));
        }
    }
    text
}

fn amount(bytes: Bytes) -> String {
    format!("{:.1} MB", bytes.0 as f64 / 1e6)
}

fn seconds(nanos: u64) -> String {
    format!("{:.2} s", nanos as f64 / 1e9)
}

fn told(recovery: &Recovery) -> String {
    let fault = recovery.fault;
    let who = victim(fault.victim);
    let what = if fault.hangs.is_some() { "hung" } else { "was killed" };
    let ms = |nanos: Nanos| nanos.0 as f64 / 1e6;
    let next = recovery.next_arrival.map_or("it had no transfers left".to_owned(), |next| {
        format!("its next transfer arrived after {:.0} ms", ms(next))
    });
    format!("{who} {what} at {}, was back after {:.0} ms; {next}", seconds(fault.at.0), ms(recovery.back))
}

fn victim(victim: Victim) -> String {
    match victim {
        Victim::Coordinator => "coordinator".to_owned(),
        Victim::Agent(host) => format!("agent {host}"),
        Victim::Application(host) => format!("application {host}"),
    }
}

fn as_json(rows: &[Row], prepared: &Prepared, options: &Lab) -> Value {
    let runs = rows.iter().map(|row| {
        let Cost { agents, clients, enforcers, coordinator, wall, .. } = row.runs.median().cost;
        let of = |outcome: &Outcome| {
            let summary = Summary::of(&ccts(outcome));
            json!({
                "mean_cct_s": summary.mean_s, "p50_s": summary.p50_s, "p95_s": summary.p95_s,
                "p99_s": summary.p99_s, "makespan_s": outcome.makespan().0 as f64 / 1e9,
                "cct_ns": ccts(outcome).iter().map(|cct| cct.0).collect::<Vec<_>>(),
            })
        };
        let recoveries = row.runs.median().recoveries.iter().map(|recovery| {
            json!({
                "victim": victim(recovery.fault.victim), "at_ns": recovery.fault.at.0,
                "hangs_ns": recovery.fault.hangs.map(|time| time.0), "back_ns": recovery.back.0,
                "next_arrival_ns": recovery.next_arrival.map(|time| time.0),
            })
        });
        let repeats = row
            .runs
            .all()
            .iter()
            .map(|run| json!({ "measured": of(&run.outcome), "losses": run.losses.map(losses_as_json) }));
        json!({
            "repeats": repeats.collect::<Vec<_>>(),
            "policy": row.label, "measured": of(&row.runs.median().outcome), "predicted": of(&row.predicted),
            "predicted_with_control": row.controlled.as_ref().map(of),
            "predicted_over_packets": row.packets.as_ref().map(of),
            "congestion": row.windows.as_ref().map(Windows::label),
            "cost": {
                "agents_cpu_ns": agents.0, "clients_cpu_ns": clients.0, "enforcers_cpu_ns": enforcers.0,
                "coordinator_cpu_ns": coordinator.0, "wall_ns": wall.0,
            },
            "recoveries": recoveries.collect::<Vec<_>>(),
        })
    });
    json!({
        "schema_version": 1, "coflows": prepared.workload.coflow_count(), "flows": prepared.workload.flows().len(),
        "bytes": prepared.workload.bytes().0, "local_flows": prepared.local_flows,
        "rate_bps": options.rate.0, "runs": runs.collect::<Vec<_>>(),
    })
}

fn losses_as_json(losses: Losses) -> Value {
    json!({
        "syns_again": losses.syns_again, "timeouts": losses.timeouts, "drops": losses.drops,
        "marked": losses.marked, "bytes_by_class": losses.by_class,
    })
}

/// Reads a fault, as `kill:agent3@1s`, `kill:coordinator@1s` or `hang:host2@1s+500ms`.
///
/// # Errors
/// If it is none, with what one looks like.
pub(crate) fn parse_fault(text: &str) -> Result<Fault, String> {
    let expected =
        || "expected kill:coordinator@1s, kill:agent3@1s, kill:host3@1s or hang:host3@1s+500ms".to_owned();
    let (how, rest) = text.split_once(':').ok_or_else(expected)?;
    let (who, when) = rest.split_once('@').ok_or_else(expected)?;
    let number = |name: &str| who.strip_prefix(name).and_then(|number| number.parse().ok());
    let victim = match who {
        "coordinator" => Victim::Coordinator,
        _ => number("agent")
            .map(Victim::Agent)
            .or_else(|| number("host").map(Victim::Application))
            .ok_or_else(expected)?,
    };
    let time = |text: &str| text.parse::<Nanos>().map_err(|error| format!("{error}; {}", expected()));
    match (how, when.split_once('+')) {
        ("kill", None) => Ok(Fault { at: time(when)?, victim, hangs: None }),
        ("hang", Some((at, span))) => Ok(Fault { at: time(at)?, victim, hangs: Some(time(span)?) }),
        _ => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_and_what_is_none_is_refused_with_an_example() {
        let kill = parse_fault("kill:agent3@1s").unwrap();
        assert_eq!((kill.victim, kill.at, kill.hangs), (Victim::Agent(3), Nanos::from_secs(1), None));
        let hang = parse_fault("hang:host2@10ms+500ms").unwrap();
        assert_eq!((hang.victim, hang.hangs), (Victim::Application(2), Some(Nanos::from_millis(500))));
        for wrong in ["kill", "kill:agent@1s", "hang:host2@1s", "kill:host2@1s+1s", "burn:host1@1s"] {
            assert!(parse_fault(wrong).unwrap_err().contains("kill:agent3@1s"), "{wrong}");
        }
    }
}
