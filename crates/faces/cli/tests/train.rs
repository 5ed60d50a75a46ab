//! `cavalcade train`: training jobs that share a cluster.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use serde_json::Value;
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
    place.write("jobs.toml", JOBS);
    refused("workloads/layers.txt", &LAYERS.replace("ALLGATHER", "GATHER"), "layers.txt:3: column 4");
    refused("workloads/layers.txt", "nothing\n", "cannot tell the format");
    let ran = place.run(&["train", "compare", "none.toml"]);
    assert!(ran.code == 1 && ran.err.contains("none.toml"), "{} {}", ran.code, ran.err);
    let ran = place.run(&["train", "compare", "jobs.toml", "--policies", "sefb"]);
    assert!(ran.code != 0 && ran.err.contains("sebf"), "{} {}", ran.code, ran.err);
}
