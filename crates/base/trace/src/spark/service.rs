//! Who serves what a shuffle has written: executors, or services that the log does not name.
//!
//! Spark's own managers keep blocks on the hosts that wrote them, and so do some of others. Remote
//! shuffle services (Celeborn, Uniffle and their like) take every byte from the map task to hosts
//! of their own and give it out from there; the log has the bytes, and not these hosts. Of a
//! manager that is not known nothing is claimed. A push-based shuffle does both: what was merged is
//! counted apart in the metrics of each task.

use serde::Deserialize;

use super::log::Application;
use super::values::Text;

/// Properties that decide who serves blocks, what counts as read locally, and how many cores a task
/// holds.
#[derive(Deserialize, Default)]
#[serde(expecting = "properties of Spark")]
pub(super) struct Properties {
    #[serde(rename = "spark.shuffle.readHostLocalDisk", default)]
    read_host_local: Text,
    #[serde(rename = "spark.shuffle.useOldFetchProtocol", default)]
    old_protocol: Text,
    #[serde(rename = "spark.shuffle.service.enabled", default)]
    service: Text,
    #[serde(rename = "spark.shuffle.manager", default)]
    manager: Text,
    #[serde(rename = "spark.shuffle.sort.io.plugin.class", default)]
    storage: Text,
    #[serde(rename = "spark.shuffle.push.enabled", default)]
    push: Text,
    #[serde(rename = "spark.task.cpus", default)]
    task_cores: Text,
}

/// Names of Spark's own managers and of its own ways to store what they write, in small letters.
const OWN: [&str; 8] = [
    "sort",
    "tungsten-sort",
    "hash",
    "org.apache.spark.shuffle.sort.sortshufflemanager",
    "org.apache.spark.shuffle.unsafe.unsafeshufflemanager",
    "org.apache.spark.shuffle.hash.hashshufflemanager",
    "org.apache.spark.shuffle.sort.io.localdiskshuffledataio",
    "org.apache.spark.shuffle.kuberneteslocaldiskshuffledataio",
];

/// How managers of others begin, in small letters, that leave blocks with the executors that wrote
/// them: those of RAPIDS, Comet and Gluten.
const WITH_EXECUTORS: [&str; 3] = [
    "com.nvidia.spark.rapids.",
    "org.apache.spark.sql.comet.execution.shuffle.cometshufflemanager",
    "org.apache.spark.shuffle.sort.columnarshufflemanager",
];

/// Who serves the blocks of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service<'a> {
    /// The executors that wrote them, or Spark's service on their hosts.
    Own,
    /// The executors that wrote them, as a manager of others counts.
    Executors(&'a str),
    /// Hosts that the log does not name.
    Elsewhere(&'a str),
}

impl Application {
    /// Who serves its blocks.
    pub(super) fn service(&self) -> Service<'_> {
        let mut service = Service::Own;
        for name in
            [&self.properties.manager, &self.properties.storage].iter().filter_map(|name| name.0.as_deref())
        {
            let lower = name.to_ascii_lowercase();
            if OWN.contains(&lower.as_str()) {
                continue;
            }
            if !WITH_EXECUTORS.iter().any(|begin| lower.starts_with(begin)) {
                return Service::Elsewhere(name);
            }
            service = Service::Executors(name);
        }
        service
    }

    /// The cores that each of its tasks holds: one, unless it was told otherwise.
    pub(super) fn cores_of_task(&self) -> u64 {
        let told = self.properties.task_cores.0.as_ref().and_then(|cores| cores.parse().ok());
        told.filter(|cores| (1..=4096).contains(cores)).unwrap_or(1)
    }

    /// Whether blocks are pushed to be merged, before they are read.
    pub(super) fn pushes(&self) -> bool {
        is(&self.properties.push, "true")
    }

    /// Whether Spark's service on each host keeps what executors wrote when these go.
    pub(super) fn outlives_executors(&self) -> bool {
        is(&self.properties.service, "true")
    }

    /// Returns whether an executor reads the blocks of another one on its host from disk and counts
    /// them as local. Spark does since 3.0 where its service runs on each host, and since 3.1 in
    /// any case, unless told not to. A log that does not name its version is taken for a recent
    /// one.
    pub(super) fn reads_host_local(&self) -> bool {
        let mut numbers = self.spark_version.iter().flat_map(|version| version.split('.'));
        let mut number = || numbers.next().and_then(|number| number.parse::<u32>().ok());
        let able = match (number(), number()) {
            (Some(3), Some(0)) => self.outlives_executors(),
            (Some(major), _) => major >= 3,
            (None, _) => true,
        };
        able && !is(&self.properties.read_host_local, "false") && !is(&self.properties.old_protocol, "true")
    }
}

fn is(value: &Text, text: &str) -> bool {
    value.0.as_ref().is_some_and(|value| value.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn application(properties: &str) -> Application {
        let mut application = Application::default();
        application.properties = serde_json::from_str(properties).unwrap();
        application
    }

    #[test]
    fn only_known_managers_leave_blocks_with_executors() {
        let manager = |name: &str| application(&format!(r#"{{"spark.shuffle.manager":"{name}"}}"#));
        for own in ["SORT", "tungsten-sort", "org.apache.spark.shuffle.sort.SortShuffleManager"] {
            assert_eq!(manager(own).service(), Service::Own, "{own}");
        }
        assert_eq!(application("{}").service(), Service::Own);
        let rapids = "com.nvidia.spark.rapids.spark351.RapidsShuffleManager";
        assert_eq!(manager(rapids).service(), Service::Executors(rapids));
        for elsewhere in [
            "org.apache.spark.shuffle.celeborn.SparkShuffleManager",
            "org.apache.spark.shuffle.RssShuffleManager",
            "com.example.OurManager",
        ] {
            assert_eq!(manager(elsewhere).service(), Service::Elsewhere(elsewhere));
        }
        let plugin = application(
            r#"{"spark.shuffle.manager":"sort","spark.shuffle.sort.io.plugin.class":"a.Remote"}"#,
        );
        assert_eq!(plugin.service(), Service::Elsewhere("a.Remote"));
    }
}
