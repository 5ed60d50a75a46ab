//! `cavalcade lab --fabric`: Baraat's testbed on this machine, beside what both engines predict of
//! the very same run.
//!
//! Racks of namespaces are joined by `cavalcade switch` processes. Each coflow is a task: its flows
//! go over the kernel's TCP, or as SPC streams under the id of the task, or as the same streams
//! with RCP's rates, with which Baraat was compared. The packet engine is given the same links,
//! headers and counters; its links' delays make up the round trip that hosts and switches are told.
//! Frames are carried by the switches' processes, or by their programs in the kernel, or by each in
//! turn; RCP's rates need state for each flow, which the kernel's switches have not. Policies whose
//! switches sort by class and mark run over bridges of the kernel, beside the packet engine's run
//! of the same policy and congestion control.
//!
//! Processes that wait for the processor look like a slow network. Where other work keeps the
//! machine busy, start the lab with priority over it: `chrt -f 10 cavalcade lab …`.

use std::sync::Arc;

use cavalcade::{Conditions, Engine, Packets, Policy, Scenario, Transport as Carrier};
use cavalcade_lab::{
    Enforcement, Measured, Prepared, Racks, Scheduler, Setup, SwitchedBy, Transport, port_buffer,
};
use cavalcade_metrics::{Outcome, Summary};
use cavalcade_model::{BitsPerSec, Fabric, FabricSpec, History, LinkId, Nanos, PortId, Workload};
use cavalcade_report::Grid;
use cavalcade_switch::SwitchError;
use cavalcade_transport::stream::frame::OVERHEAD;
use serde_json::{Value, json};

use super::congestion::{Asked, Windows};
use super::runs::Runs;
use super::{
    Contender, PLAIN, STOPPED, asked, ccts, failure, limit, losses_as_json, mean, over_packets, settled,
    setup, with_windows,
};
use crate::arguments::{Lab, LabCarrier, LabEnforcement};
use crate::fabric::argument::FabricArgument;
use crate::failure::Failure;
use crate::output::{print, tell};
use crate::policies::configured;
use crate::terminal::fit;

/// Bytes of an IP packet.
const MTU: u16 = 1_500;
/// The headers of TCP with its time stamps, and IP's.
const TCP_HEADERS: u16 = 52;

/// The kernel's Reno at the lab's hosts: with their least timeout, and with the window that their
/// receivers begin with, 80 KB.
///
/// Sockets said that this window held flows of 400 KB for up to half of their time. The kernel lets
/// it grow as an application reads, which the engine does not.
const RENO: &str = "reno:minimum_rto=10ms,window=55";

/// The carrier of flows: in the lab, in the packet engine, and in the fluid one.
struct Carried {
    name: &'static str,
    scheduler: Scheduler,
    packets: &'static str,
    headers: u16,
    fluid: &'static str,
}

const CARRIED: [Carried; 3] = [
    Carried { name: PLAIN, scheduler: Scheduler::Tcp, packets: RENO, headers: TCP_HEADERS, fluid: "fair" },
    Carried {
        name: "rcp",
        scheduler: Scheduler::Rcp,
        packets: "rcp:minimum_rto=10ms",
        headers: OVERHEAD,
        fluid: "fair",
    },
    Carried {
        name: "spc",
        scheduler: Scheduler::Spc,
        packets: "spc:minimum_rto=10ms",
        headers: OVERHEAD,
        fluid: "baraat:heavy_percentile=none",
    },
];

/// What is run in each way, with what is expected of it.
struct Contest {
    name: String,
    scheduler: Scheduler,
    enforcement: Enforcement,
    carriers: Vec<SwitchedBy>,
    fluid: Policy,
    expects: Expects,
    /// The policy by whose rule kernels sort messages, where hosts do.
    demotion: Option<String>,
}

/// The engine whose prediction a run is to be held to.
enum Expects {
    /// That of packets, over this transport and with so many bytes of headers.
    Packets(String, u16),
    /// The same, where ports hold to this policy's classes.
    Classes(Policy, Option<Windows>),
    /// The control plane's, with Δ.
    Control,
}

/// The result of one over one carrier of switches.
struct Row {
    name: String,
    carrier: SwitchedBy,
    runs: Runs,
    predicted: Predicted,
}

/// The predictions of a run.
#[derive(Clone)]
struct Predicted {
    packets: Option<Outcome>,
    control: Option<Outcome>,
    fluid: Outcome,
}

impl Predicted {
    /// The one that the run is to be held to.
    fn closest(&self) -> &Outcome {
        self.packets.as_ref().or(self.control.as_ref()).unwrap_or(&self.fluid)
    }
}

impl Row {
    fn label(&self) -> String {
        match self.carrier {
            SwitchedBy::Process => self.name.clone(),
            SwitchedBy::Xdp | SwitchedBy::Bridge => format!("{}, {}", self.name, self.carrier()),
        }
    }

    fn carrier(&self) -> &'static str {
        match self.carrier {
            SwitchedBy::Process => "process",
            SwitchedBy::Xdp => "xdp",
            SwitchedBy::Bridge => "bridge",
        }
    }
}

/// Runs the command.
///
/// # Errors
/// If the fabric is none of racks, the machine cannot carry a lab, or a run fails.
pub(super) fn run(options: &Lab, argument: &FabricArgument, prepared: &Prepared) -> Result<(), Failure> {
    let spec = argument.checked(options.rate)?;
    let rate = spec.rate.unwrap_or(options.rate);
    let contests = contests(options, rate, &History::of(&prepared.workload))?;
    let fabric = argument.build(rate)?;
    let racks = racks(&fabric, options.round_trip).ok_or_else(|| {
        Failure::usage(format!("--fabric {argument}: the lab builds racks of equal size below one root"))
            .help("give tree:pods=1,racks=5,hosts=4, with oversubscription= if need be")
    })?;
    let workload = Arc::new(prepared.workload.clone());
    let scenario_at = |rate: BitsPerSec| {
        let fabric = Some(FabricSpec { rate: Some(rate), ..spec.clone() });
        let conditions = Conditions { rate, fabric, counters: options.counters, ..Conditions::default() };
        Scenario::new(Arc::clone(&workload), conditions)
    };
    let (scenario, of_payload) = (scenario_at(rate)?, scenario_at(Racks::payload(rate))?);
    let link_delay = link_delay(&fabric, options.round_trip);
    let mut rows = Vec::new();
    for Contest { name, scheduler, enforcement, carriers, fluid, expects, demotion } in contests {
        let predicted = predict([&scenario, &of_payload], fluid, &expects, link_delay, options.period)?;
        let (by_class, congestion) = match &expects {
            Expects::Classes(_, windows) => (true, windows.as_ref().and_then(Windows::congestion)),
            Expects::Packets(..) | Expects::Control => (false, None),
        };
        let closest = predicted.closest();
        tell(&format!(
            "{name}: {} tasks, predicted to take {}",
            closest.coflow_finish.len(),
            seconds(closest.makespan().0)
        ));
        for carrier in carriers {
            let racks = Racks { switches: carrier, ..racks };
            let setup = Setup {
                hosts: fabric.ports(),
                limit: limit(options, closest),
                enforcement,
                by_class,
                congestion,
                demotion: demotion.clone(),
                ..setup(Transport::Racks(racks), rate, options.period)
            };
            let run = || cavalcade_lab::run(&setup, scenario.workload(), &scheduler, &[], &STOPPED);
            let runs = Runs::make(options.repeat.unwrap_or(1), run).map_err(failure)?;
            rows.push(Row { name: name.clone(), carrier, runs, predicted: predicted.clone() });
        }
    }
    if options.json {
        return print(&format!("{:#}\n", as_json(&rows, racks, rate, scenario.workload())));
    }
    print(&table(&rows).show(fit(options.room.wide)))?;
    print(&footnotes(racks, rate, scenario.workload()))
}

/// Asks the engines what a run will take. A control plane knows the rates of payload, so it is
/// asked on a fabric of those.
fn predict(
    [scenario, of_payload]: [&Scenario; 2],
    fluid: Policy,
    expects: &Expects,
    link_delay: Nanos,
    period: Nanos,
) -> Result<Predicted, Failure> {
    let with_control = of_payload.with_policy(fluid.clone()).on(Engine::Control { period });
    let mut predicted = Predicted { packets: None, control: None, fluid: scenario.with_policy(fluid).run()? };
    match expects {
        Expects::Control => predicted.control = Some(with_control.run()?),
        Expects::Classes(policy, windows) => {
            let payload = of_payload.conditions().rate;
            predicted.packets = Some(over_packets(of_payload, policy, windows.as_ref(), payload)?);
        }
        Expects::Packets(transport, headers) => {
            let transport =
                cavalcade::transport::parse(transport).map_err(|error| Failure::usage(error.to_string()))?;
            let engine = Packets {
                link_delay,
                mtu: MTU,
                headers: *headers,
                ..Packets::over(Carrier::from(&transport))
            };
            let over = scenario.on(Engine::Packet(engine)).ordered_by(None);
            predicted.packets = Some(over.run()?);
        }
    }
    Ok(predicted)
}

/// Returns what is run, and over which carriers of switches.
fn contests(options: &Lab, rate: BitsPerSec, history: &History) -> Result<Vec<Contest>, Failure> {
    let of_switches = cavalcade_switch::kernel::missing();
    if let Some(why) = of_switches.filter(|_| options.carrier.contains(&LabCarrier::Xdp)) {
        return Err(crate::switch::failure(SwitchError::NoPrograms { why }));
    }
    // Only bridges mark, so only there it matters whether ports can.
    let asked = match options.carrier.contains(&LabCarrier::Bridge) {
        true => asked(options, &[Enforcement::Kernel])?,
        false => Asked::read(options.congestion.as_deref())?,
    };
    let named: Vec<&str> = options.policies.iter().chain(&options.policy).map(String::as_str).collect();
    let contests = match &named[..] {
        [] => CARRIED
            .iter()
            .map(|carried| carried.contests(options, rate, false))
            .collect::<Result<Vec<_>, _>>()?,
        named => {
            let of = |&name: &&str| match CARRIED.iter().find(|carried| carried.name == name) {
                Some(carried) => carried.contests(options, rate, true),
                None => ordered(options, name, &asked, history),
            };
            named.iter().map(of).collect::<Result<Vec<_>, _>>()?
        }
    };
    Ok(contests.into_iter().flatten().filter(|contest| !contest.carriers.is_empty()).collect())
}

/// Returns the contests of a policy whose orders enforcers carry out: over switches with a class
/// for all plain traffic, and over those that hold to classes.
fn ordered(options: &Lab, spec: &str, asked: &Asked, history: &History) -> Result<Vec<Contest>, Failure> {
    if !options.enforce.contains(&LabEnforcement::Kernel) {
        return Err(Failure::usage(format!(
            "{spec}: in racks of software switches flows go over tcp, rcp or spc"
        ))
        .help("give --policies tcp,rcp,spc, or add --enforce kernel for other policies"));
    }
    let Contender { label, scheduler, predicted, sorted, windows } = with_windows(spec, asked)?;
    let (scheduler, demotion) = settled(&scheduler, history)?;
    let (bridges, others): (Vec<_>, Vec<_>) =
        carriers(options).into_iter().partition(|carrier| *carrier == SwitchedBy::Bridge);
    if (demotion.is_some() || windows.is_some()) && !others.is_empty() {
        return Err(Failure::usage(format!(
            "{spec}: switches that speak SPC have one class for all other traffic, and mark nothing"
        ))
        .help("give --carrier bridge"));
    }
    let contest = |carriers, expects, demotion| Contest {
        name: label.clone(),
        scheduler: scheduler.clone(),
        enforcement: Enforcement::Kernel,
        carriers,
        fluid: predicted.clone(),
        expects,
        demotion,
    };
    let classes = sorted.map_or(Expects::Control, |policy| Expects::Classes(policy, windows));
    Ok(vec![contest(others, Expects::Control, None), contest(bridges, classes, demotion)])
}

fn carriers(options: &Lab) -> Vec<SwitchedBy> {
    options.carrier.iter().map(|&carrier| SwitchedBy::from(carrier)).collect()
}

impl Carried {
    /// Returns its contests: over switches that speak SPC, and over bridges, whose ports have
    /// another queue.
    fn contests(&self, options: &Lab, rate: BitsPerSec, is_named: bool) -> Result<Vec<Contest>, Failure> {
        let fits = |carrier: &SwitchedBy| match self.scheduler {
            Scheduler::Rcp => *carrier == SwitchedBy::Process,
            Scheduler::Spc => *carrier != SwitchedBy::Bridge,
            _ => true,
        };
        let fitting = carriers(options).into_iter().filter(fits);
        let (bridges, others): (Vec<_>, Vec<_>) = fitting.partition(|carrier| *carrier == SwitchedBy::Bridge);
        if is_named && bridges.is_empty() && others.is_empty() {
            return Err(self.refused());
        }
        let over_bridges = format!("{RENO},buffer={}", port_buffer(Racks::payload(rate)));
        let fluid = Policy::from(configured(self.fluid)?);
        let contest = |carriers, packets: &str| Contest {
            name: self.name.to_owned(),
            scheduler: self.scheduler.clone(),
            enforcement: Enforcement::Library,
            carriers,
            fluid: fluid.clone(),
            expects: Expects::Packets(packets.to_owned(), self.headers),
            demotion: None,
        };
        Ok(vec![contest(others, self.packets), contest(bridges, &over_bridges)])
    }

    fn refused(&self) -> Failure {
        let (why, cure) = match self.scheduler {
            Scheduler::Rcp => (
                "switches in the kernel keep no state for each flow, which it needs",
                "give --carrier process, or process,xdp",
            ),
            _ => ("the kernel's bridge does not speak it", "give --carrier process or xdp"),
        };
        Failure::usage(format!("{}: {why}", self.name)).help(cure)
    }
}

/// Returns racks of equal size below one root, where the fabric is that.
fn racks(fabric: &Fabric, round_trip: Nanos) -> Option<Racks> {
    let switches = SwitchedBy::Process;
    let links = |to: u32| fabric.find_path(PortId(0), PortId(to)).map(|path| path.len());
    let ports = fabric.ports();
    let hosts = (1..ports).find(|&host| links(host) != Some(2)).unwrap_or(ports);
    let racks = ports / hosts;
    let all_below_one_root = (hosts..ports).all(|host| links(host) == Some(4)) && racks * hosts == ports;
    let of_host = fabric.capacity(fabric.ingress(PortId(0)));
    let uplink = match fabric.find_path(PortId(0), PortId(ports - 1)) {
        Some(path) if path.len() == 4 => fabric.capacity(path[1]),
        _ => of_host,
    };
    let is_alike = |from: u32| {
        let Some(path) = fabric.find_path(PortId(from), PortId((from + hosts) % ports)) else { return false };
        let is_host = |link: LinkId| link.0 < 2 * ports;
        path.into_iter().all(|link| fabric.capacity(link) == if is_host(link) { of_host } else { uplink })
    };
    let alike = (0..ports).all(is_alike) && !fabric.links().any(|link| fabric.has_failed(link));
    (all_below_one_root && alike && ports > 1).then_some(Racks { racks, hosts, uplink, round_trip, switches })
}

/// Returns the delay of links with which a full packet there and an answer back take the round trip
/// on the longest path.
fn link_delay(fabric: &Fabric, round_trip: Nanos) -> Nanos {
    let Some(path) = fabric.find_path(PortId(0), PortId(fabric.ports() - 1)) else {
        return Packets::LINK_DELAY;
    };
    let sending: u64 =
        path.iter().map(|&link| u64::from(MTU) * 8_000_000_000 / fabric.capacity(link).get().max(1)).sum();
    let delay = round_trip.get().saturating_sub(sending) / (2 * path.len() as u64);
    Nanos(delay.max(Packets::LINK_DELAY.get()))
}

fn seconds(nanos: u64) -> String {
    format!("{:.2} s", nanos as f64 / 1e9)
}

/// An outcome of each row, and the name of its columns.
type Named = (&'static str, fn(&Row) -> Option<&Outcome>);

fn table(rows: &[Row]) -> Grid {
    let plain = ["rcp", PLAIN].iter().find_map(|name| rows.iter().find(|row| row.name == *name));
    let live = |row: &Row| Summary::of(&ccts(&row.runs.median().outcome));
    let cells =
        |of: &dyn Fn(&Row) -> Option<String>| rows.iter().map(|row| text_of(of(row))).collect::<Vec<_>>();
    let seconds = |seconds: f64| Some(format!("{seconds:.4} s"));
    let predicted: [Named; 3] = [
        ("packets", |row| row.predicted.packets.as_ref()),
        ("with Δ", |row| row.predicted.control.as_ref()),
        ("fluid", |row| Some(&row.predicted.fluid)),
    ];
    let below: [Named; 3] = [("", |row| Some(&row.runs.median().outcome)), predicted[0], predicted[2]];
    let mut grid = Grid::default()
        .text("contender", rows.iter().map(Row::label))
        .figures("mean TCT", cells(&|row| seconds(live(row).mean_s)))
        .figures("from – to", rows.iter().map(|row| row.runs.range()))
        .figures("p95", cells(&|row| seconds(live(row).p95_s)))
        .figures("p99", cells(&|row| seconds(live(row).p99_s)));
    for (name, of) in predicted {
        let off = |row: &Row, of: f64| format!("{:+.1} %", 100.0 * (live(row).mean_s / of - 1.0));
        grid = grid
            .figures(name, cells(&|row| of(row).map(mean).and_then(seconds)))
            .figures(format!("{name} off by"), cells(&|row| of(row).map(mean).map(|mean| off(row, mean))));
    }
    for (name, of) in below {
        let less = |row: &Row| {
            let (own, plain) = (of(row).map(mean), plain.and_then(of).map(mean));
            own.zip(plain).map(|(own, plain)| format!("{:.1} %", 100.0 * (1.0 - own / plain)))
        };
        grid = grid.figures(format!("{name} below").trim_start(), cells(&less));
    }
    grid
}

/// The text, or a dash for none.
fn text_of(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

fn footnotes(racks: Racks, rate: BitsPerSec, workload: &Workload) -> String {
    format!(
        "\n{} tasks, {} flows, {:.1} MB; {} racks of {} hosts on links of {rate}, {} to the root. All bytes of all runs arrived as they were sent.\n\
         from – to: the least and the most of repeated runs, whose median is shown (--repeat); packets, fluid: what these engines predict of the same run; with Δ: what the control plane itself does over links that share at once; below: by how much the mean is below rcp's (else tcp's), live and as predicted.\n",
        workload.coflow_count(),
        workload.flows().len(),
        workload.bytes().0 as f64 / 1e6,
        racks.racks,
        racks.hosts,
        racks.uplink,
    )
}

fn as_json(rows: &[Row], racks: Racks, rate: BitsPerSec, workload: &Workload) -> Value {
    let of = |outcome: &Outcome| {
        let times = ccts(outcome);
        let summary = Summary::of(&times);
        json!({
            "mean_s": summary.mean_s, "p50_s": summary.p50_s, "p95_s": summary.p95_s, "p99_s": summary.p99_s,
            "makespan_s": outcome.makespan().0 as f64 / 1e9,
        })
    };
    let repeat = |run: &Measured| {
        let mut repeat = of(&run.outcome);
        repeat["losses"] = run.losses.map(losses_as_json).into();
        repeat
    };
    let runs = rows.iter().map(|row| {
        json!({
            "name": row.name, "carrier": row.carrier(), "measured": of(&row.runs.median().outcome),
            "repeats": row.runs.all().iter().map(repeat).collect::<Vec<_>>(),
            "packets": row.predicted.packets.as_ref().map(of), "with_control": row.predicted.control.as_ref().map(of),
            "fluid": of(&row.predicted.fluid),
        })
    });
    json!({
        "schema_version": 1, "tasks": workload.coflow_count(), "flows": workload.flows().len(),
        "bytes": workload.bytes().0, "racks": racks.racks, "hosts_per_rack": racks.hosts, "rate_bps": rate.0,
        "uplink_bps": racks.uplink.0, "round_trip_ns": racks.round_trip.0, "runs": runs.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use cavalcade_model::FabricSpec;

    use super::*;

    fn found(text: &str) -> Option<(u32, u32, u64)> {
        let fabric = text.parse::<FabricSpec>().unwrap().build(BitsPerSec(50_000_000)).unwrap();
        racks(&fabric, Nanos(1)).map(|racks| (racks.racks, racks.hosts, racks.uplink.0))
    }

    #[test]
    fn racks_below_one_root_are_found_in_a_fabric_and_others_refused() {
        assert_eq!(found("tree:pods=1,racks=5,hosts=4"), Some((5, 4, 200_000_000)));
        assert_eq!(found("tree:pods=1,racks=2,hosts=3,oversubscription=3"), Some((2, 3, 50_000_000)));
        assert_eq!(found("bigswitch:ports=4"), Some((1, 4, 50_000_000)));
        assert_eq!(found("tree:pods=2,racks=2,hosts=2"), None);
        for odd in ["ingress of port 0 rate=10Mbps", "egress of port 3 failed", "pod 0 to rack 1 rate=1Gbps"]
        {
            assert_eq!(found(&format!("tree:pods=1,racks=2,hosts=2; {odd}")), None, "{odd}");
        }
    }

    #[test]
    fn link_delays_make_up_the_round_trip() {
        let fabric =
            "bigswitch:ports=4".parse::<FabricSpec>().unwrap().build(BitsPerSec(50_000_000)).unwrap();
        // Two links of 240 µs for a packet; the rest in four.
        assert_eq!(link_delay(&fabric, Nanos(2_000_000)), Nanos(380_000));
        assert_eq!(link_delay(&fabric, Nanos(1_000)), Packets::LINK_DELAY);
    }
}
