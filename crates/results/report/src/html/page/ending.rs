//! The end of the page: how to reproduce it, and what its words mean.

use cavalcade_metrics::{Comparison, Ranked};

use super::ReportInfo;
use crate::figures;
use crate::svg::escape;

/// The command, what it ran, and the parameters and work of each run.
pub(super) fn reproduce(comparison: &Comparison, info: &ReportInfo) -> String {
    let mut facts = vec![
        ("program", format!("cavalcade {}", info.version)),
        ("trace", info.trace.clone()),
        ("baseline", comparison.baseline_run().label.clone()),
    ];
    if let Some(seed) = info.seed {
        facts.push(("seed", seed.to_string()));
    }
    if let Some(bound) = &comparison.bound {
        facts.push(("lower bound", format!("{}, {}", bound.method, bound.budget)));
    }
    let but_for = match &comparison.bound {
        Some(bound) if !bound.repeatable => {
            "the wall time and the lower bound, which was searched for so long"
        }
        _ => "the wall time",
    };
    let mut out = format!(
        "<section>\n<h2>How to reproduce this</h2>\n<pre><code>{}</code></pre>\n<dl class=\"short\">\n",
        escape(&info.command)
    );
    for (name, value) in facts {
        out.push_str(&format!("<dt>{name}</dt><dd>{}</dd>\n", escape(&value)));
    }
    out.push_str(&format!(
        "</dl>\n<p class=\"caption\">The same version, trace and command give the same figures on every machine, but for \
         {but_for}. Parameters and work of each run:</p>\n<div class=\"scroll\" role=\"region\" aria-label=\"Parameters and work\" tabindex=\"0\"><table>\n<thead><tr>\
         <th scope=\"col\" class=\"name\">policy</th><th scope=\"col\" class=\"params\">parameters</th><th scope=\"col\">wall</th>\
         <th scope=\"col\">events</th><th scope=\"col\">rates computed</th><th scope=\"col\">calls</th><th scope=\"col\">messages\
         </th></tr></thead>\n<tbody>\n",
    ));
    for run in comparison.ranking() {
        let run = &comparison.runs[run];
        let params: Vec<String> = run.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let counts = [run.counts.events, run.counts.refills, run.counts.policy_calls, run.counts.messages];
        let counts: String =
            counts.iter().map(|&count| format!("<td>{}</td>", figures::count(count as usize))).collect();
        out.push_str(&format!(
            "<tr><th scope=\"row\" class=\"name\">{}</th><td class=\"params\">{}</td><td>{}</td>{counts}</tr>\n",
            escape(&run.label),
            escape(&params.join(", ")),
            figures::time(run.wall_s),
        ));
    }
    out.push_str("</tbody>\n</table></div>\n</section>\n");
    out
}

/// Explains every word and column.
pub(super) fn definitions(comparison: &Comparison) -> String {
    let thresholds = comparison.thresholds;
    let bins = format!(
        "A coflow is short (S) where its largest flow is below {}, else long (L); narrow (N) where it has at most {} flows, \
         else wide (W).",
        thresholds.short_below, thresholds.narrow_up_to
    );
    let (noun, time) = (comparison.ranked().noun(), comparison.ranked().time());
    let speedup = format!(
        "The mean {time} under the baseline over the mean {time} under the policy; above one is sooner than the baseline."
    );
    let interval = format!(
        "How far that speedup could be off with other {noun}s of the same kind: a BCa bootstrap over the {noun}s of this \
         trace, paired and seeded."
    );
    let shares = format!("{noun}s p5–p95");
    let evenly = format!(
        "The 5th and 95th percentile of the ratio of each {noun}’s own two completion times: how evenly the gain is shared out."
    );
    let gap = format!(
        "By how much the mean {time} is above a lower bound on that of every schedule on this fabric, clairvoyant or not. \
         The best possible schedule is somewhere between: no policy can gain more than this."
    );
    let mut entries = vec![
        ("coflow", "A set of flows that matter only together: it is done when its last flow is."),
        ("coflow completion time (CCT)", "From the arrival of the coflow’s first flow to its last byte."),
        (
            "p50, p95, p99",
            "Percentiles by nearest rank: the smallest value that at least so many per cent of all do not exceed.",
        ),
        (
            "slowdown",
            "A coflow’s completion time over the time that it would take alone on the fabric, which is the largest load over \
             capacity of any port, waves of flows included. One is the least possible.",
        ),
        ("makespan", "From the first arrival to the end of the last task."),
        ("speedup", speedup.as_str()),
        ("95 % interval", interval.as_str()),
        (shares.as_str(), evenly.as_str()),
        ("bins", bins.as_str()),
        (
            "told sizes",
            "Such a policy knows the size of every flow when it arrives. TCP does not, nor does most of what applications tell a \
             network; what it gains is a yardstick for policies that are not told.",
        ),
        ("wall", "How long the simulation took on the machine that made this report."),
    ];
    if comparison.bound.is_some() {
        entries.push(("gap", gap.as_str()));
    }
    if comparison.ranked() == Ranked::Tasks {
        let task = "From a task’s arrival to the end of its last stage. Its slowdown is that over the longest chain of its stages, \
             each alone on the fabric.";
        entries.insert(
            0,
            ("task", "One or more stages, submitted together: transfers, each a coflow, and computations."),
        );
        entries.insert(1, ("task completion time (TCT)", task));
    }
    if comparison.trace.deadlines > 0 {
        entries.push(("missed", "Tasks that finished after their deadline."));
    }
    let list: String = entries
        .into_iter()
        .map(|(word, meaning)| format!("<dt>{word}</dt><dd>{}</dd>\n", escape(meaning)))
        .collect();
    format!("<section>\n<h2>Definitions</h2>\n<dl>\n{list}</dl>\n</section>\n")
}
