//! Faults in mid-shuffle, with the plugin and without.
//!
//! The whole application and its site are in a network namespace of their own, whose loopback is so
//! slow that a shuffle of 7 MB takes seconds: else it would be over before anything can be done to
//! it. An executor is killed in stock Spark and under the plugin, while bytes of the shuffle move.
//! The rows have to be the same, and no task may fail for a reason for which none fails in stock
//! Spark. Then the agent hangs while a gate is shut, and no task may fail at all. Readers' patience
//! is longer than the application's there, so that the gate does not open by it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::site::{Running, Site, number, signal, until};
use super::{Application, text};
use crate::steps::{Failure, Run};

/// Bytes after which a shuffle is under way: all else of a part takes a tenth of that.
const UNDER_WAY: u64 = 2_000_000;

/// A network namespace whose loopback is slow; it goes with this.
struct Network {
    name: String,
}

impl Network {
    fn new() -> Result<Self, Failure> {
        let name = format!("cvspark-{}", std::process::id());
        let run = |program: &str, words: &str| {
            Run::new(Command::new(program)).args(&words.split(' ').collect::<Vec<_>>()).quietly()
        };
        run("ip", &format!("netns add {name}"))?;
        let network = Self { name };
        let name = &network.name;
        // A packet of loopback's own length would not fit the bucket.
        run("ip", &format!("-n {name} link set lo mtu 1500 up"))?;
        run("tc", &format!("-n {name} qdisc add dev lo root tbf rate 16mbit burst 64kb latency 50ms"))?;
        Ok(network)
    }

    /// The command that runs a program in it.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/var/run/netns/{}", self.name)).arg(program);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = Run::new(Command::new("ip")).args(&["netns", "del", &self.name]).quietly();
    }
}

/// Returns what is needed and missing on this machine.
pub(super) fn missing() -> Option<&'static str> {
    Network::new().is_err().then_some("network namespaces and a queue of tc's tbf (root, iproute2)")
}

/// Tries a line of Spark.
pub(super) fn check(application: &Application<'_>, program: &Path) -> Result<(), Failure> {
    let network = Network::new()?;
    let commands = |program: &Path| network.command(program);
    let log = Log::new(application)?;
    let mut properties = super::CLUSTER.map(str::to_owned).to_vec();
    properties.extend(application.line.more.iter().map(|&one| one.to_owned()));
    properties.extend([
        // Else all tasks may be at the executor that was first.
        "spark.scheduler.minRegisteredResourcesRatio=1.0".to_owned(),
        // Longer than the application's patience.
        "spark.shuffle.io.connectionTimeout=1200s".to_owned(),
        "spark.eventLog.enabled=true".to_owned(),
        "spark.eventLog.rolling.enabled=false".to_owned(),
        "spark.eventLog.compress=false".to_owned(),
        format!("spark.eventLog.dir=file:{}", text(&log.folder)),
    ]);

    let mut job = application.start(&commands, &properties)?;
    let wanted = lose_executor(&mut job, "wide", || Ok(()))?;
    job.ends()?;
    let of_stock = log.take_failures()?;
    eprintln!("stock Spark loses an executor: failed tasks {of_stock:?}");

    let site = Site::start(program, &commands)?;
    properties.extend(site.properties(application.workspace));
    let mut job = application.start(&commands, &properties)?;
    let mut holder = site.hold(application.workspace)?;
    job.send("wide-hung")?;
    site.until_stage("wide-hung", "its flows are off", |one| number(one, "off") > 0)?;
    site.signal_agent("-STOP")?;
    let hung = job.rows()?;
    let until_here = log.failures()?;
    holder.ends()?;
    site.signal_agent("-CONT")?;
    let lost = lose_executor(&mut job, "wide-lost", || {
        site.until_stage("wide-lost", "bytes of it were sent", |one| number(one, "sent_bytes") > 0)
    })?;
    job.ends()?;
    let of_own = log.take_failures()?;
    eprintln!("under the plugin: failed tasks {until_here:?} with an agent that hangs, {of_own:?} in all");
    if [&hung, &lost] != [&wanted, &wanted] {
        return Err(Failure::new(format!("rows {hung} and {lost}, stock Spark has {wanted}")));
    }
    if !until_here.is_empty() || of_own.keys().any(|reason| !of_stock.contains_key(reason)) {
        return Err(Failure::new("tasks failed that do not fail in stock Spark"));
    }
    Ok(())
}

/// Runs a part and kills an executor once its shuffle is under way and `seen` has returned; returns
/// the digest of its rows.
fn lose_executor(
    job: &mut Running,
    part: &str,
    seen: impl FnOnce() -> Result<(), Failure>,
) -> Result<String, Failure> {
    job.send("executors")?;
    let executors = job.wait_for("executors ")?;
    let one = executors.split(' ').next().unwrap_or_default().to_owned();
    let before = moved(job)?;
    job.send(part)?;
    until("a shuffle is under way", || Ok(moved(job)? > before + UNDER_WAY))?;
    seen()?;
    signal("-KILL", &one)?;
    job.rows()
}

/// Bytes that loopback has carried where a program is.
fn moved(job: &Running) -> Result<u64, Failure> {
    let devices = fs::read_to_string(format!("/proc/{}/net/dev", job.number()))?;
    let bytes = devices
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("lo:")?.split_whitespace().next()?.parse().ok());
    bytes.ok_or_else(|| Failure::new("there is no loopback"))
}

/// The folder of event logs.
struct Log {
    folder: PathBuf,
}

impl Log {
    fn new(application: &Application<'_>) -> Result<Self, Failure> {
        let folder = application.home.join("events");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// How many tasks have failed, by reason.
    fn failures(&self) -> Result<BTreeMap<String, u32>, Failure> {
        let mut failures = BTreeMap::new();
        for log in fs::read_dir(&self.folder)? {
            // The last line may be half written.
            let events = fs::read_to_string(log?.path())?;
            for event in events.lines().flat_map(serde_json::from_str::<Value>) {
                let reason = event["Task End Reason"]["Reason"].as_str().unwrap_or("Success");
                if reason != "Success" {
                    *failures.entry(reason.to_owned()).or_default() += 1;
                }
            }
        }
        Ok(failures)
    }

    /// The same, and forgets them.
    fn take_failures(&self) -> Result<BTreeMap<String, u32>, Failure> {
        let failures = self.failures()?;
        for log in fs::read_dir(&self.folder)? {
            fs::remove_file(log?.path())?;
        }
        Ok(failures)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
