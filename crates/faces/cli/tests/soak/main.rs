//! The live system for minutes on end while everything around it breaks: `cargo xtask soak`.
//!
//! Hosts are namespaces, each with an agent and an application; two coordinators share a lease.
//! Transfers never cease, and each is digested at its receiver. One fault comes after the other;
//! after each all agents have to obey again before the next.
//!
//! What fails: a byte that is wrong, lost or doubled, a component that panics or ends, agents that
//! do not obey again. How long recovery took, and for how long nothing arrived anywhere, is
//! recorded and never judged: that depends on the machine.
//!
//! It is no test of `cargo test`, which would take minutes longer: without `CAVALCADE_SOAK_MINUTES`
//! it does nothing. `CAVALCADE_SOAK_PAGE` names the file into which its page of the docs goes.

#![allow(clippy::print_stderr, reason = "a suite of minutes says how far it is")]

mod faults;
mod page;
mod rogue;
mod site;
#[path = "../support/mod.rs"]
mod support;
mod traffic;
mod watch;

use std::time::{Duration, Instant};

use faults::{Fault, Since};
use page::Page;
use site::Site;
use support::Place;
use traffic::Traffic;
use watch::Watch;

/// The time within which agents have to obey again: far longer than expected, so that a loaded
/// machine does not fail.
const LONGEST: Duration = Duration::from_secs(120);
/// Quiet time between two faults.
const BETWEEN: Duration = Duration::from_secs(2);

fn main() {
    if let Ok(coordinators) = std::env::var("CAVALCADE_ROGUE") {
        rogue::run(&coordinators);
    }
    let Ok(minutes) = std::env::var("CAVALCADE_SOAK_MINUTES") else { return };
    let minutes: f64 = minutes.parse().expect("CAVALCADE_SOAK_MINUTES is a number");
    let page = soak(Duration::from_secs_f64(60.0 * minutes)).to_string();
    eprintln!("\n{page}");
    if let Some(path) = std::env::var_os("CAVALCADE_SOAK_PAGE") {
        std::fs::write(path, page).expect("the page can be written");
    }
}

/// Breaks one thing after the other for so long; the page of the docs says what came of it.
fn soak(length: Duration) -> Page {
    cavalcade_lab::remove_stale();
    let place = Place::new();
    let mut site = Site::start(&place.path("."));
    let traffic = Traffic::start(&site);
    let watch = Watch::start(&site, &traffic);
    let faults: Vec<Fault> = faults::of(&site);
    let mut page = Page::new(&faults, site.lease());
    let start = Instant::now();
    watch.wait_until_all_obey(0, start, LONGEST).expect("all agents obey at first");
    for (number, fault) in faults.iter().enumerate().cycle() {
        if start.elapsed() > length {
            break;
        }
        std::thread::sleep(BETWEEN);
        watch.take_longest_pause();
        let recovery = recovery(fault, &mut site, &watch);
        let recovery = recovery.unwrap_or_else(|| {
            panic!("{}: not all agents obey within {LONGEST:?}{}", fault.name, site.messages())
        });
        traffic.check();
        site.check();
        let pause = watch.take_longest_pause();
        let at = start.elapsed().as_secs_f64();
        eprintln!("{at:6.0} s  {}: obeyed after {recovery:.2?}, nothing arrived for {pause:.2?}", fault.name);
        page.add(number, recovery, pause);
    }
    page.finish(start.elapsed(), traffic.finish());
    site.check();
    page
}

/// Breaks something; returns the time until all agents obeyed again.
fn recovery(fault: &Fault, site: &mut Site, watch: &Watch) -> Option<Duration> {
    let (began, term) = (Instant::now(), watch.term());
    match fault.since {
        Since::Beginning => std::thread::scope(|scope| {
            let waits = scope.spawn(|| watch.wait_until_all_obey(term + 1, began, LONGEST));
            (fault.run)(site);
            waits.join().expect("waiting does not fail")
        }),
        Since::End => {
            (fault.run)(site);
            watch.wait_until_all_obey(0, Instant::now(), LONGEST)
        }
    }
}
