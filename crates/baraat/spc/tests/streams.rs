//! Streams over the loopback device: what a program that knows TCP's expects of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use cavalcade_model::{BitsPerSec, Nanos};
use cavalcade_spc::{Endpoint, Options, Rates, Settings, SpcListener, SpcStream};
use cavalcade_testing::eventually;
use support::text;

const ANY: &str = "127.0.0.1:0";

fn impatient(millis: u64) -> Options {
    let settings = Settings { patience: Nanos(millis * 1_000_000), ..Settings::default() };
    Options { settings, ..Options::default() }
}

/// Accepts `streams` streams and sends back what each says, until it ends.
fn echo(listener: SpcListener, streams: usize) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let serve = |stream: SpcStream| {
            let mut all = Vec::new();
            (&stream).read_to_end(&mut all).unwrap();
            (&stream).write_all(&all).unwrap();
        };
        thread::scope(|scope| {
            for _ in 0..streams {
                let (stream, _) = listener.accept().unwrap();
                scope.spawn(move || serve(stream));
            }
        });
    })
}

#[test]
fn what_is_written_is_read_at_the_other_end_and_half_of_a_stream_can_be_closed() {
    write_and_read(ANY, "127.0.0.1");
}

#[test]
fn streams_go_over_ipv6_and_to_a_listener_for_both() {
    if UdpSocket::bind("[::1]:0").is_err() {
        return cavalcade_testing::skipped("IPv6");
    }
    write_and_read("[::1]:0", "::1");
    write_and_read("[::]:0", "::1");
    write_and_read("[::]:0", "127.0.0.1");
}

fn write_and_read(bind: &str, host: &str) {
    let listener = SpcListener::bind(bind).unwrap();
    let address = SocketAddr::new(host.parse().unwrap(), listener.local_addr().unwrap().port());
    let server = echo(listener, 1);
    let mut stream = SpcStream::connect(address, 9).unwrap();
    let sent = text(3_000_000, 7);
    stream.write_all(&sent).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.write(b"more").unwrap_err().kind(), ErrorKind::BrokenPipe);
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == sent);
    drop(stream);
    server.join().unwrap();
}

#[test]
fn a_peer_to_which_nothing_can_be_sent_ends_no_other_stream_of_its_endpoint() {
    let listener = SpcListener::bind(ANY).unwrap();
    let address = listener.local_addr().unwrap();
    let server = echo(listener, 1);
    let endpoint = Endpoint::bind(ANY, Options::default()).unwrap();
    // A port that there is not, an address of another family, one that only broadcasts go to.
    let nowhere = ["127.0.0.1:0", "[::1]:9", "255.255.255.255:9"];
    let vain: Vec<_> =
        nowhere.iter().map(|peer| endpoint.begin_connect(peer.parse().unwrap(), 1).unwrap()).collect();
    eventually("all of them were tried", || endpoint.counters().unsent >= 3);
    let mut stream = endpoint.connect(address, 9).unwrap();
    stream.write_all(b"still here").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert_eq!(back, b"still here");
    assert!(vain.iter().all(|stream| !stream.is_open().unwrap_or(false)));
    server.join().unwrap();
}

/// The datagram with which a stream is opened.
fn opening() -> Vec<u8> {
    let (peer, mut bytes) = (UdpSocket::bind(ANY).unwrap(), vec![0; 10_000]);
    let endpoint = Endpoint::bind(ANY, impatient(400)).unwrap();
    let _stream = endpoint.begin_connect(peer.local_addr().unwrap(), 7).unwrap();
    let length = peer.recv(&mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

#[test]
fn an_opening_from_port_0_ends_no_endpoint_and_is_counted() {
    use rustix::net::{AddressFamily, SendFlags, SocketAddrV4, SocketType, ipproto, sendto, socket};
    let Ok(raw) = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::UDP)) else {
        return cavalcade_testing::skipped("root, for a raw socket");
    };
    let endpoint = Endpoint::bind(ANY, Options::default()).unwrap();
    let listener = endpoint.listen();
    let address = endpoint.local_addr().unwrap();
    let payload = opening();
    let length = (payload.len() + 8) as u16;
    // Source port, destination port, length, no checksum.
    let header = [0, address.port(), length, 0].map(u16::to_be_bytes).concat();
    let to = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0);
    sendto(&raw, &[header, payload].concat(), SendFlags::empty(), &to).unwrap();
    eventually("it has come", || endpoint.counters().malformed > 0);
    assert_eq!(endpoint.connections(), 0, "there is nobody to answer");
    let server = echo(listener, 1);
    let mut stream = SpcStream::connect(address, 9).unwrap();
    stream.write_all(b"still here").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert_eq!(back, b"still here");
    server.join().unwrap();
}

#[test]
fn many_streams_of_one_endpoint_do_not_mix_and_have_their_openers_tasks() {
    let listener = SpcListener::bind(ANY).unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        for _ in 0..40 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            assert!(all == text(20_000 + stream.task() as usize, stream.task() as u8));
            stream.write_all(&stream.task().to_be_bytes()).unwrap();
        }
    });
    let endpoint = Endpoint::bind(ANY, Options::default()).unwrap();
    thread::scope(|scope| {
        for task in 100..140u32 {
            let endpoint = &endpoint;
            scope.spawn(move || {
                let mut stream = endpoint.connect(address, task).unwrap();
                stream.write_all(&text(20_000 + task as usize, task as u8)).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).unwrap();
                assert_eq!(answer, task.to_be_bytes());
            });
        }
    });
    server.join().unwrap();
}

#[test]
fn a_port_where_nothing_listens_refuses_and_a_host_that_is_silent_is_given_up() {
    let idle = Endpoint::bind(ANY, Options::default()).unwrap();
    let client = Endpoint::bind(ANY, impatient(400)).unwrap();
    let refused = client.connect(idle.local_addr().unwrap(), 1).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert!(refused.to_string().contains("nothing listens"), "{refused}");
    let silent = UdpSocket::bind(ANY).unwrap();
    let late = client.connect(silent.local_addr().unwrap(), 1).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::TimedOut);
}

#[test]
fn datagrams_that_are_no_frames_or_broken_ones_are_dropped_and_counted() {
    let listener = SpcListener::bind(ANY).unwrap();
    let endpoint = Endpoint::bind(ANY, Options::default()).unwrap();
    let address = endpoint.local_addr().unwrap();
    let stranger = UdpSocket::bind(ANY).unwrap();
    let mut magic = vec![0; 26];
    magic.extend(b"SPC\x01");
    let mut whole = magic.clone();
    whole.resize(70, 0);
    let mut kind = whole.clone();
    kind[30] = 9;
    for bytes in [&b""[..], b"hello", &magic, &whole, &kind, &[0xff; 2_000]] {
        stranger.send_to(bytes, address).unwrap();
    }
    let stream = endpoint.connect(listener.local_addr().unwrap(), 3);
    assert!(stream.is_ok(), "the endpoint goes on");
    let counters = endpoint.counters();
    assert_eq!((counters.foreign, counters.malformed, counters.corrupt), (3, 2, 1), "{counters:?}");
}

#[test]
fn a_flood_of_openings_takes_bounded_room_and_a_real_one_gets_through() {
    let options = Options { backlog: 8, ..Options::default() };
    let endpoint = Endpoint::bind(ANY, options).unwrap();
    let (address, listener) = (endpoint.local_addr().unwrap(), endpoint.listen());
    // Recorded from a client that never confirms: every opening gets an id of its own.
    let catcher = UdpSocket::bind(ANY).unwrap();
    let flooder = UdpSocket::bind(ANY).unwrap();
    let mut opening = vec![0; 9_000];
    let client = Endpoint::bind(ANY, impatient(200)).unwrap();
    let target = catcher.local_addr().unwrap();
    thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| assert!(client.connect(target, 5).is_err()));
        }
        for _ in 0..100 {
            let length = catcher.recv(&mut opening).unwrap();
            flooder.send_to(&opening[..length], address).unwrap();
        }
    });
    let server = thread::spawn(move || listener.accept().map(|(stream, _)| stream.task()));
    let stream = SpcStream::connect(address, 77).unwrap();
    assert!(endpoint.connections() <= 9, "{}", endpoint.connections());
    assert_eq!(server.join().unwrap().unwrap(), 77);
    drop(stream);
}

#[test]
fn a_read_with_a_timeout_comes_back_and_one_of_a_peer_that_has_gone_fails() {
    let listener = SpcListener::bind(ANY).unwrap();
    let address = listener.local_addr().unwrap();
    let client = Endpoint::bind(ANY, impatient(600)).unwrap();
    let mut stream = client.connect(address, 1).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(20)));
    assert_eq!(stream.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::TimedOut);
    stream.set_read_timeout(None);
    drop(accepted);
    assert_eq!(stream.read(&mut [0; 4]).unwrap(), 0, "the end");
    let ended = (0..200).find_map(|_| {
        thread::sleep(Duration::from_millis(5));
        stream.write_all(b"is anybody there?").err()
    });
    let kind = ended.map(|error| error.kind());
    assert!(matches!(kind, Some(ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted)), "{kind:?}");
}

/// Writes bytes from an endpoint of its own and drops the stream; says so when it has let go.
fn write_and_drop(options: Options, to: SocketAddr, bytes: Vec<u8>) -> Receiver<()> {
    let (let_go, told) = channel();
    thread::spawn(move || {
        let mut stream = Endpoint::bind(ANY, options).unwrap().connect(to, 2).unwrap();
        stream.write_all(&bytes).unwrap();
        drop(stream);
        let_go.send(()).unwrap();
    });
    told
}

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_dropped_stream_does_not_wait_for_a_receiver_without_room_and_every_byte_arrives_later() {
    let listener = SpcListener::bind(ANY).unwrap();
    let sent = text(1_800_000, 5);
    let options = Options { linger: SHORT, ..Options::default() };
    let let_go = write_and_drop(options, listener.local_addr().unwrap(), sent.clone());
    let (mut stream, _) = listener.accept().unwrap();
    // For ever, where dropping waits until all is acknowledged.
    let_go.recv_timeout(LONG).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert!(all == sent);
}

#[test]
fn a_dropped_stream_waits_for_a_slow_receiver_until_every_byte_has_arrived() {
    let listener = SpcListener::bind(ANY).unwrap();
    let sent = text(800_000, 5);
    // Twice as long as it may be silent.
    let settings = Settings { line_rate: BitsPerSec(3_200_000), ..Settings::default() };
    let options = Options { linger: Duration::from_secs(1), settings, ..Options::default() };
    let let_go = write_and_drop(options, listener.local_addr().unwrap(), sent.clone());
    let (mut stream, _) = listener.accept().unwrap();
    let_go.recv_timeout(LONG).unwrap();
    // Nothing is on its way any more.
    stream.set_read_timeout(Some(Duration::ZERO));
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert!(all == sent);
}

#[test]
fn a_dropped_stream_does_not_wait_for_a_peer_that_is_silent() {
    let listener = SpcListener::bind(ANY).unwrap();
    let cable = UdpSocket::bind(ANY).unwrap();
    let told = write_and_drop(
        Options { linger: SHORT, ..Options::default() },
        cable.local_addr().unwrap(),
        text(100_000, 5),
    );
    // The opening goes one way and its answer back, and nothing after that.
    let far = UdpSocket::bind(ANY).unwrap();
    far.connect(listener.local_addr().unwrap()).unwrap();
    let mut frame = vec![0; 65_536];
    let (length, client) = cable.recv_from(&mut frame).unwrap();
    far.send(&frame[..length]).unwrap();
    let length = far.recv(&mut frame).unwrap();
    cable.send_to(&frame[..length], client).unwrap();
    // 30 s, where dropping waits until the peer is given up.
    told.recv_timeout(LONG).unwrap();
}

#[test]
fn streams_work_under_tokio() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = SpcListener::bind(ANY).unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let server = echo(listener, 1);
    let stream = SpcStream::connect(address, 4).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let sent = text(2_500_000, 3);
        let mut back = Vec::new();
        let write = async {
            writer.write_all(&sent).await.unwrap();
            writer.shutdown().await.unwrap();
        };
        let (_, read) = tokio::join!(write, reader.read_to_end(&mut back));
        read.unwrap();
        assert!(back == sent);
    });
    server.join().unwrap();
}

#[test]
fn a_stream_that_asks_for_fair_shares_arrives_whole_at_an_endpoint_that_does_not() {
    let listener = SpcListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let echo = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream.wait_acknowledged().unwrap();
    });
    let settings = Settings { rates: Rates::OfFlows, ..Settings::default() };
    let endpoint = Endpoint::bind("127.0.0.1:0", Options { settings, ..Options::default() }).unwrap();
    let mut stream = endpoint.connect(address, 1).unwrap();
    let sent: Vec<u8> = (0..300_000u32).map(|at| (at / 3) as u8).collect();
    stream.write_all(&sent).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == sent);
    echo.join().unwrap();
}
