//! A page for people: all tables of a comparison, and what each rank did when.
//!
//! It stands alone: no file beside it, no script, nothing from elsewhere. A row of a picture has as
//! many pieces as it has dots at most, each of what the rank did for most of its time, so that a
//! page stays small however long a run is.

use core::fmt::Write as _;

use cavalcade_model::Instant;
use cavalcade_report::Fit;
use cavalcade_training::{Doing, GroupKind, Job, Span, Timeline};

use super::{ComparedJobs, table};

/// The width of a picture, in dots.
const DOTS: usize = 960;
/// The height of a row.
const ROW: usize = 12;
/// More ranks of a job are not shown.
const MOST_RANKS: u32 = 16;
/// Iterations that are shown under the policy under which they take longest.
const ITERATIONS: usize = 3;

/// What ranks do, with its name and colour.
const DOINGS: [(Doing, &str, &str); 9] = [
    (Doing::Computing, "computation", "#4c78a8"),
    (Doing::Communicating(GroupKind::Data), "data", "#f58518"),
    (Doing::Communicating(GroupKind::Tensor), "tensor", "#e45756"),
    (Doing::Communicating(GroupKind::Pipeline), "pipeline", "#b279a2"),
    (Doing::Communicating(GroupKind::Expert), "expert", "#eeca3b"),
    (Doing::Communicating(GroupKind::DataExpert), "data_expert", "#9d755d"),
    (Doing::Communicating(GroupKind::Other), "other groups", "#54a24b"),
    (Doing::Waiting, "waiting for others", "#bab0ac"),
    (Doing::Idle, "idle", "#eeeeee"),
];

/// The page.
pub(super) fn of(compared: &ComparedJobs) -> String {
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Training jobs</title>\n<style>\n\
         body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }\n\
         pre { overflow-x: auto; } svg { max-width: 100%; height: auto; } text { font: 10px sans-serif; }\n\
         .key span { display: inline-block; width: .9em; height: .9em; margin: 0 .3em 0 1em; }\n\
         </style></head><body>\n<h1>Training jobs that share a cluster</h1>\n",
    );
    let tables = escaped(&table::of(compared, Fit::default()));
    push(&mut page, format_args!("<pre>{tables}</pre>\n"));
    if compared.runs.iter().any(|(_, run)| !run.timelines.is_empty()) {
        timelines(compared, &mut page);
    }
    for (name, notes) in compared.notes().filter(|(_, notes)| !notes.is_empty()) {
        push(&mut page, format_args!("<h2>{} as its file was read</h2>\n<ul>\n", escaped(name)));
        for note in notes {
            push(&mut page, format_args!("<li><b>{}</b>: {}</li>\n", note.certainty, escaped(&note.text)));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("</body></html>\n");
    page
}

fn timelines(compared: &ComparedJobs, page: &mut String) {
    push(
        page,
        format_args!(
            "<h2>What each rank did when</h2>\n<p>The first ranks of each job, for the time that its first {ITERATIONS} iterations take under the slowest policy.</p>\n<p class=\"key\">"
        ),
    );
    for (_, name, colour) in DOINGS {
        push(page, format_args!("<span style=\"background: {colour}\"></span>{name}"));
    }
    page.push_str("</p>\n");
    let slowest = |nth: usize| {
        let all = compared.runs.iter().filter_map(|(_, run)| run.timelines.get(nth));
        all.map(first_iterations).max().unwrap_or_default()
    };
    let jobs: Vec<(&Job, u64)> =
        compared.jobs.jobs.iter().enumerate().map(|(nth, job)| (job, slowest(nth))).collect();
    for (policy, run) in &compared.runs {
        push(page, format_args!("<h3>{}</h3>\n", escaped(policy)));
        for (timeline, &(job, lasts)) in run.timelines.iter().zip(&jobs) {
            push(page, format_args!("<h4>{}</h4>\n", escaped(&job.name)));
            picture(job, timeline, lasts, page);
        }
    }
}

/// How long the iterations take that are shown, in nanoseconds.
fn first_iterations(timeline: &Timeline) -> u64 {
    timeline.iterations().iter().take(ITERATIONS).map(|span| span.0).sum()
}

/// The first ranks of a job for so many nanoseconds.
fn picture(job: &Job, timeline: &Timeline, lasts: u64, page: &mut String) {
    let begin = timeline.arrival();
    let ranks = job.program.ranks().min(MOST_RANKS);
    let (width, height) = (DOTS + 60, ROW * ranks as usize + 16);
    push(
        page,
        format_args!(
            "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n"
        ),
    );
    timeline.each_rank(job, |rank, spans| {
        if rank >= ranks {
            return;
        }
        let top = ROW * rank as usize;
        push(page, format_args!("<text x=\"0\" y=\"{}\">rank {rank}</text>", top + ROW - 3));
        for (from, to, doing) in pieces(spans, begin, lasts) {
            let colour =
                DOINGS.iter().find(|(known, ..)| *known == doing).map_or("none", |(.., colour)| colour);
            let (x, w, h) = (60 + from, to - from, ROW - 2);
            push(
                page,
                format_args!("<rect x=\"{x}\" y=\"{top}\" width=\"{w}\" height=\"{h}\" fill=\"{colour}\"/>"),
            );
        }
        page.push('\n');
    });
    let end = cavalcade_report::time(lasts as f64 / 1e9);
    push(page, format_args!("<text x=\"60\" y=\"{height}\">0</text>"));
    push(page, format_args!("<text x=\"{width}\" y=\"{height}\" text-anchor=\"end\">{end}</text>\n</svg>\n"));
}

/// What a rank did for most of each dot of a picture, from a dot to another.
fn pieces(spans: &[Span], begin: Instant, lasts: u64) -> Vec<(usize, usize, Doing)> {
    let mut pieces: Vec<(usize, usize, Doing)> = Vec::new();
    let at = |dot: usize| begin.0 + (u128::from(lasts) * dot as u128 / DOTS as u128) as u64;
    let mut next = 0;
    for dot in 0..DOTS {
        let (from, to) = (at(dot), at(dot + 1));
        while spans.get(next).is_some_and(|span| span.end.0 <= from) {
            next += 1;
        }
        let inside = spans[next..].iter().take_while(|span| span.begin.0 < to);
        let length = |span: &&Span| span.end.0.min(to).saturating_sub(span.begin.0.max(from));
        let Some(doing) = inside.max_by_key(length).map(|span| span.doing) else { continue };
        match pieces.last_mut() {
            Some(last) if last.2 == doing && last.1 == dot => last.1 = dot + 1,
            _ => pieces.push((dot, dot + 1, doing)),
        }
    }
    pieces
}

fn push(page: &mut String, text: core::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("a string takes all text");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
