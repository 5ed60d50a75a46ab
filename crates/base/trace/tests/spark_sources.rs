//! Where the bytes of a shuffle come from, as far as a log of Spark tells it, and what is said of
//! the rest.

mod events;

use events::{
    Ran, application, end, flows, job, job_end, lines, notes, one_shuffle, properties, read_log, stage,
    start, task, task_of,
};
use serde_json::{Value, json};

const MS: u64 = 1_000_000;

#[test]
fn nothing_is_estimated_of_sources_where_there_is_one_only() {
    let mut events = one_shuffle();
    // All is written on `c`, and read on `a` and `c`.
    for event in &mut events[3..5] {
        event["Task Info"]["Host"] = json!("c");
    }
    events[7]["Task Metrics"]["Shuffle Read Metrics"]["Remote Bytes Read"] = json!(0);
    let reading = read_log(&lines(&events)).unwrap();
    assert_eq!(flows(&reading), [(1, 0, 250, 0)]);
    let text = notes(&reading);
    assert!(
        text.contains("exact: from which host 250 B of the 250 B came that tasks got from elsewhere: only one can have written them"),
        "{text}"
    );
    assert!(!text.contains("in proportion"), "{text}");
}

/// Spark 2.4: two executors on hA wrote 900 each, one on hB 100; one on hA reads 1000 from
/// elsewhere.
fn two_hosts(version: &str, service: bool) -> Vec<Value> {
    let map = |executor, host, written| Ran { executor, host, to: 1000, written, ..Ran::default() };
    let service = if service { "true" } else { "false" };
    vec![
        start(version),
        properties(&[("spark.shuffle.service.enabled", service)]),
        application(0),
        job(0, 0, None, &[(0, &[], 9), (1, &[0], 19)]),
        task_of(0, 0, 0, map(1, "hA", 900)),
        task_of(0, 0, 0, map(2, "hA", 900)),
        task_of(0, 0, 0, map(3, "hB", 100)),
        task(
            1,
            Ran { executor: 1, host: "hA", from: 1000, to: 5000, remote: 1000, local: 900, ..Ran::default() },
        ),
        job_end(0),
        end(),
    ]
}

#[test]
fn before_spark_3_what_another_executor_on_the_host_wrote_is_told_from_the_rest_by_share_and_said_so() {
    for service in [false, true] {
        let reading = read_log(&lines(&two_hosts("2.4.8", service))).unwrap();
        assert_eq!(flows(&reading), [(1, 0, 100, 0)]);
        let text = notes(&reading);
        for part in [
            "estimated: from which host 1.0 kB of the 1.0 kB came",
            "left out: 900 B that stayed on their host (this log counts what was written by the same executor as local)",
            "estimated: that 900 B stayed on their host, too",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    // Since then only the other host is elsewhere.
    let reading = read_log(&lines(&two_hosts("3.5.1", false))).unwrap();
    assert_eq!(flows(&reading), [(1, 0, 1000, 0)]);
    assert!(notes(&reading).contains("exact: from which host 1.0 kB of the 1.0 kB came"));
}

#[test]
fn what_a_shuffle_service_serves_comes_from_ports_of_its_own() {
    let mut events = one_shuffle();
    events.insert(
        1,
        properties(&[("spark.shuffle.manager", "org.apache.spark.shuffle.celeborn.SparkShuffleManager")]),
    );
    let reading = read_log(&lines(&events)).unwrap();
    // Hosts a, b and c are ports 0 to 2; what serves them, and takes what they write, are ports 3
    // to 5.
    assert_eq!(reading.workload.ports(), 6);
    let expected = [(1, 4, 200, 0), (0, 3, 100, 0), (2, 5, 300, 0), (3, 0, 250, 0), (5, 2, 150, 20)];
    assert_eq!(flows(&reading), expected);
    let stages: Vec<_> = reading.shuffles.iter().map(|s| (s.map_stage, s.reduce_stage, s.moved.0)).collect();
    assert_eq!(stages, [(3, None, 600), (3, Some(4), 400)]);
    // Map tasks give away what they write while they run: stage 2 of the task is their computation,
    // and 1 the transfer.
    let task = &reading.workload.tasks()[0];
    assert_eq!(task.stages[2].finishes_after.iter().map(|on| on.index()).collect::<Vec<_>>(), [1]);
    let text = notes(&reading);
    for part in [
        "(both as org.apache.spark.shuffle.celeborn.SparkShuffleManager counts them, which is not Spark's own)",
        "estimated: sources that are not known: 400 B came from hosts that the log does not name, and tasks gave them 600 B that they wrote; ports 3 to 5",
        "left out: what happens inside org.apache.spark.shuffle.celeborn.SparkShuffleManager",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("in proportion") && !text.contains("exact: from which host"), "{text}");
}

#[test]
fn a_manager_that_leaves_blocks_with_executors_has_its_sources_estimated_even_where_there_is_one() {
    let mut events = two_hosts("3.5.1", false);
    events[1] =
        properties(&[("spark.shuffle.manager", "com.nvidia.spark.rapids.spark351.RapidsShuffleManager")]);
    let reading = read_log(&lines(&events)).unwrap();
    assert_eq!(flows(&reading), [(1, 0, 1000, 0)]);
    let text = notes(&reading);
    assert!(text.contains("estimated: from which host 1.0 kB of the 1.0 kB came"), "{text}");
    assert!(text.contains("RapidsShuffleManager counts them"), "{text}");
}

#[test]
fn merged_blocks_of_a_push_based_shuffle_come_from_hosts_that_are_not_known() {
    let mut events = one_shuffle();
    events.insert(
        1,
        properties(&[("spark.shuffle.push.enabled", "true"), ("spark.shuffle.service.enabled", "true")]),
    );
    // Of the 250 bytes of the first reduce task 160 were merged; 90 come from b and c, 2 to 3.
    events[7]["Task Metrics"]["Shuffle Read Metrics"]["Push Based Shuffle"] =
        json!({"Merged Remote Bytes Read": 160});
    let reading = read_log(&lines(&events)).unwrap();
    assert_eq!(
        flows(&reading),
        [(3, 0, 160, 0), (1, 0, 36, 0), (2, 0, 54, 0), (0, 2, 50, 20), (1, 2, 100, 20)]
    );
    let text = notes(&reading);
    for part in [
        "estimated: sources that are not known: 160 B came from hosts that the log does not name;",
        "estimated: from which host 240 B of the 400 B came",
        "left out: blocks that tasks pushed to be merged (push-based shuffle)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Allowed and not used: nothing was merged, and no port is made up.
    events[7]["Task Metrics"]["Shuffle Read Metrics"]["Push Based Shuffle"] = Value::Null;
    let reading = read_log(&lines(&events)).unwrap();
    assert_eq!(reading.workload.ports(), 3);
    assert!(notes(&reading).contains("push-based shuffle"));
}

/// Three map tasks of 150 bytes on h1 to h3; the reader on h1 fails to fetch from h2, whose output
/// is written again on h3.
fn retried(changed: impl Fn(&mut Vec<Value>)) -> cavalcade_trace::Reading {
    let map = |executor, host| Ran { executor, host, from: 200, to: 2200, written: 150, ..Ran::default() };
    let reader = |from, to| Ran { executor: 1, host: "h1", from, to, ..Ran::default() };
    let mut failed = task_of(1, 0, 0, Ran { remote: 60, failed: true, ..reader(2300, 3000) });
    failed["Task End Reason"] = json!({"Reason": "FetchFailed", "Block Manager Address": {"Executor ID": "2", "Host": "h2", "Port": 7}});
    let mut events = vec![
        start("3.5.1"),
        application(0),
        job(0, 100, None, &[(0, &[], 9), (1, &[0], 19)]),
        stage("Submitted", 0, 0),
        task_of(0, 0, 0, map(1, "h1")),
        task_of(0, 0, 1, map(2, "h2")),
        task_of(0, 0, 2, map(3, "h3")),
        stage("Completed", 0, 0),
        stage("Submitted", 1, 0),
        failed,
        stage("Completed", 1, 0),
        stage("Submitted", 0, 1),
        task_of(0, 1, 1, Ran { from: 3100, to: 5000, ..map(3, "h3") }),
        stage("Completed", 0, 1),
        stage("Submitted", 1, 1),
        task_of(1, 1, 0, Ran { remote: 300, local: 150, ..reader(5100, 9000) }),
        stage("Completed", 1, 1),
        job_end(0),
        end(),
    ];
    changed(&mut events);
    read_log(&lines(&events)).expect("a legal log")
}

#[test]
fn an_output_that_was_written_again_comes_from_where_it_was_written_last() {
    // The first reader may have got its 60 bytes from h2 and h3; the second can have them from h3
    // only.
    let expected = [(1, 0, 30, 0), (2, 0, 30, 0), (2, 0, 300, 0)];
    // As the log says which executor was lost, as it says the partitions, and as neither is said.
    let by_loss = retried(|events| events[12]["Task Info"]["Index"] = json!(0));
    let by_partition = retried(|events| {
        for (at, partition) in [(4, 0), (5, 1), (6, 2), (12, 1)] {
            events[at]["Task Info"]["Partition ID"] = json!(partition);
        }
        events[12]["Task Info"]["Index"] = json!(0);
        events[9]["Task End Reason"] = json!({"Reason": "FetchFailed", "Block Manager Address": null});
    });
    let by_index = retried(|events| events[9]["Task End Reason"] = json!({"Reason": "FetchFailed"}));
    for reading in [&by_loss, &by_partition, &by_index] {
        assert_eq!(flows(reading), expected);
        let part = "exact: outputs of tasks that were lost and written again: 1 (150 B)";
        assert!(notes(reading).contains(part), "{}", notes(reading));
        assert_eq!(reading.shuffles[1].written.get(), 450);
    }
    assert_eq!(by_loss.workload, by_partition.workload);
}

#[test]
fn a_stage_that_is_tried_again_takes_its_time_again() {
    let reading = retried(|_| {});
    // Maps, the reader that fails, the map that is run again, the reader again: as the log has it,
    // on an endless network.
    let task = &reading.workload.tasks()[0];
    let mut ends: Vec<u64> = Vec::new();
    for stage in &task.stages {
        let begin = stage.starts_after.iter().map(|on| ends[on.index()]).max().unwrap_or(0);
        let own = match stage.work {
            cavalcade_model::Work::Compute(compute) => compute.duration.0,
            cavalcade_model::Work::Transfer(_) => 0,
        };
        ends.push(stage.finishes_after.iter().map(|on| ends[on.index()]).fold(begin + own, u64::max));
    }
    // The job begins at 100 ms and ends at 9 s.
    assert_eq!(ends.iter().max(), Some(&(8_900 * MS)));
    assert_eq!(reading.queries[0].took.0, 8_900 * MS);
}

#[test]
fn an_output_that_is_lost_while_its_stage_runs_is_that_of_the_task_that_ran_again() {
    let mut events = one_shuffle();
    // The output of the task on b is lost, and written again on a.
    events[3]["Task Info"]["Task ID"] = json!(31);
    let mut resubmitted = events[3].clone();
    resubmitted["Task End Reason"] = json!({"Reason": "Resubmitted"});
    let again = Ran { host: "a", from: 1210, to: 1300, written: 200, ..Ran::default() };
    events.insert(6, resubmitted);
    events.insert(7, task_of(3, 0, 0, again));
    let reading = read_log(&lines(&events)).unwrap();
    // Of 600 bytes 300 are on a and 300 on c; nothing comes from b.
    assert_eq!(flows(&reading), [(2, 0, 250, 0), (0, 2, 150, 20)]);
    assert!(
        notes(&reading).contains("outputs of tasks that were lost and written again: 1 (200 B)"),
        "{}",
        notes(&reading)
    );
    assert!(!notes(&reading).contains("failed or were killed"));
}
