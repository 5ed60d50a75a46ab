//! Programs that speak TCP, through two proxies and an SPC stream between them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../examples/multiget.rs"]
mod multiget;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cavalcade_spc::proxy::{self, TaskRule};
use cavalcade_spc::{Endpoint, Options, SpcListener, TaskCounter};
use cavalcade_testing::free_port;

const ANY: &str = "127.0.0.1:0";

/// Starts both proxies in front of a server; returns where clients connect.
fn proxies(server: SocketAddr, rule: TaskRule) -> SocketAddr {
    let spc = SpcListener::bind(ANY).unwrap();
    let middle = spc.local_addr().unwrap();
    thread::spawn(move || proxy::carry_spc(&spc, server, |_| {}));
    front(middle, rule)
}

/// Starts the client's proxy alone, whose tasks are 1, 5, 9 and so on.
fn front(middle: SocketAddr, rule: TaskRule) -> SocketAddr {
    let tcp = TcpListener::bind(ANY).unwrap();
    let front = tcp.local_addr().unwrap();
    let endpoint = Endpoint::bind(ANY, Options::default()).unwrap();
    thread::spawn(move || proxy::carry_tcp(&tcp, &endpoint, middle, rule, TaskCounter::new(1, 4), |_| {}));
    front
}

#[test]
fn bytes_and_half_closes_pass_both_ways() {
    let server = TcpListener::bind(ANY).unwrap();
    let front = proxies(server.local_addr().unwrap(), TaskRule::Connection);
    let serving = thread::spawn(move || {
        for _ in 0..8 {
            let (mut stream, _) = server.accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            all.reverse();
            stream.write_all(&all).unwrap();
        }
    });
    for seed in 0..8u32 {
        let sent: Vec<u8> = (0..200_000u32).map(|at| (at * (seed + 3) / 7) as u8).collect();
        let mut stream = TcpStream::connect(front).unwrap();
        stream.write_all(&sent).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        back.reverse();
        assert!(back == sent);
    }
    serving.join().unwrap();
}

/// Returns how a client's connection ends.
fn end_of(mut client: TcpStream) -> std::io::Result<Vec<u8>> {
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).map(|_| heard)
}

#[test]
fn a_client_is_reset_where_no_proxy_is_at_the_other_end() {
    for rule in [TaskRule::Connection, TaskRule::Port, TaskRule::Burst, TaskRule::Opaque] {
        for host in [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)] {
            let gone = SocketAddr::new(host, free_port());
            let any = if gone.is_ipv4() { ANY } else { "[::1]:0" };
            let tcp = TcpListener::bind(ANY).unwrap();
            let front = tcp.local_addr().unwrap();
            let (endpoint, (complain, complaint)) =
                (Endpoint::bind(any, Options::default()).unwrap(), std::sync::mpsc::channel());
            let tasks = TaskCounter::new(1, 4);
            thread::spawn(move || {
                let told = move |error: &std::io::Error| drop(complain.send(error.to_string()));
                proxy::carry_tcp(&tcp, &endpoint, gone, rule, tasks, told)
            });
            let mut client = TcpStream::connect(front).unwrap();
            client.write_all(b"mg a O7\r\n").unwrap();
            assert_eq!(end_of(client).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset, "{rule:?}");
            let complaint = complaint.recv().unwrap();
            assert!(
                complaint.contains("--from-spc"),
                "found out at once, not after the patience: {complaint}"
            );
        }
    }
}

#[test]
fn a_client_is_reset_where_the_server_refuses_or_resets_or_the_stream_breaks_off() {
    let refuses = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let client = TcpStream::connect(proxies(refuses, TaskRule::Connection)).unwrap();
    assert_eq!(end_of(client).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);

    let server = TcpListener::bind(ANY).unwrap();
    let client = TcpStream::connect(proxies(server.local_addr().unwrap(), TaskRule::Connection)).unwrap();
    let (mut served, _) = server.accept().unwrap();
    served.write_all(b"half of it").unwrap();
    let mut half = [0; 10];
    (&client).read_exact(&mut half).unwrap();
    rustix::net::sockopt::set_socket_linger(&served, Some(Duration::ZERO)).unwrap();
    drop(served);
    assert_eq!(end_of(client).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);

    let spc = SpcListener::bind(ANY).unwrap();
    let client = TcpStream::connect(front(spc.local_addr().unwrap(), TaskRule::Connection)).unwrap();
    let (stream, _) = spc.accept().unwrap();
    stream.abort();
    assert_eq!(end_of(client).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_server_is_reset_where_its_client_is() {
    let server = TcpListener::bind(ANY).unwrap();
    let client = TcpStream::connect(proxies(server.local_addr().unwrap(), TaskRule::Connection)).unwrap();
    (&client).write_all(b"half of it").unwrap();
    let (mut served, _) = server.accept().unwrap();
    let mut half = [0; 10];
    served.read_exact(&mut half).unwrap();
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    assert_eq!(end_of(served).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

/// A memcached of this machine; it ends with the test.
struct Memcached(Child);

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn memcached() -> Option<(Memcached, SocketAddr)> {
    let port = free_port();
    let child = Command::new("memcached")
        .args(["-l", "127.0.0.1", "-U", "0", "-u", "nobody", "-m", "16", "-p", &port.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = child else {
        cavalcade_testing::skipped("memcached");
        return None;
    };
    let (child, address) = (Memcached(child), SocketAddr::from(([127, 0, 0, 1], port)));
    for _ in 0..200 {
        if TcpStream::connect(address).is_ok() {
            return Some((child, address));
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("memcached does not listen");
}

#[test]
fn an_unmodified_memcached_is_written_and_read_through_spc() {
    let Some((_child, server)) = memcached() else { return };
    let front = proxies(server, TaskRule::Connection);
    let mut stream = BufReader::new(TcpStream::connect(front).unwrap());
    let mut line = String::new();
    for key in 0..50 {
        let value = format!("{key}").repeat(3_000);
        write!(stream.get_mut(), "set k{key} 0 0 {}\r\n{value}\r\n", value.len()).unwrap();
        line.clear();
        stream.read_line(&mut line).unwrap();
        assert_eq!(line, "STORED\r\n");
    }
    // Another connection, so another task, asks for several at once.
    let mut stream = BufReader::new(TcpStream::connect(front).unwrap());
    stream.get_mut().write_all(b"get k7 k11 k49 k50\r\n").unwrap();
    for key in [7, 11, 49] {
        let value = format!("{key}").repeat(3_000);
        line.clear();
        stream.read_line(&mut line).unwrap();
        assert_eq!(line, format!("VALUE k{key} 0 {}\r\n", value.len()));
        let mut read = vec![0; value.len() + 2];
        stream.read_exact(&mut read).unwrap();
        assert!(read == (value + "\r\n").as_bytes());
    }
    line.clear();
    stream.read_line(&mut line).unwrap();
    assert_eq!(line, "END\r\n");
}

#[test]
fn an_ordinary_client_of_memcached_writes_and_reads_through_spc() {
    let Some((_child, server)) = memcached() else { return };
    let front = proxies(server, TaskRule::Burst);
    let folder = tempfile::tempdir().unwrap();
    let value: Vec<u8> = (0..300_000u32).map(|at| b'a' + (at * 7 % 26) as u8).collect();
    std::fs::write(folder.path().join("value"), &value).unwrap();
    let run = |tool: &str| {
        let servers = format!("--servers={front}");
        Command::new(tool).args([&servers, "value"]).current_dir(folder.path()).output()
    };
    let Ok(stored) = run("memccp") else { return cavalcade_testing::skipped("the tools of libmemcached") };
    assert!(stored.status.success(), "{stored:?}");
    let fetched = run("memccat").unwrap();
    assert!(fetched.stdout.starts_with(&value), "{} bytes: {:?}", fetched.stdout.len(), fetched.stderr);
}

#[test]
fn a_multi_get_reads_from_several_memcacheds_at_once_as_one_task() {
    let servers: Vec<_> = (0..3).map_while(|_| memcached()).collect();
    if servers.len() < 3 {
        return;
    }
    let value = |key: usize| format!("{key}").repeat(20_000);
    for key in (0..30).filter(|key| key % 10 != 7) {
        // As the client will look for it: keys go round the servers.
        let mut stream = BufReader::new(TcpStream::connect(servers[key % 3].1).unwrap());
        write!(stream.get_mut(), "set k{key} 0 0 {}\r\n{}\r\n", value(key).len(), value(key)).unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        assert_eq!(line, "STORED\r\n");
    }
    let tasks = Arc::new(Mutex::new(Vec::new()));
    let fronts: Vec<SocketAddr> = servers
        .iter()
        .map(|&(_, server)| {
            let spc = SpcListener::bind(ANY).unwrap();
            let (address, tasks) = (spc.local_addr().unwrap(), Arc::clone(&tasks));
            thread::spawn(move || {
                while let Ok((stream, _)) = spc.accept() {
                    tasks.lock().unwrap().push(stream.task());
                    let ends = Arc::new((stream, TcpStream::connect(server).unwrap()));
                    let again = Arc::clone(&ends);
                    thread::spawn(move || std::io::copy(&mut &ends.0, &mut &ends.1));
                    thread::spawn(move || std::io::copy(&mut &again.1, &mut &again.0));
                }
            });
            address
        })
        .collect();
    let names: Vec<String> = (0..30).map(|key| format!("k{key}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (endpoint, counter) = (Endpoint::bind(ANY, Options::default()).unwrap(), TaskCounter::new(2, 4));
    for _ in 0..2 {
        let read = multiget::multi_get(&endpoint, &fronts, counter.next_id().unwrap(), &names).unwrap();
        for (key, read) in read.into_iter().enumerate() {
            assert_eq!(read, (key % 10 != 7).then(|| value(key).into_bytes()), "key {key}");
        }
    }
    let mut tasks = tasks.lock().unwrap().clone();
    tasks.sort_unstable();
    assert_eq!(tasks, [2, 2, 2, 6, 6, 6], "a request is a task at each server");
}

/// Starts a server of SPC that answers each piece with the id of its stream's task, a space and the
/// piece. Returns the client's side.
fn naming(rule: TaskRule) -> SocketAddr {
    let listener = SpcListener::bind(ANY).unwrap();
    let middle = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            thread::spawn(move || {
                let mut piece = [0; 1_024];
                while let Ok(count @ 1..) = stream.read(&mut piece) {
                    let text = String::from_utf8_lossy(&piece[..count]).into_owned();
                    write!(stream, "{} {text}", stream.task()).unwrap();
                }
            });
        }
    });
    front(middle, rule)
}

/// Sends a line and reads one.
fn exchange(client: &mut BufReader<TcpStream>, line: &str) -> String {
    client.get_mut().write_all(line.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_line(&mut answer).unwrap();
    answer
}

#[test]
fn a_task_is_a_connection_a_port_a_burst_or_an_opaque() {
    let connect = |front| BufReader::new(TcpStream::connect(front).unwrap());
    let lines = ["mg a O70\r\n", "mg b O70\r\n", "mg c v\r\n", "mg d O9\r\n"];
    let answers = |rule| {
        let front = naming(rule);
        let of_one = |mut client: BufReader<TcpStream>| lines.map(|line| exchange(&mut client, line));
        [of_one(connect(front)), of_one(connect(front))]
            .map(|answers| answers.map(|answer| answer.split_once(' ').unwrap().0.parse::<u32>().unwrap()))
    };
    assert_eq!(answers(TaskRule::Connection), [[1; 4], [5; 4]]);
    assert_eq!(answers(TaskRule::Port), [[1; 4], [1; 4]]);
    assert_eq!(answers(TaskRule::Burst), [[1, 5, 9, 13], [17, 21, 25, 29]]);
    assert_eq!(answers(TaskRule::Opaque), [[70, 70, 70, 9], [70, 70, 70, 9]]);
}

#[test]
fn memcacheds_answers_keep_their_order_when_each_opaque_is_a_task() {
    let Some((_child, server)) = memcached() else { return };
    for rule in [TaskRule::Opaque, TaskRule::Burst] {
        let mut client = BufReader::new(TcpStream::connect(proxies(server, rule)).unwrap());
        for key in 0..20 {
            let value = format!("mg x O{key}\r\n").repeat(500);
            let stored = exchange(&mut client, &format!("ms k{key} {} O{key}\r\n{value}\r\n", value.len()));
            assert_eq!(stored, format!("HD O{key}\r\n"));
        }
        // All at once, in runs of two with one opaque: answers come in the order of the questions.
        let asked: String = (0..20).map(|key| format!("mg k{key} O{} k s\r\n", 100 + key / 2)).collect();
        client.get_mut().write_all(asked.as_bytes()).unwrap();
        for key in 0..20 {
            let mut line = String::new();
            client.read_line(&mut line).unwrap();
            let size = format!("mg x O{key}\r\n").len() * 500;
            assert_eq!(line, format!("HD O{} kk{key} s{size}\r\n", 100 + key / 2));
        }
        // The client has ended; so does the connection.
        client.get_ref().shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    }
}
