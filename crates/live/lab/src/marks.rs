//! Marks at the ports of the switch between hosts: virtual queues, by a program in the kernel
//! (`bpf/port.bpf.c`).
//!
//! Each port that leads to a host has a program of its own at its egress, with tables of its own.
//! Hosts' own links have none, as in the packet engine: there TCP waits for its device, and a queue
//! that a window could fill is not there. What a port is to mark from, and how much it holds, is
//! what the packet engine's transport asks of switches.
//!
//! # Invariants
//! Nothing is pinned. Since Linux 6.6 a program is held by a link of this process and goes with it,
//! however that ends; before that it goes with the device, and so with the namespace.

use std::io;

use aya::maps::{Array, MapError};
use aya::programs::{SchedClassifier, TcAttachType, tc};
use aya::{Ebpf, EbpfLoader};
use cavalcade_model::Bytes;

use crate::error::LabError;
use crate::namespaces::{CLASSES, within};

/// What the program and this crate say to each other: made by `build.rs` from `bpf/port.h`, with
/// the program itself.
mod shared {
    #![allow(dead_code, reason = "the header also has what only the program uses")]
    include!(concat!(env!("OUT_DIR"), "/shared.rs"));
}

use shared::{Passed, PassedWords, Port, PortWords};

const CURE: &str = "give --congestion none, which leaves ports without marks and connections under Reno";

/// What ports mark from, and what a queue of theirs holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// What joins a queue of so many bytes or more is marked.
    pub at: Bytes,
    /// The bytes that a queue holds.
    pub buffer: Bytes,
}

/// Tells why this build cannot mark; `None` where it can.
pub fn missing() -> Option<&'static str> {
    shared::PROGRAMS.err()
}

/// The programs of a switch's ports; dropping them ends the marks.
pub(crate) struct Marks(Vec<Ebpf>);

impl std::fmt::Debug for Marks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Marks").field(&self.0.len()).finish()
    }
}

impl Marks {
    /// Has each of `ports`, devices in a namespace that send `rate` bytes of frames a second and
    /// `burst` at once after a pause, mark.
    pub(crate) fn put(
        namespace: &str,
        ports: &[String],
        (rate, burst): (u64, u64),
        marking: Marking,
    ) -> Result<Self, LabError> {
        let failed = |error: &dyn std::fmt::Display| LabError::Missing {
            what: format!("no ports that mark: {error}"),
            cure: CURE,
        };
        let Marking { at, buffer } = marking;
        let settings = Port { rate, burst, mark_at: at.get(), limit: buffer.get() };
        let put = || {
            let programs =
                ports.iter().map(|port| program_at(port, settings).map_err(|error| failed(&*error)));
            programs.collect::<Result<_, _>>().map(Self)
        };
        // Devices have names in their namespace only.
        within(namespace, put).map_err(|error| failed(&error))?
    }

    /// The kernel's numbers of the programs.
    #[cfg(test)]
    fn numbers(&self) -> Vec<u32> {
        let number = |programs: &Ebpf| match programs.program("mark") {
            Some(aya::programs::Program::SchedClassifier(program)) => program.info().unwrap().id(),
            _ => unreachable!("it is in bpf/port.bpf.c"),
        };
        self.0.iter().map(number).collect()
    }

    /// Packets that could be marked and that were, at all ports together.
    pub(crate) fn passed(&self) -> io::Result<(u64, u64)> {
        let mut sums = (0, 0);
        for programs in &self.0 {
            let Passed { markable, marked } = passed(programs).map_err(io::Error::other)?;
            sums = (sums.0 + markable, sums.1 + marked);
        }
        Ok(sums)
    }
}

type Failed = Box<dyn std::error::Error>;

/// A program at a port of the calling thread's namespace.
fn program_at(port: &str, settings: Port) -> Result<Ebpf, Failed> {
    let mut programs = load(settings)?;
    // Where programs are attached by links it is not needed, and where there is one already it
    // stays.
    let _ = tc::qdisc_add_clsact(port);
    program(&mut programs)?.attach(port, TcAttachType::Egress)?;
    Ok(programs)
}

fn load(settings: Port) -> Result<Ebpf, Failed> {
    let mut programs = EbpfLoader::new().load(shared::PROGRAMS?)?;
    let of_program = "it is in bpf/port.bpf.c";
    Array::<_, PortWords>::try_from(programs.map_mut("port").expect(of_program))?.set(
        0,
        settings.to_words(),
        0,
    )?;
    let mut classes = Array::<_, u32>::try_from(programs.map_mut("classes").expect(of_program))?;
    for (class, dscp) in (0..).zip(CLASSES) {
        classes.set(u32::from(dscp), class, 0)?;
    }
    program(&mut programs)?.load()?;
    Ok(programs)
}

fn program(programs: &mut Ebpf) -> Result<&mut SchedClassifier, Failed> {
    Ok(programs.program_mut("mark").expect("it is in bpf/port.bpf.c").try_into()?)
}

fn passed(programs: &Ebpf) -> Result<Passed, MapError> {
    let table = Array::<_, PassedWords>::try_from(programs.map("passed").expect("it is in bpf/port.bpf.c"))?;
    Ok(Passed::from_words(table.get(&0, 0)?))
}

#[cfg(test)]
mod live;

#[cfg(test)]
mod tests {
    use aya::programs::{TestRun, TestRunOptions};

    use super::*;

    /// Full packets, of which the switch counts this much.
    const FRAME: usize = 1_514;
    /// The length of the kernel's `struct __sk_buff`, and the place of what a packet has on the
    /// wire.
    const CONTEXT: usize = 192;
    const WIRE: usize = 160;
    const MARKABLE: u8 = 2;
    const MARKED: u8 = 3;
    /// A rate at which all has left before the next packet comes.
    const FAST: u64 = 10_000_000_000;

    /// A port that sends next to nothing, and marks from two full packets on; none where this
    /// machine takes no programs.
    fn port() -> Option<Ebpf> {
        cavalcade_testing::loadable(shared::PROGRAMS)?;
        Some(load(Port { rate: 1, burst: 0, mark_at: 2 * FRAME as u64, limit: 4 * FRAME as u64 }).unwrap())
    }

    /// Makes a port another.
    fn set(port: &mut Ebpf, to: Port) {
        let mut settings = Array::<_, PortWords>::try_from(port.map_mut("port").unwrap()).unwrap();
        settings.set(0, to.to_words(), 0).unwrap();
    }

    /// Sends a packet of a DSCP, and returns its ECN bits as they are then.
    fn send(port: &mut Ebpf, dscp: u8, ecn: u8, length: usize) -> u8 {
        let mut packet = vec![0; length];
        packet[12..14].copy_from_slice(&[8, 0]);
        packet[14..16].copy_from_slice(&[0x45, dscp << 2 | ecn]);
        packet[16..18].copy_from_slice(&u16::try_from(length - 14).unwrap().to_be_bytes());
        packet[23] = 6;
        let mut out = vec![0; length];
        let mut context = [0; CONTEXT];
        context[WIRE..WIRE + 4].copy_from_slice(&u32::try_from(length).unwrap().to_ne_bytes());
        let options = TestRunOptions {
            data_in: Some(&packet),
            data_out: Some(&mut out),
            ctx_in: Some(&context),
            ..TestRunOptions::default()
        };
        assert_eq!(program(port).unwrap().test_run(options).unwrap().return_value, 0);
        assert_eq!(out[15] >> 2, dscp);
        out[15] & 3
    }

    #[test]
    fn what_joins_a_queue_of_the_threshold_is_marked_if_it_can_be() {
        let Some(mut port) = port() else { return };
        let sent = [0; 4].map(|_| send(&mut port, 0, MARKABLE, FRAME));
        assert_eq!(sent, [MARKABLE, MARKABLE, MARKED, MARKED]);
        // It finds no room, and a queue that is full.
        assert_eq!(send(&mut port, 0, MARKABLE, FRAME), MARKED);
        assert_eq!(send(&mut port, 0, 0, FRAME), 0);
        let Passed { markable, marked } = passed(&port).unwrap();
        assert_eq!((markable, marked), (5, 3));
    }

    #[test]
    fn a_class_counts_only_what_is_in_its_own_queue_and_unknown_ones_are_the_highest() {
        let Some(mut port) = port() else { return };
        for dscp in [0, 0, 0, CLASSES[7], CLASSES[7]] {
            send(&mut port, dscp, MARKABLE, FRAME);
        }
        assert_eq!(send(&mut port, CLASSES[1], MARKABLE, FRAME), MARKABLE);
        assert_eq!(send(&mut port, CLASSES[7], MARKABLE, FRAME), MARKED);
        assert_eq!(send(&mut port, 1, MARKABLE, FRAME), MARKED);
    }

    #[test]
    fn small_packets_have_a_queue_of_their_own() {
        let Some(mut port) = port() else { return };
        (0..100).for_each(|_| assert_eq!(send(&mut port, 0, MARKABLE, 14 + 127), MARKABLE));
        assert_eq!(send(&mut port, 0, MARKABLE, FRAME), MARKABLE);
    }

    #[test]
    fn the_time_that_passes_empties_queues_the_highest_first() {
        let Some(mut port) = port() else { return };
        for class in [0, 0, 0, 1, 1, 1] {
            send(&mut port, CLASSES[class], MARKABLE, FRAME);
        }
        // At this rate everything has left before the next packet comes.
        set(&mut port, Port { rate: FAST, burst: 0, mark_at: 1, limit: 4 * FRAME as u64 });
        assert_eq!(send(&mut port, CLASSES[1], MARKABLE, FRAME), MARKABLE);
    }

    #[test]
    fn what_an_idle_port_has_saved_up_passes_without_a_queue_and_once() {
        let Some(mut port) = port() else { return };
        let frame = FRAME as u64;
        let idle = Port { rate: FAST, burst: 3 * frame, mark_at: 2 * frame, limit: 4 * frame };
        set(&mut port, idle);
        // The port has been idle until this one, which takes a third of what is saved.
        send(&mut port, CLASSES[7], 0, FRAME);
        set(&mut port, Port { rate: 1, ..idle });
        let sent = [0; 5].map(|_| send(&mut port, 0, MARKABLE, FRAME));
        assert_eq!(sent, [MARKABLE, MARKABLE, MARKABLE, MARKABLE, MARKED]);
    }
}
