//! A comparison of training jobs for programs.

use cavalcade_training::{Bandwidth, Figures, JobFigures, Note, OpWork, Program, Read, Shares};
use serde_json::{Value, json};

use super::ComparedJobs;
use super::beside::Parts;
use super::table::{BUSIEST, Sum, summed};

/// The document of a comparison.
pub(super) fn of(compared: &ComparedJobs) -> String {
    let jobs = compared.jobs.jobs.iter().zip(&compared.alone).zip(&compared.jobs.about).enumerate();
    let jobs = jobs.map(|(index, ((job, alone), about))| {
        let mut document = json!({
            "name": job.name,
            "ranks": job.program.ranks(),
            "iterations": job.iterations,
            "arrival_s": job.arrival.as_secs_f64(),
            "alone_mean_s": alone.times.mean_s,
            "notes": about.notes.iter().map(note).collect::<Vec<_>>(),
        });
        if let Some((measured, runs)) = compared.beside(index) {
            document["measured"] = parts(&measured);
            let added =
                runs.iter().map(|(run, simulated)| ((*run).to_owned(), parts(&simulated.less(&measured))));
            document["simulated_less_measured"] = added.collect::<serde_json::Map<String, Value>>().into();
        }
        document
    });
    let runs = compared.runs().map(|(policy, figures)| run(compared, policy, figures));
    let document = json!({
        "schema_version": 1,
        "jobs": jobs.collect::<Vec<_>>(),
        "runs": runs.collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn parts(parts: &Parts) -> Value {
    json!({
        "iteration_s": parts.iteration,
        "computing_s": parts.own,
        "communication_s": parts.communication,
        "neither_s": parts.rest,
    })
}

fn note(note: &Note) -> Value {
    json!({"certainty": note.certainty.name(), "text": note.text})
}

fn run(compared: &ComparedJobs, policy: &str, figures: &Figures) -> Value {
    let jobs = figures.jobs.iter().zip(&compared.alone).map(|(job, alone)| of_job(job, alone.times.mean_s));
    let links = figures.links.iter().take(BUSIEST).map(|link| {
        json!({
            "link": compared.jobs.cluster.link_name(&compared.fabric, link.link),
            "bytes": link.bytes.get(),
            "busy": link.busy,
        })
    });
    json!({
        "policy": policy,
        "gpu_use": figures.gpu_use,
        "window_s": figures.window.map(|instant| instant.as_secs_f64()),
        "jobs": jobs.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
    })
}

fn of_job(job: &JobFigures, alone: f64) -> Value {
    let Shares { computing, exposed, waiting, idle } = &job.shares;
    let exposed: serde_json::Map<String, Value> =
        exposed.iter().map(|(kind, share)| (kind.name().to_owned(), json!(share))).collect();
    let bandwidth = |one: &Bandwidth| {
        json!({
            "group": one.group.name(),
            "collective": one.kind.name(),
            "count": one.count,
            "bytes": one.bytes.get(),
            "time_s": one.time.as_secs_f64(),
            "algbw_GBps": one.algbw,
            "busbw_GBps": one.busbw,
        })
    };
    json!({
        "name": job.name,
        "iterations_s": job.iterations.iter().map(|span| span.as_secs_f64()).collect::<Vec<_>>(),
        "mean_s": job.times.mean_s,
        "p50_s": job.times.p50_s,
        "p95_s": job.times.p95_s,
        "max_s": job.times.max_s,
        "over_alone": job.times.mean_s / alone,
        "end_s": job.end.as_secs_f64(),
        "gpu_use": job.gpu_use,
        "shares": { "computing": computing, "exposed": exposed, "waiting": waiting, "idle": idle },
        "collectives": job.bandwidths.iter().map(bandwidth).collect::<Vec<_>>(),
    })
}

/// The document of a workload.
pub(super) fn info(read: &Read) -> String {
    let program = &read.program;
    let computation = program.computation();
    let sums = summed(read).into_iter().map(|Sum { group, kind, count, members, bytes }| {
        json!({"group": group, "kind": kind, "count": count, "most_members": members, "bytes": bytes})
    });
    let is_listed = program.operations() <= MOST_LISTED;
    let communication = is_listed.then(|| listed(program));
    let document = json!({
        "schema_version": 1,
        "ranks": program.ranks(),
        "operations": program.operations(),
        "computation_s": computation.iter().map(|span| span.as_secs_f64()).collect::<Vec<_>>(),
        "summed": sums.collect::<Vec<_>>(),
        "communication": communication,
        "notes": read.notes.iter().map(note).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

/// The most operations of which each collective and transfer is listed.
const MOST_LISTED: u64 = 1 << 18;

/// Each collective and transfer of an iteration.
fn listed(program: &Program) -> Vec<Value> {
    let collectives = program.ops().iter().filter_map(|op| match &op.work {
        OpWork::Compute { .. } => None,
        OpWork::Transfer { from, to, bytes } => Some(
            json!({"kind": "transfer", "group": "pipeline", "members": [from, to], "bytes": bytes.get()}),
        ),
        OpWork::Collective(collective) => {
            let group = program.group(collective.group);
            Some(json!({
                "kind": collective.kind.name(),
                "group": group.kind.name(),
                "members": group.members,
                "bytes": collective.bytes.get(),
            }))
        }
    });
    collectives.collect()
}
