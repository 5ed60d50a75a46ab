//! Task counters over the agent's socket, by processes of several users.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;

use cavalcade_spc::IdSource;
use cavalcade_spc::counters::{AgentCounter, Counters, MOST_CONNECTIONS};

fn serve(folder: &std::path::Path, setups: &[&str]) -> std::path::PathBuf {
    let setups: Vec<_> = setups.iter().map(|text| text.parse().unwrap()).collect();
    let counters = Arc::new(Counters::new(&setups).unwrap());
    let path = folder.join("counters.sock");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || counters.serve(&listener));
    path
}

fn me() -> u32 {
    rustix::process::getuid().as_raw()
}

#[test]
fn processes_of_a_user_share_its_counter_and_get_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (own, other) = (format!("own:first=2,step=4,users={}", me()), "other:users=4242");
    let socket = serve(folder.path(), &[&own, other]);
    let takers: Vec<_> = (0..8)
        .map(|_| {
            let counter = AgentCounter::new(&socket, "own");
            thread::spawn(move || (0..100).map(|_| counter.next_id().unwrap()).collect::<Vec<u32>>())
        })
        .collect();
    let mut ids: Vec<u32> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..800).map(|nth| 2 + 4 * nth).collect::<Vec<u32>>());
    if me() != 0 {
        let refused = AgentCounter::new(&socket, "other").next_id().unwrap_err();
        assert!(refused.to_string().contains("but own"), "{refused}");
    }
    let nowhere = AgentCounter::new(folder.path().join("none"), "own").next_id().unwrap_err();
    assert!(nowhere.to_string().contains("no agent holds task counters at"), "{nowhere}");
}

#[test]
fn lines_that_are_none_end_their_connection_and_too_many_connections_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let socket = serve(folder.path(), &[&format!("own:users={}", me())]);
    let connect = || BufReader::new(UnixStream::connect(&socket).unwrap());
    let mut long = connect();
    let _ = long.get_mut().write_all(&[b'x'; 10_000]);
    assert!(matches!(long.read_line(&mut String::new()), Ok(0) | Err(_)));
    let mut held: Vec<_> = (0..MOST_CONNECTIONS + 8).map(|_| connect()).collect();
    let mut answers = Vec::new();
    for connection in &mut held {
        let _ = connection.get_mut().write_all(b"own\n");
        let mut line = String::new();
        let _ = connection.read_line(&mut line);
        answers.push(line);
    }
    let given = answers.iter().filter(|line| line.trim().parse::<u32>().is_ok()).count();
    assert!((MOST_CONNECTIONS - 1..=MOST_CONNECTIONS).contains(&given), "{answers:?}");
    assert!(answers.last().unwrap().is_empty() || answers.last().unwrap().contains("connections already"));
}
