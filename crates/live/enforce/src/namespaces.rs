//! Network namespaces: a walk over sockets sees those of the walker's namespace only.
//!
//! A thread stands in each namespace in which there are tagged processes, and walks there when it
//! is told to. While it stands there, the namespace does not go; so it leaves some time after the
//! last of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::pins::walk;
use crate::{groups, urgency};

/// The most namespaces in which threads stand: users can make as many as they like. Connections in
/// others are reached by their descriptors alone.
const MOST: usize = 256;

/// The number of looks without tagged processes, one a second, after which a namespace is left:
/// what a program had written when it ended may wait at a gate until then.
const LOOKS: u32 = 60;

/// A thread that walks when told, and says how it went.
#[derive(Debug)]
struct Walker {
    /// The tagged processes that have been seen there.
    processes: BTreeSet<u32>,
    /// The looks in a row that found none of them.
    empty: u32,
    tell: mpsc::Sender<()>,
    hear: mpsc::Receiver<io::Result<()>>,
}

/// The walkers in other namespaces; in its own the calling thread walks.
#[derive(Debug)]
pub(crate) struct Walkers {
    program: PathBuf,
    own: Option<u64>,
    others: BTreeMap<u64, Walker>,
}

fn number(namespace: &Path) -> Option<u64> {
    fs::metadata(namespace).ok().map(|found| found.ino())
}

fn of_process(process: u32) -> PathBuf {
    format!("/proc/{process}/ns/net").into()
}

impl Walkers {
    pub(crate) fn new(program: PathBuf) -> Self {
        Self { program, own: number(Path::new("/proc/thread-self/ns/net")), others: BTreeMap::new() }
    }

    /// Stands in the namespace of a process as well; one that is gone has none.
    pub(crate) fn follow(&mut self, process: u32) {
        let path = of_process(process);
        let Some(number) = number(&path) else { return };
        if self.own == Some(number) {
            return;
        }
        if let Some(walker) = self.others.get_mut(&number) {
            walker.processes.insert(process);
        } else if self.others.len() < MOST
            && let Ok(namespace) = File::open(&path)
        {
            self.others.insert(number, Walker::new(process, namespace, self.program.clone()));
        }
    }

    /// Leaves namespaces in which none of the processes has been for [`LOOKS`] looks.
    pub(crate) fn leave_empty(&mut self) {
        self.others.retain(|&at, walker| {
            walker.processes.retain(|&process| number(&of_process(process)) == Some(at));
            walker.empty = if walker.processes.is_empty() { walker.empty + 1 } else { 0 };
            walker.empty <= LOOKS
        });
    }

    /// Walks everywhere; a namespace in which that fails is forgotten.
    pub(crate) fn walk(&mut self) -> io::Result<()> {
        self.others.retain(|_, walker| walker.tell.send(()).is_ok());
        let result = walk(&self.program);
        self.others.retain(|_, walker| matches!(walker.hear.recv(), Ok(Ok(()))));
        result
    }
}

impl Walker {
    fn new(process: u32, namespace: File, program: PathBuf) -> Self {
        let (tell, told) = mpsc::channel();
        let (say, hear) = mpsc::channel();
        let work = move || {
            urgency::go_first();
            let entered = move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network));
            while told.recv().is_ok() {
                let walked = entered.map_err(io::Error::from).and_then(|()| walk(&program));
                if say.send(walked).is_err() {
                    return;
                }
            }
        };
        // Without a thread both ends are closed, and the walker is forgotten at the first walk.
        drop(std::thread::Builder::new().name("cavalcade-walker".to_owned()).spawn(work));
        Self { processes: [process].into(), empty: 0, tell, hear }
    }
}

/// Walks once in every network namespace of this host in which a process is.
pub(crate) fn walk_everywhere(program: PathBuf) -> io::Result<()> {
    let mut walkers = Walkers::new(program);
    groups::processes().into_iter().for_each(|process| walkers.follow(process));
    walkers.walk()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_namespace_is_left_some_time_after_the_last_tagged_process_in_it() {
        if !rustix::process::geteuid().is_root() {
            return cavalcade_testing::skipped("root, to make network namespaces");
        }
        let mut walkers = Walkers::new("none".into());
        let mut processes = [(); 2].map(|()| {
            let process = Command::new("unshare").args(["--net", "sleep", "60"]).spawn().unwrap();
            cavalcade_testing::eventually("a namespace", || number(&of_process(process.id())) != walkers.own);
            walkers.follow(process.id());
            process
        });
        walkers.follow(std::process::id());
        walkers.leave_empty();
        assert_eq!(walkers.others.len(), 2);
        for (left, process) in processes.iter_mut().enumerate() {
            process.kill().unwrap();
            process.wait().unwrap();
            (0..LOOKS).for_each(|_| walkers.leave_empty());
            assert_eq!(walkers.others.len(), 2 - left);
            walkers.leave_empty();
            assert_eq!(walkers.others.len(), 1 - left);
        }
    }
}
