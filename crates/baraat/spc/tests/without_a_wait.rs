//! Streams for programs that wait for many things at once, by descriptors or under tokio.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::ErrorKind;
use std::net::{Shutdown, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use cavalcade_spc::{Endpoint, Options, SpcListener, SpcStream};
use cavalcade_testing::eventually;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use support::text;

const ANY: &str = "127.0.0.1:0";

fn endpoint() -> Endpoint {
    Endpoint::bind(ANY, Options::default()).unwrap()
}

/// Waits until one of these shows what is asked of it, and returns what each shows; none of them in
/// half a minute fails.
fn wait(of: &[(BorrowedFd<'_>, PollFlags)]) -> Vec<PollFlags> {
    let mut asked: Vec<_> = of.iter().map(|&(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
    assert!(poll(&mut asked, Some(&Timespec { tv_sec: 30, tv_nsec: 0 })).unwrap() > 0, "nothing is ready");
    asked.iter().map(PollFd::revents).collect()
}

/// One end of a stream in a program that never waits: what it has yet to write, and what it has
/// read.
struct End {
    stream: SpcStream,
    rest: Vec<u8>,
    read: Vec<u8>,
    over: bool,
}

impl End {
    fn new(stream: SpcStream, rest: Vec<u8>) -> Self {
        stream.set_read_timeout(Some(Duration::ZERO));
        stream.set_write_timeout(Some(Duration::ZERO));
        Self { stream, rest, read: Vec::new(), over: false }
    }

    fn wants(&self) -> PollFlags {
        let mut wants = PollFlags::empty();
        wants.set(PollFlags::IN, !self.over);
        wants.set(PollFlags::OUT, !self.rest.is_empty());
        wants
    }

    /// Does what it can. A descriptor that shows more than there is fails the test.
    fn turn(&mut self, shown: PollFlags, answers: bool) {
        use std::io::{Read, Write};
        if shown.contains(PollFlags::IN) && !self.over {
            let mut piece = [0; 30_000];
            let count = self.stream.read(&mut piece).unwrap();
            self.read.extend(&piece[..count]);
            self.over = count == 0;
            if self.over && answers {
                self.rest.clone_from(&self.read);
            }
        }
        if shown.contains(PollFlags::OUT) && !self.rest.is_empty() {
            let count = self.stream.write(&self.rest).unwrap();
            self.rest.drain(..count);
            if self.rest.is_empty() {
                self.stream.shutdown(Shutdown::Write).unwrap();
            }
        }
    }
}

#[test]
fn one_thread_carries_streams_both_ways_by_waiting_for_descriptors_alone() {
    let listener = SpcListener::bind(ANY).unwrap();
    let to = listener.local_addr().unwrap();
    let endpoint = endpoint();
    let sent: Vec<_> = (0..3).map(|task: u8| text(3_000_000, task)).collect();
    let mut clients: Vec<_> = (0..3)
        .map(|task: u8| {
            End::new(endpoint.begin_connect(to, task.into()).unwrap(), sent[usize::from(task)].clone())
        })
        .collect();
    let mut servers: Vec<End> = Vec::new();
    while clients.iter().any(|client| !client.over) {
        let ends: Vec<&End> = clients.iter().chain(&servers).collect();
        let mut asked: Vec<_> =
            ends.iter().map(|end| (end.stream.readiness().unwrap(), end.wants())).collect();
        asked.push((listener.readiness().unwrap(), PollFlags::IN));
        let shown = wait(&asked);
        let (of_clients, of_others) = shown.split_at(clients.len());
        let (of_servers, of_listener) = of_others.split_at(servers.len());
        clients.iter_mut().zip(of_clients).for_each(|(client, &shown)| client.turn(shown, false));
        servers.iter_mut().zip(of_servers).for_each(|(server, &shown)| server.turn(shown, true));
        if of_listener[0].contains(PollFlags::IN) {
            let (stream, _) = listener.accept_within(Some(Duration::ZERO)).unwrap();
            servers.push(End::new(stream, Vec::new()));
        }
    }
    for (client, sent) in clients.iter().zip(&sent) {
        assert!(client.read == *sent);
    }
    assert_eq!(listener.accept_within(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_stream_with_no_room_left_shows_it_until_its_peer_reads() {
    use std::io::{Read, Write};
    let listener = SpcListener::bind(ANY).unwrap();
    let stream = endpoint().connect(listener.local_addr().unwrap(), 1).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    stream.set_write_timeout(Some(Duration::ZERO));
    let shows = |flags| {
        let mut asked = [PollFd::from_borrowed_fd(stream.readiness().unwrap(), flags)];
        poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    };
    let mut written = 0;
    // Both ends' buffers are full once it would wait and goes on to.
    eventually("no room is left", || match (&stream).write(&[7; 100_000]) {
        Ok(count) => {
            written += count;
            false
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            written > 1 << 20 && !shows(PollFlags::OUT)
        }
    });
    assert!(!shows(PollFlags::IN));
    let mut piece = vec![0; 1 << 20];
    accepted.read_exact(&mut piece).unwrap();
    wait(&[(stream.readiness().unwrap(), PollFlags::OUT)]);
    accepted.write_all(b"x").unwrap();
    wait(&[(stream.readiness().unwrap(), PollFlags::IN)]);
    assert_eq!((&stream).read(&mut piece).unwrap(), 1);
    assert!(!shows(PollFlags::IN), "what was read is no longer shown");
}

#[test]
fn a_stream_that_is_refused_shows_that_its_opening_is_over() {
    let idle = endpoint();
    let stream = endpoint().begin_connect(idle.local_addr().unwrap(), 1).unwrap();
    wait(&[(stream.readiness().unwrap(), PollFlags::OUT)]);
    assert_eq!(stream.is_open().unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

/// What a descriptor is, by its number; nothing, or something else, once it is closed.
fn name_of(descriptor: BorrowedFd<'_>) -> (PathBuf, PathBuf) {
    let place = PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    let name = std::fs::read_link(&place).unwrap();
    (place, name)
}

#[test]
fn a_descriptor_goes_with_its_stream_though_the_connection_lingers_and_with_its_listener() {
    let to = endpoint();
    let listener = to.listen();
    let stream = endpoint().connect(to.local_addr().unwrap(), 1).unwrap();
    stream.set_write_timeout(Some(Duration::ZERO));
    // It is never read, so it stays until it is given up.
    while std::io::Write::write(&mut &stream, &[0; 100_000]).is_ok() {}
    let names = [name_of(stream.readiness().unwrap()), name_of(listener.readiness().unwrap())];
    wait(&[(listener.readiness().unwrap(), PollFlags::IN)]);
    drop((stream, listener));
    for (place, name) in names {
        assert_ne!(std::fs::read_link(place).ok(), Some(name));
    }
    let again = to.listen();
    let mut asked = [PollFd::from_borrowed_fd(again.readiness().unwrap(), PollFlags::IN)];
    poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
    assert_eq!(asked[0].revents(), PollFlags::empty(), "who was not accepted is gone");
}

#[test]
fn one_of_two_listeners_goes_and_the_other_accepts() {
    let endpoint = endpoint();
    let (one, other) = (endpoint.listen(), endpoint.listen());
    let shown = other.readiness().unwrap();
    drop(one);
    let _stream = SpcStream::connect(endpoint.local_addr().unwrap(), 1).unwrap();
    wait(&[(shown, PollFlags::IN)]);
    other.accept_within(Some(Duration::ZERO)).unwrap();
}

#[test]
fn an_end_cannot_be_written_before_a_stream_is_open() {
    let silent = UdpSocket::bind(ANY).unwrap();
    let stream = endpoint().begin_connect(silent.local_addr().unwrap(), 1).unwrap();
    assert!(!stream.is_open().unwrap());
    assert_eq!(stream.shutdown(Shutdown::Write).unwrap_err().kind(), ErrorKind::NotConnected);
}

#[test]
fn one_thread_opens_and_accepts_under_tokio() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = SpcListener::bind(ANY).unwrap();
    let to: SocketAddr = listener.local_addr().unwrap();
    let endpoint = endpoint();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let serve = async {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept_async().await.unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            stream.write_all(&all).await.unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        }
    };
    let ask = async {
        for task in 0..2u8 {
            let mut stream = endpoint.connect_async(to, task.into()).await.unwrap();
            stream.write_all(&text(500_000, task)).await.unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut back = Vec::new();
            stream.read_to_end(&mut back).await.unwrap();
            assert!(back == text(500_000, task));
        }
    };
    runtime.block_on(async { tokio::join!(serve, ask) });
}

#[test]
fn an_opening_whose_future_is_dropped_is_given_up() {
    let silent = UdpSocket::bind(ANY).unwrap();
    let endpoint = endpoint();
    let to = silent.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        tokio::select! {
            biased;
            opened = endpoint.connect_async(to, 1) => panic!("a silent peer does not answer: {opened:?}"),
            () = std::future::ready(()) => {}
        }
    });
    eventually("nothing of it is left", || endpoint.connections() == 0);
}
