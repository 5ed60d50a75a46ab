use super::*;
use crate::collective::CollectiveKind;
use crate::program::OpWork;
use crate::read::{Options, Read, WorkloadFile};
use cavalcade_model::{Bytes, Nanos};

fn read_all(files: &[(&str, &str)], options: &Options) -> Result<Read, ReadError> {
    let file = |&(name, content): &(&str, &str)| WorkloadFile {
        name: name.to_owned(),
        content: Box::new(std::io::Cursor::new(content.as_bytes().to_vec())),
    };
    crate::read::read(files.iter().map(file).collect(), options)
}

/// As Chakra's feeder has it.
const LISTED: &str = r#"{"workload_graph": [
    {"Id": 9, "Name": "sum", "NodeType": 7, "data_deps": [5, 77], "ctrlDeps": [5], "runtime": 40, "is_cpu_op": false,
     "comm_type": 2, "comm_size": 100, "pg_name": "1"},
    {"Id": 5, "Name": "gemm", "NodeType": 4, "data_deps": [3], "runtime": 4.6, "is_cpu_op": false},
    {"Id": 3, "Name": "aten::mm", "NodeType": 4, "data_deps": [], "runtime": 1000, "is_cpu_op": true},
    {"Id": 4, "Name": "ncclKernel", "NodeType": 7, "data_deps": [], "is_cpu_op": false},
    {"Id": 6, "Name": "c10d::allreduce_", "NodeType": 7, "data_deps": null, "is_cpu_op": true}
  ], "workload_name": "w", "ngpus": 2}"#;

/// As its jsonizer writes it: numbers of 64 bits as text, names of types, nothing that is zero.
const MESSAGES: &str = r#"{
  "version": "0.0.4", "attr": [{"name": "schema", "stringVal": "1.0.2-chakra.0.0.4"}]
}{
  "id": "9", "name": "sum", "type": "COMM_COLL_NODE", "dataDeps": ["5", "77"], "durationMicros": "40",
  "attr": [{"name": "is_cpu_op", "boolVal": false}, {"name": "comm_type", "int64Val": "2"},
           {"name": "comm_size", "uint64Val": "100"}, {"name": "pg_name", "stringVal": "1"}]
}{
  "id": "5", "name": "gemm", "type": "COMP_NODE", "ctrlDeps": [], "durationMicros": "5",
  "attr": [{"name": "is_cpu_op", "int32Val": 0}]
}"#;

const GROUPS: (&str, &str) = ("n.json", r#"{"1": [0, 1]}"#);

#[test]
fn both_forms_of_json_are_read_as_messages_are() {
    for text in [LISTED, MESSAGES] {
        let found = read_all(&[("n.0.json", text), ("n.1.json", text), GROUPS], &Options::default()).unwrap();
        assert_eq!(found.program.computation(), [Nanos(5_000); 2]);
        let last = found.program.ops().last().unwrap();
        let OpWork::Collective(one) = &last.work else { panic!("{last:?}") };
        assert_eq!((one.kind, one.bytes), (CollectiveKind::AllGather, Bytes(200)));
        assert_eq!(found.program.group(one.group).members, [0, 1]);
        assert!(found.notes.iter().any(|note| note.text == "2 edges to nodes that are not there"));
    }
}

#[test]
fn a_trace_is_known_by_its_beginning_however_few_bytes_come_at_once() {
    let content = Box::new(std::io::BufReader::with_capacity(2, LISTED.as_bytes()));
    let file = WorkloadFile { name: "n.0.json".to_owned(), content };
    let options = Options { one_for_all: true, ..Options::default() };
    let refused = crate::read::read(vec![file], &options).unwrap_err().to_string();
    assert!(refused.contains("group \"1\" of sum is nowhere"), "{refused}");
}

#[test]
fn collectives_that_say_no_bytes_are_counted() {
    let options = Options { one_for_all: true, ranks: Some(2), ..Options::default() };
    let found = read_all(&[("n.json.0.json", LISTED), GROUPS], &options).unwrap();
    let said = |text: &str| found.notes.iter().any(|note| note.text == text);
    assert!(said("1 nodes of collectives that do not say their kind and bytes: they move nothing"));
    assert!(said("the time of 1 operations of the processor"));
}

#[test]
fn what_is_wrong_is_told_with_its_file_and_place() {
    let said =
        |text: &str| read_all(&[("n.0.json", text), GROUPS], &Options::default()).unwrap_err().to_string();
    let cut = said(&LISTED[..LISTED.len() / 2]);
    assert!(cut.starts_with("n.0.json:5:") && cut.contains("may be cut off"), "{cut}");
    let unknown = said(&LISTED.replace("\"NodeType\": 4", "\"NodeType\": \"TELEPORT\""));
    assert!(unknown.contains("n.0.json:4:") && unknown.contains("type of node"), "{unknown}");
    let backwards = said(&LISTED.replace("4.6", "-4.6"));
    assert!(backwards.contains("node 5 ends 4600 ns before it begins"), "{backwards}");
    let cycle = said(&LISTED.replace("\"data_deps\": [],", "\"data_deps\": [9],"));
    assert!(cycle.contains("waits for itself"), "{cycle}");
    assert!(said(&MESSAGES.replace("\"5\"", "\"five\"")).contains("dataDeps is \"five\": expected a number"));
    assert!(said(&LISTED.replace("\"comm_type\": 2", "\"comm_type\": 3")).contains("comm_type \"3\""));
    let groups = [("n.0.json", LISTED), ("n.1.json", LISTED), ("n.json", "{\"1\": [0, 1]")];
    let groups = read_all(&groups, &Options::default()).unwrap_err().to_string();
    assert!(groups.starts_with("n.json:1:12: ") && groups.contains("may be cut off"), "{groups}");
}

#[test]
fn a_real_trace_with_holes_is_read_and_its_holes_are_counted() {
    let Some(mut files) = crate::real::archived("ai/chakra/chakra_json_trace.tar.gz") else { return };
    files.retain(|(name, _)| name.ends_with("/chakra.0.json"));
    let options = Options { one_for_all: true, ..Options::default() };
    let found = crate::real::read_files(files, &options).unwrap();
    assert_eq!(found.program.computation(), [Nanos(292_828_000)]);
    let said: Vec<&str> = found.notes.iter().map(|note| note.text.as_str()).collect();
    assert!(said.contains(&"3664 nodes, none of them a collective with kind and bytes"), "{said:?}");
    assert!(said.contains(&"7 nodes of collectives that do not say their kind and bytes: they move nothing"));
}
