use super::*;
use crate::program::OpWork;

const TEXT: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD\tmodel_parallel_NPU_group: 2 ep: 1 pp: 1 all_gpus: 4\n2\n\
    grad_norm\t-1\t10\tALLGATHER\t800\t20\tNONE\t0\t1\tREDUCESCATTER\t1600\t100\n\
    layer   -1  30  ALLREDUCE 64   40 ALLREDUCE 64  50  NONE 0 100\n";

fn read_with(text: &str, options: Options) -> Result<Read, ReadError> {
    read(text, "w.txt", &options)
}

/// What rank 0 does, in order.
fn of_rank_0(read: &Read) -> Vec<String> {
    let program = &read.program;
    let mut words = Vec::new();
    for (index, op) in program.ops().iter().enumerate() {
        if !program.has_rank(crate::program::OpId(index as u32), 0) {
            continue;
        }
        words.push(match &op.work {
            OpWork::Compute { duration, .. } => duration.get().to_string(),
            OpWork::Collective(collective) => {
                let group = program.group(collective.group);
                format!("{} {} {:?}", group.kind, collective.bytes.get(), group.members)
            }
            OpWork::Transfer { .. } => "transfer".to_owned(),
        });
    }
    words
}

#[test]
fn an_iteration_is_all_layers_forwards_and_then_each_backwards_weights_first() {
    let found = read_with(TEXT, Options::default()).unwrap();
    let expected = [
        "10",
        "tensor 800 [0, 1]",
        "30",
        "tensor 64 [0, 1]",
        "90",
        "tensor 64 [0, 1]",
        "data 1600 [0, 2]",
        "20",
    ];
    assert_eq!(of_rank_0(&found), expected);
    let by_name = read_with(TEXT, Options { groups: Groups::ByName, ..Options::default() }).unwrap();
    assert_eq!(of_rank_0(&by_name)[1], "data 800 [0, 2]");
}

#[test]
fn gradients_that_may_overlap_hold_nothing_up() {
    let program = read_with(TEXT, Options { overlap: true, ..Options::default() }).unwrap().program;
    let last = program.ops().last().unwrap();
    let waits: Vec<&OpWork> = last.after.iter().map(|on| &program.ops()[on.index()].work).collect();
    let is_data = |work: &&OpWork| matches!(work, OpWork::Collective(one) if one.bytes == Bytes(1600));
    assert!(matches!(last.work, OpWork::Compute { .. }) && !waits.iter().any(is_data), "{last:?}");
}

#[test]
fn expert_groups_lie_inside_data_groups() {
    let text = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 ep: 2 pp: 2 all_gpus: 8\n1\n\
        moe -1 5 ALLTOALL_EP 64 5 NONE 0 5 ALLGATHER_DP_EP 32 100\n";
    let found = read_with(text, Options::default()).unwrap();
    let members = |kind: GroupKind| {
        let groups = found.program.groups().iter().filter(move |group| group.kind == kind);
        groups.map(|group| group.members.clone()).collect::<Vec<_>>()
    };
    assert_eq!(members(GroupKind::Expert), [[0, 1], [2, 3], [4, 5], [6, 7]]);
    assert_eq!(members(GroupKind::DataExpert), [[0, 2], [1, 3], [4, 6], [5, 7]]);
    assert!(found.notes.iter().any(|note| note.text.contains("pipeline of 2 stages")), "{:?}", found.notes);
}

#[test]
fn a_wrong_number_of_layers_is_noted() {
    let found = read_with(&TEXT.replacen("\n2\n", "\n839\n", 1), Options::default()).unwrap();
    assert!(found.notes.iter().any(|note| note.text.contains("says 839 layers and has 2")));
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let said = |text: &str| read_with(text, Options::default()).unwrap_err().to_string();
    assert!(
        said(&TEXT.replace("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "DLRM")).starts_with("w.txt:1: found the kind")
    );
    assert!(said(&TEXT.replacen("\n2\n", "\ntwo\n", 1)).starts_with("w.txt:2: column 1 is \"two\""));
    assert!(said(&TEXT.replace("ALLGATHER", "GATHERALL")).starts_with("w.txt:3: column 4 is \"GATHERALL\""));
    assert!(said(&TEXT.replace("  30  ", "  -30  ")).starts_with("w.txt:4: column 3 is \"-30\""));
    let cut = TEXT.rsplit_once("ALLREDUCE").unwrap().0;
    assert!(said(cut).starts_with("w.txt:4: the line has 6 columns, expected 12"), "{}", said(cut));
    let header = TEXT.split_inclusive('\n').take(2).collect::<String>();
    assert!(said(&header).starts_with("w.txt: no layer follows the header"));
    assert!(said(&TEXT.replace("all_gpus: 4", "")).contains("does not say its ranks"));
    assert!(
        said(&TEXT.replace("all_gpus: 4", "all_gpus: 3"))
            .contains("3 ranks are not a multiple of tensor = 2")
    );
    let huge = TEXT.replace("  30  ", "  18446744073709551615  ");
    assert!(said(&huge).contains("add up to more than 2^62"), "{}", said(&huge));
}

/// A pipeline of so many stages and chunks with four micro-batches of 4 chunks of layers: 10 + 20
/// ns each.
fn pipelined(stages: u32, chunks: u32) -> String {
    let layer = |name: &str| format!("{name} -1 10 NONE 0 15 NONE 0 5 NONE 0 100\n");
    let batch: String = (0..4).map(|_| layer("mlp")).collect();
    let ranks = 2 * stages;
    format!(
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 ep: 1 pp: {stages} vpp: {chunks} ga: 4 all_gpus: {ranks} pp_comm 8\n18\n\
         grad_gather -1 1 NONE 0 1 NONE 0 1 REDUCESCATTER 80 100\n{}optimizer -1 7 NONE 0 1 NONE 0 1 NONE 0 100\n",
        batch.repeat(4)
    )
}

/// How long an iteration takes by its edges alone, with transfers of so many nanoseconds.
fn longest(program: &Program, transfer: u64) -> u64 {
    let mut ends: Vec<u64> = Vec::new();
    for op in program.ops() {
        let begin = op.after.iter().map(|before| ends[before.index()]).max().unwrap_or(0);
        ends.push(
            begin
                + match op.work {
                    OpWork::Compute { duration, .. } => duration.get(),
                    OpWork::Transfer { .. } => transfer,
                    OpWork::Collective(_) => 0,
                },
        );
    }
    ends.into_iter().max().unwrap_or(0)
}

#[test]
fn a_pipelines_bubble_is_what_its_stages_and_chunks_make_of_it() {
    for (stages, chunks) in [(2, 1), (4, 1), (2, 4), (4, 4)] {
        let found = read_with(&pipelined(stages, chunks), Options::default()).unwrap();
        let (all, behind) = (u64::from(4_u32 * 4 * 30), u64::from(stages - 1));
        // A micro-batch passes each stage in 120 ns, of which a chunk is a part.
        let bubble = behind * 120 / u64::from(chunks);
        assert_eq!(longest(&found.program, 0), 7 + all + bubble, "{stages} stages, {chunks} chunks");
        let sent =
            found.program.ops().iter().filter(|op| matches!(op.work, OpWork::Transfer { .. })).count() as u32;
        // Between each two parts of the model, both ways, for each micro-batch of both replicas.
        assert_eq!(sent, 2 * 2 * 4 * (stages * chunks - 1));
        assert!(
            found
                .notes
                .iter()
                .any(|note| note.text.starts_with("4 micro-batches, of each of which every rank"))
        );
    }
    // One layer of one micro-batch takes longer, as in files of AICB.
    let uneven = pipelined(2, 1).replacen("mlp -1 10 ", "mlp -1 1010 ", 1);
    let uneven = read_with(&uneven, Options::default()).unwrap();
    assert_eq!(uneven.program.computation(), [Nanos(7 + 480 + 1000); 4]);
    assert!(uneven.notes.iter().any(|note| note.text.starts_with("4 micro-batches")));
    let plain = pipelined(2, 1).replace(" pp_comm 8", "");
    let plain = read_with(&plain, Options::default()).unwrap();
    assert_eq!(longest(&plain.program, 0), 7 + 480);
    assert!(plain.notes.iter().any(|note| note.text.starts_with("the pipeline of 2 stages")));
}

#[test]
fn one_stage_stands_for_a_pipeline_that_is_too_large_to_be_written_out() {
    let large = Options { ranks: Some(1 << 20), ..Options::default() };
    let found = read_with(&pipelined(2, 1), large).unwrap();
    // A pass of computation, the reduce-scatter, and each rank for itself.
    assert_eq!((found.program.ops_alike().len(), found.program.operations()), (2, (1 << 20) + 2));
    assert_eq!(found.program.computation()[0], Nanos(7 + 480));
    let left_out = found.notes.iter().find(|note| note.text.starts_with("the pipeline of 2 stages")).unwrap();
    assert!(left_out.text.contains("1048576 ranks with up to 104 operations each"), "{}", left_out.text);
}

#[test]
fn one_micro_batch_has_all_layers_and_the_longest_bubble() {
    let text = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 ep: 1 pp: 2 ga: 1 all_gpus: 2 pp_comm: 8\n1\n\
         mlp -1 10 NONE 0 15 NONE 0 5 NONE 0 100\n";
    let found = read_with(text, Options::default()).unwrap();
    assert_eq!(longest(&found.program, 0), 2 * 30);
}

#[test]
fn bytes_of_a_header_may_need_64_bits_and_what_is_no_number_is_refused() {
    let large = pipelined(2, 1).replace("pp_comm 8", "pp_comm 5000000000");
    let found = read_with(&large, Options::default()).unwrap();
    assert!(found.notes.iter().any(|note| note.text.contains("5GB")), "{:?}", found.notes);
    for (good, bad) in [("pp_comm 8", "pp_comm abc"), ("ga: 4", "ga: x"), ("ep: 1", "ep: 4294967296")] {
        let error = read_with(&pipelined(2, 1).replace(good, bad), Options::default()).unwrap_err();
        let word = bad.rsplit(' ').next().unwrap();
        assert!(error.to_string().contains(word) && error.to_string().contains(":1"), "{error}");
    }
}
