use super::super::tests::{document, kernel, of_rank, one_for_all, read_texts};
use crate::program::OpWork;
use crate::read::{Host, Options};
use serde_json::{Value, json};

/// A launch of a kernel on thread 1 at `at`, and the kernel, in microseconds.
fn launched(name: &str, at: f64, begin: f64, dur: f64) -> [Value; 2] {
    let id = (at * 10.0) as u64;
    let mut on_gpu = kernel(name, 7, begin, dur);
    on_gpu["args"]["correlation"] = json!(id);
    let launch = json!({
        "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1, "ts": at, "dur": 0.5,
        "args": {"correlation": id},
    });
    [launch, on_gpu]
}

fn called(name: &str, at: f64, dur: f64, out: u64, input: u64, is_async: &str) -> Value {
    let about = json!({
        "Input Dims": [[out], [input], [], [], []], "Input type": ["c10::BFloat16", "c10::BFloat16", "", "", ""],
        "Concrete Inputs": ["", "", "", is_async, "-1"],
    });
    json!({"ph": "X", "cat": "cpu_op", "name": name, "tid": 1, "ts": at, "dur": dur, "args": about})
}

fn mark(name: &str, at: f64, dur: f64) -> Value {
    json!({"ph": "X", "cat": "user_annotation", "name": name, "tid": 1, "ts": at, "dur": dur, "args": {}})
}

/// A layer that FSDP gathers and another before it is used, copies that stand for the first, and a
/// reduction.
fn fsdp() -> Vec<Value> {
    let mut events = vec![
        mark("FSDP::all_gather (a)", 0.0, 20.0),
        called("c10d::_allgather_base_", 5.0, 10.0, 800, 200, "False"),
        mark("FSDP::all_gather_copy_out (a)", 30.0, 5.0),
        mark("FSDP::all_gather (b)", 50.0, 20.0),
        called("c10d::_allgather_base_", 55.0, 10.0, 400, 100, "False"),
        mark("FSDP::all_gather_copy_out (b)", 90.0, 5.0),
        mark("FSDP::post_backward_reduce (b)", 130.0, 20.0),
        called("c10d::_reduce_scatter_base_", 135.0, 10.0, 100, 400, "False"),
        mark("Optimizer.step#AdamW.step", 160.0, 20.0),
    ];
    // What the group copies is no computation, and the host's time within its calls is no real
    // group's.
    events.extend(launched("Memcpy DtoD", 6.0, 7.0, 4.0));
    for (name, at, begin, dur) in [
        ("copy out a", 31.0, 32.0, 3.0),
        ("a", 75.0, 80.0, 30.0),
        ("copy out b", 91.0, 111.0, 2.0),
        ("b", 120.0, 121.0, 5.0),
        ("step", 165.0, 166.0, 4.0),
    ] {
        events.extend(launched(name, at, begin, dur));
    }
    events
}

fn left_out() -> Options {
    Options { host: Host::LeftOut, ..one_for_all() }
}

#[test]
fn a_gather_over_a_fake_group_is_waited_for_by_the_copy_out_of_its_layer() {
    let found = read_texts(&[document(0, 4, fsdp())], &left_out()).unwrap();
    let all = "[0, 1, 2, 3]";
    let gather = |bytes: u64| format!("all_gather {bytes}B {all}");
    assert_eq!(
        of_rank(&found.program, 0),
        [
            gather(1600),
            "0ns".to_owned(),
            "3us".to_owned(),
            "30us".to_owned(),
            gather(800),
            "0ns".to_owned(),
            "7us".to_owned(),
            format!("reduce_scatter 800B {all}"),
            "0ns".to_owned(),
            "4us".to_owned(),
        ]
    );
    // The second layer is gathered while the first computes.
    let ops = found.program.ops();
    let gathers: Vec<usize> = (0..ops.len())
        .filter(|&op| matches!(&ops[op].work, OpWork::Collective(one) if one.bytes.0 == 800 && op < 20))
        .collect();
    let computes =
        ops.iter().find(|op| matches!(op.work, OpWork::Compute { duration, .. } if duration.0 == 30_000));
    assert!(computes.is_some_and(|op| op.after.iter().all(|before| !gathers.contains(&before.index()))));
    let said = |text: &str| found.notes.iter().any(|note| note.text.contains(text));
    assert!(said("bytes of 3 collectives, by the operations that called them"), "{:?}", found.notes);
    assert!(said("1 copies by which a fake group stands for collectives"), "{:?}", found.notes);
    assert!(found.measured.is_none(), "nothing was communicated");
}

#[test]
fn the_hosts_time_counts_but_for_that_within_calls() {
    let kept = read_texts(&[document(0, 4, fsdp())], &one_for_all()).unwrap().program;
    // From 32 to 170, but for the 20 µs of pauses that are spent in calls.
    let all = 170 - 32 - 10 - 10;
    assert_eq!(kept.computation()[0].get(), all * 1_000);
    let left_out = read_texts(&[document(0, 4, fsdp())], &left_out()).unwrap().program;
    assert_eq!(left_out.computation()[0].get(), (3 + 30 + 2 + 5 + 4) * 1_000);
}

/// What stands between the calls and computations of a rank: 0 ns for a wait.
fn order(events: Vec<Value>) -> Vec<String> {
    let found = read_texts(&[document(0, 2, events)], &left_out()).unwrap();
    of_rank(&found.program, 0)
}

#[test]
fn a_call_that_is_not_asynchronous_holds_up_what_follows_and_another_the_optimizer() {
    let events = |is_async: &str| {
        let mut events = vec![called("c10d::allreduce_", 5.0, 2.0, 8, 0, is_async)];
        events.push(mark("Optimizer.step#SGD.step", 20.0, 10.0));
        events.extend(launched("backward", 10.0, 11.0, 6.0));
        events.extend(launched("step", 21.0, 22.0, 1.0));
        events
    };
    let reduce = "all_reduce 16B [0, 1]";
    assert_eq!(order(events("False")), [reduce, "0ns", "7us"]);
    assert_eq!(order(events("True")), [reduce, "6us", "0ns", "1us"]);
}

#[test]
fn a_functional_collective_is_waited_for_by_the_wait_for_its_result() {
    let mut events = Vec::new();
    for (at, out) in [(0.0, 16), (10.0, 32)] {
        events.push(mark("_c10d_functional::reduce_scatter_tensor", at, 9.0));
        events.push(called("c10d::_reduce_scatter_base_", at + 1.0, 5.0, out, 2 * out, "True"));
    }
    let wait = |at: f64, elements: u64| {
        let mut wait = mark("_c10d_functional::wait_tensor", at, 1.0);
        wait["args"] = json!({"Input Dims": [[elements]]});
        wait
    };
    events.extend([wait(30.0, 32), wait(50.0, 16)]);
    events.extend(launched("first", 40.0, 41.0, 1.0));
    events.extend(launched("second", 60.0, 61.0, 2.0));
    let scatter = |bytes: u64| format!("reduce_scatter {bytes}B [0, 1]");
    let found = read_texts(&[document(0, 2, events)], &left_out()).unwrap().program;
    let expected =
        [scatter(64), scatter(128), "0ns".to_owned(), "1us".to_owned(), "0ns".to_owned(), "2us".to_owned()];
    assert_eq!(of_rank(&found, 0), expected);
    let waits = |nth: usize| {
        found
            .ops()
            .iter()
            .filter(|op| matches!(op.work, OpWork::Compute { rank: 0, duration } if duration.0 == 0))
            .nth(nth)
            .map(|op| op.after.iter().map(|on| on.index()).collect::<Vec<_>>())
    };
    // The larger one first.
    assert!(waits(0).unwrap().contains(&1) && waits(1).unwrap().contains(&0));
}

#[test]
fn a_group_of_one_stands_for_as_many_ranks_as_are_said() {
    let mut events = vec![called("c10d::allreduce_", 5.0, 2.0, 8, 0, "True")];
    events.extend(launched("backward", 10.0, 11.0, 6.0));
    let options = Options { ranks: Some(3), ..left_out() };
    let found = read_texts(&[document(0, 1, events)], &options).unwrap();
    assert_eq!(of_rank(&found.program, 2), ["all_reduce 16B [0, 1, 2]", "6us"]);
}

#[test]
fn calls_without_sizes_or_with_a_group_that_nothing_tells_are_refused() {
    let said = |events: Vec<Value>, about: Value| {
        let mut text: Value = serde_json::from_str(&document(0, 8, events)).unwrap();
        text["distributedInfo"]["pg_config"] = about;
        read_texts(&[text.to_string()], &left_out())
            .map(|found| found.program)
            .map_err(|error| error.to_string())
    };
    let mut events = vec![called("c10d::_allgather_base_", 5.0, 2.0, 8, 4, "True")];
    events.extend(launched("gemm", 10.0, 11.0, 6.0));
    let groups = |groups: &[&[u32]]| {
        let group = |(nth, ranks): (usize, &&[u32])| json!({"pg_name": nth.to_string(), "ranks": ranks});
        Value::Array(groups.iter().enumerate().map(group).collect())
    };
    // Of two groups of two it may be either; of one it is that; of none it is the neighbour.
    let either = said(events.clone(), groups(&[&[0, 4], &[0, 2]])).unwrap_err();
    assert!(either.contains("nothing tells the group of allgather_base"), "{either}");
    let members = |program: crate::program::Program| program.groups()[0].members.clone();
    assert_eq!(
        said(events.clone(), groups(&[&[0, 4], &[0, 1, 2, 3, 4, 5, 6, 7]])).map(members),
        Ok(vec![0, 4])
    );
    assert_eq!(said(events.clone(), groups(&[])).map(members), Ok(vec![0, 1]));
    events[0]["args"] = json!({});
    let unsaid = said(events, groups(&[])).unwrap_err();
    assert!(
        unsaid.contains(
            "1 operations of torch.distributed say no sizes: expected a recording with record_shapes=True"
        ),
        "{unsaid}"
    );
}

#[test]
fn kernels_that_one_operation_launched_are_one_collective() {
    let mut events = vec![called("c10d::_allgather_base_", 5.0, 9.0, 8, 4, "False")];
    events.extend(launched("ncclKernel_AllGather", 6.0, 8.0, 2.0));
    events.extend(launched("ncclKernel_AllGather", 7.0, 10.0, 2.0));
    events.extend(launched("gemm", 20.0, 21.0, 3.0));
    let found = read_texts(&[document(0, 2, events)], &left_out()).unwrap();
    assert_eq!(of_rank(&found.program, 0), ["all_gather 16B [0, 1]", "3us"]);
    let said = |text: &str| found.notes.iter().any(|note| note.text.contains(text));
    assert!(said("2 kernels taken for communication: 2 by the operation"));
    // Four microseconds without a pause.
    assert_eq!(found.measured.unwrap().exposed.get(), 4_000);
}
