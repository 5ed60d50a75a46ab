//! `cavalcade bench switch`: what SPC costs in a software switch, beside plain forwarding in the same run.
//!
//! Virtual cables join the ports of a switch to hosts, all in one network namespace of its own, where this program runs again. Each
//! rate is offered with plain packets and with SPC in turn, so that both see the same machine.

use std::process::{Command, Stdio};

use cavalcade_model::BitsPerSec;
use cavalcade_switch::bench::{Load, Measured, measure};

use crate::arguments::SwitchBench;
use crate::failure::{Failure, Kind};
use crate::output::print;
use crate::switch::failure;

/// A rate is carried where no more than this is lost.
const LOSS: f64 = 0.000_1;
/// Hosts that offer a smaller share of a rate than this say nothing about it.
const LEAST_OFFERED: f64 = 0.98;

/// Runs the command.
///
/// # Errors
/// If there can be no namespace, or an interface fails.
pub(crate) fn run(options: &SwitchBench) -> Result<(), Failure> {
    if options.inside { inside(options) } else { outside(options) }
}

fn ip(arguments: &[&str]) -> Result<(), Failure> {
    let done = Command::new("ip").args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let why = match done {
        Ok(done) if done.status.success() => return Ok(()),
        Ok(done) => String::from_utf8_lossy(&done.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    let failed = Failure::new(Kind::Capability, format!("cannot run 'ip {}': {why}", arguments.join(" ")));
    Err(failed.help("run as root on Linux with iproute2 installed"))
}

/// A namespace; dropping removes it with all that is in it.
struct Namespace(String);

impl Drop for Namespace {
    fn drop(&mut self) {
        // The name tells 'cavalcade doctor --fix-leftovers' whose it was.
        let _ = ip(&["netns", "del", &self.0]);
    }
}

fn pairs(ports: u8) -> Vec<(String, String)> {
    (0..ports).map(|port| (format!("host{port}"), format!("port{port}"))).collect()
}

fn outside(options: &SwitchBench) -> Result<(), Failure> {
    let name = format!("cvl-{}-bench", std::process::id());
    ip(&["netns", "add", &name])?;
    let namespace = Namespace(name.clone());
    let mtu = options.packet.max(1_500).to_string();
    for (host, port) in pairs(options.ports) {
        ip(&[
            "-n", &name, "link", "add", &host, "mtu", &mtu, "type", "veth", "peer", "name", &port, "mtu",
            &mtu,
        ])?;
        for end in [&host, &port] {
            // Nothing but what is measured is to be on the cables.
            let quiet = format!("net.ipv6.conf.{end}.disable_ipv6=1");
            ip(&["netns", "exec", &name, "sysctl", "-q", "-w", &quiet])?;
            ip(&["-n", &name, "link", "set", end, "up"])?;
        }
    }
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(Kind::Runtime, format!("cannot find this program: {error}")))?;
    let status = Command::new("ip")
        .args(["netns", "exec", &name])
        .arg(program)
        .args(["bench", "switch", "--inside", "--packet", &options.packet.to_string()])
        .args(["--ports", &options.ports.to_string(), "--time", &format!("{}ns", options.time.get())])
        .args([
            "--offered",
            &options.offered.iter().map(|rate| format!("{}bps", rate.get())).collect::<Vec<_>>().join(","),
        ])
        .status();
    drop(namespace);
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(Kind::Runtime, format!("the measurement ended with {status}"))),
        Err(error) => {
            Err(Failure::new(Kind::Runtime, format!("cannot run this program in a namespace: {error}")))
        }
    }
}

fn inside(options: &SwitchBench) -> Result<(), Failure> {
    let pairs = pairs(options.ports);
    print(&format!(
        "{} ports full duplex, packets of {} bytes, a question in each 16th packet of SPC\n{:>10} {:>6}{:>10}{:>9}{:>10}{:>12}{:>8}\n",
        options.ports, options.packet, "offered", "", "kpps", "Gbps", "lost", "ns/packet", "core"
    ))?;
    let mut best: [Option<(BitsPerSec, f64)>; 2] = [None; 2];
    for &rate in &options.offered {
        for spc in [false, true] {
            let load = Load { rate, packet: options.packet, time: options.time, spc };
            let measured = measure(&pairs, load).map_err(failure)?;
            print(&row(load, measured, kept_up(load, measured, options.ports)))?;
            if lost(measured) <= LOSS && kept_up(load, measured, options.ports) {
                best[usize::from(spc)] = Some((rate, cost(measured)));
            }
        }
    }
    for (name, best) in ["plain", "SPC"].iter().zip(best) {
        let text = best.map_or("no rate without loss".to_owned(), |(rate, cost)| {
            format!(
                "no loss up to {rate} at each port, {cost:.0} ns of the switch's thread for a packet there"
            )
        });
        print(&format!("{name:<6}{text}\n"))?;
    }
    Ok(())
}

/// Returns whether the hosts offered what they were to: on few cores they may not get to it.
fn kept_up(load: Load, measured: Measured, ports: u8) -> bool {
    let due = load.rate.bytes_in(measured.elapsed).get() / u64::from(load.packet) * u64::from(ports);
    measured.offered as f64 >= due as f64 * LEAST_OFFERED
}

fn lost(measured: Measured) -> f64 {
    1.0 - measured.delivered.min(measured.offered) as f64 / measured.offered.max(1) as f64
}

fn cost(measured: Measured) -> f64 {
    measured.busy.get() as f64 / measured.delivered.max(1) as f64
}

fn row(load: Load, measured: Measured, kept_up: bool) -> String {
    let seconds = measured.elapsed.get() as f64 / 1e9;
    let kpps = measured.delivered as f64 / seconds / 1e3;
    format!(
        "{:>10} {:<6}{kpps:>10.1}{:>9.3}{:>9.3}%{:>12.0}{:>8.2}{}\n",
        load.rate.to_string(),
        if load.spc { "SPC" } else { "plain" },
        kpps * f64::from(load.packet) * 8.0 / 1e6,
        lost(measured) * 100.0,
        cost(measured),
        measured.busy.get() as f64 / 1e9 / seconds,
        if kept_up { "" } else { "  the hosts offered less" },
    )
}
