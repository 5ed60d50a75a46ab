//! Real sockets with a bad network between them: a relay that loses, repeats, reorders and breaks
//! datagrams by a seed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cavalcade_model::SplitMix64;
use cavalcade_spc::{Endpoint, Options, SpcListener};

const ANY: &str = "127.0.0.1:0";

/// Faults, in thousandths of datagrams.
#[derive(Clone, Copy, Default)]
struct Faults {
    loss: u64,
    repeats: u64,
    breaks: u64,
    /// Held back until this many later ones have passed.
    reorders: u64,
}

/// Carries datagrams between clients' side and the server's until told to stop; one client.
struct Relay {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<u64>>,
}

impl Relay {
    fn start(server: SocketAddr, faults: Faults, seed: u64) -> Self {
        let (front, back) = (UdpSocket::bind(ANY).unwrap(), UdpSocket::bind(ANY).unwrap());
        back.connect(server).unwrap();
        let address = front.local_addr().unwrap();
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        }
        let stop = Arc::new(AtomicBool::new(false));
        let client: Arc<std::sync::Mutex<Option<SocketAddr>>> = Arc::default();
        let (out_front, out_back) = (front.try_clone().unwrap(), back.try_clone().unwrap());
        let (stopped, known) = (Arc::clone(&stop), Arc::clone(&client));
        let upward = thread::spawn(move || {
            carry(&front, faults, seed, &stopped, |bytes, from| {
                if let Some(from) = from {
                    *known.lock().unwrap() = Some(from);
                }
                let _ = out_back.send(bytes);
            })
        });
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let harmed = carry(&back, faults, seed ^ 0xf00d, &stopped, |bytes, _| {
                if let Some(client) = *client.lock().unwrap() {
                    let _ = out_front.send_to(bytes, client);
                }
            });
            harmed + upward.join().unwrap()
        });
        Self { address, stop, thread: Some(thread) }
    }

    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// Returns to how many datagrams something happened.
fn carry(
    from: &UdpSocket,
    faults: Faults,
    seed: u64,
    stop: &AtomicBool,
    mut pass: impl FnMut(&[u8], Option<SocketAddr>),
) -> u64 {
    let mut random = SplitMix64::new(seed);
    let mut held: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
    let mut buffer = [0; 10_000];
    let (mut count, mut harmed) = (0u64, 0);
    while !stop.load(Ordering::Relaxed) {
        let Ok((length, peer)) = from.recv_from(&mut buffer) else { continue };
        count += 1;
        let mut hit = |thousandths: u64| {
            let hit = random.below(1_000) < thousandths;
            harmed += u64::from(hit);
            hit
        };
        let (lost, repeated, broken, late) =
            (hit(faults.loss), hit(faults.repeats), hit(faults.breaks), hit(faults.reorders));
        if broken {
            let at = random.below(length as u64) as usize;
            buffer[at] ^= 1 << random.below(8);
        }
        if late {
            held.push_back((count + 1 + random.below(20), buffer[..length].to_vec()));
        } else if !lost {
            pass(&buffer[..length], Some(peer));
        }
        if repeated {
            pass(&buffer[..length], Some(peer));
        }
        while held.front().is_some_and(|(at, _)| *at <= count) {
            if let Some((_, bytes)) = held.pop_front() {
                pass(&bytes, None);
            }
        }
    }
    harmed
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Sends `length` bytes and gets as many back, through a relay with these faults.
fn exchange(faults: Faults, seed: u64, length: usize) -> u64 {
    let listener = SpcListener::bind(ANY).unwrap();
    let relay = Relay::start(listener.local_addr().unwrap(), faults, seed);
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let back: Vec<u8> = all.iter().rev().copied().collect();
        stream.write_all(&back).unwrap();
        hash(&all)
    });
    let mut random = SplitMix64::new(seed);
    let sent: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
    let mut stream = Endpoint::bind(ANY, Options::default()).unwrap().connect(relay.address, 6).unwrap();
    stream.write_all(&sent).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    back.reverse();
    drop(stream);
    assert_eq!((hash(&back), server.join().unwrap()), (hash(&sent), hash(&sent)));
    relay.end()
}

#[test]
fn every_byte_arrives_once_whatever_a_relay_does_to_datagrams() {
    let each = [
        Faults { loss: 80, ..Faults::default() },
        Faults { repeats: 200, ..Faults::default() },
        Faults { reorders: 150, ..Faults::default() },
        Faults { breaks: 60, ..Faults::default() },
        Faults { loss: 30, repeats: 30, reorders: 30, breaks: 30 },
    ];
    for (seed, faults) in each.into_iter().enumerate() {
        let harmed = exchange(faults, seed as u64, 1_500_000);
        assert!(harmed > 5, "seed {seed}: {harmed} datagrams had something happen to them");
    }
}
