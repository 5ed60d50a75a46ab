//! Pods: processes in networks of their own behind a bridge of their host, with addresses of the
//! prefix that the list of hosts has behind the host's own.

use std::process::{Command, Stdio};

use cavalcade_testing::{Lines, eventually, skipped};
use serde_json::Value;

use super::SERVE;
use super::outside::SINK;
use super::pair::{Pair, Wanted, inside, namespace};
use super::support::{Running, serving::json};

/// A pair of hosts with a pod each.
struct Cluster {
    pair: Pair,
    pods: [Running; 2],
}

impl Cluster {
    fn new(test: &str) -> Option<Self> {
        let behind = ["+10.244.1.0/24", "+10.244.2.0/24"];
        let pair = Pair::new(test, Wanted { policy: "fifo", are_apart: true, behind, ..Wanted::default() })?;
        let cluster = Self { pair, pods: [namespace(), namespace()] };
        let bridge = "ip link add trial type bridge && ip link del trial";
        if !inside(cluster.pods[0].0.id(), "sh").args(["-c", bridge]).status().unwrap().success() {
            skipped("bridges");
            return None;
        }
        for host in [0, 1] {
            cluster.join(host);
        }
        Some(cluster)
    }

    /// Joins a pod to the bridge of its host, and has the host forward.
    fn join(&self, host: usize) {
        let (own, other) = (host + 1, 2 - host);
        let nodes = self.pair.namespaces.as_ref().unwrap();
        let (node, pod) = (nodes.process(host), self.pods[host].0.id());
        let of_host = format!(
            "ip link add cni0 type bridge && ip address add 10.244.{own}.1/24 dev cni0 && ip link set cni0 up && \
             ip link add pod netns {node} type veth peer name eth0 netns {pod} && ip link set pod master cni0 up && \
             ip route add 10.244.{other}.0/24 via {} && echo 1 > /proc/sys/net/ipv4/ip_forward",
            self.pair.addresses[other - 1]
        );
        let of_pod = format!(
            "ip address add 10.244.{own}.2/24 dev eth0 && ip link set eth0 up && ip link set lo up && \
             ip route add default via 10.244.{own}.1"
        );
        for (process, script) in [(node, of_host), (pod, of_pod)] {
            assert!(inside(process, "sh").args(["-c", &script]).status().unwrap().success(), "{script}");
        }
    }

    /// A command in a pod, below the control group of its host's enforcer.
    fn command(&self, pod: usize, words: &[&str]) -> Command {
        let mut command = inside(self.pods[pod].0.id(), "sh");
        command.args(["-c", &self.pair.enter(pod)]).args(words).current_dir(self.pair.place.path("."));
        command
    }

    /// Runs a command of a task in the first host's pod.
    fn run(&self, task: &str, words: &[&str]) -> Running {
        let program = [env!("CARGO_BIN_EXE_cavalcade"), "run", "--task", task, "--door", "door-0", "--"];
        let mut command = self.command(0, &[&program, words].concat());
        Running(command.stdout(Stdio::null()).spawn().unwrap())
    }

    /// A task as the coordinator sees it.
    fn task(&self, name: &str) -> Option<Value> {
        let view = json(&self.pair.place, &["ps", "--json", "--at", "lead.sock"])?;
        view["coflows"].as_array()?.iter().find(|coflow| coflow["name"] == name).cloned()
    }
}

#[test]
fn what_a_pod_sends_to_a_pod_is_ordered_as_what_its_host_sends_to_the_others() {
    let Some(cluster) = Cluster::new("pods-send") else { return };
    let mut sink = cluster.command(1, &["python3", "-c", SINK, "10.244.2.2"]);
    let mut sink = Running(sink.stdout(Stdio::piped()).spawn().unwrap());
    let port = Lines::new(sink.0.stdout.take().unwrap()).next().unwrap();
    let send = format!("exec cat /dev/zero > /dev/tcp/10.244.2.2/{port}");
    let _first = cluster.run("first", &["bash", "-c", &send]);
    eventually("bytes of the first", || {
        cluster.task("first").is_some_and(|task| task["sent_bytes"].as_u64() > Some(1_000_000))
    });
    let _second = cluster.run("second", &["bash", "-c", &send]);
    eventually("the second behind it, between hosts of the site", || {
        cluster.task("second").is_some_and(|task| task["off"] == 1 && task["outside"] == 0)
    });
    let sent = |task| cluster.task(task).and_then(|task| task["sent_bytes"].as_u64()).unwrap_or(0);
    let (first, second) = (sent("first"), sent("second"));
    eventually("more of the first", || sent("first") >= first + 100_000_000);
    assert!(sent("second") - second < 50_000_000, "the second is held back in its pod");
}

#[test]
fn what_a_server_in_a_pod_sends_belongs_to_the_coflow_of_a_client_in_a_pod_of_another_host() {
    let Some(cluster) = Cluster::new("pods-fetch") else { return };
    let own = std::env::current_exe().unwrap();
    let words = [own.to_str().unwrap(), "--exact", "serves_for_other_tests", "--nocapture"];
    let mut server = cluster.command(1, &words);
    let mut server = Running(server.env(SERVE, "10.244.2.2:0").stdout(Stdio::piped()).spawn().unwrap());
    let address = Lines::new(server.0.stdout.take().unwrap()).after("serves at ").unwrap();
    let _curl = cluster.run("fetch", &["curl", "-sS", "-o", "/dev/null", &format!("http://{address}/")]);
    eventually("bytes of the server", || cluster.pair.has_sent("fetch", 10_000_000));
}
