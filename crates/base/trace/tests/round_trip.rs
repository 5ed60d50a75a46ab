//! What is written is read back equal, in every format that can carry it; and what cannot be
//! carried is refused.

use cavalcade_model::{
    Bytes, Coflow, CoflowId, Compute, Flow, Host, Instant, Iterations, JobId, Nanos, PortId, Stage,
    StageIndex, Task, TaskClass, TaskId, Work, Workload, WorkloadBuilder,
};
use cavalcade_trace::{Format, ReadOptions, read, write};
use proptest::prelude::*;

const PORTS: u32 = 9;

fn round_trip(workload: &Workload, format: Format) -> Workload {
    let mut text = Vec::new();
    write(workload, format, &mut text).unwrap_or_else(|error| panic!("{error}"));
    let options = ReadOptions { format: Some(format), ports: Some(workload.ports()), ..Default::default() };
    read(&text, "written", &options).unwrap_or_else(|error| panic!("{error}")).0
}

fn size() -> impl Strategy<Value = Bytes> {
    prop_oneof![1..100u64, Just(1 << 20), 1..1u64 << 50].prop_map(Bytes)
}

fn flow(waves: bool) -> impl Strategy<Value = Flow> {
    let wave = if waves { 0..5u64 } else { 0..1 };
    (0..PORTS, 0..PORTS, size(), wave).prop_map(|(src, dst, size, wave)| Flow {
        src: PortId(src),
        dst: PortId(dst),
        size,
        wave: Nanos(wave),
    })
}

fn arrival() -> impl Strategy<Value = Instant> {
    prop_oneof![0..3u64, (0..5u64).prop_map(|ms| ms * 1_000_000), 0..1u64 << 50].prop_map(Instant)
}

/// Coflows of any flows, named by their order and something behind it.
fn coflows(waves: bool) -> impl Strategy<Value = Workload> {
    let coflow = (arrival(), "[a-zé:#.]{0,3}", proptest::collection::vec(flow(waves), 1..6));
    proptest::collection::vec(coflow, 1..8).prop_map(|coflows| {
        let mut builder = WorkloadBuilder::new(PORTS);
        for (index, (arrival, name, mut flows)) in coflows.into_iter().enumerate() {
            // The first wave starts with its coflow.
            let first = flows.iter().map(|flow| flow.wave).min().unwrap_or_default();
            flows.iter_mut().for_each(|flow| flow.wave -= first);
            builder.coflow(format!("{index}{name}"), arrival, flows);
        }
        builder.build().expect("a legal workload")
    })
}

/// Coflows of mappers and reducers with equal shares.
fn shuffles() -> impl Strategy<Value = Workload> {
    let ports = || proptest::sample::subsequence((0..PORTS).collect::<Vec<_>>(), 1..5).prop_shuffle();
    let coflow = (arrival(), ports(), ports(), proptest::collection::vec(size(), 5));
    proptest::collection::vec(coflow, 1..8).prop_map(|coflows| {
        let mut builder = WorkloadBuilder::new(PORTS);
        for (index, (arrival, mappers, reducers, sizes)) in coflows.into_iter().enumerate() {
            let flows = reducers.iter().zip(sizes).flat_map(|(&dst, size)| {
                let flow = move |&src| Flow { src: PortId(src), dst: PortId(dst), size, wave: Nanos::ZERO };
                mappers.iter().map(flow).collect::<Vec<_>>()
            });
            builder.coflow(index.to_string(), arrival, flows.collect());
        }
        builder.build().expect("a legal workload")
    })
}

fn stage(index: usize) -> impl Strategy<Value = (Stage, Option<Coflow>)> {
    let earlier = || {
        proptest::collection::vec(0..index.max(1), 0..3).prop_map(move |list| {
            list.into_iter().filter(|&on| on < index).map(StageIndex::from_index).collect()
        })
    };
    let work = prop_oneof![
        2 => proptest::collection::vec(flow(true), 1..4).prop_map(|flows| (Work::Transfer(CoflowId::default()), Some(Coflow { flows }))),
        1 => (0..100u64, proptest::option::of(0..PORTS)).prop_map(|(nanos, host)| {
            (Work::Compute(Compute { duration: Nanos(nanos), host: host.map(PortId) }), None)
        }),
    ];
    (earlier(), earlier(), work).prop_map(|(starts_after, finishes_after, (work, coflow))| {
        (Stage { starts_after, finishes_after, work }, coflow)
    })
}

/// Tasks with all that the model knows.
fn tasks() -> impl Strategy<Value = Workload> {
    let stages = (stage(0), stage(1), stage(2), 1usize..4);
    let task = (any::<String>(), arrival(), proptest::option::of(0..9u64), any::<bool>(), 1..4u32, stages);
    let hosts = proptest::option::of((1..9u32, 1..=100u32));
    // Names of ports and coflows, each with a number behind it that makes it one of its own; some
    // are none.
    let names = proptest::collection::vec(proptest::option::of(any::<String>()), 0..=PORTS as usize);
    let names = (names, any::<bool>());
    (proptest::collection::vec(task, 1..6), hosts, names).prop_map(
        |(tasks, hosts, (names, are_coflows_named))| {
            let mut builder = WorkloadBuilder::new(PORTS);
            let host = |(slots, speed_percent)| vec![Host { slots, speed_percent }; PORTS as usize];
            builder.hosts(hosts.map_or(Vec::new(), host));
            let unique = |(place, name): (usize, Option<String>)| {
                name.map_or(String::new(), |name| format!("{name}{place}"))
            };
            builder.port_names(names.iter().cloned().enumerate().map(unique).collect());
            for (index, (name, arrival, deadline, background, weight, (a, b, c, count))) in
                tasks.into_iter().enumerate()
            {
                let (stages, transfers): (Vec<_>, Vec<_>) = [a, b, c].into_iter().take(count).unzip();
                let task = Task {
                    name: format!("{name}{index}"),
                    job: (weight > 1).then_some(JobId(weight.into())),
                    arrival,
                    deadline: deadline.map(Nanos),
                    class: if background { TaskClass::Background } else { TaskClass::Online },
                    weight,
                    stages,
                };
                let transfers: Vec<Coflow> = transfers.into_iter().flatten().collect();
                let coflow = |place: usize| format!("coflow {place} of {index}");
                let named = (0..transfers.len()).map(coflow).collect();
                builder.push(task, transfers);
                if are_coflows_named {
                    builder.coflow_names(named);
                }
            }
            builder.build().expect("a legal workload")
        },
    )
}

proptest! {
    #[test]
    fn coflow_benchmark_round_trips(workload in shuffles()) {
        prop_assert_eq!(round_trip(&workload, Format::COFLOW_BENCHMARK), workload);
    }

    #[test]
    fn sincronia_round_trips(workload in coflows(false)) {
        prop_assert_eq!(round_trip(&workload, Format::SINCRONIA), workload);
    }

    #[test]
    fn flow_lists_round_trip(workload in coflows(true)) {
        prop_assert_eq!(round_trip(&workload, Format::FLOW_LIST), workload);
    }

    #[test]
    fn the_native_format_round_trips(workload in tasks()) {
        prop_assert_eq!(round_trip(&workload, Format::NATIVE), workload);
    }
}

fn refusal(change: impl FnOnce(&mut Task, &mut Vec<Flow>), format: Format) -> String {
    let stage =
        Stage { starts_after: vec![], finishes_after: vec![], work: Work::Transfer(CoflowId::default()) };
    let mut task = Task {
        name: "7".to_owned(),
        job: None,
        arrival: Instant(5),
        deadline: None,
        class: TaskClass::Online,
        weight: 1,
        stages: vec![stage],
    };
    let flow = |src, dst| Flow { src: PortId(src), dst: PortId(dst), size: Bytes(10), wave: Nanos::ZERO };
    let mut flows = vec![flow(0, 2), flow(1, 2), flow(0, 3), flow(1, 3)];
    change(&mut task, &mut flows);
    let mut builder = WorkloadBuilder::new(PORTS);
    builder.push(task, vec![Coflow { flows }]);
    let mut text = Vec::new();
    let error = write(&builder.build().expect("a legal workload"), format, &mut text).expect_err("refused");
    assert!(text.is_empty(), "something was written before the refusal");
    error.to_string()
}

#[test]
fn what_a_format_cannot_carry_is_refused_by_name() {
    let cases = [
        (
            refusal(|task, _| task.name = "a b".into(), Format::FLOW_LIST),
            "task a b: the flows format cannot carry a name that is empty, has blank space or control characters in it or begins with `#`: write it as native",
        ),
        (
            refusal(|task, _| task.deadline = Some(Nanos(3)), Format::SINCRONIA),
            "task 7: the sincronia format cannot carry a deadline: write it as native",
        ),
        (
            refusal(|task, _| task.class = TaskClass::Background, Format::SINCRONIA),
            "task 7: the sincronia format cannot carry a background task: write it as native",
        ),
        (
            refusal(|task, _| task.weight = 2, Format::COFLOW_BENCHMARK),
            "task 7: the coflow-benchmark format cannot carry a weight: write it as native",
        ),
        (
            refusal(
                |task, _| {
                    task.stages.push(Stage {
                        starts_after: vec![StageIndex(0)],
                        finishes_after: vec![],
                        work: Work::Compute(Compute::lasting(Nanos(1))),
                    })
                },
                Format::COFLOW_BENCHMARK,
            ),
            "task 7: the coflow-benchmark format cannot carry a task of several stages or with computation: write it as native",
        ),
        (
            refusal(|_, flows| flows[0].wave = Nanos(1000), Format::SINCRONIA),
            "task 7: the sincronia format cannot carry a flow that starts 1us after its coflow: write it as flows",
        ),
        (
            refusal(|_, flows| flows[0].wave = Nanos(1000), Format::COFLOW_BENCHMARK),
            "task 7: the coflow-benchmark format cannot carry a flow that starts 1us after its coflow: write it as flows",
        ),
        (
            refusal(|_, flows| flows.iter_mut().for_each(|flow| flow.wave = Nanos(2)), Format::FLOW_LIST),
            "task 7: the flows format cannot carry a coflow whose first flow starts 2ns after its task: write it as native",
        ),
        (
            refusal(|_, flows| flows[0].size = Bytes(11), Format::COFLOW_BENCHMARK),
            "task 7: the coflow-benchmark format cannot carry flows of different sizes into port 2: write it as sincronia",
        ),
        (
            refusal(
                |_, flows| {
                    flows.pop();
                },
                Format::COFLOW_BENCHMARK,
            ),
            "task 7: the coflow-benchmark format cannot carry flows that are not from every mapper to every reducer: write it as sincronia",
        ),
        (
            refusal(|_, flows| flows.push(flows[0]), Format::COFLOW_BENCHMARK),
            "task 7: the coflow-benchmark format cannot carry several flows from port 0 to port 2: write it as sincronia",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

#[test]
fn iterations_are_written_and_read_back_natively_and_refused_elsewhere() {
    let flow = Flow { src: PortId(0), dst: PortId(1), size: Bytes(8), wave: Nanos::ZERO };
    let mut builder = WorkloadBuilder::new(2);
    let iterations = Iterations { gpus: 8, compute: Nanos(5), of_coflows: vec![3] };
    builder.coflow("trains", Instant::ZERO, vec![flow]).iterations(iterations.clone());
    builder.coflow("does not", Instant::ZERO, vec![flow]);
    let workload = builder.build().unwrap();
    let back = round_trip(&workload, Format::NATIVE);
    assert_eq!(back, workload);
    assert_eq!([0, 1].map(|task| back.iterations(TaskId(task))), [Some(&iterations), None]);
    let error = write(&workload, Format::FLOW_LIST, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("iterations"), "{error}");
    let text = r#"{"cavalcade_trace":1,"ports":2}
{"name":"a","arrival_ns":0,"iterations":{"gpus":8,"compute_ns":5,"of_coflows":[0,1]},"stages":[{"flows":[[0,1,8]]}]}"#;
    let refused = read(text.as_bytes(), "t", &ReadOptions::default()).unwrap_err().to_string();
    assert!(refused.contains("t:2: ") && refused.contains("given for 2 coflows, and it has 1"), "{refused}");
}

#[test]
fn waves_in_turn_are_written_and_read_back_natively_and_refused_elsewhere() {
    let wave = |wave| Flow { src: PortId(0), dst: PortId(1), size: Bytes(8), wave: Nanos(wave) };
    let mut builder = WorkloadBuilder::new(2);
    builder.coflow("turns", Instant::ZERO, vec![wave(0), wave(1)]).waves_in_turn(true);
    builder.coflow("times", Instant::ZERO, vec![wave(0), wave(1)]);
    let workload = builder.build().unwrap();
    let back = round_trip(&workload, Format::NATIVE);
    assert_eq!(back, workload);
    assert_eq!([0, 1].map(|task| back.waves_in_turn(TaskId(task))), [true, false]);
    assert_eq!(workload.clone().into_builder().build().unwrap(), workload);
    let error = write(&workload, Format::FLOW_LIST, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("waves that come in turn"), "{error}");
}
