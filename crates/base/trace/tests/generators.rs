//! Generators: what they make, that it never changes, and how they are asked for.

use cavalcade_model::{Bytes, CoflowRef, Instant, Nanos, TaskClass, Work, Workload};
use cavalcade_trace::generate::{Facebook, Failures, Tasks, with_failures};
use cavalcade_trace::{Format, Generator, generate, write};

fn made(text: &str, seed: u64) -> Workload {
    let generator: Generator = text.parse().unwrap_or_else(|error| panic!("{error}"));
    generate(&generator, seed).unwrap_or_else(|error| panic!("{error}"))
}

/// The beginning of what `text` makes, and a checksum (FNV-1a) of all of it.
fn golden(text: &str, format: Format, characters: usize) -> (String, u64) {
    let mut written = Vec::new();
    write(&made(text, 1), format, &mut written).expect("the format carries it");
    let sum = written.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let start = String::from_utf8(written).expect("text").chars().take(characters).collect();
    (start, sum)
}

#[test]
fn what_a_seed_makes_never_changes() {
    let found = [
        golden("facebook:coflows=20,ports=20", Format::COFLOW_BENCHMARK, 90),
        golden("classes:coflows=8,ports=10", Format::COFLOW_BENCHMARK, 90),
        golden("uniform:coflows=8,ports=10", Format::SINCRONIA, 90),
        golden("fixed:coflows=8,ports=10", Format::SINCRONIA, 90),
        golden("tasks:tasks=3,flows=3,load=0.5", Format::FLOW_LIST, 90),
        golden("poisson:flows=5", Format::FLOW_LIST, 90),
        golden("dag:tasks=4,width=3", Format::NATIVE, 150),
        golden("aggregate:tasks=2,racks=2,workers=2,compute_ms=1,background=1", Format::NATIVE, 120),
        golden("retrieval:tasks=3", Format::FLOW_LIST, 60),
        golden("batch:jobs=2,ports=6,mappers=2,reducers=2,compute_ms=1,slots=1", Format::NATIVE, 120),
        golden("mixed:flows=3,ports=2", Format::NATIVE, 150),
    ];
    let expected = [
        (
            "20 20\n1 0 18 17 19 10 3 15 18 9 6 7 16 8 0 11 14 12 4 1 13 1 4:18.0\n2 406 20 15 17 7 2 12 ",
            2_420_462_440_640_188_928,
        ),
        (
            "10 8\n1 5918 1 3 1 8:7.0\n2 7089 8 2 0 3 8 5 4 7 9 6 4:3376.0 0:1432.0 8:3872.0 9:3960.0 6:3",
            12_185_085_670_286_219_273,
        ),
        (
            "10 8\n1 783 1 1 1 3 8 109.51829242706298828125\n2 938 48 8 6 2 4 10.2451629638671875 0 4 10.",
            16_248_121_839_497_333_996,
        ),
        (
            "10 8\n1 131 1 1 1 3 8 95.367431640625\n2 157 48 8 6 2 4 1.98682117462158203125 0 4 1.9868211",
            16_035_625_078_856_007_358,
        ),
        (
            "0 37 0 35520 1779289 1\n1 40 0 9019 1779289 1\n2 22 0 34653 1779289 1\n3 16 0 38706 2131186 2",
            18_353_453_519_810_866_835,
        ),
        (
            "0 14 15 554494 594172\n1 8 5 110699 711684\n2 10 15 478519 1267856\n3 2 12 1559691 1412958\n4 ",
            12_197_809_501_946_345_806,
        ),
        (
            "{\"cavalcade_trace\":1,\"ports\":40,\"tasks\":4}\n{\"name\":\"1-iteration\",\"arrival_ns\":5025960386,\"stages\":[{\"flows\":[[36,21,512590575],[39,21,512590575],[36,1",
            16_656_597_387_202_870_813,
        ),
        (
            "{\"cavalcade_trace\":1,\"ports\":7,\"tasks\":3}\n{\"name\":\"background-1\",\"arrival_ns\":847828,\"class\":\"background\",\"stages\":[{\"fl",
            15_457_777_092_746_464_323,
        ),
        ("0 19 3 266667 5271975 1\n1 12 3 266667 5271975 1\n2 10 3 26666", 4_193_140_330_909_726_705),
        (
            "{\"cavalcade_trace\":1,\"ports\":6,\"hosts\":[[1,100],[1,100],[1,100],[1,100],[1,100],[1,100]],\"tasks\":2}\n{\"name\":\"1\",\"arrival",
            11_773_699_284_764_348_051,
        ),
        (
            "{\"cavalcade_trace\":1,\"ports\":2,\"tasks\":8}\n{\"name\":\"d1\",\"arrival_ns\":4720630,\"deadline_ns\":2118618,\"stages\":[{\"flows\":[[1,0,69822]]}]}\n{\"name\":\"d2\",\"ar",
            2_931_637_786_872_984_602,
        ),
    ];
    assert_eq!(found.each_ref().map(|(text, sum)| (text.as_str(), *sum)), expected);
}

#[test]
fn equal_seeds_make_equal_workloads_and_others_do_not() {
    for info in Generator::catalogue() {
        assert_eq!(made(info.name, 5), made(info.name, 5), "{}", info.name);
        assert_ne!(made(info.name, 5), made(info.name, 6), "{}", info.name);
    }
}

#[test]
fn the_load_moves_arrivals_and_nothing_else() {
    for name in ["facebook", "classes", "uniform", "fixed"] {
        let slow = made(&format!("{name}:load=0.5"), 1);
        let fast = made(&format!("{name}:load=1"), 1);
        assert_eq!(slow.flows(), fast.flows(), "{name}");
        let last = |workload: &Workload| workload.tasks().last().unwrap().arrival.0;
        assert!((last(&slow) as f64 / last(&fast) as f64 - 2.0).abs() < 1e-3, "{name}");
    }
}

/// Short or long by 5 MB, narrow or wide by 50 flows: the class of a coflow as in Varys and Aalo.
fn class(coflow: CoflowRef<'_>) -> usize {
    usize::from(coflow.length() >= Bytes(5 << 20)) + 2 * usize::from(coflow.width() > 50)
}

#[test]
fn facebook_has_the_classes_of_the_trace() {
    let bytes_expected = [0.00009, 0.00112, 0.0081, 0.9907];
    for seed in 1..=10 {
        let workload = made("facebook", seed);
        assert_eq!((workload.ports(), workload.coflow_count()), (150, 526));
        let mut counts = [0; 4];
        let mut bytes = [0.0; 4];
        for coflow in workload.coflows() {
            counts[class(coflow)] += 1;
            bytes[class(coflow)] += coflow.size().as_f64();
        }
        // 58.7, 17.1, 11.2 and 12.9 %.
        assert_eq!(counts, [309, 90, 59, 68], "seed {seed}");
        let total = workload.bytes().as_f64();
        for (class, expected) in bytes_expected.into_iter().enumerate() {
            let ratio = bytes[class] / total / expected;
            assert!((0.4..2.5).contains(&ratio), "seed {seed}, class {class}: {ratio:.2} of the share");
        }
        assert!(bytes[3] / total > 0.98, "seed {seed}");
        // 37.3 TB and 706,397 flows in the trace.
        assert!((0.5..2.0).contains(&(total / 37.26e12)), "seed {seed}: {:.1} TB", total / 1e12);
        let flows = workload.flows().len() as f64 / 706_397.0;
        assert!((0.7..1.4).contains(&flows), "seed {seed}: {flows:.2} of the flows");
    }
}

#[test]
fn facebook_has_the_skew_of_the_trace() {
    let workload = made("facebook", 1);
    // Quartiles of largest over mean reducer among long wide coflows: 1.8, 2.6, 3.1 in the trace.
    let mut ratios: Vec<f64> = workload
        .coflows()
        .filter(|&coflow| class(coflow) == 3)
        .map(|coflow| coflow.length().as_f64() * coflow.width() as f64 / coflow.size().as_f64())
        .collect();
    ratios.sort_by(f64::total_cmp);
    let quartiles = [1, 2, 3].map(|quarter| ratios[quarter * ratios.len() / 4]);
    assert!((1.4..2.5).contains(&quartiles[0]) && (1.8..3.2).contains(&quartiles[1]), "{quartiles:?}");
    assert!((2.3..4.5).contains(&quartiles[2]), "{quartiles:?}");
}

#[test]
fn facebook_loads_its_busiest_port_as_asked() {
    for text in [
        "facebook:load=0.8",
        "facebook:load=0.8,coflows=200,ports=50",
        "facebook:load=0.8,coflows=50,ports=8",
    ] {
        let workload = made(text, 3);
        let mut sent = vec![0u64; workload.ports() as usize * 2];
        for flow in workload.flows() {
            sent[flow.src.index()] += flow.size.0;
            sent[flow.dst.index() + workload.ports() as usize] += flow.size.0;
        }
        let busiest = sent.into_iter().max().unwrap() as f64;
        let span = workload.tasks().last().unwrap().arrival.as_secs_f64();
        assert!((busiest / 125e6 / span - 0.8).abs() < 1e-3, "{text}");
        assert!(
            workload.coflows().filter(|&coflow| class(coflow) >= 2).count() > workload.coflow_count() / 5
        );
    }
}

#[test]
fn classes_follow_their_mix() {
    let workload = made("classes:coflows=200,mix=1/0/0/1,longest=20MiB", 1);
    let short = workload.coflows().filter(|coflow| coflow.width() <= 25).count();
    assert!((100..110).contains(&short), "{short}");
    assert!(workload.flows().iter().all(|flow| (1 << 20..=20 << 20).contains(&flow.size.0)));
    // At load 1, 80 ports of 125 MB/s carry what arrives in the span, to the luck of the last gap.
    let workload = made("classes:coflows=2000", 1);
    let span = workload.tasks().last().unwrap().arrival.as_secs_f64();
    let load = workload.bytes().as_f64() / (80.0 * 125e6) / span;
    assert!((0.9..1.1).contains(&load), "{load}");
}

#[test]
fn fixed_and_uniform_sizes_are_what_they_say() {
    for coflow in made("fixed:size=10MB,ports=20", 1).coflows() {
        assert!(coflow.size().0.abs_diff(10_000_000) <= coflow.width() as u64 / 2);
    }
    let workload = made("uniform:coflows=1000,ports=20,largest=1GB", 1);
    let mean = workload.bytes().as_f64() / 1000.0;
    assert!((mean / 5e8 - 1.0).abs() < 0.1, "{mean}");
    assert!(workload.coflows().all(|coflow| coflow.size() <= Bytes(1_001_000_000)));
}

#[test]
fn tasks_send_different_workers_flows_to_one_port() {
    let workload = made("tasks", 1);
    assert_eq!(workload.tasks().len(), 40);
    for coflow in workload.coflows() {
        assert_eq!((coflow.task.arrival, coflow.width()), (Instant::ZERO, 20));
        let mut workers: Vec<_> = coflow.flows.iter().map(|flow| flow.src).collect();
        workers.sort_unstable();
        workers.dedup();
        assert_eq!(workers.len(), 20);
        assert!(coflow.flows.iter().all(|flow| flow.dst.0 == 0 && flow.src.0 != 0));
        assert!(coflow.flows.iter().all(|flow| (5_000..=40_000).contains(&flow.size.0)));
    }
}

#[test]
fn poisson_meets_its_load() {
    let workload = made("poisson:flows=100000,largest=100MB", 1);
    let span = workload.tasks().last().unwrap().arrival.as_secs_f64();
    let load = workload.bytes().as_f64() / (16.0 * 125e6) / span;
    assert!((0.65..0.75).contains(&load), "{load}");
    assert!(workload.flows().iter().all(|flow| flow.src != flow.dst));
}

#[test]
fn mixed_flows_meet_both_loads_and_deadlines_that_can_be_met() {
    let workload = made("mixed:flows=20000,urgent_load=0.1", 1);
    let span = workload.tasks().last().unwrap().arrival.as_secs_f64();
    let urgent = |flow: &CoflowRef<'_>| flow.task.deadline.is_some();
    let load = |wanted: bool| {
        let flows = workload.coflows().filter(|flow| urgent(flow) == wanted);
        flows.map(|flow| flow.flows[0].size.as_f64()).sum::<f64>() / (16.0 * 125e6) / span
    };
    assert!((0.76..0.84).contains(&load(false)), "{}", load(false));
    assert!((0.095..0.105).contains(&load(true)), "{}", load(true));
    let deadlines: Vec<f64> = workload
        .coflows()
        .filter(urgent)
        .map(|flow| {
            let (size, deadline) = (flow.flows[0].size.as_f64(), flow.task.deadline.unwrap().as_f64());
            assert!((2_000.0..=200_000.0).contains(&size) && flow.task.name.starts_with('d'));
            assert!(deadline + 1.0 >= 1.25 * size * 8.0, "{size} bytes by {deadline} ns at 1 Gbps");
            deadline
        })
        .collect();
    // Exponential of mean 10 ms, but for those that are lifted to what can be met: 1 ms at most.
    let mean = deadlines.iter().sum::<f64>() / deadlines.len() as f64;
    assert!((10.0e6..10.2e6).contains(&mean), "{mean}");
}

#[test]
fn more_deadline_traffic_leaves_the_other_flows_where_they_are() {
    let others = |text: &str| -> Vec<(Instant, Vec<_>)> {
        let workload = made(text, 3);
        let free = workload.coflows().filter(|flow| flow.task.deadline.is_none());
        free.map(|flow| (flow.task.arrival, flow.flows.to_vec())).collect()
    };
    let none = others("mixed:flows=500,urgent_load=0");
    assert_eq!(none.len(), 500);
    assert_eq!(none, others("mixed:flows=500,urgent_load=0.2,deadlines=fixed,deadline=1s,smallest=1B"));
}

#[test]
fn a_generator_prints_as_the_text_that_makes_it() {
    for info in Generator::catalogue() {
        let generator: Generator = info.name.parse().unwrap();
        let text = generator.to_string();
        assert_eq!(text.parse(), Ok(generator), "{text}");
        let parameters =
            info.parameters.iter().map(|parameter| format!("{}={}", parameter.name, parameter.value));
        assert_eq!(text, format!("{}:{}", info.name, parameters.collect::<Vec<_>>().join(",")));
        assert!(info.parameters.iter().all(|parameter| !parameter.meaning.is_empty()));
    }
    let text = "facebook: coflows=100, load=0.25,rate=10Gbps";
    let expected =
        Facebook { coflows: 100, load: 0.25, rate: "10Gbps".parse().unwrap(), ..Facebook::default() };
    assert_eq!(text.parse(), Ok(Generator::Facebook(expected)));
    assert_eq!("tasks:".parse(), Ok(Generator::Tasks(Tasks::default())));
}

#[test]
fn what_is_not_understood_is_answered_with_the_nearest_name() {
    let cases = [
        ("facebok", "unknown generator \"facebok\": did you mean facebook?"),
        ("facebook:coflow=3", "generator facebook has no parameter \"coflow\": did you mean coflows?"),
        ("facebook:100", "generator facebook: the setting \"100\" has no value: write it as parameter=value"),
        ("facebook:ports=9,ports=9", "generator facebook: ports is given twice: leave one of them out"),
        (
            "facebook:ports=-1",
            "generator facebook: ports=-1 cannot be used: expected a whole number up to 4294967295",
        ),
        ("facebook:load=NaN", "generator facebook: load=NaN cannot be used: expected a number such as 0.8"),
        (
            "classes:mix=1/2/3",
            "generator classes: mix=1/2/3 cannot be used: expected four shares such as 52/16/15/17, none negative and not all 0",
        ),
        ("classes:longest=10", "no error"),
        (
            "fixed:size=5 parsecs",
            "generator fixed: size=5 parsecs cannot be used: expected a size such as 10MB (B, KB, MB, GB, TB, KiB, MiB, GiB, TiB)",
        ),
    ];
    for (text, expected) in cases {
        let found =
            text.parse::<Generator>().map_or_else(|error| error.to_string(), |_| "no error".to_owned());
        assert_eq!(found, expected);
    }
}

#[test]
fn parameters_out_of_range_are_refused() {
    let cases = [
        ("facebook:coflows=0", "coflows=0 is out of range: expected 1 to 1048576"),
        ("facebook:ports=7", "ports=7 is out of range: expected 8 to 1048576"),
        ("facebook:load=0", "load=0 is out of range: expected more than 0 (1 keeps the links just busy)"),
        ("facebook:load=-1", "load=-1 is out of range: expected more than 0 (1 keeps the links just busy)"),
        ("facebook:rate=0bps", "rate=0bps is out of range: expected more than 0bps"),
        (
            "facebook:load=1e-300",
            "the workload would last more than 146 years: raise the load or lower the sizes",
        ),
        (
            "facebook:ports=100000",
            "the workload would have more than 134217728 flows: ask for fewer coflows or ports",
        ),
        ("classes:longest=1MB", "longest=1MB is out of range: expected 10MiB to 1048575TiB"),
        ("classes:narrow=0", "narrow=0 is out of range: expected at least 1"),
        (
            "classes:ports=1000000",
            "the workload would have more than 134217728 flows: ask for fewer coflows or ports",
        ),
        ("uniform:largest=0B", "largest=0B is out of range: expected 1B to 1024TiB"),
        ("tasks:smallest=9KB,largest=8KB", "largest=8KB is out of range: expected 9KB to 1024TiB"),
        ("tasks:ports=1", "ports=1 is out of range: expected 2 to 1048576"),
        (
            "tasks:tasks=4000000000,flows=4000000000",
            "the workload would have more than 134217728 flows: ask for fewer coflows or ports",
        ),
        ("mixed:sizes=pareto", "sizes=pareto is out of range: expected websearch or datamining"),
        ("mixed:smallest=9KB,largest=8KB", "largest=8KB is out of range: expected 9KB to 1024TiB"),
        ("mixed:deadline=0s", "deadline=0ns is out of range: expected 1ns to a year"),
        ("mixed:urgent_load=-1", "urgent_load=-1 is out of range: expected 0 to 100"),
        ("poisson:shape=1", "shape=1 is out of range: expected 0.01 to 100, and not exactly 1"),
        (
            "poisson:load=1e-300",
            "the workload would last more than 146 years: raise the load or lower the sizes",
        ),
    ];
    for (text, expected) in cases {
        let generator: Generator = text.parse().unwrap();
        let found = generate(&generator, 1).map_or_else(|error| error.to_string(), |_| "no error".to_owned());
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn the_smallest_workloads_can_be_made() {
    for text in [
        "facebook:coflows=1,ports=8",
        "classes:coflows=1,ports=1",
        "uniform:coflows=1,ports=1,largest=1B",
        "fixed:coflows=1,ports=1,size=1B",
        "tasks:tasks=1,flows=1,ports=2",
        "poisson:flows=1,ports=2",
        "mixed:flows=1,ports=2,urgent_load=0",
    ] {
        for seed in 0..20 {
            assert_eq!(made(text, seed).tasks().len(), 1, "{text}");
        }
    }
}

#[test]
fn two_levels_ask_every_rack_and_send_a_part_on() {
    let workload = made("aggregate:tasks=20,selectivity=0.03", 1);
    assert_eq!(workload.ports(), 30 * 41 + 1);
    for task in workload.tasks() {
        assert_eq!(task.stages.len(), 60);
        let bytes = |stage: usize| match task.stages[stage].work {
            Work::Transfer(coflow) => (workload.flows_of(coflow).len(), workload.coflow_bytes(coflow).0),
            Work::Compute(_) => unreachable!("this is a transfer"),
        };
        for rack in 0..30 {
            let ((answers, input), (results, output)) = (bytes(2 * rack), bytes(2 * rack + 1));
            assert_eq!((answers, results), (40, 1));
            assert_eq!(output, (input as f64 * 0.03) as u64);
            assert_eq!(task.stages[2 * rack + 1].starts_after[0].index(), 2 * rack);
        }
    }
    let one = made("aggregate:tasks=20,levels=1", 1);
    assert!(one.tasks().iter().all(|task| task.stages.len() == 1));
    assert!(one.coflows().all(|coflow| coflow.width() == 40));
}

#[test]
fn partition_aggregate_and_retrieval_meet_their_load() {
    let load = |text: &str, capacity: f64| {
        let workload = made(text, 1);
        workload.bytes().as_f64() / capacity / workload.tasks().last().unwrap().arrival.as_secs_f64()
    };
    let one = load("aggregate:tasks=20000,levels=1,load=0.8", 30.0 * 125e6);
    assert!((0.78..0.82).contains(&one), "{one}");
    let two = load("aggregate:tasks=20000,racks=2,workers=4,load=0.8,selectivity=0", 2.0 * 125e6);
    assert!((0.78..0.82).contains(&two), "{two}");
    let fetched = load("retrieval:tasks=20000,load=0.5", 4.0 * 125e6);
    assert!((0.49..0.51).contains(&fetched), "{fetched}");
}

#[test]
fn workers_that_compute_answer_later_and_nothing_else_changes() {
    let (plain, waiting) = (made("aggregate:tasks=9", 1), made("aggregate:tasks=9,compute_ms=5", 1));
    let sizes = |workload: &Workload| workload.flows().iter().map(|flow| flow.size).collect::<Vec<_>>();
    assert_eq!(sizes(&plain), sizes(&waiting));
    let answers = waiting.flows().iter().filter(|flow| flow.wave > Nanos::ZERO);
    let waits: Vec<f64> = answers.map(|flow| flow.wave.as_f64() / 1e6).collect();
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    assert!((4.8..5.2).contains(&mean), "{mean} ms");
}

#[test]
fn a_retrieval_reads_from_different_servers_to_one_client() {
    let workload = made("retrieval:tasks=200", 1);
    for coflow in workload.coflows() {
        let mut servers: Vec<u32> = coflow.flows.iter().map(|flow| flow.src.0).collect();
        servers.sort_unstable();
        servers.dedup();
        assert!(servers.len() == 3 && servers.iter().all(|server| (4..20).contains(server)));
        assert!(coflow.flows.iter().all(|flow| flow.dst == coflow.flows[0].dst && flow.dst.0 < 4));
    }
}

#[test]
fn background_tasks_come_beside_and_move_nothing() {
    let (alone, beside) = (made("retrieval:tasks=50", 1), made("retrieval:tasks=50,background=7", 1));
    let online = |workload: &Workload| -> Vec<Instant> {
        let tasks = workload.tasks().iter().filter(|task| task.class == TaskClass::Online);
        tasks.map(|task| task.arrival).collect()
    };
    assert_eq!(online(&alone), online(&beside));
    assert_eq!(beside.tasks().len(), 57);
}

#[test]
fn a_batch_computes_on_hosts_where_it_is_asked_to() {
    let plain = made("batch:jobs=3", 1);
    assert!(plain.hosts().is_empty());
    assert!(plain.tasks().iter().all(|task| task.stages.len() == 2 && task.arrival == Instant::ZERO));
    let hosted = made("batch:jobs=3,ports=12,compute_ms=10,slots=2,mixed_speeds=1", 1);
    let speeds: Vec<u32> = hosted.hosts().iter().map(|host| host.speed_percent).collect();
    assert_eq!(speeds, [50, 50, 50, 100, 25, 50, 50, 50, 50, 100, 25, 50]);
    // Ten mappers, the shuffle, five reducers, the write.
    assert!(hosted.tasks().iter().all(|task| task.stages.len() == 10 + 1 + 5 + 1));
    assert_eq!(hosted.task(cavalcade_model::TaskId(0)).stages[16].starts_after.len(), 5);
}

#[test]
fn failures_add_flows_to_the_coflows_that_they_befall() {
    let workload = made("uniform:coflows=60,ports=20", 1);
    let failures = Failures { restarted: 0.2, speculated: 0.1, after: Nanos(7) };
    let failed = with_failures(&workload, &failures, 3).unwrap();
    assert_eq!(with_failures(&workload, &failures, 3).unwrap(), failed);
    let grown = failed.flows().len() as f64 / workload.flows().len() as f64;
    assert!((1.25..1.35).contains(&grown), "{grown}");
    assert_eq!(failed.coflow_count(), workload.coflow_count());
    for (before, after) in workload.coflows().zip(failed.coflows()) {
        let late = after.flows.iter().filter(|flow| flow.wave == Nanos(7)).count();
        assert_eq!(after.width(), before.width() + late);
        assert!(after.size() >= before.size());
    }
    assert_eq!(with_failures(&workload, &Failures::default(), 3).unwrap(), workload);
}
