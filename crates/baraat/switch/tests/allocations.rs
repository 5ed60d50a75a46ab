//! A switch's turn allocates nothing once its buffers are there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[macro_use]
#[allow(dead_code, reason = "other tests have other needs")]
mod support;
#[path = "support/questions.rs"]
#[allow(dead_code, reason = "other tests have other needs")]
mod questions;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use cavalcade_model::Nanos;
use cavalcade_switch::device::{BATCH, Device};
use cavalcade_switch::port::Packet;
use cavalcade_switch::{Carrier, Setup, Stop, run};
use cavalcade_testing::eventually;
use cavalcade_transport::spc::Spc;
use questions::{question, task_of};
use support::{Net, RATE, address, ethernet, ports, within};

by_each_carrier! {
    a_turn_allocates_nothing_once_buffers_are_there
}

/// The system's allocator, which counts for the threads that ask for it.
struct Counting;

thread_local! {
    static COUNT: Cell<Option<&'static AtomicU64>> = const { Cell::new(None) };
}

#[expect(unsafe_code, reason = "the trait is")]
// SAFETY: the system's allocator does what the trait asks for.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.get().inspect(|count| _ = count.fetch_add(1, Ordering::Relaxed));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that go by TCP in a round: the kernel hands them over in large pieces.
const ROUND: usize = 100_000;

fn a_turn_allocates_nothing_once_buffers_are_there(carrier: Carrier) {
    let Some(mut net) = Net::new() else { return };
    let sw = net.add("sw");
    let hosts: Vec<_> = (1..=2).map(|number| net.host(number, &sw)).collect();
    let stop = Stop::default();
    let asked = stop.clone();
    let count: &AtomicU64 = Box::leak(Box::default());
    let switch = within(&sw, move || {
        COUNT.set(Some(count));
        let ports: Vec<_> = ports(&[1, 2]).into_iter().map(|port| (port, RATE)).collect();
        // No epoch ends, in which tasks would be forgotten and learned again.
        let spc = Spc { epoch: 1_000_000, ..Spc::default() };
        let setup = Setup { id: 1, life: 1, spc, ..Setup::default() };
        run(&ports, setup, carrier, &asked, Nanos(u64::MAX), |_| {})
    });
    let server = within(&hosts[1], || TcpListener::bind(address(2, 5_000)).unwrap()).join().unwrap();
    let mut client = within(&hosts[0], || TcpStream::connect(address(2, 5_000)).unwrap()).join().unwrap();
    let mut server = server.accept().unwrap().0;
    let open = |host: &str| within(host, || Device::open("eth0").unwrap()).join().unwrap();
    let (mut asks, mut hears) = (open(&hosts[0]), open(&hosts[1]));
    // One host is known, and of the other one no frame ever comes.
    let frames = [2, 9].map(|to| Packet { bytes: question(ethernet(1), to, 7, 7), unfinished: None });
    // Warms up: queues as long as they get, of frames as large as they get.
    for (number, device) in (1..).zip([&mut asks, &mut hears]) {
        let frame = [&ethernet(9)[..], &ethernet(number), &[0x88, 0xb6], &[0; 1_500]].concat();
        let frames = vec![Packet { bytes: frame, unfinished: None }; BATCH];
        let mut sent = 0;
        eventually("a burst is sent", || {
            sent += device.send(&frames).unwrap();
            sent > 500
        });
    }
    let mut room = vec![0; ROUND];
    // A round of all that a switch carries. Returns the beacons and the questions that have come by
    // then.
    let mut carry = || {
        asks.send(&frames).unwrap();
        client.write_all(&[1; ROUND]).unwrap();
        server.read_exact(&mut room).unwrap();
        let (mut beacons, mut questions) = (0, 0);
        let mut hear = |frame: &[u8], _, _| {
            beacons += u32::from(frame[12..14] == [0x88, 0xb5]);
            questions += u32::from(task_of(frame) == Some(7));
            Ok(())
        };
        while hears.receive(&mut hear).unwrap() > 0 {}
        [beacons, questions]
    };
    // How often memory was asked for while it carried rounds of all, with a beacon among them.
    let mut asked_for = || {
        let before = count.load(Ordering::Relaxed);
        let mut heard = [0, 0];
        eventually("beacons and questions come", || {
            let more = carry();
            heard = [heard[0] + more[0], heard[1] + more[1]];
            heard[0] >= 1 && heard[1] >= 10
        });
        count.load(Ordering::Relaxed) - before
    };
    eventually("buffers are there", || asked_for() == 0);
    assert_eq!([(); 5].map(|()| asked_for()), [0; 5]);
    assert!(count.load(Ordering::Relaxed) > 0, "its start is counted");
    stop.stop();
    switch.join().unwrap().unwrap();
}
