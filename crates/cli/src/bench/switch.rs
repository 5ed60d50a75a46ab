//! `cavalcade bench switch`: what SPC costs in a software switch, beside plain forwarding in the same run.
//!
//! Virtual cables join the ports of a switch to hosts, all in one network namespace of its own, where this program runs again. Each
//! rate is offered with plain packets and with SPC in turn, so that both see the same machine.

use std::process::{Command, Stdio};

use cavalcade_switch::bench::{Load, Measured, QUESTIONS, measure};
use serde_json::{Value, json};

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
        .args(options.json.then_some("--json"))
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
    if !options.json {
        print(&header(options))?;
    }
    let mut runs = Vec::new();
    for &rate in &options.offered {
        for spc in [false, true] {
            let load = Load { rate, packet: options.packet, time: options.time, spc };
            let run = Run::new(load, measure(&pairs, load).map_err(failure)?, options.ports);
            if !options.json {
                print(&run.row())?;
            }
            runs.push(run);
        }
    }
    if options.json {
        let best = |spc| best(&runs, spc).map(Run::json);
        let document = json!({
            "schema_version": 1, "ports": options.ports, "packet_bytes": options.packet, "question_each": QUESTIONS,
            "runs": runs.iter().map(Run::json).collect::<Vec<_>>(),
            "without_loss": { "plain": best(false), "spc": best(true) },
        });
        return print(&format!("{document:#}\n"));
    }
    for (name, spc) in [("plain", false), ("SPC", true)] {
        let text = best(&runs, spc).map_or("no rate without loss".to_owned(), |run| {
            let (rate, cost) = (run.load.rate, run.cost());
            format!(
                "no loss up to {rate} at each port, {cost:.0} ns of the switch's thread for a packet there"
            )
        });
        print(&format!("{name:<6}{text}\n"))?;
    }
    Ok(())
}

fn header(options: &SwitchBench) -> String {
    format!(
        "{} ports full duplex, packets of {} bytes, a question in each {QUESTIONS}th packet of SPC\n{:>10} {:>6}{:>10}{:>9}{:>10}{:>12}{:>8}\n",
        options.ports, options.packet, "offered", "", "kpps", "Gbps", "lost", "ns/packet", "core"
    )
}

/// Returns the run at the highest rate that was offered in full and carried without loss.
fn best(runs: &[Run], spc: bool) -> Option<&Run> {
    let carried = runs.iter().filter(|run| run.load.spc == spc && run.kept_up && run.lost() <= LOSS);
    carried.max_by_key(|run| run.load.rate)
}

/// A load and what came of it.
struct Run {
    load: Load,
    measured: Measured,
    /// False where the hosts offered less than they were to: on few cores they may not get to it.
    kept_up: bool,
}

impl Run {
    fn new(load: Load, measured: Measured, ports: u8) -> Self {
        let due = load.rate.bytes_in(measured.elapsed).get() / u64::from(load.packet) * u64::from(ports);
        Self { load, measured, kept_up: measured.offered as f64 >= due as f64 * LEAST_OFFERED }
    }

    fn lost(&self) -> f64 {
        let Measured { delivered, offered, .. } = self.measured;
        1.0 - delivered.min(offered) as f64 / offered.max(1) as f64
    }

    /// Nanoseconds of the switch's thread for a packet.
    fn cost(&self) -> f64 {
        self.measured.busy.get() as f64 / self.measured.delivered.max(1) as f64
    }

    fn seconds(&self) -> f64 {
        self.measured.elapsed.get() as f64 / 1e9
    }

    fn packets_per_second(&self) -> f64 {
        self.measured.delivered as f64 / self.seconds()
    }

    fn gbps(&self) -> f64 {
        self.packets_per_second() * f64::from(self.load.packet) * 8.0 / 1e9
    }

    fn cores(&self) -> f64 {
        self.measured.busy.get() as f64 / 1e9 / self.seconds()
    }

    fn row(&self) -> String {
        format!(
            "{:>10} {:<6}{:>10.1}{:>9.3}{:>9.3}%{:>12.0}{:>8.2}{}\n",
            self.load.rate.to_string(),
            if self.load.spc { "SPC" } else { "plain" },
            self.packets_per_second() / 1e3,
            self.gbps(),
            self.lost() * 100.0,
            self.cost(),
            self.cores(),
            if self.kept_up { "" } else { "  the hosts offered less" },
        )
    }

    fn json(&self) -> Value {
        json!({
            "offered_bps": self.load.rate.get(), "spc": self.load.spc, "kept_up": self.kept_up,
            "packets_offered": self.measured.offered, "packets_delivered": self.measured.delivered,
            "packets_per_second": self.packets_per_second(), "gbps": self.gbps(), "lost_share": self.lost(),
            "ns_per_packet": self.cost(), "cores": self.cores(),
        })
    }
}
