//! Comparisons of training jobs as columns.

use cavalcade_training::{GroupKind, JobFigures, OpId, OpWork, Read};

use super::ComparedJobs;
use crate::columns::Column;

/// The meaning of the column of policies.
const RUN: &str = "the policy; behind it the engine, where runs differ in it";

/// Each job under each policy: the policy, the job, its figures, and its mean alone.
fn each(compared: &ComparedJobs) -> impl Iterator<Item = (&str, &JobFigures, f64)> + Clone {
    compared.runs().flat_map(|(policy, figures)| {
        let alone = compared.alone.iter().map(|alone| alone.times.mean_s);
        figures.jobs.iter().zip(alone).map(move |(job, alone)| (policy, job, alone))
    })
}

/// A row for each job under each policy.
pub(super) fn of_jobs(compared: &ComparedJobs) -> Vec<Column> {
    let rows = || each(compared);
    let real =
        |name, value: &dyn Fn(&JobFigures) -> f64| Column::real(name, rows().map(|(_, job, _)| value(job)));
    let exposed = |name, kind: GroupKind| {
        real(name, &|job: &JobFigures| job.shares.exposed.get(&kind).copied().unwrap_or(0.0))
            .means("share of its GPUs' time in which communication of such groups held them up")
    };
    let mut columns = vec![
        Column::text("policy", rows().map(|(policy, ..)| policy.to_owned())).means(RUN),
        Column::text("job", rows().map(|(_, job, _)| job.name.clone())).means("the job's name"),
        real("mean_s", &|job| job.times.mean_s).means("mean of its iterations"),
        real("p50_s", &|job| job.times.p50_s).means("median of its iterations"),
        real("p95_s", &|job| job.times.p95_s).means("95th percentile of its iterations"),
        real("max_s", &|job| job.times.max_s).means("its longest iteration"),
        Column::real("alone_s", rows().map(|(.., alone)| alone))
            .means("mean of its iterations alone on the cluster under fair sharing"),
        Column::real("over_alone", rows().map(|(_, job, alone)| job.times.mean_s / alone))
            .means("`mean_s` over `alone_s`"),
        real("gpu_use", &|job| job.gpu_use).means(
            "computation over the time of its GPUs, from its arrival until the first job of the run ends",
        ),
        real("computing", &|job| job.shares.computing)
            .means("share of its GPUs' time in which they computed"),
    ];
    let names = [
        ("exposed_tensor", GroupKind::Tensor),
        ("exposed_data", GroupKind::Data),
        ("exposed_expert", GroupKind::Expert),
        ("exposed_data_expert", GroupKind::DataExpert),
        ("exposed_pipeline", GroupKind::Pipeline),
        ("exposed_other", GroupKind::Other),
    ];
    columns.extend(names.into_iter().map(|(name, kind)| exposed(name, kind)));
    columns.extend([
        real("waiting", &|job| job.shares.waiting)
            .means("share of its GPUs' time in which they waited for other members of a collective"),
        real("idle", &|job| job.shares.idle)
            .means("share of its GPUs' time in which they did nothing of these: the bubble of a pipeline, and ranks that are done before others"),
        Column::whole("end_ns", rows().map(|(_, job, _)| job.end.0)).means("its end"),
    ]);
    columns
}

/// A row for each iteration.
pub(super) fn of_iterations(compared: &ComparedJobs) -> Vec<Column> {
    let rows = || {
        each(compared).flat_map(|(policy, job, _)| {
            let numbered = job.iterations.iter().enumerate();
            numbered.map(move |(number, time)| (policy, job.name.as_str(), number as u64, time.0))
        })
    };
    vec![
        Column::text("policy", rows().map(|(policy, ..)| policy.to_owned())).means(RUN),
        Column::text("job", rows().map(|(_, job, ..)| job.to_owned())).means("the job's name"),
        Column::whole("iteration", rows().map(|(_, _, number, _)| number)).means("its number, from 0"),
        Column::whole("duration_ns", rows().map(|(.., time)| time))
            .means("its duration, from the end of the one before"),
    ]
}

/// A row for each kind of collective in each kind of group.
pub(super) fn of_collectives(compared: &ComparedJobs) -> Vec<Column> {
    let rows = || {
        each(compared).flat_map(|(policy, job, _)| {
            job.bandwidths.iter().map(move |one| (policy, job.name.as_str(), one))
        })
    };
    vec![
        Column::text("policy", rows().map(|(policy, ..)| policy.to_owned())).means(RUN),
        Column::text("job", rows().map(|(_, job, _)| job.to_owned())).means("the job's name"),
        Column::text("group", rows().map(|(.., one)| one.group.name().to_owned())).means("the kind of group"),
        Column::text("collective", rows().map(|(.., one)| one.kind.name().to_owned())).means("its kind"),
        Column::whole("count", rows().map(|(.., one)| one.count)).means("how many there were"),
        Column::whole("bytes", rows().map(|(.., one)| one.bytes.get()))
            .means("their buffers at one rank together"),
        Column::whole("time_ns", rows().map(|(.., one)| one.time.0))
            .means("their times together, from the arrival of the last member"),
        Column::real("algbw_GBps", rows().map(|(.., one)| one.algbw))
            .means("bytes over time in 10⁹ bytes a second"),
        Column::real("busbw_GBps", rows().map(|(.., one)| one.busbw))
            .means("the same by what a link must carry, as nccl-tests have it"),
    ]
}

/// A row for each link that carried anything, under each policy the busiest first.
pub(super) fn of_links(compared: &ComparedJobs) -> Vec<Column> {
    let rows =
        || compared.runs().flat_map(|(policy, figures)| figures.links.iter().map(move |link| (policy, link)));
    let name = |link| compared.jobs.cluster.link_name(&compared.fabric, link);
    vec![
        Column::text("policy", rows().map(|(policy, _)| policy.to_owned())).means(RUN),
        Column::text("link", rows().map(|(_, one)| name(one.link))).means("the link, in one direction"),
        Column::whole("bytes", rows().map(|(_, one)| one.bytes.get())).means("what it carried"),
        Column::real("busy", rows().map(|(_, one)| one.busy))
            .means("share of the run in which it would have carried that at its full rate"),
    ]
}

/// A row for each collective and transfer of a workload.
pub(super) fn of_workload(read: &Read) -> Vec<Column> {
    let program = &read.program;
    let rows = || {
        program.ops().iter().enumerate().filter_map(|(index, op)| {
            let group = program.group_kind(OpId(index as u32))?.name();
            Some(match &op.work {
                OpWork::Compute { .. } => return None,
                OpWork::Transfer { bytes, .. } => ("transfer", group, 2, bytes.get()),
                OpWork::Collective(one) => {
                    (one.kind.name(), group, program.group(one.group).members.len() as u64, one.bytes.get())
                }
            })
        })
    };
    vec![
        Column::text("collective", rows().map(|(kind, ..)| kind.to_owned())).means("its kind"),
        Column::text("group", rows().map(|(_, group, ..)| group.to_owned())).means("the kind of group"),
        Column::whole("members", rows().map(|(_, _, members, _)| members)).means("how many ranks take part"),
        Column::whole("bytes", rows().map(|(.., bytes)| bytes)).means("the whole buffer at one rank"),
    ]
}
