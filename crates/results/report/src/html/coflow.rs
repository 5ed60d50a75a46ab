//! One coflow up close: chosen from a list or by its bar in a timeline, with its times under each
//! policy, whom it waited for, and its flows.
//!
//! The page has the figures once, as JSON with every time and size already written as people read
//! them, and the script only puts them into tables: how numbers look is decided in one place.
//! Without script the section is not shown.

use cavalcade_metrics::{CoflowRun, Comparison, Details, RunFigures};
use serde_json::{Value, json};

use crate::figures;
use crate::svg::{escape, shortened};

/// The others that are listed of those that a coflow waited for.
const AHEAD: usize = 5;

/// The letters of a coflow's name that are shown.
const NAME: usize = 48;

/// The section; empty where no coflow was looked at, and a sentence where there was a reason for
/// that.
pub(super) fn section(comparison: &Comparison) -> String {
    let Some(details) = &comparison.details else { return String::new() };
    let left_out = details.left_out.as_ref().map(|reason| format!("Left out: {}.", escape(reason)));
    if details.coflows.is_empty() {
        let only = |sentence: String| {
            format!("<figure>\n<h2>One coflow</h2>\n<p class=\"caption\">{sentence}</p>\n</figure>\n")
        };
        return left_out.map_or_else(String::new, only);
    }
    let left_out = left_out.map_or_else(String::new, |sentence| format!(" {sentence}"));
    let all = comparison.trace.coflows;
    let limited = match details.coflows.len() {
        shown if shown < all => format!(
            " The {} of {} that take longest under {} can be chosen.",
            figures::count(shown),
            figures::count(all),
            escape(&comparison.baseline_run().label)
        ),
        _ => String::new(),
    };
    let policies: Vec<String> = details.runs.iter().map(|&run| escape(&comparison.runs[run].label)).collect();
    let option = |(place, of): (usize, &cavalcade_metrics::CoflowDetails)| {
        let name = escape(&name(comparison, of.coflow));
        let cct = figures::time(comparison.baseline_run().cct[of.coflow].as_secs_f64());
        format!("<option value=\"{place}\">{name}, {cct}</option>\n")
    };
    let options: String = details.coflows.iter().enumerate().map(option).collect();
    // Nothing inside may end the element that it stands in.
    let data = data(comparison, details).to_string().replace('<', "\\u003c");
    format!(
        "<figure id=\"coflow\" hidden>\n<h2>One coflow</h2>\n<p class=\"caption\">Choose a coflow here, or by its bar in a \
         timeline.{limited} Looked at under {}.{left_out} A coflow is held at the link of its last flow where others took most: that \
         link’s time, from the coflow’s first flow there to its last byte, went to the coflow itself, to others, or to \
         nobody: its flows were held elsewhere, waited for a decision, or the policy left it unused. What another took of it in bytes, over the link’s capacity, is how \
         long the coflow waited for that one.</p>\n<p class=\"choice\"><label for=\"chosen\">Coflow</label> <select id=\"chosen\" \
         autocomplete=\"off\">\n{options}</select></p>\n<p id=\"chosen-facts\" class=\"facts\" aria-live=\"polite\"></p>\n\
         <div class=\"scroll\" role=\"region\" aria-label=\"Times and waiting of the coflow\" tabindex=\"0\"><table class=\"stacked\" id=\"chosen-waits\"></table></div>\n\
         <h3>Its flows</h3>\n<p id=\"chosen-flows-shown\" class=\"caption\"></p>\n\
         <div class=\"scroll\" role=\"region\" aria-label=\"Flows of the coflow\" tabindex=\"0\"><table class=\"stacked\" id=\"chosen-flows\"></table></div>\n\
         <script type=\"application/json\" id=\"coflows\">{data}</script>\n</figure>\n",
        policies.join(", ")
    )
}

/// A coflow's name, and its number where that is another.
fn name(comparison: &Comparison, coflow: usize) -> String {
    let name = &comparison.coflows[coflow].name;
    let shown = shortened(name, NAME);
    if *name == coflow.to_string() { shown } else { format!("{shown} (coflow {coflow})") }
}

/// A port: its name, or else its number.
fn port(comparison: &Comparison, port: u32) -> String {
    match comparison.trace.port_names.get(port as usize) {
        Some(name) if !name.is_empty() => shortened(name, NAME),
        _ => port.to_string(),
    }
}

fn data(comparison: &Comparison, details: &Details) -> Value {
    let label = |&run: &usize| json!({ "run": run, "label": comparison.runs[run].label });
    let coflow = |of: &cavalcade_metrics::CoflowDetails| {
        let facts = &comparison.coflows[of.coflow];
        let arrival = comparison.runs[details.runs[0]].arrival[of.coflow];
        let words = format!(
            "{}: {}, {}, largest {}; arrives at {}; alone it would take {}",
            name(comparison, of.coflow),
            figures::counted(facts.width, "flow"),
            figures::bytes(facts.size),
            figures::bytes(facts.length),
            figures::time(arrival.as_secs_f64()),
            figures::time(comparison.isolation[of.coflow].as_secs_f64()),
        );
        let shown = match of.flows.len() {
            shown if shown < facts.width => {
                format!(
                    "The {shown} of {} that finish last under {}.",
                    figures::count(facts.width),
                    comparison.runs[details.runs[0]].label
                )
            }
            _ => String::new(),
        };
        let runs = details.runs.iter().zip(&of.runs);
        let flow = |(index, &(src, dst, size)): (usize, &(u32, u32, u64))| {
            let times = of.runs.iter().map(|run| {
                let (from, to) = run.sent[index];
                format!("{} – {}", figures::time(from.as_secs_f64()), figures::time(to.as_secs_f64()))
            });
            let size = figures::bytes(cavalcade_model::Bytes(size));
            json!([
                format!("{} → {}", port(comparison, src), port(comparison, dst)),
                size,
                times.collect::<Vec<String>>()
            ])
        };
        json!({
            "coflow": of.coflow,
            "facts": words,
            "shown": shown,
            "runs": runs.map(|(&run, up_close)| waited(comparison, &comparison.runs[run], of.coflow, up_close)).collect::<Vec<Value>>(),
            "flows": of.ends.iter().enumerate().map(flow).collect::<Vec<Value>>(),
        })
    };
    json!({
        "policies": details.runs.iter().map(label).collect::<Vec<Value>>(),
        "coflows": details.coflows.iter().map(coflow).collect::<Vec<Value>>(),
    })
}

/// A row of the table of times and waiting: completion time, slowdown, the link, its use, and whom
/// the coflow waited for.
fn waited(comparison: &Comparison, run: &RunFigures, coflow: usize, up_close: &CoflowRun) -> Value {
    let nanos = |time: cavalcade_model::Nanos| figures::time(time.as_secs_f64());
    let mut row = vec![nanos(run.cct[coflow]), figures::factor(run.slowdown[coflow])];
    match &up_close.wait {
        Some(wait) => {
            let one = |&(other, part): &(cavalcade_model::CoflowId, cavalcade_model::Nanos)| {
                format!("{} for {}", name(comparison, other.index()), nanos(part))
            };
            let mut ahead: Vec<String> = wait.ahead.iter().take(AHEAD).map(one).collect();
            if wait.ahead.len() > AHEAD {
                ahead.push(format!("and {} more", figures::count(wait.ahead.len() - AHEAD)));
            }
            let ahead = if ahead.is_empty() { "nobody".to_owned() } else { ahead.join(", ") };
            row.extend([
                wait.link_name.clone(),
                nanos(wait.own),
                nanos(wait.others),
                nanos(wait.idle),
                ahead,
            ]);
        }
        None => row.extend(["–"; 5].map(str::to_owned)),
    }
    json!(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn looked_at() -> Comparison {
        let mut comparison = sample::comparison(2, 30);
        comparison.coflows[3].name = "</script><b>".to_owned();
        comparison.details = Some(sample::details(&comparison));
        comparison
    }

    #[test]
    fn a_coflow_has_its_times_its_flows_and_the_five_that_it_waited_for_longest() {
        let comparison = looked_at();
        let data = data(&comparison, comparison.details.as_ref().unwrap());
        assert_eq!(data["policies"][1]["label"], "fair");
        let of = |coflow: usize, run: usize| data["coflows"][coflow]["runs"][run].as_array().unwrap().clone();
        let cct = comparison.runs[1].cct[5].as_secs_f64();
        let row = of(5, 1);
        assert_eq!(row[0], figures::time(cct));
        assert_eq!(
            (&row[2], &row[3], &row[5]),
            (&json!("ingress of port 3"), &json!(figures::time(cct / 2.0)), &json!("0 s"))
        );
        let part = figures::time(cct / 20.0);
        let five: Vec<String> = (6..11).map(|other| format!("{other} for {part}")).collect();
        assert_eq!(row[6], format!("{}, and 5 more", five.join(", ")));
        assert_eq!(of(29, 0)[6], "nobody");
        assert_eq!(of(0, 0)[6], "–");
        let flow = &data["coflows"][5]["flows"][1];
        assert!(flow[0] == "3 → 39" && flow[1] == "1 B" && flow[2].as_array().unwrap().len() == 2, "{flow}");
    }

    #[test]
    fn what_is_left_out_is_said_with_its_reason() {
        let mut comparison = looked_at();
        let left_out = Some("the trace has more than 1000000 flows".to_owned());
        comparison.details = Some(Details { left_out, ..Details::default() });
        assert!(section(&comparison).contains("Left out: the trace has more than 1000000 flows."));
    }

    #[test]
    fn a_long_name_does_not_make_a_long_page() {
        let mut comparison = looked_at();
        let short = section(&comparison).len();
        comparison.coflows.iter_mut().for_each(|coflow| coflow.name = "n".repeat(10_000));
        assert!(section(&comparison).len() < 4 * short);
    }

    #[test]
    fn a_name_cannot_end_the_data_and_no_details_are_no_section() {
        let page = section(&looked_at());
        assert_eq!(page.matches("</script>").count(), 1);
        assert!(page.contains("\\u003c/script>\\u003cb>") && page.contains("&lt;b&gt; (coflow 3)"));
        assert_eq!(section(&sample::comparison(2, 30)), "");
    }
}
