//! A multi-get over SPC, as Baraat's front ends do it (§5.1): a request is a task, its keys lie on
//! several memcacheds, and all are read at once under the task's id. Each client counts its own
//! requests: client k of n takes ids k, k + n, k + 2n.
//!
//! ```text
//! cavalcade spc-proxy --from-spc 10.0.0.7:4211 --to 127.0.0.1:11211      # at each server
//! cargo run --release -p cavalcade-spc --example multiget -- 1/4 1Gbps 1ms 10.0.0.7:4211,10.0.0.8:4211
//! ```
//!
//! Each line of its input is a request: keys, with blanks between them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::thread;

use cavalcade_spc::{Endpoint, SpcStream};

/// Reads keys under a task: key i from server i, and round again. What a server does not have is
/// `None`.
///
/// # Errors
/// If a server cannot be reached, or does not speak memcached's protocol.
pub(crate) fn multi_get(
    endpoint: &Endpoint,
    servers: &[SocketAddr],
    task: u32,
    keys: &[&str],
) -> io::Result<Vec<Option<Vec<u8>>>> {
    let of_server = |server: usize| keys.iter().copied().skip(server).step_by(servers.len());
    let read = |server: usize| -> io::Result<Vec<Option<Vec<u8>>>> {
        if of_server(server).next().is_none() {
            return Ok(Vec::new());
        }
        ask(endpoint.connect(servers[server], task)?, of_server(server))
    };
    let answers: Vec<_> = thread::scope(|scope| {
        let readers: Vec<_> = (0..servers.len()).map(|server| scope.spawn(move || read(server))).collect();
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())))
            .collect()
    });
    let mut answers = answers.into_iter().map(|all| Ok(all?.into_iter())).collect::<io::Result<Vec<_>>>()?;
    Ok((0..keys.len()).map(|key| answers[key % servers.len()].next().flatten()).collect())
}

/// Asks one server for keys, each by a command of its own, so that answers come in order and one
/// that is missing shows.
fn ask<'a>(mut stream: SpcStream, keys: impl Iterator<Item = &'a str>) -> io::Result<Vec<Option<Vec<u8>>>> {
    let keys: Vec<&str> = keys.collect();
    let request: String = keys.iter().map(|key| format!("get {key}\r\n")).collect();
    stream.write_all(request.as_bytes())?;
    let mut answer = BufReader::new(stream);
    keys.iter().map(|_| value(&mut answer)).collect()
}

/// Reads `VALUE key flags length`, the value and `END`; `END` alone where there is none.
fn value(answer: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let wrong = |line: &str| io::Error::new(io::ErrorKind::InvalidData, format!("memcached says {line:?}"));
    let mut line = String::new();
    answer.read_line(&mut line)?;
    if line == "END\r\n" {
        return Ok(None);
    }
    let length = line.strip_prefix("VALUE ").and_then(|rest| rest.split_whitespace().nth(2)?.parse().ok());
    let length: u64 = length.ok_or_else(|| wrong(&line))?;
    let mut value = Vec::new();
    answer.take(length).read_to_end(&mut value)?;
    let mut end = [0; 7];
    answer.read_exact(&mut end)?;
    if end == *b"\r\nEND\r\n" { Ok(Some(value)) } else { Err(wrong(&String::from_utf8_lossy(&end))) }
}

#[allow(dead_code, reason = "a test has the functions above alone")]
fn main() -> io::Result<()> {
    use cavalcade_spc::{Options, Settings, TaskCounter};

    let usage = || {
        io::Error::other(
            "usage: multiget CLIENT/CLIENTS RATE ROUND-TRIP SERVER[,SERVER…], with keys on each line of the input",
        )
    };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [counter, rate, round_trip, servers] = &arguments[..] else { return Err(usage()) };
    let (client, clients) = counter.split_once('/').ok_or_else(usage)?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| usage());
    let counter = TaskCounter::new(number(client)?, number(clients)?);
    let servers: Vec<SocketAddr> =
        servers.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| usage())?;
    let (line_rate, base_rtt) =
        (rate.parse().map_err(|_| usage())?, round_trip.parse().map_err(|_| usage())?);
    let settings = Settings { line_rate, base_rtt, ..Settings::default() };
    let endpoint = Endpoint::bind("0.0.0.0:0", Options { settings, ..Options::default() })?;
    let mut out = io::stdout().lock();
    for line in io::stdin().lines() {
        let (line, task) = (line?, counter.next_id()?);
        let keys: Vec<&str> = line.split_whitespace().collect();
        for (key, value) in keys.iter().zip(multi_get(&endpoint, &servers, task, &keys)?) {
            match value {
                Some(value) => writeln!(out, "{task} {key}: {} bytes", value.len())?,
                None => writeln!(out, "{task} {key}: not there")?,
            }
        }
    }
    Ok(())
}
