use super::*;

/// A message of fields, each a number or bytes.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

/// An attribute whose value is in `field`: 27 for bool, 9 for int64, 13 for uint64.
fn attribute(name: &str, field: u64, value: u64) -> Vec<u8> {
    bytes(10, &[bytes(1, name.as_bytes()), number(field, value)].concat())
}

fn word(name: &str, value: &str) -> Vec<u8> {
    bytes(10, &[bytes(1, name.as_bytes()), bytes(29, value.as_bytes())].concat())
}

fn node(id: u64, kind: u64, after: &[u64], rest: &[Vec<u8>]) -> Vec<u8> {
    let packed: Vec<u8> = after.iter().flat_map(|&id| varint(id)).collect();
    let name = format!("node {id}");
    [vec![number(1, id), bytes(2, name.as_bytes()), number(3, kind), bytes(5, &packed)], rest.to_vec()]
        .concat()
        .concat()
}

fn collective(id: u64, comm_type: u64, size: u64, after: &[u64], group: &str) -> Vec<u8> {
    let mut rest = vec![attribute("comm_type", 9, comm_type), attribute("comm_size", 13, size)];
    if !group.is_empty() {
        rest.push(word("pg_name", group));
    }
    node(id, COLLECTIVE, after, &rest)
}

fn trace(nodes: &[Vec<u8>]) -> Vec<u8> {
    let about = bytes(1, b"0.0.4");
    let messages = [vec![about], nodes.to_vec()].concat();
    messages.iter().flat_map(|message| [varint(message.len() as u64), message.clone()].concat()).collect()
}

fn read_all(files: &[(&str, Vec<u8>)], options: &Options) -> Result<Read, ReadError> {
    let file = |(name, content): &(&str, Vec<u8>)| WorkloadFile {
        name: (*name).to_owned(),
        content: Box::new(std::io::Cursor::new(content.clone())),
    };
    crate::read::read(files.iter().map(file).collect(), options)
}

#[test]
fn nodes_out_of_order_wait_for_those_that_are_there() {
    let rank = |micros: u64| {
        trace(&[
            collective(9, 2, 100, &[5, 77], ""),
            node(5, COMPUTE, &[3], &[number(7, micros), attribute("is_cpu_op", 27, 0)]),
            // An operation of the processor passes on what it waits for.
            node(3, COMPUTE, &[1], &[number(7, 1_000), attribute("is_cpu_op", 7, 1)]),
            node(1, COMPUTE, &[], &[number(7, 2)]),
            node(4, COLLECTIVE, &[], &[]),
        ])
    };
    let found = read_all(&[("w.0.et", rank(5)), ("w.1.et", rank(7))], &Options::default()).unwrap();
    assert_eq!(found.program.computation(), [Nanos(7_000), Nanos(9_000)]);
    let last = found.program.ops().last().unwrap();
    let OpWork::Collective(one) = &last.work else { panic!("{last:?}") };
    assert_eq!((one.kind, one.bytes), (CollectiveKind::AllGather, Bytes(200)), "the output is of both");
    assert!(found.notes.iter().any(|note| note.text == "2 edges to nodes that are not there"));
}

#[test]
fn nodes_without_operations_pass_on_one_that_stands_for_all_before() {
    let many = 40;
    let computes: Vec<u64> = (0..many).collect();
    let compute = |&id: &u64| node(id, COMPUTE, &[], &[number(7, 1)]);
    let mut nodes: Vec<Vec<u8>> = computes.iter().map(compute).collect();
    // One of the processor that waits for all, many that wait for it, and a collective behind each.
    nodes.push(node(100, COMPUTE, &computes, &[attribute("is_cpu_op", 27, 1)]));
    for nth in 0..many {
        nodes.push(node(200 + nth, COMPUTE, &[100], &[attribute("is_cpu_op", 27, 1)]));
        nodes.push(collective(300 + nth, 0, 8, &[200 + nth], ""));
    }
    let program = read_all(&[("w.0.et", trace(&nodes))], &Options::default()).unwrap().program;
    let collectives = || program.ops().iter().filter(|op| matches!(op.work, OpWork::Collective(_)));
    assert_eq!(collectives().count() as u64, many);
    assert!(collectives().all(|op| op.after.len() == 1), "{:?}", program.ops());
    let between = &program.ops()[collectives().next().unwrap().after[0].index()];
    assert_eq!(between.work, OpWork::Compute { rank: 0, duration: Nanos::ZERO });
    assert_eq!(between.after.len() as u64, many);
}

#[test]
fn more_nodes_than_are_held_are_refused_as_they_are_read() {
    let content =
        trace(&[node(1, COMPUTE, &[], &[]), node(2, COMPUTE, &[], &[]), node(3, COMPUTE, &[], &[])]);
    assert_eq!(messages::nodes("w.0.et", &content[..], 1 << 23).unwrap().len(), 3);
    let refused = messages::nodes("w.0.et", &content[..], 1 << 24).unwrap_err();
    let too_many = ReadErrorKind::Program(ProgramError::TooMany { ranks: 1 << 24, each: 3, most: 1 << 25 });
    assert_eq!(refused.kind, too_many, "{refused}");
}

#[test]
fn groups_come_from_the_file_beside_and_one_rank_may_stand_for_all() {
    let text = trace(&[collective(1, 0, 8, &[], "tp"), collective(2, 7, 8, &[1], "dp")]);
    let groups = br#"{"tp": [0, 1], "dp": [0, 2]}"#.to_vec();
    let options = Options { ranks: Some(4), one_for_all: true, ..Options::default() };
    let program = read_all(&[("w.0.et", text.clone()), ("w.json", groups)], &options).unwrap().program;
    let members: Vec<_> = program.groups().iter().map(|group| group.members.clone()).collect();
    assert_eq!(members, [[0, 1], [0, 2], [1, 3], [2, 3]]);
    let missing = read_all(&[("w.0.et", text)], &Options { one_for_all: true, ranks: Some(4), ..options });
    assert!(missing.unwrap_err().to_string().contains("group \"tp\" of node 1 is nowhere"));
}

#[test]
fn sends_meet_receives() {
    let end = |id, kind, name, other| {
        node(id, kind, &[], &[attribute(name, 7, other), attribute("comm_size", 9, 64)])
    };
    let files = [
        ("w.0.et", trace(&[end(1, SEND, "comm_dst", 1), end(2, RECEIVE, "comm_src", 1)])),
        ("w.1.et", trace(&[end(1, RECEIVE, "comm_src", 0), end(2, SEND, "comm_dst", 0)])),
    ];
    let program = read_all(&files, &Options::default()).unwrap().program;
    let transfer = |from, to| OpWork::Transfer { from, to, bytes: Bytes(64) };
    let works: Vec<_> = program.ops().iter().map(|op| op.work.clone()).collect();
    assert_eq!(works, [transfer(0, 1), transfer(1, 0)]);
    let alone = [files[0].clone(), ("w.1.et", trace(&[end(1, RECEIVE, "comm_src", 0)]))];
    let refused = read_all(&alone, &Options::default()).unwrap_err().to_string();
    assert!(refused.contains("a transfer from rank 1 to rank 0 with tag 0 has one end"), "{refused}");
}

#[test]
fn what_is_wrong_is_told_with_its_file_and_place() {
    let said = |files: &[(&str, Vec<u8>)]| read_all(files, &Options::default()).unwrap_err().to_string();
    let good = trace(&[collective(1, 0, 8, &[], "")]);
    let cut = said(&[("w.0.et", good[..good.len() - 3].to_vec())]);
    assert!(cut.starts_with("w.0.et: byte 8: a message of") && cut.contains("cut off"), "{cut}");
    assert!(said(&[("w.0.et", vec![0, 0x80])]).contains("byte 1: a length is cut off"));
    assert!(
        said(&[("w.0.et", [vec![0, 0xff, 0xff], vec![0xff; 5], vec![1]].concat())])
            .contains("is said to have")
    );
    assert!(said(&[("w.0.et", trace(&[vec![0x0b]]))]).contains("wire type 3"));
    let cycle = trace(&[node(1, COMPUTE, &[2], &[]), node(2, COMPUTE, &[1], &[])]);
    assert!(said(&[("w.0.et", cycle)]).contains("node 1 (node 1) waits for itself"));
    let twice = trace(&[node(1, COMPUTE, &[], &[]), node(1, COMPUTE, &[], &[])]);
    assert!(said(&[("w.0.et", twice)]).contains("node 1 is there twice"));
    assert!(
        said(&[("w.0.et", trace(&[collective(1, 3, 8, &[], "")]))]).contains("comm_type \"3\" is not known")
    );
    assert!(
        said(&[("w.0.et", good.clone()), ("w.2.et", good.clone())])
            .contains("one of the ranks 0 to 1 is not there")
    );
    let other = trace(&[collective(1, 0, 9, &[], "")]);
    assert!(said(&[("w.0.et", good.clone()), ("w.1.et", other)]).contains("at rank 1 is a all_reduce of 8B"));
    assert!(
        said(&[("w.0.et", good), ("w.1.et", trace(&[]))]).contains("1 of 2 ranks come to the all_reduce")
    );
}

#[test]
fn a_real_trace_has_the_collectives_that_another_reader_found() {
    let Some(files) = crate::real::archived("ai/chakra/stage_dp4_tp2.tgz") else { return };
    let found = crate::real::read_files(files, &Options::default()).unwrap();
    assert_eq!(found.program.ranks(), 8);
    let mut sums: BTreeMap<(CollectiveKind, u64), (usize, u64)> = BTreeMap::new();
    for (index, op) in found.program.ops().iter().enumerate() {
        let OpWork::Collective(one) = &op.work else { continue };
        if found.program.has_rank(OpId(index as u32), 0) {
            let members = found.program.group(one.group).members.len() as u64;
            let sum = sums.entry((one.kind, members)).or_default();
            *sum = (sum.0 + 1, sum.1 + one.bytes.0);
        }
    }
    let gathers: Vec<_> = sums.iter().filter(|((kind, _), _)| *kind == CollectiveKind::AllGather).collect();
    // 201,326,592 bytes of inputs at a rank.
    let (&(_, members), &(count, bytes)) = gathers[0];
    assert_eq!((gathers.len(), count, bytes / members), (1, 24, 201_326_592), "{sums:?}");
    let reduced: u64 =
        sums.iter().filter(|((kind, _), _)| *kind == CollectiveKind::AllReduce).map(|(_, sum)| sum.1).sum();
    assert_eq!(reduced, 631_242_752 + 262_144_000, "{sums:?}");
}

#[test]
fn a_real_trace_full_of_holes_is_read_and_its_holes_are_counted() {
    let Some(mut files) = crate::real::archived("ai/chakra/feeder_tests_trace.tar.gz") else { return };
    files.retain(|(name, _)| name.ends_with("chakra.0.et"));
    let options = Options { ranks: Some(2), one_for_all: true, ..Options::default() };
    let found = crate::real::read_files(files, &options).unwrap();
    let mut sums: BTreeMap<CollectiveKind, (usize, u64)> = BTreeMap::new();
    for op in found.program.ops() {
        let OpWork::Collective(one) = &op.work else { continue };
        let sum = sums.entry(one.kind).or_default();
        *sum = (sum.0 + 1, sum.1 + one.bytes.0);
    }
    // What another reader found: ResNet-50 in float32, and its statistics.
    assert_eq!(sums[&CollectiveKind::AllReduce], (5, 102_228_128));
    assert_eq!(sums[&CollectiveKind::Broadcast], (2, 212_904));
    let said: Vec<&str> = found.notes.iter().map(|note| note.text.as_str()).collect();
    assert!(said.contains(&"3664 nodes, 7 of them collectives with kind and bytes"), "{said:?}");
    assert!(said.contains(&"1277 edges to nodes that are not there"), "{said:?}");
    // An operation stands behind its own kernel there.
    assert!(
        said.iter().any(|text| text.ends_with("edges of control, since some of them go in circles")),
        "{said:?}"
    );
}
