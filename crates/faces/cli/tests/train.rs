//! `cavalcade train`: training jobs that share a cluster.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use serde_json::{Value, json};
use support::{Place, golden};

/// Two jobs that share a network card at both ends, and one whose workload is in a file.
const JOBS: &str = r#"
[cluster]
hosts = 2
gpus = 4
nics = 1
nic = "8Gbps"
scale_up = "80Gbps"

[[job]]
name = "large"
gpus = "0"
iterations = 4
step = [{ compute = "1ms", collective = "all_reduce", bytes = "2MB" }]

[[job]]
name = "small"
gpus = "1"
arrival = "1ms"
iterations = 6
step = [{ compute = "2ms", collective = "all_reduce", bytes = "500KB" }]

[[job]]
name = "read"
gpus = "2-3"
iterations = 3
workload = "workloads/layers.txt"
"#;

const LAYERS: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2\n2\n\
    grad_norm -1 1000 ALLGATHER 100000 1000 NONE 0 1 REDUCESCATTER 200000 100\n\
    layer -1 500000 ALLREDUCE 1000000 500000 ALLREDUCE 1000000 500000 NONE 0 100\n";

fn place() -> Place {
    let place = Place::new();
    place.write("jobs.toml", JOBS);
    std::fs::create_dir(place.path("workloads")).unwrap();
    place.write("workloads/layers.txt", LAYERS);
    place
}

#[test]
fn jobs_are_rows_and_policies_are_columns() {
    let place = place();
    let ran = place.run(&["train", "compare", "jobs.toml"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    golden("train_compare.txt", &format!("{}\n{}", ran.out, ran.err));
}

#[test]
fn a_policy_that_is_named_twice_is_run_once() {
    let place = place();
    let ran = place.run(&["train", "compare", "jobs.toml", "--policies", "fair,sebf,fair", "--json"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    let runs = document["runs"].as_array().unwrap().iter();
    assert_eq!(runs.map(|run| run["policy"].as_str().unwrap()).collect::<Vec<_>>(), ["fair", "sebf"]);
}

/// Two equal jobs that meet on the uplinks of two leaves, which carry as much as one card, and of
/// which one starts a five-hundredth of an exchange later.
const TWO_EQUAL: &str = r#"
[cluster]
hosts = 4
gpus = 1
nic = "8Gbps"
leaf_hosts = 2
spines = 1
oversubscription = "2"

[[job]]
name = "a"
hosts = "0,2"
iterations = 8
step = [{ compute = "110ms", collective = "all_reduce", bytes = "100MB" }]

[[job]]
name = "b"
hosts = "1,3"
arrival = "200us"
iterations = 8
step = [{ compute = "110ms", collective = "all_reduce", bytes = "100MB" }]
"#;

/// Alone an iteration takes 210 ms, and in lockstep 310 ms.
#[test]
fn shifts_and_weights_part_jobs_that_fit_in_the_fluid_and_over_packets() {
    let place = Place::new();
    place.write("jobs.toml", TWO_EQUAL);
    // The longest iteration of both from the sixth on, in milliseconds.
    let late = |policies: &str, engine: &[&str]| -> Vec<f64> {
        let ran = place
            .run(&[&["train", "compare", "jobs.toml", "--json", "--policies", policies], engine].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        let document: Value = serde_json::from_str(&ran.out).unwrap();
        let longest = |run: &Value| {
            let jobs = run["jobs"].as_array().unwrap().iter();
            let late = jobs.flat_map(|job| job["iterations_s"].as_array().unwrap().iter().skip(5));
            late.map(|time| time.as_f64().unwrap() * 1e3).fold(0.0, f64::max)
        };
        document["runs"].as_array().unwrap().iter().map(longest).collect()
    };
    let [fair, cassini, mltcp] = late("fair,cassini,mltcp", &[])[..] else { panic!("three policies") };
    assert!(fair > 309.0 && cassini < 210.001 && mltcp < 212.0, "{fair} {cassini} {mltcp}");
    let packets = ["--engine", "packet", "--transport", "dctcp", "--mtu", "9000B"];
    let [fair, cassini, mltcp] = late("fair,cassini,mltcp", &packets)[..] else { panic!("three policies") };
    assert!(fair > 240.0 && cassini < 213.0 && mltcp < 213.0, "{fair} {cassini} {mltcp}");
    let compare = ["train", "compare", "jobs.toml", "--policies", "mltcp", "--engine", "packet"];
    let ran = place.run(&[&compare[..], &["--transport", "rcp"]].concat());
    assert!(ran.code == 2 && ran.err.contains("this transport knows no weights"), "{} {}", ran.code, ran.err);
}

#[test]
fn packets_stand_beside_the_fluid_and_take_a_little_longer() {
    let place = place();
    let engines = ["--engine", "fluid,packet", "--transport", "dctcp,pfabric", "--json"];
    let ran = place.run(&[&["train", "compare", "jobs.toml", "--policies", "fair"][..], &engines].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    let runs = document["runs"].as_array().unwrap();
    let names: Vec<&str> = runs.iter().map(|run| run["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["fair", "fair/dctcp", "fair/pfabric"]);
    let mean = |run: &Value| run["jobs"][2]["mean_s"].as_f64().unwrap();
    let over = [1, 2].map(|run| mean(&runs[run]) / mean(&runs[0]));
    assert!(over.iter().all(|over| (1.0..1.5).contains(over)), "{over:?}");
    let refused = place.run(&["train", "compare", "jobs.toml", "--transport", "dctcp"]);
    assert!(refused.code != 0 && refused.err.contains("the fluid engine has no packets"), "{}", refused.err);
}

#[test]
fn json_has_all_that_the_tables_have() {
    let place = place();
    let arguments =
        ["train", "compare", "jobs.toml", "--policies", "fair,sebf", "--iterations", "2", "--json"];
    let ran = place.run(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    golden("train_compare.json", &ran.out);
    let runs = document["runs"].as_array().unwrap();
    assert_eq!((runs.len(), document["jobs"][0]["iterations"].as_u64()), (2, Some(2)));
    for job in runs.iter().flat_map(|run| run["jobs"].as_array().unwrap()) {
        let shares = &job["shares"];
        let exposed = shares["exposed"].as_object().unwrap().values();
        let parts = [&shares["computing"], &shares["waiting"], &shares["idle"]].into_iter().chain(exposed);
        let sum: f64 = parts.map(|share| share.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{job}");
    }
}

/// A recording of a rank of two: 1 ms of computation, an all-reduce of a megabyte whose kernel
/// lasts 2 ms, 1 ms.
fn recording(rank: u32) -> String {
    let kernel = |name: &str, ts: u32, dur: u32, args: Value| json!({"ph": "X", "cat": "kernel", "name": name, "ts": ts, "dur": dur, "args": args});
    let reduce = json!({
        "stream": 9, "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 250_000,
        "Out msg nelems": 250_000, "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]",
    });
    let gemm = json!({"stream": 7});
    let events = [
        kernel("gemm", 0, 1_000, gemm.clone()),
        kernel("ncclDevKernel_AllReduce_Sum_f32", 1_000, 2_000, reduce),
        kernel("gemm", 3_000, 1_000, gemm),
    ];
    json!({"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}).to_string()
}

#[test]
fn what_was_recorded_stands_beside_what_is_simulated() {
    let place = Place::new();
    std::fs::create_dir(place.path("recorded")).unwrap();
    for rank in 0..2 {
        place.write(&format!("recorded/{rank}.json"), recording(rank));
    }
    place.write(
        "jobs.toml",
        "[cluster]\nhosts = 2\ngpus = 1\nnic = \"8Gbps\"\n[[job]]\nname = \"a\"\nworkload = \"recorded\"\n",
    );
    let ran = place.run(&["train", "compare", "jobs.toml", "--policies", "fair", "--json"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    let parts = |of: &Value| {
        ["iteration_s", "computing_s", "communication_s", "neither_s"]
            .map(|part| (of[part].as_f64().unwrap() * 1e6).round())
    };
    let job = &document["jobs"][0];
    assert_eq!(parts(&job["measured"]), [4_000.0, 2_000.0, 2_000.0, 0.0]);
    // A megabyte at a gigabyte a second: the rest was waiting, or another network.
    assert_eq!(parts(&job["simulated_less_measured"]["fair"]), [-1_000.0, 0.0, -1_000.0, 0.0]);
    let ran = place.run(&["train", "compare", "jobs.toml", "--policies", "fair"]);
    assert!(
        ran.out.contains("Measured beside simulated") && ran.out.contains("fair − measured"),
        "{}",
        ran.out
    );
}

#[test]
fn what_each_rank_did_when_is_on_a_page_and_in_events() {
    let place = place();
    let written = ["--report", "jobs.html", "--events", "events.json", "--out", "kept"];
    let ran =
        place.run(&[&["train", "compare", "jobs.toml", "--policies", "fair,sebf"][..], &written].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = |name: &str| String::from_utf8(place.read(name)).unwrap();
    let page = text("jobs.html");
    // A picture of each of three jobs under both policies.
    assert_eq!(page.matches("<svg ").count(), 6);
    assert!(page.contains("Mean iteration, and over alone") && page.contains("as its file was read"));
    let events: Value = serde_json::from_str(&text("events.json")).unwrap();
    let events = events["traceEvents"].as_array().unwrap();
    let named = |name: &'static str| events.iter().filter(move |event| event["name"] == name);
    // Eight ranks under both policies, of which four compute for 4 × 1 ms and 6 × 2 ms.
    assert_eq!(named("process_name").count(), 16);
    let of_rank = |pid: u64| named("computation").filter(move |event| event["pid"] == pid);
    let computed = of_rank(1).map(|event| event["dur"].as_f64().unwrap()).sum::<f64>();
    assert_eq!((of_rank(1).count(), computed.round()), (4, 4_000.0));
    for table in ["jobs", "iterations", "collectives", "links"] {
        assert!(place.path(&format!("kept/{table}.parquet")).is_file(), "{table}");
    }
    let rows = text("kept/jobs.csv").lines().count();
    assert_eq!(rows, 1 + 3 * 2);
    // One card of each host and three scale-up ports, in both directions, under both policies.
    let links = text("kept/links.csv");
    assert_eq!(links.lines().count(), 1 + 2 * (4 + 8), "{links}");
    assert!(links.lines().nth(1).unwrap().starts_with("fair,host "), "{links}");
    let again = place.run(&["train", "compare", "jobs.toml", "--out", "kept"]);
    assert!(again.code != 0 && again.err.contains("not empty"), "{}", again.err);
}

#[test]
fn ranks_for_which_another_was_run_are_in_events_as_well() {
    let place = Place::new();
    place.write(
        "jobs.toml",
        "[cluster]\nhosts = 3\ngpus = 1\nnic = \"8Gbps\"\n[[job]]\nname = \"a\"\niterations = 2\n\
         step = [{ compute = \"1ms\", collective = \"all_reduce\", bytes = \"3MB\" }]\n",
    );
    let written = ["--policies", "fair", "--report", "jobs.html", "--events", "events.json"];
    let ran = place.run(&[&["train", "compare", "jobs.toml"][..], &written].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = |name: &str| String::from_utf8(place.read(name)).unwrap();
    let events: Value = serde_json::from_str(&text("events.json")).unwrap();
    for rank in 1..=3 {
        let names = events["traceEvents"].as_array().unwrap().iter();
        let names = names.filter(|event| event["pid"] == rank && event["ph"] == "X");
        let names: Vec<&str> = names.map(|event| event["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["computation", "all_reduce", "computation", "all_reduce"]);
    }
    assert!((0..3).all(|rank| text("jobs.html").contains(&format!("rank {rank}</text>"))));
}

#[test]
fn info_says_what_an_iteration_does_and_what_the_file_leaves_out() {
    let place = place();
    let ran = place.run(&["train", "info", "workloads/layers.txt", "--ranks", "4"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    golden("train_info.txt", &ran.out);
    let ran =
        place.run(&["train", "info", "workloads/layers.txt", "--ranks", "4", "--groups", "name", "--json"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    let first = &document["communication"][0];
    assert_eq!((first["kind"].as_str(), first["group"].as_str()), (Some("all_gather"), Some("data")));
    let reduced = |document: &Value| {
        let mut all = document["summed"].as_array().unwrap().iter();
        let found = all.find(|sum| sum["group"] == "tensor" && sum["kind"] == "all_reduce").unwrap();
        [&found["count"], &found["most_members"], &found["bytes"]].map(|value| value.as_u64().unwrap())
    };
    assert_eq!(reduced(&document), [4, 2, 4_000_000]);
    // What is too much to be listed is summed up.
    let ran = place.run(&["train", "info", "workloads/layers.txt", "--ranks", "131072", "--json"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(document["communication"].is_null());
    assert_eq!(reduced(&document), [131_072, 2, 131_072_000_000]);
}

#[test]
fn what_is_wrong_is_told_with_its_file_and_place() {
    let place = place();
    let refused = |name: &str, content: &str, said: &str| {
        place.write(name, content);
        let ran = place.run(&["train", "compare", "jobs.toml"]);
        assert!(ran.code == 3 && ran.err.contains(said), "{said}: {} {}", ran.code, ran.err);
    };
    refused("jobs.toml", &JOBS.replace("\"2-3\"", "\"1-2\""), "jobs read and small are both placed on GPU 1");
    refused(
        "jobs.toml",
        &JOBS.replace("iterations = 3", "iterations = 0"),
        "jobs.toml:22: job read: 0 iterations",
    );
    let none =
        JOBS.replace("scale_up = \"80Gbps\"", "leaf_hosts = 1\nspines = 3\noversubscription = \"999\"");
    refused(
        "jobs.toml",
        &none.replace("\"8Gbps\"", "\"800bps\""),
        "jobs.toml:2: the cluster has no fabric: leaf 0 to spine 0 has a capacity of zero",
    );
    refused(
        "jobs.toml",
        &JOBS
            .replace("compute = \"2ms\", collective = \"all_reduce\", bytes = \"500KB\"", "compute = \"0s\""),
        "jobs.toml:15: job small takes no time: it computes for none and sends nothing",
    );
    refused(
        "jobs.toml",
        &JOBS.replace("iterations = 6", "iterations = 6\noverlap = true"),
        "jobs.toml:15: job small: overlap says nothing of steps",
    );
    refused(
        "jobs.toml",
        &JOBS.replace("iterations = 3", "iterations = 3\none_for_all = true"),
        "layers.txt: one_for_all says nothing of a workload of AICB",
    );
    refused(
        "jobs.toml",
        &JOBS.replace("nics = 1", "by_rail = true"),
        "jobs.toml:2: by_rail needs leaf_hosts",
    );
    place.write("jobs.toml", JOBS);
    refused(
        "workloads/layers.txt",
        "{\"traceEvents\": 5}",
        "layers.txt:1:18: invalid type: integer `5`, expected a list of events: correct it",
    );
    refused("workloads/layers.txt", &LAYERS.replace("ALLGATHER", "GATHER"), "layers.txt:3: column 4");
    refused("workloads/layers.txt", "nothing\n", "cannot tell the format");
    let ran = place.run(&["train", "compare", "none.toml"]);
    assert!(ran.code == 1 && ran.err.contains("none.toml"), "{} {}", ran.code, ran.err);
    let ran = place.run(&["train", "compare", "jobs.toml", "--policies", "sefb"]);
    assert!(ran.code != 0 && ran.err.contains("sebf"), "{} {}", ran.code, ran.err);
}
