//! What logs say of the cluster that they were written on: applications, hosts, executors, cores,
//! and the time for which cores were held by tasks and by tasks that waited.
//!
//! A task that waits for shuffle blocks (`Fetch Wait Time`) holds its cores (`spark.task.cpus`) and
//! computes nothing. So the cores times that wait is what somebody paid for and got nothing for. It
//! is recorded, not simulated. It is not all the network's doing either: blocks are read from disk
//! at the other end before they are sent.

use std::collections::BTreeSet;

use cavalcade_model::{Instant, Nanos};

use super::log::Application;

/// The cluster that logs were written on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The applications, in the order of their logs.
    pub applications: Vec<Started>,
    /// The number of hosts on which tasks ran.
    pub hosts: usize,
    /// The most executors that an application had at a time, added up over applications; where the
    /// logs do not say when they came, all on which tasks ran.
    pub executors: usize,
    /// The most cores that these had at a time; `None` where the logs do not say.
    pub cores: Option<u64>,
    /// The time that tasks ran, times the cores that each held.
    pub ran: Nanos,
    /// The part of it in which they waited for shuffle blocks from elsewhere.
    pub waited: Nanos,
}

/// An application as it introduced itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Its name.
    pub name: Option<String>,
    /// The id that the cluster gave it.
    pub id: Option<String>,
    /// The version of Spark.
    pub spark_version: Option<String>,
    /// Its start, since 1970.
    pub at: Option<Instant>,
}

impl Setup {
    /// What the logs of these applications say.
    pub(super) fn of<'a>(applications: impl Iterator<Item = &'a Application> + Clone) -> Self {
        let hosts: BTreeSet<usize> =
            applications.clone().flat_map(|one| &one.executors).map(|&(_, host)| host).collect();
        let (ran, waited) = core_time(applications.clone());
        Self {
            applications: applications.clone().map(started).collect(),
            hosts: hosts.len(),
            executors: applications.clone().map(executors).sum(),
            cores: applications
                .map(|one| one.strength.most_cores)
                .try_fold(0u64, |sum, cores| Some(sum.saturating_add(cores?))),
            ran,
            waited,
        }
    }
}

fn started(application: &Application) -> Started {
    Started {
        name: application.name.clone().filter(|name| !name.trim().is_empty()),
        id: application.id.clone(),
        spark_version: application.spark_version.clone(),
        at: application.started.map(|millis| Instant(millis * 1_000_000)),
    }
}

fn executors(application: &Application) -> usize {
    // An executor that has moved is still one.
    let ran: BTreeSet<&str> = application.executors.iter().map(|(name, _)| name.as_str()).collect();
    match application.strength.most_executors {
        0 => ran.len(),
        most => most,
    }
}

/// The time that tasks ran and that they waited for blocks, times the cores that each held.
fn core_time<'a>(applications: impl Iterator<Item = &'a Application>) -> (Nanos, Nanos) {
    let (mut ran, mut waited) = (0u64, 0u64);
    for application in applications {
        let cores = application.cores_of_task();
        for run in application.stages.values().flat_map(|stage| &stage.runs) {
            let took = run.finished - run.launched;
            ran = ran.saturating_add(took.saturating_mul(cores));
            waited = waited.saturating_add(run.wait_ms.min(took).saturating_mul(cores));
        }
    }
    (Nanos(ran.saturating_mul(1_000_000)), Nanos(waited.saturating_mul(1_000_000)))
}
