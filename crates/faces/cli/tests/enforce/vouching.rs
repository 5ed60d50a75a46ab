//! What servers send belongs to the coflows of their clients on another host.

use std::process::{Command, Stdio};

use cavalcade_testing::{eventually, skipped};

use super::pair::{Pair, Wanted};
use super::support::Running;
use cavalcade_testing::free_port;

/// The bytes that count as many: a server's answer, and no client's question.
const MANY: u64 = 10_000_000;

#[test]
fn what_a_server_sends_belongs_to_the_coflow_of_a_client_on_another_host() {
    let Some(pair) = Pair::new("both", Wanted::default()) else { return };
    let _both = pair.download();
    eventually("bytes of the server", || pair.has_sent("fetch", MANY));
}

#[test]
fn a_client_for_whom_no_enforcer_of_the_site_vouches_gives_a_server_no_coflow() {
    let foreign = Wanted { certificates: "foreign", ..Wanted::default() };
    let Some(pair) = Pair::new("foreign", foreign) else { return };
    let _both = pair.download();
    eventually("the download", || pair.has_downloaded(20_000_000));
    assert!(pair.coflows_at(0).iter().any(|coflow| coflow["name"] == "fetch"));
    assert_eq!(pair.coflows_at(1), Vec::<serde_json::Value>::new());
}

#[test]
fn a_client_whose_host_is_revoked_gives_a_server_no_coflow() {
    let Some(pair) = Pair::new("revoked", Wanted::default()) else { return };
    assert_eq!(pair.place.run(&["revoke", "site", "agent-0"]).code, 0);
    // Where it counts: the coordinator goes on with that host.
    pair.place.write("site/agent-1/revoked.pem", pair.place.read("site/authority/revoked.pem"));
    let _both = pair.download();
    eventually("the download", || pair.has_downloaded(20_000_000));
    assert!(pair.coflows_at(0).iter().any(|coflow| coflow["name"] == "fetch"));
    assert_eq!(pair.coflows_at(1), Vec::<serde_json::Value>::new());
}

/// A middlebox in front of a host: it takes the option that names a coflow out of SYNs, and counts
/// them.
pub(super) const MIDDLEBOX: &str = "table ip middlebox {
  counter taken { }
  chain coming {
    type filter hook prerouting priority -300
    tcp option 254 exists counter name taken reset tcp option 254
  }
}
";

#[test]
fn a_report_alone_gives_a_server_the_clients_coflow_where_a_middlebox_takes_the_option_out_of_syns() {
    let Some(pair) = Pair::new("stripped", Wanted { are_apart: true, ..Wanted::default() }) else { return };
    pair.place.write("middlebox", MIDDLEBOX);
    let nft = |words: &[&str]| pair.command(1, "nft").args(words).output();
    if !nft(&["--file", "middlebox"]).is_ok_and(|output| output.status.success()) {
        return skipped("nft, with a kernel that lets it take TCP options out (5.18)");
    }
    let _both = pair.download();
    eventually("bytes of the server", || pair.has_sent("fetch", MANY));
    let counted = String::from_utf8(nft(&["list", "counters"]).unwrap().stdout).unwrap();
    assert!(!counted.contains("packets 0 "), "the SYN had the option: {counted}");
}

#[test]
fn a_report_alone_gives_a_server_the_coflow_of_a_clients_port_that_had_none_when_it_connected() {
    let port = free_port();
    let rule = format!("port:{port}=fetch");
    let wanted = Wanted { are_apart: true, more: &["--tag", &rule], ..Wanted::default() };
    let Some(pair) = Pair::new("late", wanted) else { return };
    let (_server, address) = pair.server(port);
    let curl = ["-sS", "-o", "got", &format!("http://{address}/")];
    let _curl = Running(pair.untagged(0, "curl", &curl).spawn().unwrap());
    // The rule's task begins with this connection, so its SYN could name no coflow.
    eventually("bytes of the server", || pair.has_sent("fetch", MANY));
}

/// Starts nginx at the second host, with a file that takes minutes, and memcached with a value of
/// 30 MB; with their ports.
fn servers(pair: &Pair) -> Option<([Running; 2], [u16; 2])> {
    let needed = "command -v nginx && command -v memcached && command -v memccp && command -v memccat";
    if !Command::new("sh").args(["-c", needed]).output().is_ok_and(|output| output.status.success()) {
        skipped("nginx, and memcached with the tools of libmemcached");
        return None;
    }
    let (host, ports) = (pair.addresses[1], [free_port(), free_port()]);
    std::fs::create_dir(pair.place.path("www")).unwrap();
    std::fs::File::create(pair.place.path("www/file")).unwrap().set_len(4_000_000_000).unwrap();
    pair.place.write("value", vec![b'x'; 30_000_000]);
    // One process, which ends with the test.
    pair.place.write(
        "nginx.conf",
        format!(
            "daemon off; master_process off; user root; pid nginx.pid; events {{}}
             http {{
                 access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
                 uwsgi_temp_path uwsgi; scgi_temp_path scgi;
                 server {{ listen {host}:{}; root www; sendfile on; }}
             }}",
            ports[0]
        ),
    );
    let start = |program: &str, words: &[&str]| {
        let mut command = pair.untagged(1, program, words);
        Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    let folder = format!("{}/", pair.place.path("").display());
    let nginx = start("nginx", &["-p", &folder, "-c", "nginx.conf", "-e", "nginx.log"]);
    let port = ports[1].to_string();
    let memcached = start("memcached", &["-u", "root", "-l", host, "-p", &port, "-I", "64m", "-m", "200"]);
    let store = format!("--servers={host}:{port}");
    let is_stored = || pair.command(1, "memccp").args([&store, "value"]).output().unwrap().status.success();
    eventually("the value's place", is_stored);
    eventually("nginx", || pair.place.path("nginx.pid").exists());
    Some(([nginx, memcached], ports))
}

#[test]
fn what_nginx_and_memcached_send_is_counted_and_held_back_as_the_coflow_of_the_client_on_another_host() {
    let wanted = Wanted { are_apart: true, policy: "fifo", ..Wanted::default() };
    let Some(pair) = Pair::new("real", wanted) else { return };
    let Some((_servers, [web, cache])) = servers(&pair) else { return };
    let host = pair.addresses[1];
    let url = format!("http://{host}:{web}/file");
    let page =
        pair.tagged(["--task", "page"], &["curl", "-s", "-o", "/dev/null", "--limit-rate", "20M", &url]);
    eventually("bytes of nginx", || pair.has_sent("page", MANY));
    // A task whose client joins it by its key.
    let _task = pair.tagged(["--task", "value"], &["sleep", "600"]);
    let key = || Some(pair.task_at(0, "value")?["coflow"].as_str().unwrap().to_owned());
    eventually("the second task", || key().is_some());
    // memccat gives up after some seconds without bytes.
    let fetch =
        format!("while :; do memccat --servers={host}:{cache} value > /dev/null 2>&1; sleep 0.1; done");
    let _value = pair.tagged(["--coflow", &key().unwrap()], &["sh", "-c", &fetch]);
    let held = || Some(pair.task_at(1, "value")?["off"].as_u64().unwrap() > 0);
    eventually("memcached behind nginx", || held() == Some(true));
    drop(page);
    eventually("bytes of memcached", || pair.has_sent("value", 10 * MANY));
}
