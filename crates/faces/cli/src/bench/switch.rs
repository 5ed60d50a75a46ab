//! `cavalcade bench switch`: what SPC costs in a software switch, beside plain forwarding and the
//! kernel's bridge in the same run.
//!
//! Virtual cables join the ports of a switch to hosts, all in one network namespace of its own,
//! where this program runs again. Each rate is offered with plain packets and with SPC, to each
//! forwarder in turn, so that all see the same machine.

use std::process::{Command, Stdio};

use cavalcade_switch::Carrier;
use cavalcade_switch::bench::{Content, Forwarder, Load, Measured, QUESTIONS, measure};
use serde_json::{Value, json};

use crate::arguments::{SwitchBench, SwitchContent, SwitchForwarder};
use crate::failure::{Failure, Kind};
use crate::output::{print, tell};
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
            "--forwarders",
            &options.forwarders.iter().map(|&one| name_of(one)).collect::<Vec<_>>().join(","),
        ])
        .args(["--content", &options.content.iter().map(|&one| word(one)).collect::<Vec<_>>().join(",")])
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

/// The name of a forwarder on the command line and in tables.
fn name_of(forwarder: SwitchForwarder) -> &'static str {
    match forwarder {
        SwitchForwarder::Bridge => "bridge",
        SwitchForwarder::Process => "process",
        SwitchForwarder::Xdp => "xdp",
    }
}

/// The kernel's bridge over the switch's ends of cables; dropping removes it.
struct Bridge;

impl Bridge {
    fn over(pairs: &[(String, String)]) -> Result<Self, Failure> {
        ip(&["link", "add", "bridge", "type", "bridge", "forward_delay", "0", "mcast_snooping", "0"])?;
        let bridge = Self;
        pairs.iter().try_for_each(|(_, port)| ip(&["link", "set", port, "master", "bridge"]))?;
        ip(&["link", "set", "bridge", "up"])?;
        Ok(bridge)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = ip(&["link", "del", "bridge"]);
    }
}

/// Offers a load to one forwarder.
fn measure_one(
    pairs: &[(String, String)],
    load: Load,
    forwarder: SwitchForwarder,
    is_timed: bool,
) -> Result<Measured, Failure> {
    let joined = match forwarder {
        SwitchForwarder::Bridge => Some(Bridge::over(pairs)?),
        _ => None,
    };
    let carried = match forwarder {
        SwitchForwarder::Bridge => Forwarder::Present,
        SwitchForwarder::Process => Forwarder::Switch(Carrier::Process),
        SwitchForwarder::Xdp => Forwarder::Switch(Carrier::Kernel),
    };
    let measured = measure(pairs, load, carried, is_timed).map_err(failure);
    drop(joined);
    measured
}

/// Forwarders that this build has, with a word on one that it lacks.
fn forwarders(options: &SwitchBench) -> Vec<SwitchForwarder> {
    let missing = cavalcade_switch::kernel::missing();
    let mut forwarders = options.forwarders.clone();
    if let Some(why) = missing.filter(|_| forwarders.contains(&SwitchForwarder::Xdp)) {
        tell(&format!("xdp is left out: {why}"));
        forwarders.retain(|&forwarder| forwarder != SwitchForwarder::Xdp);
    }
    forwarders
}

fn inside(options: &SwitchBench) -> Result<(), Failure> {
    let (pairs, forwarders) = (pairs(options.ports), forwarders(options));
    if !options.json {
        print(&header(options))?;
    }
    let load =
        |rate, content| Load { rate, packet: options.packet, time: options.time, content: packets(content) };
    let kinds = kinds(&forwarders, &options.content);
    let mut runs = Vec::new();
    for &rate in &options.offered {
        for &(forwarder, content) in &kinds {
            let load = load(rate, content);
            let measured = measure_one(&pairs, load, forwarder, false)?;
            let run = Run::new(forwarder, content, load, measured, options.ports);
            if !options.json {
                print(&run.row())?;
            }
            runs.push(run);
        }
    }
    // The kernel's clock for its programs costs as much as the program, so it runs by itself.
    let mut programs = Vec::new();
    for &(forwarder, content) in kinds.iter().filter(|(forwarder, _)| *forwarder == SwitchForwarder::Xdp) {
        let lowest = options.offered.iter().copied().min().unwrap_or_default();
        let timed = measure_one(&pairs, load(lowest, content), forwarder, true)?;
        programs.extend(timed.program.map(|time| (content, time.get())));
    }
    if options.json {
        let best: Vec<Value> = kinds
            .iter()
            .filter_map(|&(forwarder, content)| best(&runs, forwarder, content).map(Run::json))
            .collect();
        let programs: Vec<Value> = programs
            .iter()
            .map(|(content, time)| json!({ "content": word(*content), "ns_per_packet": time }))
            .collect();
        let document = json!({
            "schema_version": 3, "ports": options.ports, "packet_bytes": options.packet, "question_each": QUESTIONS,
            "runs": runs.iter().map(Run::json).collect::<Vec<_>>(),
            "without_loss": best, "xdp_program": programs,
        });
        return print(&format!("{document:#}\n"));
    }
    for &(forwarder, content) in &kinds {
        let text = best(&runs, forwarder, content).map_or("no rate without loss".to_owned(), |run| {
            let (rate, cost) = (run.load.rate, run.whole_cost());
            format!(
                "no loss up to {rate} at each port, {cost:.0} ns of all processor time for a packet there"
            )
        });
        print(&format!("{:<8}{:<6}{text}\n", name_of(forwarder), shown(content)))?;
    }
    for (content, time) in programs {
        print(&format!("{:<8}{:<6}{time} ns of the program for a packet\n", "xdp", shown(content)))?;
    }
    Ok(())
}

/// What is measured: each forwarder with plain packets, and those that know SPC with that too.
fn kinds(
    forwarders: &[SwitchForwarder],
    contents: &[SwitchContent],
) -> Vec<(SwitchForwarder, SwitchContent)> {
    let pairs =
        forwarders.iter().flat_map(|&forwarder| contents.iter().map(move |&content| (forwarder, content)));
    let is_known =
        |forwarder, content| forwarder != SwitchForwarder::Bridge || content == SwitchContent::Plain;
    pairs.filter(|&(forwarder, content)| is_known(forwarder, content)).collect()
}

/// What packets are, as the bench has it.
fn packets(content: SwitchContent) -> Content {
    match content {
        SwitchContent::Plain => Content::Plain,
        SwitchContent::Spc => Content::Spc,
        SwitchContent::Flood => Content::Flood,
    }
}

/// The name of packets on the command line.
fn word(content: SwitchContent) -> &'static str {
    match content {
        SwitchContent::Plain => "plain",
        SwitchContent::Spc => "spc",
        SwitchContent::Flood => "flood",
    }
}

/// The name of packets in tables.
fn shown(content: SwitchContent) -> &'static str {
    match content {
        SwitchContent::Spc => "SPC",
        _ => word(content),
    }
}

fn header(options: &SwitchBench) -> String {
    format!(
        "{} ports full duplex, packets of {} bytes, a question in each {QUESTIONS}th packet of SPC; nanoseconds of a packet: all processor \
         time, and that of the switch's thread\n{:>10} {:<8}{:<6}{:>10}{:>9}{:>10}{:>9}{:>9}{:>7}\n",
        options.ports, options.packet, "offered", "", "", "kpps", "Gbps", "lost", "all", "thread", "core"
    )
}

/// Returns the run at the highest rate that was offered in full and carried without loss.
fn best(runs: &[Run], forwarder: SwitchForwarder, content: SwitchContent) -> Option<&Run> {
    let of_kind = runs.iter().filter(|run| run.forwarder == forwarder && run.content == content);
    of_kind.filter(|run| run.kept_up && run.lost() <= LOSS).max_by_key(|run| run.load.rate)
}

/// A load and what came of it.
struct Run {
    forwarder: SwitchForwarder,
    content: SwitchContent,
    load: Load,
    measured: Measured,
    /// False where the hosts offered less than they were to: on few cores they may not get to it.
    kept_up: bool,
}

impl Run {
    fn new(
        forwarder: SwitchForwarder,
        content: SwitchContent,
        load: Load,
        measured: Measured,
        ports: u8,
    ) -> Self {
        let due = load.rate.bytes_in(measured.elapsed).get() / u64::from(load.packet) * u64::from(ports);
        Self {
            forwarder,
            content,
            load,
            measured,
            kept_up: measured.offered as f64 >= due as f64 * LEAST_OFFERED,
        }
    }

    fn lost(&self) -> f64 {
        let Measured { delivered, offered, .. } = self.measured;
        1.0 - delivered.min(offered) as f64 / offered.max(1) as f64
    }

    /// Nanoseconds of the switch's thread for a packet.
    fn cost(&self) -> f64 {
        self.measured.busy.get() as f64 / self.measured.delivered.max(1) as f64
    }

    /// Nanoseconds of all processor time for a packet.
    fn whole_cost(&self) -> f64 {
        self.measured.all.get() as f64 / self.measured.delivered.max(1) as f64
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
            "{:>10} {:<8}{:<6}{:>10.1}{:>9.3}{:>9.3}%{:>9.0}{:>9.0}{:>7.2}{}\n",
            self.load.rate.to_string(),
            name_of(self.forwarder),
            shown(self.content),
            self.packets_per_second() / 1e3,
            self.gbps(),
            self.lost() * 100.0,
            self.whole_cost(),
            self.cost(),
            self.cores(),
            if self.kept_up { "" } else { "  the hosts offered less" },
        )
    }

    fn json(&self) -> Value {
        json!({
            "forwarder": name_of(self.forwarder), "offered_bps": self.load.rate.get(), "content": word(self.content), "kept_up": self.kept_up,
            "packets_offered": self.measured.offered, "packets_delivered": self.measured.delivered,
            "packets_per_second": self.packets_per_second(), "gbps": self.gbps(), "lost_share": self.lost(),
            "ns_per_packet": self.cost(), "cores": self.cores(),
            "all_ns_per_packet": self.whole_cost(),
        })
    }
}
