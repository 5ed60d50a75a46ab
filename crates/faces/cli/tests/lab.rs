//! The lab: transfers arrive whole under every policy and whatever breaks, and nothing of it is
//! left. No test looks at a time.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use cavalcade_testing::eventually;
use serde_json::Value;
use support::{Place, Ran, Running, TRACE};

/// Runs the lab in `place`, with its folder for sockets there as well.
fn lab(place: &Place, arguments: &[&str]) -> Ran {
    let output = place.command().env("TMPDIR", place.path("")).arg("lab").args(arguments).output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A small trace on loopback; more arguments may follow.
fn loopback<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [
        &[
            "trace.txt",
            "--transport",
            "loopback",
            "--rate",
            "100Mbps",
            "--scale",
            "0.2",
            "--json",
            "--repeat",
            "1",
        ][..],
        more,
    ]
    .concat()
}

fn runs(ran: &Ran) -> Vec<Value> {
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    document["runs"].as_array().unwrap().clone()
}

/// Tells whether network namespaces can be made here; reports the test as skipped where they
/// cannot.
fn has_namespaces() -> bool {
    // Tests of one process run side by side.
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let name = format!("cvt-{}-{}", std::process::id(), TRIED.fetch_add(1, Ordering::Relaxed));
    let ip = |arguments: &[&str]| {
        let run = Command::new("ip").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        run.is_ok_and(|status| status.success())
    };
    let can = ip(&["netns", "add", &name])
        && ip(&["-n", &name, "link", "add", "br0", "type", "bridge"])
        && Command::new("tc")
            .args(["-n", &name, "qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb", "default", "20"])
            .status()
            .is_ok_and(|status| status.success());
    ip(&["netns", "del", &name]);
    if !can {
        cavalcade_testing::skipped("network namespaces with bridges and traffic control (root, iproute2)");
    }
    can
}

fn namespaces_of(process: u32) -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&format!("cvl-{process}-"))).collect()
}

#[test]
fn every_kind_of_policy_carries_all_bytes_over_loopback_and_leaves_nothing() {
    let place = Place::with_trace();
    let ran = lab(&place, &loopback(&["--policies", "tcp,dclas,sebf,dcas"]));
    let runs = runs(&ran);
    assert_eq!(
        runs.iter().map(|run| run["policy"].as_str().unwrap()).collect::<Vec<_>>(),
        ["tcp", "dclas", "sebf", "dcas"]
    );
    for run in &runs {
        assert!(run["measured"]["mean_cct_s"].as_f64().unwrap() > 0.0);
        assert!(run["predicted"]["mean_cct_s"].as_f64().unwrap() > 0.0);
    }
    assert!(runs[1]["cost"]["agents_cpu_ns"].as_u64().unwrap() > 0, "agents ran");
    assert_eq!(runs[0]["cost"]["agents_cpu_ns"], 0, "and none with plain TCP");
    assert_eq!(place.names(), ["trace.txt"]);
}

#[test]
fn transfers_arrive_whole_although_everything_is_killed_in_the_middle_of_them() {
    let place = Place::with_trace();
    let faults = ["kill:coordinator@50ms", "kill:agent0@90ms", "kill:host1@150ms", "kill:host0@200ms"];
    let arguments: Vec<&str> =
        faults.iter().flat_map(|fault| ["--fault", fault]).chain(["--policies", "sebf,dcas"]).collect();
    let ran = lab(&place, &loopback(&arguments));
    for run in runs(&ran) {
        let recoveries = run["recoveries"].as_array().unwrap();
        let victims: Vec<&str> = recoveries.iter().map(|one| one["victim"].as_str().unwrap()).collect();
        let expected: &[&str] = if run["policy"] == "sebf" { &["coordinator"] } else { &[] };
        assert_eq!(victims, [expected, &["agent 0", "application 1", "application 0"]].concat());
        eprintln!("{}: {}", run["policy"], run["recoveries"]);
    }
    assert_eq!(place.names(), ["trace.txt"]);
}

#[test]
fn transfers_arrive_whole_although_parts_hang_for_longer_than_any_lease() {
    let place = Place::with_trace();
    let faults = ["hang:coordinator@50ms+700ms", "hang:agent0@60ms+900ms", "hang:host2@70ms+900ms"];
    let arguments: Vec<&str> =
        faults.iter().flat_map(|fault| ["--fault", fault]).chain(["--policies", "sebf"]).collect();
    let ran = lab(&place, &loopback(&arguments));
    assert_eq!(runs(&ran)[0]["recoveries"].as_array().unwrap().len(), 3);
}

#[test]
fn what_a_lab_cannot_do_is_refused_with_a_cure() {
    let place = Place::with_trace();
    let tree = r#"{"format":"cavalcade","version":1}"#;
    place.write("broken.txt", tree);
    let refused = [
        (vec!["trace.txt", "--policies", "dclos"], 2, "dclas"),
        (vec!["trace.txt", "--fault", "kill:agent@1s"], 2, "kill:agent3@1s"),
        (vec!["trace.txt", "--fault", "kill:agent9@1s"], 2, "count from 0"),
        (vec!["trace.txt", "--hosts", "2"], 2, "--hosts 3"),
        (vec!["trace.txt", "--scale", "0"], 2, "above 0"),
        (vec!["missing.txt"], 3, "missing.txt"),
    ];
    for (arguments, code, cure) in refused {
        let ran = lab(&place, &arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(cure), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn namespaces_carry_all_bytes_and_are_gone_afterwards() {
    if !has_namespaces() {
        return;
    }
    let place = Place::new();
    place.write("trace.txt", TRACE);
    let ran = lab(
        &place,
        &["trace.txt", "--rate", "400Mbps", "--scale", "0.2", "--policies", "tcp,dclas,dcas", "--json"],
    );
    assert_eq!(runs(&ran).len(), 3);
    assert_eq!(place.names(), ["trace.txt"]);
}

/// Tells whether there can be enforcers here; reports the test as skipped where there cannot.
fn has_kernel_path() -> bool {
    is_found("kernel path", "the kernel path")
}

/// Tells whether this machine has a feature, by the program's own trial of it; reports the test as
/// skipped where it has not.
fn is_found(feature: &str, name: &str) -> bool {
    let trials = cavalcade_enforce::probe::try_all();
    let found = trials.iter().find(|trial| trial.feature == feature).map(|trial| &trial.found);
    if let Some(Err(reason)) = found {
        cavalcade_testing::skipped(format_args!("{name} ({reason})"));
    }
    matches!(found, Some(Ok(_)))
}

/// The control groups of a lab.
fn groups_of(process: u32) -> Vec<std::path::PathBuf> {
    let root = cavalcade_enforce::Hierarchy::find().unwrap().root;
    let paths = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.to_string_lossy().contains(&format!("/cvl-{process}-"))).collect()
}

#[test]
fn the_kernel_carries_out_orders_for_senders_that_know_no_library_and_for_those_that_hand_over() {
    if !has_namespaces() || !has_kernel_path() {
        return;
    }
    let place = Place::with_trace();
    let arguments = ["trace.txt", "--rate", "400Mbps", "--scale", "0.2", "--repeat", "1", "--json"];
    let more = ["--policies", "tcp,aalo,dcas", "--enforce", "library,kernel,handed"];
    let ran = lab(&place, &[&arguments[..], &more].concat());
    let runs = runs(&ran);
    let names: Vec<&str> = runs.iter().map(|run| run["policy"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["tcp", "aalo", "aalo, kernel", "aalo, handed", "dcas", "dcas, kernel", "dcas, handed"]
    );
    for run in &runs[1..] {
        let cost = |part: &str| run["cost"][part].as_u64().unwrap() > 0;
        let is_by = |way| run["policy"].as_str().unwrap().ends_with(way);
        let costs = (!is_by("kernel"), is_by("kernel") || is_by("handed"));
        assert_eq!((cost("clients_cpu_ns"), cost("enforcers_cpu_ns")), costs, "{run}");
    }
    assert_eq!(place.names(), ["trace.txt"]);
    let refused = lab(&place, &["trace.txt", "--enforce", "kernel", "--transport", "loopback"]);
    assert!(refused.code == 2 && refused.err.contains("--transport loopback"), "{}", refused.err);
}

#[test]
fn where_ports_hold_to_classes_packets_are_predicted_and_policies_of_hosts_leave_their_gates_open() {
    if !has_namespaces() || !has_kernel_path() {
        return;
    }
    let place = Place::with_trace();
    let arguments = ["trace.txt", "--rate", "200Mbps", "--scale", "0.2", "--repeat", "1", "--json"];
    let more = ["--policies", "karuna,tafe,pias,varys", "--enforce", "kernel"];
    for run in runs(&lab(&place, &[&arguments[..], &more].concat())) {
        let predicted = |how: &str| run[how]["mean_cct_s"].as_f64();
        let by_class = run["policy"] != "varys, kernel";
        assert_eq!(predicted("predicted_over_packets").is_some(), by_class, "{run}");
        assert_eq!(predicted("predicted_with_control").is_some(), !by_class, "{run}");
    }
    assert_eq!(place.names(), ["trace.txt"]);
}

#[test]
fn policies_run_over_the_congestion_control_of_their_paper_unless_another_is_named() {
    let has_controls = || is_found("congestion", "congestion controls of the kernel path");
    if !has_namespaces() || !has_kernel_path() || !has_controls() {
        return;
    }
    let place = Place::new();
    // Two hosts send to one at once.
    place.write("trace.txt", "3 2\n1 0 2 0 1 1 2:40\n2 20 2 0 1 1 2:40\n");
    let arguments = ["trace.txt", "--rate", "200Mbps", "--repeat", "1", "--json", "--enforce", "kernel"];
    let of = |more: &[&str]| runs(&lab(&place, &[&arguments[..], more].concat()));
    let summary = |runs: &[Value]| {
        let marked = |run: &Value| run["repeats"][0]["losses"]["marked"].as_u64().map(|marked| marked > 0);
        runs.iter()
            .map(|run| (run["congestion"].as_str().map(str::to_owned), marked(run)))
            .collect::<Vec<_>>()
    };
    let over = |name: &str| (Some(name.to_owned()), Some(true));
    let published = of(&["--policies", "tcp,karuna,tafe,pias,aalo"]);
    assert_eq!(
        summary(&published),
        [(None, None), over("mcp"), over("tafe"), over("dctcp"), (None, None)],
        "{published:?}"
    );
    assert_eq!(summary(&of(&["--policies", "pias", "--congestion", "none"])), [(None, None)]);
    let named = ["--policies", "aalo", "--congestion", "dctcp:marking=30KB"];
    assert_eq!(summary(&of(&named)), [over("dctcp:marking=30KB")]);
    assert_eq!(place.names(), ["trace.txt"]);
    for (words, cure) in [
        (&["--policies", "pias", "--enforce", "library", "--congestion", "dctcp"], "--enforce kernel"),
        (&["--policies", "pias", "--enforce", "kernel", "--congestion", "cubic"], "none"),
    ] {
        let refused = lab(&place, &[&["trace.txt"][..], words].concat());
        assert!(refused.code == 2 && refused.err.contains(cure), "{}", refused.err);
    }
}

#[test]
fn what_tcp_lost_or_sent_again_is_told_of_each_repeat() {
    if !has_namespaces() || !has_kernel_path() {
        return;
    }
    let place = Place::new();
    // Two hosts send to one at once, and without marks nothing but losses tells them to slow down.
    place.write("trace.txt", "3 1\n1 0 2 0 1 1 2:40\n");
    let arguments = ["trace.txt", "--rate", "200Mbps", "--scale", "0.5", "--repeat", "2", "--json"];
    let more = ["--policies", "tcp,pias", "--enforce", "kernel", "--congestion", "none"];
    let ran = lab(&place, &[&arguments[..], &more].concat());
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    let packets = document["bytes"].as_u64().unwrap() / 1_448;
    let runs = runs(&ran);
    assert_eq!(runs.len(), 2);
    for run in &runs {
        let repeats = run["repeats"].as_array().unwrap();
        assert_eq!(repeats.len(), 2);
        for repeat in repeats {
            let losses = &repeat["losses"];
            let [syns, timeouts, drops] =
                ["syns_again", "timeouts", "drops"].map(|name| losses[name].as_u64().unwrap());
            assert!((1..packets / 2).contains(&drops), "{losses} of {packets} packets");
            // A busy machine may be late with some answers, but not with most.
            assert!(timeouts < packets / 10 && syns < 100, "{losses} of {packets} packets");
        }
    }
}

#[test]
fn kernels_sort_messages_where_policies_of_hosts_do_and_packets_go_in_the_class_of_what_was_sent() {
    if !has_namespaces() || !has_kernel_path() {
        return;
    }
    let place = Place::new();
    // Two flows of 100 KB, which are gone before an agent would look at them.
    place.write("trace.txt", "2 2\n1 0 1 0 1 1:1\n2 20 1 0 1 1:1\n");
    let arguments = ["trace.txt", "--rate", "400Mbps", "--scale", "0.1", "--repeat", "1", "--json"];
    let more = ["--enforce", "kernel", "--congestion", "none", "--policies"];
    let of = |policies: &str| {
        let runs = runs(&lab(&place, &[&arguments[..], &more, &[policies]].concat()));
        let classes = |run: &Value| run["repeats"][0]["losses"]["bytes_by_class"].as_array().unwrap().clone();
        let bytes = |run| classes(run).iter().map(|bytes| bytes.as_u64().unwrap()).collect::<Vec<u64>>();
        runs.iter().map(bytes).collect::<Vec<_>>()
    };
    // A packet with which a threshold is reached may be as long as what a host hands over at once.
    let most = 2 * (20_000 + 20_000);
    for classes in of("pias:thresholds=20KB,karuna:thresholds=20KB") {
        let lowest = classes.iter().rposition(|bytes| *bytes > 0).unwrap();
        assert!(classes[..lowest].iter().sum::<u64>() < most, "{classes:?}");
        assert!(classes.iter().sum::<u64>() > 200_000 && lowest > 0, "{classes:?}");
    }
}

/// Leftovers are global, so tests that make and look for them run one at a time.
static LEAVES: Mutex<()> = Mutex::new(());

#[test]
fn groups_and_programs_of_a_killed_lab_are_removed_by_the_next_one() {
    if !has_namespaces() || !has_kernel_path() {
        return;
    }
    let _alone = LEAVES.lock();
    let place = Place::with_trace();
    let arguments = ["lab", "trace.txt", "--rate", "50Mbps", "--policies", "pias", "--enforce", "kernel"];
    let mut killed = Running(
        place.command().env("TMPDIR", place.path("")).args(arguments).stderr(Stdio::null()).spawn().unwrap(),
    );
    let door = place.path(&format!("cavalcade-lab-{}/door2.sock", killed.0.id()));
    eventually("the last enforcer's door", || door.exists());
    let groups = groups_of(killed.0.id());
    assert_eq!(groups.len(), 3);
    let grounds: Vec<_> =
        groups.iter().map(|group| cavalcade_enforce::Place::below(group).unwrap()).collect();
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();
    let ran = lab(&place, &["trace.txt", "--rate", "400Mbps", "--scale", "0.05", "--policies", "tcp"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    // Labs of other tests may be removing the same at this time.
    eventually("nothing of it is left", || {
        let pins = grounds.iter().map(|ground| Path::new("/sys/fs/bpf").join(&ground.name));
        groups_of(killed.0.id()).is_empty() && !pins.into_iter().any(|pins| pins.exists())
    });
}

#[test]
fn what_a_killed_lab_leaves_is_removed_by_the_next_one_and_its_processes_are_gone() {
    if !has_namespaces() {
        return;
    }
    let _alone = LEAVES.lock();
    let place = Place::with_trace();
    let arguments = ["lab", "trace.txt", "--rate", "50Mbps", "--policies", "dclas"];
    let mut killed =
        place.command().env("TMPDIR", place.path("")).args(arguments).stderr(Stdio::null()).spawn().unwrap();
    let socket = place.path(&format!("cavalcade-lab-{}/agent2.sock", killed.id()));
    eventually("an agent's socket", || socket.exists());
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(!namespaces_of(killed.id()).is_empty(), "it was killed while it had namespaces");
    let ran = lab(&place, &["trace.txt", "--rate", "400Mbps", "--scale", "0.05", "--policies", "tcp"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("removed what a crashed lab left"), "{}", ran.err);
    assert_eq!(namespaces_of(killed.id()), [""; 0]);
    assert_eq!(place.names(), ["trace.txt"]);
    assert!(std::os::unix::net::UnixStream::connect(socket).is_err());
}

/// A small lab of two racks, in place of a paper's.
const RACKS: [&str; 8] =
    ["trace.txt", "--fabric", "tree:pods=1,racks=2,hosts=2", "--rate", "50Mbps", "--scale", "0.02", "--json"];

#[test]
fn racks_of_software_switches_carry_tcp_rcp_and_spc_and_nothing_is_left() {
    if !has_namespaces() {
        return;
    }
    let place = Place::with_trace();
    let ran = lab(&place, &RACKS);
    let document: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.err));
    assert_eq!((document["racks"].as_u64(), document["uplink_bps"].as_u64()), (Some(2), Some(100_000_000)));
    let runs = runs(&ran);
    let names: Vec<_> = runs.iter().map(|run| run["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["tcp", "rcp", "spc"]);
    for run in &runs {
        for of in ["measured", "packets", "fluid"] {
            assert!(run[of]["mean_s"].as_f64().unwrap() > 0.0, "{run}");
        }
    }
    assert_eq!(place.names(), ["trace.txt"]);
    let refused = lab(&place, &[&RACKS[..], &["--policies", "sebf"]].concat());
    assert!(refused.code == 2 && refused.err.contains("--policies tcp,rcp,spc"), "{}", refused.err);
    let refused = lab(&place, &["trace.txt", "--fabric", "tree:pods=2,racks=2,hosts=2"]);
    assert!(refused.code == 2 && refused.err.contains("tree:pods=1"), "{}", refused.err);
    let refused = lab(&place, &[&RACKS[..], &["--policies", "rcp", "--carrier", "xdp"]].concat());
    if refused.err.contains("cannot switch in the kernel") {
        cavalcade_testing::skipped("programs for the kernel");
        return;
    }
    assert!(refused.code == 2 && refused.err.contains("--carrier process"), "{}", refused.err);
    let ran = lab(&place, &[&RACKS[..], &["--policies", "tcp,spc", "--carrier", "process,xdp"]].concat());
    let runs = self::runs(&ran);
    let names = runs.iter().map(|run| [&run["name"], &run["carrier"]].map(|text| text.as_str().unwrap()));
    let expected = [["tcp", "process"], ["tcp", "xdp"], ["spc", "process"], ["spc", "xdp"]];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

#[test]
fn over_bridges_racks_carry_policies_whose_switches_sort_and_mark_beside_the_packet_engine() {
    if !has_namespaces() || !has_kernel_path() {
        return;
    }
    let place = Place::with_trace();
    let bridges = [&RACKS[..], &["--enforce", "kernel", "--carrier", "bridge", "--policies"]].concat();
    // Whether the packet engine predicts it, whether ports mark, and whether there are packets of
    // several classes. Tasks this small are sure to use several classes under PIAS and Karuna, and
    // only one under TCP.
    let expected = [
        ("tcp", true, false, Some(false)),
        ("pias:thresholds=20KB", true, true, Some(true)),
        ("karuna:thresholds=20KB", true, true, Some(true)),
        ("tafe", true, true, None),
        ("dcas", true, false, None),
        ("aalo", false, false, None),
    ];
    let names = expected.map(|(name, ..)| name).join(",");
    let ran = lab(&place, &[&bridges[..], &[&names]].concat());
    let runs = runs(&ran);
    assert_eq!(runs.len(), expected.len(), "{}", ran.err);
    for (run, (name, is_of_packets, marks, has_classes)) in runs.iter().zip(expected) {
        assert_eq!((&run["name"], &run["carrier"]), (&name.into(), &"bridge".into()));
        assert_eq!([run["packets"].is_object(), run["with_control"].is_null()], [is_of_packets; 2], "{run}");
        let losses = &run["repeats"][0]["losses"];
        assert_eq!(losses["marked"].is_u64(), marks, "{run}");
        let classes = losses["bytes_by_class"].as_array().unwrap();
        let used = classes.iter().filter(|bytes| bytes.as_u64() != Some(0)).count();
        assert!(has_classes.is_none_or(|several| several == (used > 1)), "{run}");
    }
    assert_eq!(place.names(), ["trace.txt"]);
    let refused = lab(&place, &[&RACKS[..], &["--enforce", "kernel", "--policies", "tafe"]].concat());
    assert!(refused.code == 2 && refused.err.contains("--carrier bridge"), "{}", refused.err);
    let refused = lab(&place, &[&RACKS[..], &["--policies", "spc", "--carrier", "bridge"]].concat());
    assert!(refused.code == 2 && refused.err.contains("--carrier process"), "{}", refused.err);
}

#[test]
fn in_racks_the_kernel_path_carries_out_policies_beside_what_the_control_plane_predicts() {
    if !has_namespaces() || !has_kernel_path() {
        return;
    }
    let place = Place::with_trace();
    let asked = ["--policies", "tcp,aalo,dcas", "--enforce", "kernel", "--repeat", "2"];
    let ran = lab(&place, &[&RACKS[..], &asked].concat());
    let runs = runs(&ran);
    let names: Vec<&str> = runs.iter().map(|run| run["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["tcp", "aalo", "dcas"]);
    for run in &runs {
        let is_ordered = run["name"] != "tcp";
        assert_eq!([run["packets"].is_null(), run["with_control"].is_object()], [is_ordered; 2], "{run}");
        let of_both = run["repeats"].as_array().unwrap().iter().map(|run| run["mean_s"].as_f64().unwrap());
        let of_both: Vec<f64> = of_both.collect();
        assert_eq!(of_both.len(), 2);
        assert_eq!(
            run["measured"]["mean_s"],
            of_both[0].min(of_both[1]),
            "the lower one is the median of two"
        );
    }
    assert_eq!(place.names(), ["trace.txt"]);
    let refused = lab(&place, &[&RACKS[..], &["--policies", "aalo"]].concat());
    assert!(refused.code == 2 && refused.err.contains("--enforce kernel"), "{}", refused.err);
}

/// The command lines of what runs in namespaces.
fn run_in(namespaces: &[String]) -> Vec<Vec<u8>> {
    let lines = |name: &String| {
        let numbers = Command::new("ip").args(["netns", "pids", name]).output().unwrap().stdout;
        let numbers = String::from_utf8(numbers).unwrap();
        let read = |number: &str| std::fs::read(format!("/proc/{number}/cmdline")).ok();
        numbers.lines().filter_map(read).collect::<Vec<_>>()
    };
    namespaces.iter().flat_map(lines).collect()
}

/// The bytes that hosts have sent, of all namespaces that have an `eth0`.
fn sent_in(namespaces: &[String]) -> u64 {
    let sent = |name: &String| -> Option<u64> {
        let count = ["netns", "exec", name, "cat", "/sys/class/net/eth0/statistics/tx_bytes"];
        let count = Command::new("ip").args(count).output().unwrap().stdout;
        String::from_utf8(count).unwrap().trim().parse().ok()
    };
    namespaces.iter().filter_map(sent).sum()
}

/// Kills a lab of racks in the middle of its transfers, and holds that its processes end with it,
/// and that all else of it is removed by `doctor`, and by the next lab.
fn removed_after_a_kill(carrier: &str) {
    if !has_namespaces() || !has_kernel_path() {
        return;
    }
    if let Some(why) = cavalcade_switch::kernel::missing().filter(|_| carrier == "xdp") {
        return cavalcade_testing::skipped(format_args!("programs for the kernel ({why})"));
    }
    let _alone = LEAVES.lock();
    let place = Place::with_trace();
    let start = |arguments: &[&str]| {
        let mut command = place.command();
        command.env("TMPDIR", place.path("")).env("XDG_RUNTIME_DIR", place.path("")).args(arguments);
        Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    let by_next_lab = ["lab", "trace.txt", "--rate", "400Mbps", "--scale", "0.05", "--policies", "tcp"];
    for remover in [&["doctor", "--fix-leftovers"][..], &by_next_lab] {
        let more = ["--scale", "1", "--policies", "aalo", "--enforce", "kernel", "--carrier", carrier];
        let mut killed = start(&[&["lab"], &RACKS[..5], &more].concat());
        let number = killed.0.id();
        let folder = place.path(&format!("cavalcade-lab-{number}"));
        eventually("the last enforcer's door", || folder.join("door3.sock").exists());
        let grounds =
            groups_of(number).into_iter().map(|group| cavalcade_enforce::Place::below(&group).unwrap());
        let pins: Vec<_> = grounds.map(|ground| Path::new("/sys/fs/bpf").join(ground.name)).collect();
        assert!(pins.len() == 4 && pins.iter().all(|pins| pins.exists()), "{pins:?}");
        let namespaces = namespaces_of(number);
        let is_switch = |line: &Vec<u8>| line.split(|byte| *byte == 0).nth(1) == Some(b"switch");
        assert_eq!(run_in(&namespaces).iter().filter(|line| is_switch(line)).count(), 3);
        let programs = || -> usize {
            let shown = namespaces.iter().map(|name| Command::new("ip").args(["-n", name, "link"]).output());
            shown
                .map(|shown| String::from_utf8_lossy(&shown.unwrap().stdout).matches("prog/xdp").count())
                .sum()
        };
        // A port for each host, and both ends of two cables to the root.
        assert_eq!(programs(), if carrier == "xdp" { 8 } else { 0 });
        eventually("its hosts send", || sent_in(&namespaces) > 100_000);
        killed.0.kill().unwrap();
        killed.0.wait().unwrap();
        eventually("its processes and the switches' programs go with the lab", || {
            run_in(&namespaces).is_empty() && programs() == 0
        });
        assert!(start(remover).0.wait().unwrap().success());
        // What another test removes at the same time may take a while. Cables go with the
        // namespaces of their ends.
        eventually("nothing of it is left", || {
            namespaces_of(number).is_empty()
                && groups_of(number).is_empty()
                && !pins.iter().chain([&folder]).any(|path| path.exists())
        });
    }
    assert_eq!(place.names(), ["trace.txt"]);
}

#[test]
fn what_a_killed_lab_of_racks_leaves_is_removed_by_doctor_and_by_the_next_one() {
    removed_after_a_kill("process");
}

#[test]
fn what_a_killed_lab_of_racks_in_the_kernel_leaves_is_removed_by_doctor_and_by_the_next_one() {
    removed_after_a_kill("xdp");
}
