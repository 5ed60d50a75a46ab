//! What is measured: which term each agent obeys, since when, and for how long nothing arrived
//! anywhere.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cavalcade_runtime::administration::Administrator;

use crate::site::{HOSTS, Site};
use crate::traffic::Traffic;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// The longest wait for an answer: an agent may hang.
const PATIENCE: Duration = Duration::from_millis(500);
/// The least that arrives at all hosts between two looks where a transfer goes on: the components'
/// own messages are fewer.
const MOVING: u64 = 20_000;

/// The coordinator's term that an agent obeys, and when that was last seen.
type Obeyed = Mutex<Option<(u64, Instant)>>;

/// The state of agents and links, kept up to date by threads until it is dropped.
pub(crate) struct Watch {
    over: Arc<AtomicBool>,
    obeyed: Vec<Arc<Obeyed>>,
    /// In milliseconds.
    longest_pause: Arc<AtomicU64>,
}

impl Watch {
    /// Watches the agents of a site, and what arrives at its hosts.
    pub(crate) fn start(site: &Site, traffic: &Traffic) -> Self {
        let (over, longest_pause) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let look_at = |host| {
            let (over, seen) = (over.clone(), Arc::new(Obeyed::default()));
            let (path, told): (PathBuf, _) =
                (site.path(&format!("agent-{host}.administration.sock")), seen.clone());
            std::thread::spawn(move || look_at_agent(&path, &over, &told));
            seen
        };
        let obeyed = (0..HOSTS).map(look_at).collect();
        let (ended, pause, processes) = (over.clone(), longest_pause.clone(), traffic.processes.clone());
        std::thread::spawn(move || measure_pauses(&processes, &ended, &pause));
        Self { over, obeyed, longest_pause }
    }

    /// Waits until all agents were seen to obey a term of at least `term` after `since`; returns
    /// how long after.
    pub(crate) fn wait_until_all_obey(
        &self,
        term: u64,
        since: Instant,
        longest: Duration,
    ) -> Option<Duration> {
        let obeys = |seen: &Arc<Obeyed>| {
            seen.lock().expect("it is not poisoned").is_some_and(|(own, at)| own >= term && at > since)
        };
        while !self.obeyed.iter().all(obeys) {
            if since.elapsed() > longest {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(since.elapsed())
    }

    /// Returns the highest term that an agent obeys.
    pub(crate) fn term(&self) -> u64 {
        let terms = self.obeyed.iter().filter_map(|seen| *seen.lock().expect("it is not poisoned"));
        terms.map(|(term, _)| term).max().unwrap_or(0)
    }

    /// Returns the longest time for which nothing arrived anywhere since the last call.
    pub(crate) fn take_longest_pause(&self) -> Duration {
        Duration::from_millis(self.longest_pause.swap(0, Ordering::Relaxed))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn look_at_agent(path: &Path, over: &AtomicBool, seen: &Obeyed) {
    while !over.load(Ordering::Relaxed) {
        let looks = cavalcade_runtime::block_on(async {
            let Ok(mut administrator) = Administrator::at_socket(path).await else { return Ok(()) };
            while !over.load(Ordering::Relaxed) {
                let at = Instant::now();
                let look = administrator.look("", false);
                let Ok(Ok(view)) = tokio::time::timeout(PATIENCE, look).await else { return Ok(()) };
                if let Some(term) = view.term {
                    *seen.lock().expect("it is not poisoned") = Some((term, at));
                }
                tokio::time::sleep(LOOK).await;
            }
            Ok(())
        });
        looks.expect("the system has an event queue");
        std::thread::sleep(LOOK);
    }
}

fn measure_pauses(processes: &[u32], over: &AtomicBool, longest: &AtomicU64) {
    let arrived = || processes.iter().map(|&process| arrived_at(process)).sum::<u64>();
    let (mut before, mut moved) = (arrived(), Instant::now());
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        let now = arrived();
        if now.saturating_sub(before) >= MOVING {
            moved = Instant::now();
        }
        before = now;
        longest.fetch_max(moved.elapsed().as_millis() as u64, Ordering::Relaxed);
    }
}

/// Returns the bytes that have arrived at the host of a process, as the kernel counts them.
fn arrived_at(process: u32) -> u64 {
    let table = std::fs::read_to_string(format!("/proc/{process}/net/dev")).unwrap_or_default();
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix("eth0:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
