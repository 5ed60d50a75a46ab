//! Files that were cut, or in which a byte is another: readers refuse them or read them, and never
//! panic.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod property;

use cavalcade_model::SplitMix64;
use cavalcade_training::{JobsFile, Options};

const AICB: &[u8] =
    b"HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 all_gpus: 8\n2\n\
    grad -1 10 ALLGATHER 800 20 NONE 0 1 REDUCESCATTER 1600 100\n\
    moe -1 30 ALLTOALL_EP 64 40 ALLREDUCE 64 50 ALLGATHER_DP_EP 9 100\n";

const KINETO: &[u8] =
    br#"{"distributedInfo": {"rank": 0, "world_size": 4, "pg_config": [{"pg_name": "0", "ranks": [0, 2]}]},
 "traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1.5, "dur": 4, "args": {"stream": 7}},
 {"ph": "X", "cat": "kernel", "name": "ncclKernel", "ts": 6, "dur": 4, "args": {"stream": 9, "dtype": "Float",
  "Collective name": "all_to_allv", "In msg nelems": 12, "Out msg nelems": 12, "In split size": "[1, 3]",
  "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, ...]", "Global rank start": 0,
  "Global rank stride": 2}}]}"#;

/// Metadata; a computation of 3 µs; an all-gather of 100 bytes after it, in group "1".
const CHAKRA: &[u8] =
    b"\x07\x0a\x050.0.4\x08\x08\x01\x12\x00\x18\x04\x38\x03\x37\x08\x02\x12\x01c\x18\x07\x2a\x01\x01\
    \x52\x0d\x0a\x09comm_type\x48\x02\x52\x0d\x0a\x09comm_size\x48\x64\x52\x0d\x0a\x07pg_name\xea\x01\x011";

/// A computation of 3 µs, an all-gather of 100 bytes after it in group "1", and what says no bytes.
const CHAKRA_LIST: &[u8] = br#"[{"Id": 1, "Name": "a", "NodeType": 4, "data_deps": [], "runtime": 3, "is_cpu_op": false},
 {"Id": 2, "Name": "c", "NodeType": 7, "ctrlDeps": [1, 9], "is_cpu_op": false, "comm_type": 2, "comm_size": 100, "pg_name": "1"},
 {"Id": 3, "Name": "k", "NodeType": 7, "data_deps": [2], "runtime": 4.5, "is_cpu_op": true}], "ngpus": 4}"#;

const CHAKRA_MESSAGES: &[u8] = br#"{"id": "1", "name": "a", "type": "COMP_NODE", "durationMicros": "3"}
{"id": "2", "name": "c", "type": "COMM_COLL_NODE", "dataDeps": ["1"], "attr": [{"name": "comm_type", "int64Val": "2"},
 {"name": "comm_size", "uint64Val": "100"}, {"name": "pg_name", "stringVal": "1"}]}"#;

/// Over a fake group: a gather, a copy that stands for it, what waits for it, and an optimizer.
const FAKE: &[u8] =
    br#"{"distributedInfo": {"rank": 0, "world_size": 4, "pg_config": [{"pg_name": "0", "ranks": [0, 1, 2, 3]}]},
 "traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "FSDP::all_gather (a)", "tid": 1, "ts": 0, "dur": 9},
 {"ph": "X", "cat": "cpu_op", "name": "c10d::_allgather_base_", "tid": 1, "ts": 1, "dur": 6, "args": {"Input Dims": [[8, 4], [8]],
  "Input type": ["float", "float"], "Concrete Inputs": ["", "", "", "False", "-1"]}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "tid": 1, "ts": 2, "dur": 1, "args": {"correlation": 1}},
 {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy", "ts": 3, "dur": 2, "args": {"stream": 9, "correlation": 1}},
 {"ph": "X", "cat": "user_annotation", "name": "FSDP::all_gather_copy_out (a)", "tid": 1, "ts": 20, "dur": 9},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1, "ts": 21, "dur": 1, "args": {"correlation": 2}},
 {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 22.5, "dur": 4, "args": {"stream": 7, "correlation": 2}},
 {"ph": "X", "cat": "cpu_op", "name": "_c10d_functional::wait_tensor", "tid": 1, "ts": 30, "dur": 1, "args": {"Input Dims": [[2]]}},
 {"ph": "X", "cat": "user_annotation", "name": "Optimizer.step#A", "tid": 1, "ts": 40, "dur": 9}]}"#;

/// An exchange of one rank with itself: a recording without its parts, and what tells them.
const OF_ONE: &[u8] = br#"{"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [{"ph": "X", "cat": "kernel",
 "name": "ncclKernel", "ts": 6, "dur": 4, "args": {"stream": 9, "dtype": "Float", "Collective name": "all_to_allv",
 "In msg nelems": 12, "Out msg nelems": 12, "Group size": 1, "Process Group Ranks": "[0]"}}]}"#;

const GRAPH: &[u8] =
    br#"{"schema": "1.1.0", "nodes": [{"name": "record_param_comms", "id": 7, "inputs": {"values":
 [[[1, 2, 0, 12, 4, "cuda:0"]], 11, ["0", "default_pg"], 0, "all_to_allv", [12], [12]]},
 "outputs": {"values": [[1, 2, 0, 12, 4, "cuda:0"]]}}]}"#;

/// Two micro-batches in two stages of a pipeline, each of two parts.
const PIPELINE: &[u8] =
    b"HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 ep: 1 pp: 2 vpp: 2 ga: 2 all_gpus: 4 pp_comm 8\n6\n\
    grad -1 1 NONE 0 1 NONE 0 1 REDUCESCATTER 80 100\nm -1 1 NONE 0 2 NONE 0 3 NONE 0 100\nm -1 1 NONE 0 2 NONE 0 3 NONE 0 100\n\
    m -1 1 NONE 0 2 NONE 0 3 NONE 0 100\nm -1 1 NONE 0 2 NONE 0 3 NONE 0 100\nopt -1 1 NONE 0 2 NONE 0 3 NONE 0 100\n";

const JOBS: &[u8] =
    b"[cluster]\nhosts = 2\ngpus = 4\nnics = 2\nnic = \"8Gbps\"\nscale_up = \"80Gbps\"\nleaf_hosts = 1\n\
    spines = 2\n[[job]]\nname = \"a\"\nhosts = \"0-1\"\ngpus = \"0,2\"\ntensor = 2\narrival = \"1ms\"\n\
    step = [{ compute = \"1ms\", collective = \"all_reduce\", bytes = \"1MB\", group = \"tensor\" }]\n";

/// Calls `read` with the file as it is, which it must take, then cut at each byte, and with bytes
/// that are others.
fn damage(good: &[u8], mut read: impl FnMut(&[u8]) -> bool) {
    assert!(read(good), "the file is good");
    for end in 0..good.len() {
        read(&good[..end]);
    }
    let mut random = SplitMix64::new(1);
    for _ in 0..20_000 {
        let mut bad = good.to_vec();
        for _ in 0..=random.bits() % 3 {
            let at = random.bits() as usize % bad.len();
            let digits = *b"09-{}[],\":x\xff\x80\x00 ";
            bad[at] = match random.bits() % 2 {
                0 => digits[random.bits() as usize % digits.len()],
                _ => random.bits() as u8,
            };
        }
        read(&bad);
    }
}

fn reads(name: &str, others: &[(&str, &[u8])], content: &[u8]) -> bool {
    let for_all = Options { one_for_all: true, ..Options::default() };
    let options = match name {
        "w.txt" => Options::default(),
        _ if name.starts_with("n.0.") => Options { ranks: Some(4), ..for_all },
        _ => for_all,
    };
    property::reading_holds(name, content, others, &options)
}

#[test]
fn no_damage_of_a_layers_file_makes_its_reader_panic() {
    damage(AICB, |content| reads("w.txt", &[], content));
}

#[test]
fn no_damage_of_a_recording_makes_its_reader_panic() {
    damage(KINETO, |content| reads("r.json", &[], content));
}

#[test]
fn no_damage_of_a_recording_over_a_fake_group_makes_its_reader_panic() {
    damage(FAKE, |content| reads("r.json", &[], content));
}

#[test]
fn no_damage_of_an_execution_trace_makes_its_reader_panic() {
    damage(GRAPH, |content| reads("et_0.json", &[("r.json", OF_ONE)], content));
}

#[test]
fn no_damage_of_a_pipelines_layers_makes_their_reader_panic() {
    damage(PIPELINE, |content| reads("w.txt", &[], content));
}

#[test]
fn no_damage_of_json_of_nodes_makes_its_reader_panic() {
    for (head, content) in property::CHAKRA_JSON.into_iter().zip([CHAKRA_LIST, CHAKRA_MESSAGES]) {
        damage(content, |content| {
            reads("n.0.json", &[property::GROUPS], &[head.as_bytes(), content].concat())
        });
    }
}

#[test]
fn no_damage_of_a_trace_of_nodes_makes_its_reader_panic() {
    damage(CHAKRA, |content| reads("n.0.et", &[property::GROUPS], content));
}

/// What the fuzz targets call, with what they may find.
#[test]
fn all_options_hold_for_good_files_and_cut_ones() {
    let groups: &[(&str, &[u8])] = &[property::GROUPS];
    for (name, content, others) in [
        ("w.txt", AICB, &[][..]),
        ("w.txt", PIPELINE, &[]),
        ("r.json", KINETO, &[]),
        ("r.json", FAKE, &[]),
        ("et_0.json", GRAPH, &[("r.json", OF_ONE)]),
        ("n.0.et", CHAKRA, groups),
    ] {
        for end in 0..=content.len() {
            property::reading_holds_for_all_options(name, &content[..end], others);
        }
    }
}

#[test]
fn no_damage_of_a_jobs_file_makes_its_reader_panic() {
    damage(JOBS, |content| {
        let Ok(text) = std::str::from_utf8(content) else { return false };
        JobsFile::read(text, "jobs.toml").is_ok()
    });
}
