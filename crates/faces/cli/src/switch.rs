//! `cavalcade switch`: a software switch that speaks SPC, on interfaces of this machine.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use cavalcade_model::{BitsPerSec, Nanos};
use cavalcade_runtime::administration::proto;
use cavalcade_runtime::ready;
use cavalcade_switch::port::ClassCounters;
use cavalcade_switch::{PortReport, Running, Setup, Stop, SwitchError, run as turn};
use cavalcade_transport::spc::Spc;
use serde::Serialize;

use crate::administration::{Versioned, no_json};
use crate::arguments::SwitchOptions;
use crate::failure::{Failure, Kind};
use crate::live::{allow, show_switch};
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
    if let Some(address) = options.metrics {
        let help = "name an address of this host, such as 127.0.0.1:9337, or use --insecure";
        allow(address, options.insecure).map_err(|refused| refused.help(help))?;
    }
    let stop = Stop::default();
    let asked = stop.clone();
    // Without the handler an interrupt ends the program at once, which undoes as much.
    let _ = ctrlc::set_handler(move || asked.stop());
    let window = Window::open(options, setup.id)?;
    let names: Vec<&str> = ports.iter().map(|(name, _)| name.as_str()).collect();
    tell(&format!("cavalcade switch {:016x} on {}; Ctrl-C stops it", setup.id, names.join(", ")));
    let (mut printed, mut told) = (Ok(()), false);
    let watched = Nanos(setup.watch.get());
    let (id, mut due) = (setup.id, options.report);
    let carrier = options.carrier.into();
    let outcome = turn(&ports, setup, carrier, &stop, LOOK, |running| {
        let shown = shown(id, running);
        if let Some(time) = due.filter(|time| running.elapsed >= *time || stop.is_asked()) {
            due = options.report.map(|every| time + every);
            printed = line(running.elapsed, &shown).and_then(|line| print(&line));
        } else if options.report.is_none() && stop.is_asked() {
            tell(&summary(running));
        }
        if running.elapsed >= watched {
            // It forwards from here on: it is ready for monitoring systems, and for the service
            // manager that waits.
            window.show(shown);
            if !std::mem::replace(&mut told, true) {
                ready();
            }
        }
    });
    outcome.map_err(failure).and(printed)
}

/// Puts what others are shown up to date this often.
const LOOK: Nanos = Nanos(100_000_000);

/// The thread that shows a switch to administrators and monitoring systems; dropping ends it.
struct Window {
    shown: Arc<Mutex<Option<proto::Switch>>>,
    close: tokio::sync::watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Window {
    fn open(options: &SwitchOptions, id: u64) -> Result<Self, Failure> {
        let shown = Arc::new(Mutex::new(None));
        let (close, stop) = tokio::sync::watch::channel(false);
        let (ready, listens) = channel();
        let (looked_at, options) = (Arc::clone(&shown), options.clone());
        let thread = std::thread::spawn(move || {
            let look = || looked_at.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // Who waits has gone where the program ends.
            show_switch(&options, id, look, stop, |outcome| drop(ready.send(outcome)));
        });
        let ended = || Err(Failure::new(Kind::Runtime, "the thread that shows the switch failed"));
        listens.recv().unwrap_or_else(|_| ended())?;
        Ok(Self { shown, close, thread: Some(thread) })
    }

    fn show(&self, switch: proto::Switch) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(switch);
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let _ = self.close.send(true);
        if let Some(thread) = self.thread.take() {
            // It removes its socket; what fails in it has been told.
            let _ = thread.join();
        }
    }
}

/// Shows a switch's error with its cure; what the machine lacks has an exit code of its own.
pub(crate) fn failure(error: SwitchError) -> Failure {
    let kind = match error {
        SwitchError::NoPrivilege { .. }
        | SwitchError::NoPrograms { .. }
        | SwitchError::KernelRefused { .. }
        | SwitchError::NoXdp { .. }
        | SwitchError::NoRedirect { .. }
        | SwitchError::FewQueues { .. } => Kind::Capability,
        SwitchError::NoInterface { .. } | SwitchError::Twice { .. } | SwitchError::TooMany { .. } => {
            Kind::Usage
        }
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
    let bytes =
        bytes.ok_or_else(|| wrong(format!("--route {text}: {address} is not an Ethernet address")))?;
    let at = ports.iter().position(|(name, _)| name == port);
    Ok((bytes, at.ok_or_else(|| wrong(format!("--route {text}: {port} is not among the ports")))?))
}

/// Returns what others are shown of a switch.
fn shown(id: u64, running: &Running) -> proto::Switch {
    let counters = running.report.counters;
    let class = |class: ClassCounters| proto::SwitchClass {
        packets: class.packets,
        bytes: class.bytes,
        dropped: class.dropped,
        queued_bytes: class.queued,
        longest_bytes: class.longest,
    };
    let port = |(at, port): (usize, &PortReport)| proto::SwitchPort {
        name: port.name.clone(),
        rate_bps: port.rate.get(),
        spc: Some(class(port.spc)),
        plain: Some(class(port.plain)),
        tasks: port.tasks as u64,
        granted_bps: port.granted.get(),
        questions: port.questions,
        missed: running.missed[at],
        unsent: running.unsent[at],
        tagged: running.tagged[at],
    };
    proto::Switch {
        id,
        received: counters.received,
        flooded: counters.flooded,
        malformed: counters.malformed,
        refused: counters.refused,
        too_large: counters.too_large,
        filtered: counters.filtered,
        addresses: running.report.addresses as u64,
        ports: running.report.ports.iter().enumerate().map(port).collect(),
    }
}

/// A line of JSON: what others are shown, and the time since the start.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    switch: Versioned<'a, proto::Switch>,
    elapsed_ns: u64,
}

fn line(elapsed: Nanos, switch: &proto::Switch) -> Result<String, Failure> {
    let line = Line { switch: Versioned::new(switch), elapsed_ns: elapsed.get() };
    serde_json::to_string(&line).map(|text| text + "\n").map_err(no_json)
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
