//! `cavalcade lab --fabric`: Baraat's testbed on this machine, beside what both engines predict of the very same run.
//!
//! Racks of namespaces are joined by `cavalcade switch` processes. Each coflow is a task: its flows go over the kernel's TCP, or as SPC
//! streams under the id of the task, or as the same streams with RCP's rates, with which Baraat was compared. The packet engine is given the same links, headers and counters; its links' delays make up
//! the round trip that hosts and switches are told. Frames are carried by the switches' processes, or by their programs in the kernel, or by each
//! in turn; RCP's rates need state for each flow, which the kernel's switches have not.
//!
//! Processes that wait for the processor look like a slow network. Where other work keeps the machine busy, start the lab with
//! priority over it: `chrt -f 10 cavalcade lab …`.

use std::fmt::Write as _;

use cavalcade::{Conditions, Engine, Packets, Scenario, Transport as Carrier};
use cavalcade_lab::{Measured, Prepared, Racks, Scheduler, Setup, Transport};
use cavalcade_metrics::{Outcome, Summary};
use cavalcade_model::{BitsPerSec, Fabric, Nanos, PortId, Workload};
use cavalcade_switch::{Carrier as SwitchedBy, SwitchError};
use cavalcade_transport::stream::frame::OVERHEAD;
use serde_json::{Value, json};

use super::{PLAIN, STOPPED, ccts, failure, limit, setup};
use crate::arguments::{Lab, SwitchCarrier};
use crate::fabric::argument::FabricArgument;
use crate::failure::Failure;
use crate::output::{print, tell};

/// Bytes of an IP packet.
const MTU: u16 = 1_500;
/// The headers of TCP with its time stamps, and IP's.
const TCP_HEADERS: u16 = 52;

/// The carrier of flows: in the lab, in the packet engine, and in the fluid one.
struct Carried {
    name: &'static str,
    scheduler: Scheduler,
    packets: &'static str,
    headers: u16,
    fluid: &'static str,
}

const CARRIED: [Carried; 3] = [
    Carried { name: PLAIN, scheduler: Scheduler::Tcp, packets: "reno", headers: TCP_HEADERS, fluid: "fair" },
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

/// The result of one over one carrier of switches.
struct Row {
    name: &'static str,
    carrier: SwitchedBy,
    measured: Measured,
    packets: Outcome,
    fluid: Outcome,
}

impl Row {
    fn label(&self) -> String {
        match self.carrier {
            SwitchedBy::Process => self.name.to_owned(),
            SwitchedBy::Kernel => format!("{}, {}", self.name, self.carrier()),
        }
    }

    fn carrier(&self) -> &'static str {
        match self.carrier {
            SwitchedBy::Process => "process",
            SwitchedBy::Kernel => "xdp",
        }
    }
}

/// Runs the command.
///
/// # Errors
/// If the fabric is none of racks, the machine cannot carry a lab, or a run fails.
pub(super) fn run(options: &Lab, argument: &FabricArgument, prepared: &Prepared) -> Result<(), Failure> {
    let runs = runs(options)?;
    let spec = argument.checked(options.rate)?;
    let rate = spec.rate.unwrap_or(options.rate);
    let fabric = argument.build(rate)?;
    let racks = racks(&fabric, options.round_trip).ok_or_else(|| {
        Failure::usage(format!("--fabric {argument}: the lab builds racks of equal size below one root"))
            .help("give tree:pods=1,racks=5,hosts=4, with oversubscription= if need be")
    })?;
    let conditions =
        Conditions { rate, fabric: Some(spec), counters: options.counters, ..Conditions::default() };
    let scenario = Scenario::new(prepared.workload.clone(), conditions)?;
    let mut rows = Vec::new();
    for (Carried { name, scheduler, packets, headers, fluid }, carriers) in runs {
        let fluid = scenario.under(fluid).map_err(|error| Failure::usage(error.to_string()))?.run()?;
        let transport =
            cavalcade::transport::parse(packets).map_err(|error| Failure::usage(error.to_string()))?;
        let link_delay = link_delay(&fabric, options.round_trip);
        let engine =
            Packets { link_delay, mtu: MTU, headers: *headers, ..Packets::over(Carrier::from(&transport)) };
        let over = Scenario { policy: None, ..scenario.on(Engine::Packet(engine)) };
        let packets = over.run()?;
        tell(&format!(
            "{name}: {} tasks, predicted to take {}",
            packets.coflow_finish.len(),
            seconds(packets.makespan().0)
        ));
        for carrier in carriers {
            let setup = Setup {
                hosts: fabric.ports(),
                limit: limit(options, &packets),
                ..setup(Transport::Racks(Racks { carrier, ..racks }), rate, options.period)
            };
            let measured =
                cavalcade_lab::run(&setup, &scenario.workload, scheduler, &[], &STOPPED).map_err(failure)?;
            rows.push(Row { name, carrier, measured, packets: packets.clone(), fluid: fluid.clone() });
        }
    }
    if options.json {
        return print(&format!("{:#}\n", as_json(&rows, racks, rate, &scenario.workload)));
    }
    print(&table(&rows))?;
    print(&footnotes(racks, rate, &scenario.workload))
}

/// Returns what is run, and over which carriers of switches.
fn runs(options: &Lab) -> Result<Vec<(&'static Carried, Vec<SwitchedBy>)>, Failure> {
    if let Some(why) =
        cavalcade_switch::kernel::missing().filter(|_| options.carrier.contains(&SwitchCarrier::Xdp))
    {
        return Err(crate::switch::failure(SwitchError::NoPrograms { why }));
    }
    let has_process = options.carrier.contains(&SwitchCarrier::Process);
    let is_named = !options.policies.is_empty();
    let mut runs = Vec::new();
    for carried in carried(options)? {
        let needs_process = carried.scheduler == Scheduler::Rcp;
        if needs_process && !has_process && is_named {
            return Err(Failure::usage(
                "rcp: switches in the kernel keep no state for each flow, which it needs",
            )
            .help("give --carrier process, or process,xdp"));
        }
        let carriers = options.carrier.iter().map(|&carrier| SwitchedBy::from(carrier));
        let carriers: Vec<_> =
            carriers.filter(|&carrier| !needs_process || carrier == SwitchedBy::Process).collect();
        runs.push((carried, carriers));
    }
    Ok(runs)
}

/// Returns what the command line names, or all.
fn carried(options: &Lab) -> Result<Vec<&'static Carried>, Failure> {
    if let Some(policy) = options.policy.first() {
        return Err(unknown(policy));
    }
    if options.policies.is_empty() {
        return Ok(CARRIED.iter().collect());
    }
    let find =
        |name: &String| CARRIED.iter().find(|carried| carried.name == name).ok_or_else(|| unknown(name));
    options.policies.iter().map(find).collect()
}

fn unknown(name: &str) -> Failure {
    Failure::usage(format!("{name}: in racks of software switches flows go over tcp, rcp or spc"))
        .help("give --policies tcp,rcp,spc; policies of hosts and coordinators run without --fabric")
}

/// Returns racks of equal size below one root, where the fabric is that.
fn racks(fabric: &Fabric, round_trip: Nanos) -> Option<Racks> {
    let carrier = SwitchedBy::Process;
    let links = |to: u32| fabric.find_path(PortId(0), PortId(to)).map(|path| path.len());
    let ports = fabric.ports();
    let hosts = (1..ports).find(|&host| links(host) != Some(2)).unwrap_or(ports);
    let racks = ports / hosts;
    let all_below_one_root = (hosts..ports).all(|host| links(host) == Some(4)) && racks * hosts == ports;
    let uplink = match fabric.find_path(PortId(0), PortId(ports - 1)) {
        Some(path) if path.len() == 4 => fabric.capacity(path[1]),
        _ => fabric.capacity(fabric.ingress(PortId(0))),
    };
    let alike = fabric.links().all(|link| !fabric.has_failed(link));
    (all_below_one_root && alike && ports > 1).then_some(Racks { racks, hosts, uplink, round_trip, carrier })
}

/// Returns the delay of links with which a full packet there and an answer back take the round trip on the longest path.
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

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<8}  {:>9}  {:>9}  {:>9}  {:>9}  {:>8}  {:>9}  {:>8}  {:>8}  {:>8}  {:>8}\n",
        "", "mean TCT", "p95", "p99", "packets", "off by", "fluid", "off by", "below", "packets", "fluid"
    );
    let of = |outcome: &Outcome| Summary::of(&ccts(outcome));
    let plain = ["rcp", PLAIN].iter().find_map(|name| rows.iter().find(|row| row.name == *name));
    for row in rows {
        let (live, packets, fluid) = (of(&row.measured.outcome), of(&row.packets), of(&row.fluid));
        let off = |predicted: f64| format!("{:+.1} %", 100.0 * (live.mean_s / predicted - 1.0));
        let below = |of: &dyn Fn(&Row) -> f64| {
            plain.map_or("–".to_owned(), |plain| format!("{:.1} %", 100.0 * (1.0 - of(row) / of(plain))))
        };
        let _ = writeln!(
            text,
            "{:<8}  {:>7.4} s  {:>7.4} s  {:>7.4} s  {:>7.4} s  {:>8}  {:>7.4} s  {:>8}  {:>8}  {:>8}  {:>8}",
            row.label(),
            live.mean_s,
            live.p95_s,
            live.p99_s,
            packets.mean_s,
            off(packets.mean_s),
            fluid.mean_s,
            off(fluid.mean_s),
            below(&|row| of(&row.measured.outcome).mean_s),
            below(&|row| of(&row.packets).mean_s),
            below(&|row| of(&row.fluid).mean_s),
        );
    }
    text
}

fn footnotes(racks: Racks, rate: BitsPerSec, workload: &Workload) -> String {
    format!(
        "\n{} tasks, {} flows, {:.1} MB; {} racks of {} hosts on links of {rate}, {} to the root. All bytes of all runs arrived as they were sent.\n\
         packets, fluid: what these engines predict of the same run; below: by how much the mean is below rcp's (else tcp's), live and as predicted.\n",
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
    let runs = rows.iter().map(|row| {
        json!({
            "name": row.name, "carrier": row.carrier(), "measured": of(&row.measured.outcome), "packets": of(&row.packets), "fluid": of(&row.fluid),
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
