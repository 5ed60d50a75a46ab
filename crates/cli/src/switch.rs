//! `cavalcade switch`: a software switch that speaks SPC, on interfaces of this machine.

use cavalcade_model::{BitsPerSec, Nanos};
use cavalcade_switch::{PortReport, Running, Setup, Stop, SwitchError, run as turn};
use cavalcade_transport::spc::Spc;
use serde_json::json;

use crate::arguments::SwitchOptions;
use crate::failure::{Failure, Kind};
use crate::output::{print, tell};

/// Runs the command until an interrupt.
///
/// # Errors
/// If an argument is not valid, an interface cannot be used, or the topology is wrong.
pub(crate) fn run(options: &SwitchOptions) -> Result<(), Failure> {
    let ports =
        options.ports.iter().map(|port| parse_port(port, options.rate)).collect::<Result<Vec<_>, _>>()?;
    let routes =
        options.routes.iter().map(|route| parse_route(route, &ports)).collect::<Result<Vec<_>, _>>()?;
    let setup = Setup {
        spc: Spc { heavy: options.heavy, ..Spc::default() },
        base_rtt: options.round_trip,
        id: options.id.unwrap_or_else(by_chance),
        life: by_chance(),
        tasks: options.tasks as usize,
        routes,
        ..Setup::default()
    };
    let stop = Stop::default();
    let asked = stop.clone();
    // Without the handler an interrupt ends the program at once, which undoes as much.
    let _ = ctrlc::set_handler(move || asked.stop());
    let names: Vec<&str> = ports.iter().map(|(name, _)| name.as_str()).collect();
    tell(&format!(
        "cavalcade switch {:016x} on {}; an interrupt (Ctrl-C) ends it",
        setup.id,
        names.join(", ")
    ));
    let mut printed = Ok(());
    let every = options.report.unwrap_or(Nanos(u64::MAX));
    let outcome = turn(&ports, setup, &stop, every, |running| {
        if options.report.is_some() {
            printed = print(&(line(running) + "\n"));
        } else {
            tell(&summary(running));
        }
    });
    outcome.map_err(failure).and(printed)
}

/// Shows a switch's error with its cure; what the machine lacks has an exit code of its own.
pub(crate) fn failure(error: SwitchError) -> Failure {
    let kind = match error {
        SwitchError::NoPrivilege { .. } => Kind::Capability,
        SwitchError::NoInterface { .. } | SwitchError::Twice { .. } => Kind::Usage,
        _ => Kind::Runtime,
    };
    Failure::new(kind, error.to_string()).help(error.cure())
}

fn by_chance() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

fn parse_port(text: &str, rate: BitsPerSec) -> Result<(String, BitsPerSec), Failure> {
    let Some((name, own)) = text.split_once('=') else { return Ok((text.to_owned(), rate)) };
    let own = own.parse().ok().filter(|rate: &BitsPerSec| rate.get() > 0);
    let own = own.ok_or_else(|| {
        Failure::usage(format!("--port {text} has no rate after '='")).help("write the rate as eth1=100Mbps")
    })?;
    Ok((name.to_owned(), own))
}

fn parse_route(text: &str, ports: &[(String, BitsPerSec)]) -> Result<([u8; 6], usize), Failure> {
    let wrong = |why: String| Failure::usage(why).help("write a route as 02:00:00:00:00:07=eth1");
    let (address, port) = text.split_once('=').ok_or_else(|| wrong(format!("--route {text} has no '='")))?;
    let bytes: Option<Vec<u8>> = address
        .split(':')
        .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2))
        .collect();
    let bytes = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| wrong(format!("--route {text}: {address} is no Ethernet address")))?;
    let at = ports.iter().position(|(name, _)| name == port);
    Ok((bytes, at.ok_or_else(|| wrong(format!("--route {text}: {port} is not among the ports")))?))
}

fn line(running: &Running) -> String {
    let counters = running.report.counters;
    let class = |class: cavalcade_switch::port::ClassCounters| {
        json!({
            "packets": class.packets, "bytes": class.bytes, "dropped": class.dropped,
            "queued": class.queued, "longest": class.longest,
        })
    };
    let port = |(at, port): (usize, &PortReport)| {
        json!({
            "name": port.name, "rate": port.rate.get(), "spc": class(port.spc), "plain": class(port.plain),
            "tasks": port.tasks, "granted": port.granted.get(), "questions": port.questions,
            "missed": running.missed[at], "unsent": running.unsent[at],
        })
    };
    json!({
        "nanos": running.elapsed.get(), "received": counters.received, "flooded": counters.flooded,
        "malformed": counters.malformed, "refused": counters.refused, "too_large": counters.too_large,
        "addresses": running.report.addresses,
        "ports": running.report.ports.iter().enumerate().map(port).collect::<Vec<_>>(),
    })
    .to_string()
}

fn summary(running: &Running) -> String {
    let counters = running.report.counters;
    let port = |port: &PortReport| {
        format!(
            "\n  {:<12} SPC {} packets, {} dropped; plain {} packets, {} dropped; {} questions, {} tasks",
            port.name,
            port.spc.packets,
            port.spc.dropped,
            port.plain.packets,
            port.plain.dropped,
            port.questions,
            port.tasks
        )
    };
    let ports: String = running.report.ports.iter().map(port).collect();
    format!(
        "{} frames came in, {} malformed, {} refused{ports}",
        counters.received, counters.malformed, counters.refused
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_routes_are_read_or_refused_with_a_cure() {
        let rate = BitsPerSec(1_000);
        let ports = vec![parse_port("eth0", rate).unwrap(), parse_port("eth1=5Mbps", rate).unwrap()];
        assert_eq!(ports, [("eth0".to_owned(), rate), ("eth1".to_owned(), BitsPerSec(5_000_000))]);
        assert_eq!(parse_route("02:00:00:00:0a:ff=eth1", &ports).unwrap(), ([2, 0, 0, 0, 10, 255], 1));
        for wrong in [
            "eth1",
            "02:00:00:00:0a=eth1",
            "02:00:00:00:0a:zz=eth1",
            "02:00:00:00:0a:ff=eth2",
            "2:0:0:0:a:f=eth1",
        ] {
            assert!(parse_route(wrong, &ports).unwrap_err().cure().is_some(), "{wrong}");
        }
        assert!(parse_port("eth1=", rate).is_err() && parse_port("eth1=0Mbps", rate).is_err());
    }
}
