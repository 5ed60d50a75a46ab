//! The thread that turns a switch: take in a batch from each interface, let leave what may, sleep until the next time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cavalcade_model::{BitsPerSec, Instant, Nanos};

use crate::device::{BATCH, Device, Sources};
use crate::error::SwitchError;
use crate::kernel::Kernel;
use crate::packet::{addresses, is_group};
use crate::port::Packet;
use crate::switch::{Report, Setup, Switch};

/// It looks this often whether it is to stop, and whether links are there.
const LOOK: Nanos = Nanos(100_000_000);

/// What carries a switch's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carrier {
    /// This process, over packet sockets.
    #[default]
    Process,
    /// Programs in the kernel (XDP); this process does what is rare.
    Kernel,
}

/// Tells a switch from elsewhere to stop.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Has the switch stop.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether it is to stop.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A switch as those see it who watch it run.
#[derive(Clone, Debug)]
pub struct Running {
    /// Since its start.
    pub elapsed: Nanos,
    /// Its state.
    pub report: Report,
    /// For each port, packets that the kernel dropped before they were read.
    pub missed: Vec<u64>,
    /// For each port, packets that its interface did not take.
    pub unsent: Vec<u64>,
    /// Bytes that this process carried itself.
    pub by_process: u64,
}

/// Runs a switch over interfaces of these names and rates, by this carrier, until it is told to stop. Every `every`, and at the end, `observe` is
/// shown how it stands.
///
/// # Errors
/// If an interface cannot be opened or goes away, the kernel refuses to carry frames, or the topology is wrong. Nothing has been
/// changed then.
pub fn run(
    ports: &[(String, BitsPerSec)],
    setup: Setup,
    carrier: Carrier,
    stop: &Stop,
    every: Nanos,
    mut observe: impl FnMut(&Running),
) -> Result<(), SwitchError> {
    if let Some(at) = (0..ports.len()).find(|&at| ports[..at].iter().any(|port| port.0 == ports[at].0)) {
        return Err(SwitchError::Twice { name: ports[at].0.clone() });
    }
    let mut devices = Vec::with_capacity(ports.len());
    for (name, _) in ports {
        devices.push(Device::open(name)?);
    }
    let described =
        ports.iter().zip(&devices).map(|((name, rate), device)| (name.clone(), *rate, device.mtu()));
    let setup = Setup { ports: described.collect(), ..setup };
    let mut kernel = match carrier {
        Carrier::Process => None,
        Carrier::Kernel => Some(Kernel::attach(&devices, &setup)?),
    };
    let watch = setup.watch;
    let started = std::time::Instant::now();
    let clock = || Instant(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut switch = Switch::new(clock(), setup);
    let opens = clock() + watch;
    let mut forwards = false;
    let mut pending: Vec<Vec<Packet>> = devices.iter().map(|_| Vec::with_capacity(BATCH)).collect();
    let mut sources = Sources::new(&devices);
    let (mut observed, mut looked) = (clock(), clock());
    let mut connected = devices.iter().map(Device::is_connected).collect::<Result<Vec<_>, _>>()?;
    while !stop.is_asked() {
        let now = clock();
        let stuck = pending.iter().any(|pending| !pending.is_empty());
        let due = if stuck { now + Nanos(50_000) } else { switch.poll_timeout() };
        let sleep = due.get().saturating_sub(now.get()).min(LOOK.get());
        sources
            .wait(sleep)
            .map_err(|error| SwitchError::System { what: "wait for packets".to_owned(), error })?;
        let now = clock();
        if let Some(kernel) = kernel.as_mut().filter(|_| !forwards && now >= opens) {
            kernel.forward()?;
            forwards = true;
        }
        if now.since(looked) >= LOOK {
            looked = now;
            for (port, device) in devices.iter().enumerate() {
                let was = std::mem::replace(&mut connected[port], device.is_connected()?);
                if was && !connected[port] {
                    switch.forget(port);
                    kernel.iter_mut().for_each(|kernel| kernel.forget(port));
                }
            }
        }
        for (port, device) in devices.iter_mut().enumerate().filter(|(port, _)| sources.is_ready(*port)) {
            device.receive(|frame, unfinished, piece| {
                if let Some(kernel) = &kernel {
                    teach(&mut switch, kernel, now, frame);
                }
                switch.handle(now, port, frame, unfinished, piece)
            })?;
        }
        for (port, device) in devices.iter_mut().enumerate() {
            send(&mut switch, device, port, &mut pending[port], now)?;
            if let Some(kernel) = &mut kernel {
                kernel.relay(port, switch.sent(port))?;
            }
        }
        if now.since(observed) >= every {
            observed = now;
            observe(&running(&switch, kernel.as_mut(), &mut devices, now));
        }
    }
    observe(&running(&switch, kernel.as_mut(), &mut devices, clock()));
    Ok(())
}

/// Tells the switch where the kernel knows a frame's destination to be.
fn teach(switch: &mut Switch, kernel: &Kernel, now: Instant, frame: &[u8]) {
    let destination = addresses(frame).map(|(destination, _)| destination);
    if let Some(destination) = destination.filter(|destination| !is_group(*destination))
        && let Some(port) = kernel.port_of(destination)
    {
        switch.learn(now, destination, port);
    }
}

/// Sends what may leave by a port, until there is nothing more or the interface takes no more.
fn send(
    switch: &mut Switch,
    device: &mut Device,
    port: usize,
    pending: &mut Vec<Packet>,
    now: Instant,
) -> Result<(), SwitchError> {
    loop {
        while pending.len() < BATCH
            && let Some(packet) = switch.poll_transmit(now, port)
        {
            pending.push(packet);
        }
        if pending.is_empty() {
            return Ok(());
        }
        let sent = device.send(pending)?;
        for packet in pending.drain(..sent) {
            switch.recycle(packet);
        }
        if sent == 0 {
            return Ok(());
        }
    }
}

fn running(switch: &Switch, kernel: Option<&mut Kernel>, devices: &mut [Device], now: Instant) -> Running {
    let missed = devices.iter_mut().map(Device::missed).collect();
    let mut unsent: Vec<u64> = devices.iter().map(Device::unsent).collect();
    let mut report = switch.report();
    let by_process = (0..devices.len()).map(|port| switch.sent(port)).sum();
    if let Some(kernel) = kernel {
        kernel.add_to(now, &mut report, &mut unsent);
    }
    Running { elapsed: Nanos(now.get()), report, missed, unsent, by_process }
}
