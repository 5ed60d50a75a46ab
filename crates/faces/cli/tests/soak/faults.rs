//! All that breaks, one after the other.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use cavalcade_model::TaskClass;
use cavalcade_protocol::{ClientMessage, PROTOCOL, frame};

use crate::site::{Site, kill, signal};
use cavalcade_testing::eventually;

/// The beginning of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// That of the fault: others have to go on without what is broken, and agents obey a higher
    /// term.
    Beginning,
    /// The end of the fault: what was broken has to come back.
    End,
}

/// Something that breaks.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) since: Since,
    /// Breaks it, and mends it.
    pub(crate) run: fn(&mut Site),
}

/// The faults that this site can have.
pub(crate) fn of(site: &Site) -> Vec<Fault> {
    let (beginning, end) = (Since::Beginning, Since::End);
    let fault = |name, since, run| Fault { name, since, run };
    let mut faults = vec![
        fault("the leader hangs for 10 s", beginning, hang_leader),
        fault("the leader is killed, and started again after 5 s", beginning, kill_leader),
        fault("an agent hangs for 3 s", end, hang_agent),
        fault("an agent is killed, and started again", end, |site| restart_agent(site, 1, "")),
        fault("a host's link is cut for 5 s", end, |site| cut(site, Some(3))),
        fault("the coordinators' link is cut for 5 s", end, |site| cut(site, None)),
        fault("an agent's clock is an hour ahead, then behind, and it is started again", end, step_agent),
        fault("the coordinators' clock is an hour behind, and the leader is killed", beginning, step_leader),
        fault("a rogue agent with a valid certificate lies for 10 s", end, lie),
        fault("1,000 clients with a coflow each come for 5 s, and go", end, |site| clients(site, 0, 1_000)),
        fault("an agent has 128 descriptors and 1 GB of addresses, and 600 clients come", end, limit_agent),
    ];
    if site.has_etcd() {
        faults.push(fault("etcd is killed, and started again after 3 s", end, restart_etcd));
    }
    faults
}

fn pause(seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds));
}

fn hang_leader(site: &mut Site) {
    let leader = &site.coordinators[site.leader()];
    signal(leader, "STOP");
    pause(10);
    signal(leader, "CONT");
}

fn kill_leader(site: &mut Site) {
    let leader = site.leader();
    kill(&mut site.coordinators[leader]);
    pause(5);
    site.coordinators[leader] = site.start_coordinator(leader);
}

fn hang_agent(site: &mut Site) {
    signal(&site.agents[1], "STOP");
    pause(3);
    signal(&site.agents[1], "CONT");
}

fn restart_agent(site: &mut Site, host: u32, limits: &str) {
    kill(&mut site.agents[host as usize]);
    site.agents[host as usize] = site.start_agent(host, limits);
}

fn cut(site: &mut Site, host: Option<u32>) {
    site.set_link(host, false);
    pause(5);
    site.set_link(host, true);
}

fn step_agent(site: &mut Site) {
    site.step_clock("agent-2", 3_600);
    pause(3);
    site.step_clock("agent-2", -3_600);
    pause(1);
    restart_agent(site, 2, "");
    pause(3);
    site.step_clock("agent-2", 0);
}

fn step_leader(site: &mut Site) {
    site.step_clock("coordinators", -3_600);
    kill_leader(site);
    site.step_clock("coordinators", 0);
}

fn lie(site: &mut Site) {
    let _rogue = site.start_rogue();
    pause(10);
}

fn limit_agent(site: &mut Site) {
    restart_agent(site, 1, "ulimit -n 128; ulimit -v 1000000;");
    clients(site, 1, 600);
    restart_agent(site, 1, "");
}

fn restart_etcd(site: &mut Site) {
    site.stop_etcd();
    pause(3);
    site.start_etcd();
}

/// Has so many clients say hello, register a coflow, and go again after five seconds. Beyond its
/// limits an agent turns them away.
fn clients(site: &Site, host: u32, count: u64) {
    let path = site.path(&format!("agent-{host}.sock"));
    eventually("the agent listens", || UnixStream::connect(&path).is_ok());
    let mut clients: Vec<UnixStream> = (0..count).filter_map(|number| client(&path, number).ok()).collect();
    let mut heard = [0; 4096];
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(5) {
        for client in &mut clients {
            while client.read(&mut heard).is_ok_and(|length| length > 0) {}
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn client(path: &std::path::Path, number: u64) -> std::io::Result<UnixStream> {
    let hello = ClientMessage::Hello { protocol: PROTOCOL, client: 1_000_000 + number };
    let (parents, class) = (Vec::new(), TaskClass::default());
    let register = ClientMessage::Register {
        request: 1,
        parents,
        deadline: None,
        size: None,
        class,
        weight: 1,
        name: None,
    };
    let mut bytes = Vec::new();
    for message in [hello, register] {
        frame(&message, &mut bytes).expect("it is short");
    }
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(&bytes)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}
