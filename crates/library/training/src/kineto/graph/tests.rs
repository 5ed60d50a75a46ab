use serde_json::{Value, json};

use super::super::tests::{document, kernel, of_rank, one_for_all};
use crate::error::ReadError;
use crate::program::OpWork;
use crate::read::{Options, Read, WorkloadFile, read};
use crate::real::{archived, read_files};
use cavalcade_model::Bytes;

/// An all-to-all of so many floats in, and out, between two ranks, as older recordings have it:
/// without its parts.
fn exchange(ts: f64, [input, output]: [u64; 2]) -> Value {
    let mut event = kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 9, ts, 5.0);
    event["args"] = json!({
        "stream": 9, "Collective name": "all_to_allv", "dtype": "Float", "In msg nelems": input,
        "Out msg nelems": output, "Group size": 2, "Process Group Ranks": "[0, 1]",
    });
    event
}

/// What an execution trace says of it, in the older form.
fn node(id: u64, rank: u32, parts: [u64; 2], output: u64) -> Value {
    let tensor = |elements: u64| json!([7, 8, 0, elements, 4, "cuda:0"]);
    let inputs = json!([tensor(parts.iter().sum()), id, 9_400, rank, "all_to_allv", parts, [output, 0]]);
    json!({"name": "record_param_comms", "id": id, "rf_id": 3, "inputs": inputs, "outputs": [tensor(output)]})
}

fn graph(nodes: &[Value]) -> String {
    format!("{{\"schema\": \"1.0.1\", \"pid\": 1, \"nodes\": {}}}", Value::from(nodes.to_vec()))
}

fn read_named(files: &[(&str, String)], options: &Options) -> Result<Read, ReadError> {
    let file = |(name, text): &(&str, String)| WorkloadFile {
        name: (*name).to_owned(),
        content: Box::new(std::io::Cursor::new(text.clone().into_bytes())),
    };
    read(files.iter().map(file).collect(), options)
}

/// The parts of all all-to-alls, in floats.
fn parts(read: &Read) -> Vec<Option<Vec<u64>>> {
    let collectives = read.program.ops().iter().filter_map(|op| match &op.work {
        OpWork::Collective(one) => Some(one.splits.as_ref()),
        _ => None,
    });
    collectives.map(|splits| splits.map(|all| all.iter().map(|part| part.0 / 4).collect())).collect()
}

fn recorded(rank: u32, sizes: &[[u64; 2]]) -> String {
    let events = sizes.iter().enumerate().map(|(nth, &size)| exchange(10.0 * nth as f64, size));
    document(rank, 2, events.collect())
}

#[test]
fn parts_of_all_to_alls_are_those_of_the_execution_traces_beside() {
    let files = [
        ("rank0.json", recorded(0, &[[4, 3], [9, 9]])),
        ("rank1.json", recorded(1, &[[8, 9], [9, 9]])),
        // Nodes stand in the order in which they ended.
        ("et_a.json", graph(&[node(12, 0, [2, 7], 9), node(11, 0, [1, 3], 3)])),
        ("et_b.json", graph(&[node(11, 1, [2, 6], 9), node(12, 1, [0, 9], 9)])),
    ];
    let found = read_named(&files, &Options::default()).unwrap();
    assert_eq!(parts(&found), [Some(vec![1, 3, 2, 6]), Some(vec![2, 7, 0, 9])]);
    let said = |text: &str| found.notes.iter().any(|note| note.text.contains(text));
    assert!(said("the parts of 4 all-to-alls in the recordings, by execution traces"), "{:?}", found.notes);
    assert!(!said("which give none") && !said("execution traces beside the recordings"), "{:?}", found.notes);
    let without = read_named(&files[..2], &Options::default()).unwrap();
    assert_eq!(parts(&without), [Some(vec![2, 2, 4, 4]), None], "even where nothing says them");
}

#[test]
fn a_trace_of_a_part_fits_where_its_bytes_do_and_is_not_guessed_where_it_fits_twice() {
    // The first of four all-to-alls is before the trace of rank 0 began.
    let sizes = [[2, 2], [4, 4], [6, 6], [5, 6]];
    let beside = |nodes: &[Value]| {
        let files = [
            ("rank0.json", recorded(0, &sizes)),
            ("rank1.json", recorded(1, &sizes)),
            ("et_0.json", graph(nodes)),
        ];
        let found = read_named(&files, &Options::default()).unwrap();
        (
            parts(&found),
            found.notes.iter().any(|note| note.text == "1 execution traces beside the recordings"),
        )
    };
    let (found, is_left_out) = beside(&[node(1, 0, [1, 3], 4), node(2, 0, [6, 0], 6)]);
    assert_eq!(found, [None, Some(vec![1, 3, 2, 2]), Some(vec![6, 0, 3, 3]), None]);
    assert!(!is_left_out);
    let (found, is_left_out) = beside(&[node(1, 0, [1, 3], 9)]);
    assert_eq!((found, is_left_out), (vec![None; 4], true), "another number comes back");

    let twice = [[4, 4], [4, 4], [7, 7]];
    let files = |second: [u64; 2]| {
        [
            ("rank0.json", recorded(0, &twice)),
            ("rank1.json", recorded(1, &twice)),
            ("et_0.json", graph(&[[1, 3], second, [1, 3]].map(|parts| node(1, 0, parts, 4)))),
        ]
    };
    let found = |second| parts(&read_named(&files(second), &Options::default()).unwrap())[0].clone();
    assert_eq!(found([3, 1]), None, "the three of the trace fit nowhere");
    let files = [
        ("rank0.json", recorded(0, &twice)),
        ("rank1.json", recorded(1, &twice)),
        ("et_0.json", graph(&[node(1, 0, [1, 3], 4)])),
    ];
    let found = parts(&read_named(&files, &Options::default()).unwrap());
    assert_eq!(found, [None, None, None], "each may be the one, and the other is none then");
    let files = |parts: [[u64; 2]; 2]| {
        [
            ("rank0.json", recorded(0, &twice[..1])),
            ("rank1.json", recorded(1, &twice[..1])),
            ("et_0.json", graph(&parts.map(|parts| node(1, 0, parts, 4)))),
        ]
    };
    let found = |two| parts(&read_named(&files(two), &Options::default()).unwrap());
    assert_eq!(found([[1, 3], [1, 3]]), [Some(vec![1, 3, 2, 2])]);
    assert_eq!(found([[1, 3], [3, 1]]), [None], "it may be either");
}

#[test]
fn parts_are_rows_of_a_tensor_that_may_have_several_columns() {
    // Four rows of three floats: one goes to rank 0, three to rank 1.
    let mut rows = node(1, 0, [1, 3], 12);
    rows["inputs"][0][3] = json!(12);
    let files = [
        ("rank0.json", recorded(0, &[[12, 12]])),
        ("rank1.json", recorded(1, &[[12, 12]])),
        ("et_0.json", graph(&[rows])),
    ];
    let found = read_named(&files, &Options::default()).unwrap();
    assert_eq!(parts(&found), [Some(vec![3, 9, 6, 6])]);
}

#[test]
fn groups_that_both_name_are_kept_apart() {
    let named = |rank: u32| {
        // The last one has the first two not be an iteration each.
        let mut events = [exchange(0.0, [4, 4]), exchange(10.0, [4, 4]), exchange(20.0, [7, 7])];
        for (event, name) in events.iter_mut().zip(["1", "2", "1"]) {
            event["args"]["Process Group Name"] = json!(name);
        }
        document(rank, 2, events.into())
    };
    let of_group = |name: &str, id: u64, parts: [u64; 2]| {
        let mut node = node(id, 0, parts, 4);
        node["inputs"][2] = json!([name, "a description"]);
        // As newer versions write it.
        node["inputs"] = json!({"values": node["inputs"], "shapes": [], "types": []});
        node["outputs"] = json!({"values": node["outputs"], "shapes": [], "types": []});
        node
    };
    let nodes = [of_group("2", 1, [0, 4]), of_group("1", 2, [3, 1])];
    let files = [("rank0.json", named(0)), ("rank1.json", named(1)), ("et_0.json", graph(&nodes))];
    let found = read_named(&files, &Options::default()).unwrap();
    assert_eq!(parts(&found), [Some(vec![3, 1, 2, 2]), Some(vec![0, 4, 2, 2]), None]);
}

#[test]
fn one_rank_that_stands_for_all_has_no_use_for_them() {
    let files = [("rank0.json", recorded(0, &[[4, 4]])), ("et_0.json", graph(&[node(1, 0, [1, 3], 4)]))];
    let found = read_named(&files, &one_for_all()).unwrap();
    assert_eq!((parts(&found), of_rank(&found.program, 1).len()), (vec![None], 1));
    assert!(found.notes.iter().any(|note| note.text == "1 execution traces beside the recordings"));
}

#[test]
fn what_is_wrong_is_told_with_its_file_and_place() {
    let said = |graphs: &[(&str, String)]| {
        let mut files = vec![("rank0.json", recorded(0, &[[4, 4]])), ("rank1.json", recorded(1, &[[4, 4]]))];
        files.extend(graphs.iter().cloned());
        read_named(&files, &Options::default()).map(drop).unwrap_err().to_string()
    };
    let good = |rank| graph(&[node(1, rank, [1, 3], 4)]);
    let mut cut = good(0);
    cut.truncate(cut.len() - 9);
    let text = said(&[("et_0.json", cut)]);
    assert!(text.starts_with("et_0.json:1:") && text.contains("may be cut off"), "{text}");
    let mut other = node(5, 0, [1, 3], 4);
    other["inputs"][5] = json!([1, 4]);
    let text = said(&[("et_0.json", graph(&[other.clone()]))]);
    assert!(text.contains("node 5 is an all-to-all of 4 elements in 5 rows: correct it"), "{text}");
    other["inputs"][5] = json!([1, -3]);
    assert!(said(&[("et_0.json", graph(&[other.clone()]))]).contains("without whole numbers for its parts"));
    other["inputs"] = json!(["all_to_all"]);
    assert!(said(&[("et_0.json", graph(&[other]))]).contains("node 5 is an all-to-all without its tensor"));
    let text = said(&[("a.json", good(1)), ("b.json", good(1))]);
    assert!(text.starts_with("b.json: it is an execution trace of rank 1, and so is a.json"), "{text}");
    let text = said(&[("a.json", graph(&[node(1, 0, [1, 3], 4), node(2, 1, [1, 3], 4)]))]);
    assert!(text.contains("its collectives of all ranks are of the ranks {0, 1}"), "{text}");
}

#[test]
fn real_execution_traces_tell_the_parts_that_real_recordings_leave_out() {
    let Some(mut files) = archived("ai/kineto/param_dlrm_8ranks.tar.gz") else { return };
    let Some(graphs) = archived("ai/et/param_dlrm_8ranks_et.tar.gz") else { return };
    files.extend(graphs);
    let found = read_files(files, &Options::default()).unwrap();
    // What goes to each rank from any of them, in numbers of 4 bytes.
    let row = [96, 224, 288, 1664, 592, 96, 192, 240].map(|part: u64| Bytes(4 * part));
    let uneven = found.program.ops().iter().filter_map(|op| match &op.work {
        OpWork::Collective(one) => one.splits.as_ref().filter(|all| all.iter().any(|part| *part != all[0])),
        _ => None,
    });
    assert_eq!(uneven.collect::<Vec<_>>(), [&row.repeat(8)]);
    let said = |text: &str| found.notes.iter().any(|note| note.text.contains(text));
    assert!(said("the parts of 32 all-to-alls in the recordings, by execution traces"), "{:?}", found.notes);
    assert!(!said("which give none"), "{:?}", found.notes);
}
