//! Names for people: what a trace calls its ports and its coflows.
//!
//! Nothing is decided by a name, and no engine looks at one: they go from the reader of a trace to
//! whatever shows a port or a coflow. A trace without names costs nothing; there a port is named by
//! its number, and a coflow by its task.
//!
//! A name stands for one thing: two ports, or two coflows, of one name would be one to a reader of
//! tables.

use std::collections::HashSet;

use super::{Place, Work, Workload, WorkloadError};
use crate::{CoflowId, Fabric, LinkId, PortId, TaskId};

/// The names that a trace gives. An empty text is no name.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Names {
    /// By port; those behind the end have no name.
    pub(super) ports: Vec<String>,
    /// By coflow; empty if no coflow has a name.
    pub(super) coflows: Vec<String>,
}

impl Workload {
    /// Returns whether the trace names any port.
    pub fn names_ports(&self) -> bool {
        self.names.ports.iter().any(|name| !name.is_empty())
    }

    /// The names of ports as the trace gives them, from port 0 on; an empty text, or none, for a
    /// port without a name.
    pub fn port_names(&self) -> &[String] {
        &self.names.ports
    }

    /// The name of a port for output: the trace's, as `web-1`, or else `port 3`.
    pub fn port_name(&self, port: PortId) -> String {
        match self.names.ports.get(port.index()) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => format!("port {port}"),
        }
    }

    /// The name of a link of `fabric` for output, as `ingress of web-1`: [`Fabric::link_name`],
    /// with the port's name.
    pub fn link_name(&self, fabric: &Fabric, link: LinkId) -> String {
        fabric.link_name_by(link, |port| self.port_name(port))
    }

    /// The name of a coflow for output: the trace's; or else its task's, with `.stage` behind it
    /// where the task has several stages.
    pub fn coflow_name(&self, id: CoflowId) -> String {
        if let Some(name) = self.given_coflow_name(id) {
            return name.to_owned();
        }
        let Place { task, stage, .. } = self.place(id);
        let task = self.task(task);
        if task.stages.len() == 1 { task.name.clone() } else { format!("{}.{stage}", task.name) }
    }

    /// The name that the trace gives to a coflow itself, beside that of its task.
    pub fn given_coflow_name(&self, id: CoflowId) -> Option<&str> {
        self.names.coflows.get(id.index()).map(String::as_str).filter(|name| !name.is_empty())
    }

    /// What [`WorkloadBuilder::coflow_names`](super::WorkloadBuilder::coflow_names) takes for a
    /// task; empty if the trace names none of its coflows.
    pub fn given_coflow_names(&self, task: TaskId) -> Vec<String> {
        let of_stage = |work: &Work| match work {
            Work::Transfer(id) => Some(self.given_coflow_name(*id).unwrap_or_default().to_owned()),
            Work::Compute(_) => None,
        };
        let names = self.task(task).stages.iter().filter_map(|stage| of_stage(&stage.work));
        let names: Vec<String> = names.collect();
        if names.iter().all(String::is_empty) { Vec::new() } else { names }
    }

    /// Checks that names stand for one thing each.
    pub(super) fn check_names(&self) -> Result<(), WorkloadError> {
        let (given, ports) = (self.names.ports.len(), self.ports);
        if given > ports as usize {
            return Err(WorkloadError::TooManyNames { given, ports });
        }
        let mut seen = HashSet::new();
        let mut named = self.names.ports.iter().filter(|name| !name.is_empty());
        if let Some(name) = named.find(|name| !seen.insert(name.as_str())) {
            return Err(WorkloadError::DuplicatePort { name: name.clone() });
        }
        if self.names.coflows.is_empty() {
            return Ok(());
        }
        let mut seen = HashSet::new();
        let ids = (0..self.coflow_count()).map(CoflowId::from_index);
        match ids.map(|id| (id, self.coflow_name(id))).find(|(_, name)| !seen.insert(name.clone())) {
            Some((id, name)) => {
                let task = self.coflow(id).task.name.clone();
                Err(WorkloadError::DuplicateCoflow { task, name })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        BitsPerSec, Bytes, CoflowId, Fabric, Flow, Instant, LinkId, Nanos, PortId, TaskId, Workload,
        WorkloadBuilder, WorkloadError,
    };

    fn builder() -> WorkloadBuilder {
        let flow = |src, dst| Flow { src: PortId(src), dst: PortId(dst), size: Bytes(8), wave: Nanos::ZERO };
        let mut builder = WorkloadBuilder::new(3);
        builder.coflow("late", Instant(5), vec![flow(0, 1)]).coflow_names(vec!["the late one".to_owned()]);
        builder.coflow("early", Instant(0), vec![flow(2, 1)]);
        builder.port_names(["web", "", "db"].map(String::from).into());
        builder
    }

    fn names(workload: &Workload) -> (Vec<String>, Vec<String>) {
        let ports = (0..4).map(|port| workload.port_name(PortId(port)));
        let coflows = workload.coflows().map(|coflow| workload.coflow_name(coflow.id));
        (ports.collect(), coflows.collect())
    }

    #[test]
    fn ports_and_coflows_are_called_as_the_trace_does_and_otherwise_by_number_and_task() {
        let workload = builder().build().unwrap();
        let expected = ["web", "port 1", "db", "port 3"].map(String::from).to_vec();
        assert_eq!(names(&workload), (expected, vec!["early".to_owned(), "the late one".to_owned()]));
        assert_eq!(workload.given_coflow_name(CoflowId(0)), None);
        let given = [0, 1].map(|task| workload.given_coflow_names(TaskId(task)));
        assert_eq!(given, [vec![], vec!["the late one".to_owned()]]);
        let fabric = Fabric::big_switch(3, BitsPerSec(8)).unwrap();
        let links = [0, 1, 5].map(|link| workload.link_name(&fabric, LinkId(link)));
        assert_eq!(links, ["ingress of web", "ingress of port 1", "egress of db"]);
        assert_eq!(fabric.link_name(LinkId(1)), links[1]);
        assert_eq!(workload.clone().into_builder().build().unwrap(), workload);
    }

    #[test]
    fn two_ports_or_two_coflows_of_one_name_are_refused() {
        let refused = |change: &dyn Fn(&mut WorkloadBuilder)| {
            let mut builder = builder();
            change(&mut builder);
            builder.build().unwrap_err()
        };
        let ports = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let name = "a".to_owned();
        assert_eq!(
            refused(&|builder| {
                builder.port_names(ports(&["a", "b", "a"]));
            }),
            WorkloadError::DuplicatePort { name }
        );
        assert_eq!(
            refused(&|builder| {
                builder.port_names(ports(&["a", "b", "c", "d"]));
            }),
            WorkloadError::TooManyNames { given: 4, ports: 3 }
        );
        let (task, name) = ("late".to_owned(), "the late one".to_owned());
        assert_eq!(
            refused(&|builder| {
                builder.coflow_names(vec!["the late one".to_owned()]);
            }),
            WorkloadError::DuplicateCoflow { task, name }
        );
        let task = "early".to_owned();
        assert_eq!(
            refused(&|builder| {
                builder.coflow_names(vec!["a".to_owned(), "b".to_owned()]);
            }),
            WorkloadError::StrangeNames { task, given: 2, coflows: 1 }
        );
    }
}
