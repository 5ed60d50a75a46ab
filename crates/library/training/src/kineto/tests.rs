use super::iteration::period;
use super::*;
use crate::program::Program;
use crate::real::{archived, read_files, unpacked};
use serde_json::{Value, json};

const MS: f64 = 1000.0;

pub(super) fn kernel(name: &str, stream: u32, ts: f64, dur: f64) -> Value {
    json!({"ph": "X", "cat": "kernel", "name": name, "ts": ts, "dur": dur, "args": {"stream": stream}})
}

/// An all-reduce of so many floats of all of `ranks` on stream 9.
fn all_reduce(elements: u64, ranks: &str, ts: f64, dur: f64) -> Value {
    let mut event = kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", 9, ts, dur);
    let about = json!({
        "stream": 9, "Collective name": "allreduce", "dtype": "Float", "In msg nelems": elements,
        "Out msg nelems": elements, "Group size": 2, "Process Group Name": "0",
        "Process Group Description": "default_pg", "Process Group Ranks": ranks,
    });
    event["args"] = about;
    event
}

pub(super) fn document(rank: u32, world: u32, events: Vec<Value>) -> String {
    let about = json!({"rank": rank, "world_size": world});
    json!({"schemaVersion": 1, "distributedInfo": about, "traceEvents": events}).to_string()
}

pub(super) fn read_texts(texts: &[String], options: &Options) -> Result<Read, ReadError> {
    let file = |(nth, text): (usize, &String)| WorkloadFile {
        name: format!("rank{nth}.json"),
        content: Box::new(std::io::Cursor::new(text.clone().into_bytes())),
    };
    crate::read::read(texts.iter().enumerate().map(file).collect(), options)
}

pub(super) fn one_for_all() -> Options {
    Options { one_for_all: true, ..Options::default() }
}

/// Computations and collectives of a rank, in order.
pub(super) fn of_rank(program: &Program, rank: u32) -> Vec<String> {
    let ops = program.ops().iter().enumerate();
    let own = ops.filter(|(index, _)| program.has_rank(OpId(*index as u32), rank));
    own.map(|(_, op)| match &op.work {
        OpWork::Compute { duration, .. } => duration.to_string(),
        OpWork::Collective(one) => {
            format!("{} {} {:?}", one.kind, one.bytes, program.group(one.group).members)
        }
        OpWork::Transfer { .. } => "transfer".to_owned(),
    })
    .collect()
}

#[test]
fn a_collective_waits_for_computation_and_an_idle_gpu_waited_for_it() {
    // 2 ms of computation, a collective whose kernel lasts 5 ms, of which 1 ms is overlapped, a
    // pause of 1 ms of the host, 3 ms.
    let events = vec![
        kernel("gemm", 7, 0.0, 2.0 * MS),
        all_reduce(1_000, "[0, 1]", 2.0 * MS, 5.0 * MS),
        kernel("gemm", 7, 2.5 * MS, 1.0 * MS),
        kernel("gemm", 7, 8.0 * MS, 3.0 * MS),
    ];
    let found = read_texts(&[document(0, 2, events)], &one_for_all()).unwrap();
    for rank in 0..2 {
        let expected = ["2ms", "1ms", "all_reduce 4KB [0, 1]", "4ms"];
        let mut own = of_rank(&found.program, rank);
        own.sort_by_key(|word| expected.iter().position(|known| known == word));
        assert_eq!(own, expected);
    }
    let last = found.program.ops().last().unwrap();
    let waits: Vec<bool> = last.after.iter().map(|on| found.program.group_kind(*on).is_some()).collect();
    assert!(waits.contains(&true), "what comes behind the idle GPU waits for the collective: {last:?}");
    assert!(found.notes.iter().any(|note| note.text.contains("5.000 ms a rank): mostly waiting")));
}

#[test]
fn computation_beside_the_end_of_a_collective_does_not_wait_for_it() {
    let events = vec![
        kernel("gemm", 7, 0.0, 2.0 * MS),
        all_reduce(1_000, "[0, 1]", 1.0 * MS, 3.0 * MS),
        kernel("gemm", 7, 2.0 * MS, 4.0 * MS),
    ];
    let found = read_texts(&[document(0, 2, events)], &one_for_all()).unwrap();
    let compute = found.program.ops().iter().filter(|op| matches!(op.work, OpWork::Compute { .. }));
    let after = compute.flat_map(|op| &op.after).map(|on| found.program.group_kind(*on));
    assert!(after.into_iter().all(|kind| kind.is_none()));
}

/// A send or receive of so many floats on stream 11.
fn point_to_point(name: &str, peer: (&str, u32), elements: u64, ts: f64) -> Value {
    let mut event = kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 11, ts, 9.0);
    let mut about = json!({
        "stream": 11, "Collective name": name, "dtype": "Float", "In msg nelems": elements,
        "Out msg nelems": elements, "Group size": 3, "Process Group Name": "0",
    });
    about[peer.0] = peer.1.into();
    event["args"] = about;
    event
}

#[test]
fn sends_meet_receives_by_their_order_on_each_way() {
    // Rank 0 sends to rank 1 while that sends to it; rank 1 sends on to rank 2, which receives it
    // before anything else, and once more than it is recorded to.
    let gemm = |ts: f64| kernel("gemm", 7, ts, 1.0 * MS);
    let events = [
        vec![
            gemm(0.0),
            point_to_point("send", ("Dst Rank", 1), 1_000, 1.0 * MS),
            point_to_point("recv", ("Src Rank", 1), 500, 2.0 * MS),
            gemm(3.0 * MS),
        ],
        vec![
            point_to_point("send", ("Dst Rank", 0), 500, 0.0),
            point_to_point("recv", ("Src Rank", 0), 1_000, 1.0 * MS),
            gemm(2.0 * MS),
            point_to_point("send", ("Dst Rank", 2), 7, 3.0 * MS),
            point_to_point("send", ("Dst Rank", 2), 9, 4.0 * MS),
        ],
        vec![point_to_point("recv", ("Src Rank", 1), 7, 0.0), gemm(1.0 * MS)],
    ];
    let texts: Vec<String> = (0..).zip(events.clone()).map(|(rank, all)| document(rank, 3, all)).collect();
    let found = read_texts(&texts, &Options::default()).unwrap();
    let transfers = found.program.ops().iter().filter_map(|op| match op.work {
        OpWork::Transfer { from, to, bytes } => Some((from, to, bytes.0)),
        _ => None,
    });
    let mut transfers: Vec<_> = transfers.collect();
    transfers.sort_unstable();
    assert_eq!(transfers, [(0, 1, 4_000), (1, 0, 2_000), (1, 2, 28)]);
    let said = |text: &str| found.notes.iter().any(|note| note.text.contains(text));
    assert!(said("bytes and ends of 3 transfers") && said("1 gathers and scatters, and sends"), "{found:?}");
    // What rank 2 computes waits for the transfer.
    let last = found.program.ops().iter().rfind(|op| matches!(op.work, OpWork::Compute { rank: 2, .. }));
    let waits = last.unwrap().after.iter().map(|on| &found.program.ops()[on.index()].work);
    assert!(waits.into_iter().any(|work| matches!(work, OpWork::Transfer { from: 1, to: 2, .. })));
    // One rank cannot stand for both ends.
    let alone = read_texts(&texts[..1], &one_for_all()).unwrap();
    assert!(alone.notes.iter().any(|note| note.text.contains("2 gathers and scatters, and sends")));
    // Ends of one transfer that differ are of other runs.
    let mut other = events;
    other[2][0] = point_to_point("recv", ("Src Rank", 1), 8, 0.0);
    let texts: Vec<String> = (0..).zip(other).map(|(rank, all)| document(rank, 3, all)).collect();
    let refused = read_texts(&texts, &Options::default()).unwrap_err().to_string();
    assert!(refused.contains("is a transfer of 32B at rank 2, and a transfer of 28B elsewhere"), "{refused}");
}

#[test]
fn files_of_all_ranks_are_joined_by_order_whatever_their_clocks() {
    let events = |shift: f64, computes: f64| {
        vec![kernel("gemm", 7, shift, computes * MS), all_reduce(8, "[0, 1]", shift + computes * MS, 9.0)]
    };
    let texts = [document(1, 2, events(1e12, 3.0)), document(0, 2, events(0.0, 1.0))];
    let program = read_texts(&texts, &Options::default()).unwrap().program;
    assert_eq!(of_rank(&program, 0), ["1ms", "all_reduce 32B [0, 1]"]);
    assert_eq!(of_rank(&program, 1), ["3ms", "all_reduce 32B [0, 1]"]);
}

#[test]
fn the_second_of_repeating_iterations_is_taken() {
    let mut events = Vec::new();
    for (nth, computes) in [(0, 9.0), (1, 2.0), (2, 7.0)] {
        let at = f64::from(nth) * 20.0 * MS;
        events.push(kernel("gemm", 7, at, computes * MS));
        events.push(all_reduce(8, "[0, 1]", at + 10.0 * MS, 1.0 * MS));
        events.push(all_reduce(16, "[0, 1]", at + 12.0 * MS, 1.0 * MS));
    }
    let found = read_texts(&[document(0, 2, events)], &one_for_all()).unwrap();
    let collectives = of_rank(&found.program, 0).into_iter().filter(|word| word.contains("all_reduce"));
    assert_eq!(collectives.count(), 2);
    // From the end of the first iteration: 7 ms and 8 ms of the host, 2 of computation, and 1 ms
    // between the collectives.
    assert_eq!(found.program.computation()[0], Nanos::from_millis(18));
    assert!(found.notes.iter().any(|note| note.text.contains("repeat 3 times")), "{:?}", found.notes);
}

#[test]
fn collectives_of_which_the_first_to_begin_is_the_last_to_end_are_no_iterations() {
    let on_other_stream = |mut event: Value| {
        event["args"]["stream"] = json!(10);
        event
    };
    let events =
        vec![all_reduce(8, "[0, 1]", 0.0, 100.0), on_other_stream(all_reduce(8, "[0, 1]", 10.0, 40.0))];
    let found = read_texts(&[document(0, 2, events)], &one_for_all()).unwrap();
    assert_eq!(of_rank(&found.program, 0), ["all_reduce 32B [0, 1]"; 2]);
    let whole = "the whole recording of 0.100 ms as one iteration";
    assert!(found.notes.iter().any(|note| note.text == whole), "{:?}", found.notes);
}

#[test]
fn an_iteration_lasts_until_all_its_collectives_have_ended() {
    // In each of three: a long collective, a short one beside it that ends first, and computation
    // of 1 ms after both.
    let mut events = Vec::new();
    for nth in 0..3 {
        let at = f64::from(nth) * 10.0 * MS;
        events.push(all_reduce(8, "[0, 1]", at, 5.0 * MS));
        let mut short = all_reduce(16, "[0, 1]", at + 1.0 * MS, (1.0 + f64::from(nth)) * MS);
        short["args"]["stream"] = json!(10);
        events.push(short);
        events.push(kernel("gemm", 7, at + 6.0 * MS, 1.0 * MS));
    }
    let found = read_texts(&[document(0, 2, events)], &one_for_all()).unwrap();
    // From the end of the first long one to that of the second; by the short ones it would be a
    // millisecond more.
    assert!(
        found.notes.iter().any(|note| note.text.contains("an iteration of 10.000 ms")),
        "{:?}",
        found.notes
    );
    assert_eq!(found.program.computation()[0], Nanos::from_millis(5));
}

/// A letter that counts how often any was compared.
struct Counted<'a>(u8, &'a std::cell::Cell<usize>);

impl PartialEq for Counted<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.1.set(self.1.get() + 1);
        self.0 == other.0
    }
}

#[test]
fn a_period_is_found_in_as_many_comparisons_as_there_are_collectives() {
    let compared = std::cell::Cell::new(0);
    let period_of = |letters: &[u8]| {
        compared.set(0);
        period(&letters.iter().map(|&letter| Counted(letter, &compared)).collect::<Vec<_>>())
    };
    // All the same up to the last: each period is refused there.
    let mut letters = vec![b'a'; 20_000];
    letters.push(b'b');
    assert_eq!(period_of(&letters), None);
    assert!(compared.get() <= 2 * letters.len(), "{}", compared.get());
    let mut random = cavalcade_model::SplitMix64::new(5);
    let mut repeated = 0;
    for _ in 0..20_000 {
        let mut below = |most: u64| random.bits() % most;
        let one: Vec<u8> = (0..1 + below(6)).map(|_| below(2) as u8).collect();
        let letters: Vec<u8> = one.iter().copied().cycle().take(below(20) as usize).collect();
        let repeats = |period: &usize| letters.iter().zip(&letters[*period..]).all(|(a, b)| a == b);
        let found = period_of(&letters);
        assert_eq!(found, (1..=letters.len() / 2).find(repeats), "{letters:?}");
        repeated += usize::from(found.is_some());
    }
    assert!((5_000..19_000).contains(&repeated), "{repeated}");
}

#[test]
fn tens_of_thousands_of_collectives_of_one_group_are_read_and_joined() {
    const EACH: u64 = 20_000;
    let text = |rank: u32| {
        let event = |nth: u64| {
            let mut event = all_reduce(4 + nth % 7, "[0, 1]", 10.0 * nth as f64, 5.0);
            if nth.is_multiple_of(2) {
                event["args"]["Collective name"] = json!("all_to_allv");
                event["args"]["In split size"] = json!("[1, 3]");
            }
            event
        };
        let last = all_reduce(99, "[0, 1]", 10.0 * EACH as f64, 5.0);
        document(rank, 2, (1..EACH).map(event).chain([last]).collect())
    };
    let program = read_texts(&[text(0), text(1)], &Options::default()).unwrap().program;
    let collectives = program.ops().iter().filter(|op| matches!(op.work, OpWork::Collective(_)));
    assert_eq!(collectives.count() as u64, EACH);
}

#[test]
fn bytes_may_stand_on_the_operation_that_launched_the_kernel() {
    let mut nccl = kernel("ncclKernel_AllReduce", 9, 5.0, 5.0);
    nccl["args"]["External id"] = json!(17);
    let mut launch = all_reduce(8, "[0, 1]", 1.0, 1.0);
    (launch["cat"], launch["name"]) = (json!("cpu_op"), json!("record_param_comms"));
    launch["args"]["External id"] = json!(17);
    let found = read_texts(&[document(0, 2, vec![launch, nccl])], &one_for_all()).unwrap();
    assert_eq!(of_rank(&found.program, 0)[0], "all_reduce 32B [0, 1]");
}

#[test]
fn a_list_of_ranks_that_was_cut_comes_from_elsewhere_or_is_refused() {
    let cut = |extra: Value| {
        let mut event = all_reduce(8, "[0, 1, ...]", 5.0, 5.0);
        event["args"]["Group size"] = json!(4);
        event["args"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        vec![event]
    };
    let members = |text: String| {
        let found = read_texts(&[text], &one_for_all());
        found
            .map(|found| found.program.groups().iter().map(|group| group.members.clone()).collect::<Vec<_>>())
    };
    let regular = members(document(0, 8, cut(json!({"Global rank start": 0, "Global rank stride": 2}))));
    assert_eq!(regular.unwrap(), [[0, 2, 4, 6], [1, 3, 5, 7]], "one rank stands for all");
    let mut configured: Value = serde_json::from_str(&document(0, 8, cut(json!({})))).unwrap();
    configured["distributedInfo"]["pg_config"] = json!([{"pg_name": "0", "ranks": [0, 1, 2, 3]}]);
    assert_eq!(members(configured.to_string()).unwrap(), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    let refused = members(document(0, 8, cut(json!({})))).unwrap_err().to_string();
    assert!(refused.contains("the ranks of group \"0\" are cut off"), "{refused}");
}

#[test]
fn uneven_parts_of_an_all_to_all_are_those_of_each_rank() {
    let text = |rank: u32, splits: &str, elements: u64| {
        let mut event = all_reduce(elements, "[0, 1]", 5.0, 5.0);
        event["args"]["Collective name"] = json!("all_to_allv");
        event["args"]["In split size"] = json!(splits);
        document(rank, 2, vec![event])
    };
    let program =
        read_texts(&[text(0, "[1, 3]", 4), text(1, "[2, 6]", 8)], &Options::default()).unwrap().program;
    let OpWork::Collective(collective) = &program.ops()[0].work else { panic!("it is a collective") };
    assert_eq!(collective.splits, Some([4, 12, 8, 24].map(Bytes).to_vec()));
}

#[test]
fn what_is_wrong_is_told_with_its_file_and_place() {
    let said = |texts: &[String], options: &Options| read_texts(texts, options).unwrap_err().to_string();
    let good = |rank| document(rank, 2, vec![all_reduce(8, "[0, 1]", 5.0, 5.0)]);
    let all = Options::default();
    assert!(
        said(&[good(0)], &all).contains("the traces are of 1 ranks, and the job has 2: give a file for each")
    );
    assert!(said(&[good(0), good(0)], &all).contains("rank1.json: a file of rank 1 of 2 is not there"));
    let of_four = Options { ranks: Some(4), ..one_for_all() };
    assert!(said(&[good(0)], &of_four).contains("of 2 ranks, and the job has 4"));
    let text = good(0);
    let cut = said(&[text[..text.len() - 9].to_owned()], &all);
    assert!(cut.starts_with("rank0.json:1:") && cut.contains("may be cut off"), "{cut}");
    assert!(said(&["{\"a\": 1}".to_owned()], &all).contains("no list traceEvents"));
    let event = |change: &dyn Fn(&mut Value)| {
        let mut event = all_reduce(8, "[0, 1]", 5.0, 5.0);
        change(&mut event);
        said(&[document(0, 2, vec![event])], &one_for_all())
    };
    assert!(event(&|event| event["dur"] = json!(-1)).contains("ends 1000 ns before it begins"));
    assert!(event(&|event| event["args"]["dtype"] = json!("Quad")).contains("type \"Quad\" is not known"));
    let unknown = event(&|event| event["args"]["Collective name"] = json!("teleport"));
    assert!(unknown.contains("collective \"teleport\" is not known"), "{unknown}");
    let unnamed = event(&|event| event["args"] = json!({}));
    assert!(
        unnamed.contains("1 kernels communicate by their names, and none says how many bytes"),
        "{unnamed}"
    );
    assert!(said(&[document(0, 1, vec![])], &all).contains("nothing ran on a GPU"));
    let other = document(1, 2, vec![all_reduce(9, "[0, 1]", 5.0, 5.0)]);
    assert!(said(&[good(0), other], &all).contains("all_reduce of 36B at rank 1, and a all_reduce of 32B"));
    let twice = document(1, 2, vec![all_reduce(8, "[0, 1]", 5.0, 5.0); 2]);
    assert!(said(&[good(0), twice], &all).contains("rank 0 has no collective 1 of group [0, 1]"));
}

#[test]
fn a_real_recording_has_the_bytes_and_times_that_other_readers_found() {
    let Some(content) = unpacked("ai/kineto/hta_ddp_rank0of2_nccl_meta.json.gz") else { return };
    let found = read_files(vec![("rank0.json".to_owned(), content)], &one_for_all()).unwrap();
    let program = &found.program;
    let mut sums: BTreeMap<CollectiveKind, (u64, u64)> = BTreeMap::new();
    for op in program.ops() {
        if let OpWork::Collective(one) = &op.work {
            let sum = sums.entry(one.kind).or_default();
            *sum = (sum.0 + 1, sum.1 + one.bytes.0);
        }
    }
    // ResNet-50 in float32, and its statistics.
    assert_eq!(sums[&CollectiveKind::AllReduce], (5, 102_228_128));
    assert_eq!(sums[&CollectiveKind::Broadcast], (2, 212_480 + 424));
    // Three iterations of 222.44, 219.73 and 224.94 ms, each with 13 ms of exposed communication.
    let computation = program.computation()[0].as_secs_f64();
    assert!((0.195..0.225).contains(&computation), "{computation}");
}

/// The collectives of a rank: kind, members, how many there are and their bytes.
fn sums(program: &Program, rank: u32) -> BTreeMap<(CollectiveKind, usize), (u64, u64)> {
    let mut sums: BTreeMap<(CollectiveKind, usize), (u64, u64)> = BTreeMap::new();
    for (index, op) in program.ops().iter().enumerate() {
        let OpWork::Collective(one) = &op.work else { continue };
        if program.has_rank(OpId(index as u32), rank) {
            let sum = sums.entry((one.kind, program.group(one.group).members.len())).or_default();
            *sum = (sum.0 + 1, sum.1 + one.bytes.0);
        }
    }
    sums
}

#[test]
fn recordings_without_metadata_have_the_bytes_of_the_operations_that_launched_their_kernels() {
    let Some(files) = archived("ai/kineto/param_dlrm_8ranks.tar.gz") else { return };
    let found = read_files(files, &Options::default()).unwrap();
    // What execution traces of another iteration of the same job say.
    let reduced = 1_576_964 + 448 + 907_840;
    let exchanged = 24_576 + 192 + 1_536 + 24_576;
    for rank in 0..8 {
        let sums = sums(&found.program, rank);
        assert_eq!(sums[&(CollectiveKind::AllReduce, 8)], (3, reduced), "rank {rank}");
        let (count, bytes) = sums[&(CollectiveKind::AllToAll, 8)];
        assert_eq!(count, 5);
        // One of them differs from rank to rank and from iteration to iteration: about 13,568.
        assert!((exchanged + 3_000..exchanged + 40_000).contains(&bytes), "rank {rank}: {bytes}");
    }
    let said = |text: &str| found.notes.iter().any(|note| note.text.contains(text));
    assert!(said("64 kernels taken for communication: 64 by the operation"), "{:?}", found.notes);
    // Eight ranks that compute for 1,034 to 1,246 µs, and whose kernels of collectives last 1,746
    // to 11,336 µs.
    let measured = found.measured.unwrap();
    assert!((1_000_000..1_300_000).contains(&measured.computing.0), "{measured:?}");
    assert_eq!(measured.iteration.0 / 8, (measured.computing.0 + measured.exposed.0 + measured.host.0) / 8);
}

#[test]
fn a_recording_over_a_fake_group_has_what_was_called_and_computed() {
    let Some(content) = unpacked("ai/kineto/llama1b-fsdp64.kineto.json.gz") else { return };
    let files = vec![("rank0.json".to_owned(), content)];
    let options = Options { host: Host::LeftOut, ..one_for_all() };
    let found = read_files(files, &options).unwrap();
    let sums = sums(&found.program, 63);
    // Two steps in bfloat16 and float32, of which one is taken.
    assert_eq!(sums[&(CollectiveKind::AllGather, 64)], (33, 3_551_010_816));
    assert_eq!(sums[&(CollectiveKind::ReduceScatter, 64)], (17, 2 * 1_906_581_504));
    // The GPU was busy for 171.6 ms in both; a step took 131 to 146 ms without the profiler.
    let computation = found.program.computation()[0].as_secs_f64();
    assert!((0.084..0.088).contains(&computation), "{computation}");
    assert!(found.notes.iter().any(|note| note.text.starts_with("4158 copies")), "{:?}", found.notes);
    assert!(found.program.groups().iter().all(|group| group.kind == GroupKind::Data));
}

#[test]
fn a_recording_of_a_group_of_one_stands_for_any_number_of_ranks() {
    let Some(content) = unpacked("ai/kineto/llama350m-ddp1-nccl.kineto.json.gz") else { return };
    let files = vec![("rank0.json".to_owned(), content)];
    let options = Options { host: Host::LeftOut, ranks: Some(16), ..one_for_all() };
    let found = read_files(files, &options).unwrap();
    assert_eq!(sums(&found.program, 15)[&(CollectiveKind::AllReduce, 16)], (23, 747_835_392));
    let computation = found.program.computation()[0].as_secs_f64();
    assert!((0.042..0.046).contains(&computation), "{computation}");
}

#[test]
fn real_recordings_of_other_kinds_are_read_or_refused_by_name() {
    let read = |name: &str| {
        let content = unpacked(&format!("ai/kineto/{name}.json.gz"))?;
        Some(read_files(vec![(name.to_owned(), content)], &one_for_all()))
    };
    let Some(sixteen) = read("hta_rank0of16") else { return };
    let sixteen = sixteen.unwrap();
    let said = |text: &str| sixteen.notes.iter().any(|note| note.text.contains(text));
    assert!(said("80 kernels taken for communication: "), "{:?}", sixteen.notes);
    assert!(read("hta_rank3of8_control").unwrap().is_ok());
    let gather = read("tracelens_b200_rank0of8_71groups").unwrap().unwrap();
    assert_eq!(sums(&gather.program, 0)[&(CollectiveKind::AllGather, 8)], (1, 402_176));
    let refused = |name: &str| read(name).unwrap().unwrap_err().to_string();
    assert!(refused("hta_cpu_only_rank34of300").contains("nothing ran on a GPU"));
}

#[test]
fn one_of_some_ranks_stands_for_all_when_asked() {
    let text = |rank| document(rank, 4, vec![all_reduce(8, "[0, 1]", 5.0, 5.0)]);
    let texts = [text(2), text(1)];
    let refused = read_texts(&texts, &Options::default()).unwrap_err().to_string();
    assert!(refused.contains("the traces are of 2 ranks, and the job has 4"), "{refused}");
    let found = read_texts(&texts, &one_for_all()).unwrap();
    assert_eq!(of_rank(&found.program, 3), ["all_reduce 32B [2, 3]"]);
    assert!(found.notes.iter().any(|note| note.text == "recordings of 1 other ranks"));
}

#[test]
fn execution_traces_beside_recordings_are_left_out_and_alone_refused() {
    let graph = r#"{ "schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [] }"#.to_owned();
    let recorded = document(0, 2, vec![all_reduce(8, "[0, 1]", 5.0, 5.0)]);
    let found = read_texts(&[recorded, graph.clone()], &one_for_all()).unwrap();
    assert!(found.notes.iter().any(|note| note.text == "1 execution traces beside the recordings"));
    let alone = read_texts(&[graph], &one_for_all()).unwrap_err().to_string();
    assert!(
        alone.starts_with("rank0.json: it is an execution trace of PyTorch, which has no times"),
        "{alone}"
    );
}
