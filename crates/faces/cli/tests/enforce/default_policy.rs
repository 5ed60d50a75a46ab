//! What the default policy is worth to a request beside a bulk transfer of many connections.

use std::process::Stdio;

use cavalcade_testing::eventually;

use super::support::Running;
use super::{Host, LARGE, LEAD, receive};

/// The connections of a bulk transfer, and the bytes of a request beside it.
const MANY: usize = 8;
const REQUEST: usize = 500_000;

#[test]
fn under_the_default_policy_a_request_beside_eight_connections_of_another_waits_for_less_than_plain_tcp_would()
 {
    let Some(host) = Host::led(&[], &[]) else { return };
    let (address, seen) = receive("127.0.0.2");
    let file = host.place.path("bulk");
    std::fs::write(&file, vec![0; LARGE]).unwrap();
    let curl = format!("curl -s -H Expect: -T {} http://{address}/bulk-$one & ", file.display());
    let script = format!("for one in $(seq {MANY}); do {curl} done; wait");
    let door = ["run", "--task", "bulk", "--door", "door", "--", "sh", "-c", &script];
    let mut command = host.place.command();
    let _bulk = Running(command.args(door).stdout(Stdio::null()).spawn().unwrap());
    let of_bulk = || {
        let seen = seen.lock().unwrap();
        let of_bulk = seen.uploads.iter().filter(|(path, _)| path.starts_with("/bulk"));
        of_bulk.map(|(_, upload)| upload.received).sum::<usize>()
    };
    eventually("the bulk's lead", || of_bulk() >= 2 * LEAD);
    let _small = host.upload("small", REQUEST, address, true);
    let mut before = 0;
    eventually("the first bytes of the request", || {
        before = of_bulk();
        seen.lock().unwrap().uploads.contains_key("/small")
    });
    eventually("its end", || !seen.lock().unwrap().ends.is_empty());
    let (first, of_each) = seen.lock().unwrap().ends[0].clone();
    assert_eq!(first, "/small");
    let meanwhile: usize =
        of_each.iter().filter(|(path, _)| path.starts_with("/bulk")).map(|(_, received)| received).sum();
    // Of nine connections each has a ninth: the bulk would have eight times as much as the request
    // meanwhile.
    let (meanwhile, plain) = (meanwhile - before, MANY * REQUEST);
    assert!(meanwhile < plain, "{meanwhile} bytes of the bulk went before the request, {plain} by plain TCP");
}
