//! The thread that turns a switch: take in a batch from each interface, let leave what may, sleep
//! until the next time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cavalcade_model::{BitsPerSec, Instant, Nanos};

use crate::device::{BATCH, Device, Sources};
use crate::error::SwitchError;
use crate::kernel::Kernel;
use crate::packet::{addresses, is_group};
use crate::port::Packet;
use crate::switch::{Report, Setup, Switch};

/// It looks this often whether it is to stop, and whether links are there.
const LOOK: Nanos = Nanos(100_000_000);
/// A switch that leaves for a loop says so this many times by each port.
const PARTINGS: u32 = 3;
/// It tries this many times, with this pause in between: 70 ms in all, for which its error waits.
const TRIES: u32 = 8;
const PAUSE: Duration = Duration::from_millis(10);

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
    /// For each port, frames that this process left out because they had a VLAN tag.
    pub tagged: Vec<u64>,
    /// Bytes that this process carried itself.
    pub by_process: u64,
}

/// Runs a switch over interfaces of these names and rates, by this carrier, until it is told to
/// stop. Every `every`, and at the end, `observe` is shown how it stands.
///
/// # Errors
/// If an interface cannot be opened or goes away, the kernel refuses to carry frames, or the
/// topology is wrong. Nothing has been changed then.
pub fn run(
    ports: &[(String, BitsPerSec)],
    setup: Setup,
    carrier: Carrier,
    stop: &Stop,
    every: Nanos,
    mut observe: impl FnMut(&Running),
) -> Result<(), SwitchError> {
    let mut turning = Turning::new(ports, setup, carrier)?;
    let mut observed = turning.now();
    while !stop.is_asked() {
        let turned = turning.turn();
        if let Err(SwitchError::Loop { .. }) = turned {
            turning.part();
        }
        let now = turned?;
        if now.since(observed) >= every {
            observed = now;
            observe(&turning.running(now));
        }
    }
    let now = turning.now();
    observe(&turning.running(now));
    Ok(())
}

/// A switch that is turned.
struct Turning {
    started: std::time::Instant,
    switch: Switch,
    devices: Vec<Device>,
    /// The switch in the kernel, where that carries frames.
    kernel: Option<Kernel>,
    /// Time at which that begins to forward; `None` once it does.
    opens: Option<Instant>,
    sources: Sources,
    /// For each port, packets that its interface has not taken yet.
    pending: Vec<Vec<Packet>>,
    /// For each port, whether there was something at the other end of its link, and the time of
    /// that look.
    connected: Vec<bool>,
    looked: Instant,
}

impl Turning {
    fn new(ports: &[(String, BitsPerSec)], setup: Setup, carrier: Carrier) -> Result<Self, SwitchError> {
        if let Some(at) = (0..ports.len()).find(|&at| ports[..at].iter().any(|port| port.0 == ports[at].0)) {
            return Err(SwitchError::Twice { name: ports[at].0.clone() });
        }
        let devices = ports.iter().map(|(name, _)| Device::open(name)).collect::<Result<Vec<_>, _>>()?;
        let described =
            ports.iter().zip(&devices).map(|((name, rate), device)| (name.clone(), *rate, device.mtu()));
        let setup = Setup { ports: described.collect(), ..setup };
        let kernel = match carrier {
            Carrier::Process => None,
            Carrier::Kernel => Some(Kernel::attach(&devices, &setup)?),
        };
        Ok(Self {
            started: std::time::Instant::now(),
            kernel,
            opens: Some(Instant::ZERO + setup.watch),
            switch: Switch::new(Instant::ZERO, setup),
            sources: Sources::new(&devices),
            pending: devices.iter().map(|_| Vec::with_capacity(BATCH)).collect(),
            connected: devices.iter().map(Device::is_connected).collect::<Result<Vec<_>, _>>()?,
            looked: Instant::ZERO,
            devices,
        })
    }

    fn now(&self) -> Instant {
        Instant(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Sleeps until there is something to do, and does it. Returns the time at which it woke up.
    fn turn(&mut self) -> Result<Instant, SwitchError> {
        let now = self.now();
        let stuck = self.pending.iter().any(|pending| !pending.is_empty());
        let due = if stuck { now + Nanos(50_000) } else { self.switch.poll_timeout() };
        self.sources
            .wait(due.get().saturating_sub(now.get()).min(LOOK.get()))
            .map_err(|error| SwitchError::System { what: "wait for packets".to_owned(), error })?;
        let now = self.now();
        if self.opens.is_some_and(|opens| now >= opens) {
            self.opens = None;
            self.kernel.as_mut().map_or(Ok(()), Kernel::forward)?;
        }
        if now.since(self.looked) >= LOOK {
            self.look(now)?;
        }
        let Self { switch, devices, kernel, sources, pending, .. } = self;
        for (port, device) in devices.iter_mut().enumerate().filter(|(port, _)| sources.is_ready(*port)) {
            device.receive(|frame, unfinished, piece| {
                if let Some(kernel) = kernel {
                    teach(switch, kernel, now, frame);
                }
                switch.handle(now, port, frame, unfinished, piece)
            })?;
        }
        if switch.forget_if_due(now) {
            kernel.as_mut().map_or(Ok(()), Kernel::forget_learned)?;
        }
        for (port, device) in devices.iter_mut().enumerate() {
            send(switch, device, port, &mut pending[port], now)?;
            if let Some(kernel) = kernel {
                kernel.relay(port, switch.sent(port))?;
            }
        }
        Ok(now)
    }

    /// Looks whether links have been cut.
    fn look(&mut self, now: Instant) -> Result<(), SwitchError> {
        self.looked = now;
        for (port, device) in self.devices.iter().enumerate() {
            let was = std::mem::replace(&mut self.connected[port], device.is_connected()?);
            if was && !self.connected[port] {
                self.switch.forget(port);
                self.kernel.iter_mut().for_each(|kernel| kernel.forget(port));
            }
        }
        Ok(())
    }

    /// Says to all that this switch leaves for a loop.
    fn part(&mut self) {
        // From here on the kernel forwards nothing either.
        self.kernel = None;
        let now = self.now();
        let Self { switch, devices, .. } = self;
        let say = |port: usize| {
            let Some(parting) = switch.parting(now, port) else { return true };
            let device: &mut Device = &mut devices[port];
            let refused = device.unsent();
            matches!(device.send(&[parting]), Ok(1)) && device.unsent() == refused
        };
        repeat(self.connected.len(), say, || std::thread::sleep(PAUSE));
    }

    fn running(&mut self, now: Instant) -> Running {
        let missed = self.devices.iter_mut().map(Device::missed).collect();
        let mut unsent: Vec<u64> = self.devices.iter().map(Device::unsent).collect();
        let tagged = self.devices.iter().map(Device::tagged).collect();
        let mut report = self.switch.report();
        let by_process = (0..self.devices.len()).map(|port| self.switch.sent(port)).sum();
        if let Some(kernel) = &mut self.kernel {
            kernel.add_to(now, &mut report, &mut unsent);
        }
        Running { elapsed: Nanos(now.get()), report, missed, unsent, tagged, by_process }
    }
}

/// Says something by each port until that has taken it [`PARTINGS`] times. The links that carried a
/// storm are full at first, and a neighbour whose buffer is full loses what a link has taken.
fn repeat(ports: usize, mut say: impl FnMut(usize) -> bool, mut pause: impl FnMut()) {
    let mut taken = vec![0; ports];
    for attempt in 0..TRIES {
        if attempt > 0 {
            pause();
        }
        for (port, taken) in taken.iter_mut().enumerate().filter(|(_, taken)| **taken < PARTINGS) {
            *taken += u32::from(say(port));
        }
        if taken.iter().all(|taken| *taken == PARTINGS) {
            return;
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_full_is_tried_again_but_not_for_ever() {
        let said = |taken: [fn(u32) -> bool; 2]| {
            let (mut said, mut pauses) = ([0; 2], 0);
            let say = |port: usize| {
                said[port] += 1;
                taken[port](said[port])
            };
            repeat(2, say, || pauses += 1);
            (said, pauses)
        };
        assert_eq!(said([|_| true, |_| true]), ([3, 3], 2));
        assert_eq!(said([|_| true, |attempt| attempt > 4]), ([3, 7], 6));
        assert_eq!(said([|_| true, |_| false]), ([3, 8], 7));
    }
}
