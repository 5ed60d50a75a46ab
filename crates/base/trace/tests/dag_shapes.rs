//! Shapes of DAGs: what is read, what is refused, and the workloads that come of them.

use std::collections::BTreeSet;

use cavalcade_model::{Bytes, Compute, Nanos, Work, Workload};
use cavalcade_trace::generate::Dag;
use cavalcade_trace::shapes::{DagNode, read_shapes};
use proptest::prelude::*;

const EXCHANGES: &str =
    r#"{"q2":[[9,"shuffle",6,[4,1],700],[1,"broadcast",null,[],null],[4,"reused-shuffle",8,[],null]]}"#;
const STAGES: &str = r#"{"q1":[{"tasks":9,"mean_ms":1.5,"children":[2]},{"tasks":1,"mean_ms":0,"children":[2]},{"tasks":5,"mean_ms":2,"children":[]}]}"#;

#[test]
fn exchanges_become_stages_and_the_last_stage_is_added() {
    let shapes = read_shapes(EXCHANGES.as_bytes(), "t").unwrap();
    assert_eq!((shapes.len(), shapes[0].name.as_str()), (1, "q2"));
    let expected = [
        DagNode { broadcast: true, ..DagNode::default() },
        DagNode::default(),
        DagNode { reads: vec![0, 1], tasks: Some(8), output: Some(Bytes(700)), ..DagNode::default() },
        DagNode { reads: vec![2], tasks: Some(6), ..DagNode::default() },
    ];
    assert_eq!(shapes[0].nodes, expected);
}

#[test]
fn stages_become_transfers_and_computations() {
    let shapes = read_shapes(STAGES.as_bytes(), "t").unwrap();
    let dag = Dag { tasks: 1, ports: 4, width: 2, slots: 2, load: 0.0, ..Dag::default() };
    let workload = dag.generate_from(&shapes, 1).unwrap();
    let task = &workload.tasks()[0];
    assert_eq!(task.name, "1-q1");
    let kinds: Vec<Option<u64>> = task
        .stages
        .iter()
        .map(|stage| match stage.work {
            Work::Compute(Compute { duration, .. }) => Some(duration.0),
            Work::Transfer(_) => None,
        })
        .collect();
    // Nine tasks on two hosts of two slots take three rounds of 1.5 ms; five take two of 2 ms.
    assert_eq!(kinds, [Some(4_500_000), Some(0), None, None, Some(4_000_000)]);
    let after = |stage: usize| task.stages[stage].starts_after.iter().map(|on| on.0).collect::<Vec<_>>();
    assert_eq!([0, 1, 2, 3, 4].map(after), [vec![], vec![], vec![0], vec![1], vec![2, 3]]);
    let widths: Vec<usize> = workload.coflows().map(|coflow| coflow.width()).collect();
    assert_eq!(widths, [4, 2]);
}

#[test]
fn times_of_tasks_are_exact_to_the_nanosecond() {
    // As floating-point numbers these are a nanosecond less.
    for (millis, nanos) in [("1.001", 1_001_000), ("8.2", 8_200_000), ("1.005", 1_005_000)] {
        let text = format!(r#"{{"q1":[{{"tasks":1,"mean_ms":{millis},"children":[]}}]}}"#);
        let shapes = read_shapes(text.as_bytes(), "t").unwrap();
        assert_eq!(shapes[0].nodes[0].task_time, Some(Nanos(nanos)), "{millis}");
    }
}

#[test]
fn given_sizes_are_kept_and_a_broadcast_goes_in_whole_to_every_reader() {
    let text = r#"{"a":[[0,"broadcast",null,[],1000],[1,"shuffle",3,[],3000],[2,"shuffle",1,[0,1],1]]}"#;
    let shapes = read_shapes(text.as_bytes(), "t").unwrap();
    let dag = Dag { tasks: 1, width: 3, ..Dag::default() };
    let workload = dag.generate_from(&shapes, 3).unwrap();
    let coflows: Vec<_> = workload.coflows().collect();
    let sources: BTreeSet<_> = coflows[0].flows.iter().map(|flow| flow.src).collect();
    assert_eq!((sources.len(), coflows[0].width()), (1, 3));
    assert!(coflows[0].flows.iter().all(|flow| flow.size == Bytes(1000)));
    assert!(coflows[1].size() <= Bytes(3000) && coflows[1].size() > Bytes(2990));
}

#[test]
fn shapes_that_cannot_be_are_refused_with_what_is_wrong() {
    let refused = |text: &str| read_shapes(text.as_bytes(), "t").unwrap_err().to_string();
    for (text, part) in [
        ("", "t:1:1: EOF"),
        ("{}", "t: the trace is empty"),
        (r#"{"a":[[0,"magic",null,[],null]]}"#, "t:1:16: unknown variant `magic`"),
        (r#"{"a":[[0,"shuffle",null,[7],null]]}"#, "node 0 names node 7, which is not there"),
        (r#"{"a":[[0,"shuffle",null,[],null],[0,"shuffle",null,[],null]]}"#, "node 0 is given twice"),
        (r#"{"a":[[0,"shuffle",null,[1],null],[1,"shuffle",null,[0],null]]}"#, "in a circle"),
        (r#"{"a":[{"tasks":0,"mean_ms":1,"children":[]}]}"#, "has 0 tasks"),
        (r#"{"a":[{"tasks":1,"mean_ms":-1,"children":[]}]}"#, "-1 ms"),
        (r#"{"a":[{"tasks":1,"mean_ms":1,"children":[3]}]}"#, "node 0 names node 3"),
        (r#"{"a":[{"tasks":1,"mean_ms":1,"children":[0]}]}"#, "in a circle"),
        (r#"{"a":[{"tasks":1,"mean_ms":1,"children":[]"#, "EOF"),
    ] {
        let error = refused(text);
        assert!(error.starts_with("t:") && error.contains(part), "{text}: {error}");
    }
    let alone = read_shapes(br#"{"a":[{"tasks":1,"mean_ms":1,"children":[]}]}"#, "t").unwrap();
    let error = Dag::default().generate_from(&alone, 1).unwrap_err();
    assert!(error.to_string().contains("no shape has a stage that reads another"), "{error}");
}

/// Seconds that a task computes at least, whatever the network: the longest chain of its
/// computations.
fn longest_chain(workload: &Workload, task: usize) -> Nanos {
    let mut ends: Vec<Nanos> = Vec::new();
    for stage in &workload.tasks()[task].stages {
        let start = stage.starts_after.iter().map(|on| ends[on.index()]).max().unwrap_or_default();
        let time = match stage.work {
            Work::Compute(Compute { duration, .. }) => duration,
            Work::Transfer(_) => Nanos::ZERO,
        };
        ends.push(start + time);
    }
    ends.into_iter().max().unwrap_or_default()
}

#[test]
fn the_published_shapes_are_read_and_make_workloads() {
    for (name, count, timed) in [
        ("tpcds_aqe_dag.json", 92, false),
        ("decima_tpch/tpch_2g.json", 22, true),
        ("decima_tpch/tpch_100g.json", 22, true),
    ] {
        let Some(bytes) = cavalcade_testing::public_data(&format!("dag/{name}")) else { return };
        let shapes = read_shapes(&bytes, name).unwrap();
        assert_eq!(shapes.len(), count, "{name}");
        let dag = Dag { tasks: count as u32, ports: 50, ..Dag::default() };
        let workload = dag.generate_from(&shapes, 1).unwrap();
        let edges: usize = shapes.iter().flat_map(|shape| &shape.nodes).map(|node| node.reads.len()).sum();
        assert_eq!(
            (workload.tasks().len(), workload.coflow_count()),
            (count, edges),
            "{name}: every shape once"
        );
        let computing = (0..count).filter(|&task| longest_chain(&workload, task) > Nanos::ZERO).count();
        assert_eq!(computing, if timed { count } else { 0 }, "{name}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_shapes_or_refused(at in 0usize..200, piece in "[0-9\\[\\]{},:\"a-z-]{0,4}", which in any::<bool>()) {
        let text = if which { EXCHANGES } else { STAGES };
        let at = at % text.len();
        for text in [format!("{}{piece}{}", &text[..at], &text[at..]), format!("{}{piece}", &text[..at])] {
            if let Ok(shapes) = read_shapes(text.as_bytes(), "t") {
                // Whatever is read can be drawn from: inputs come first, and nothing is out of
                // range.
                let _ = Dag { tasks: 2, ..Dag::default() }.generate_from(&shapes, 1);
            }
        }
    }
}
