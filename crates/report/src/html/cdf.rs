//! The distribution of CCTs under every policy: for each time, the share of coflows that took no longer.
//!
//! Time is logarithmic: CCTs span five orders of magnitude, and a constant factor is then a constant distance. The
//! legend stands beside the plot in order of the mean, since curves that meet at both ends leave no room for names.

use cavalcade_metrics::{Comparison, RunFigures};

use crate::figures;
use crate::scale::{Linear, Log, time_tick};
use crate::svg::{Svg, px, shortened};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 728.0;
const TOP: f64 = 12.0;
const LEGEND: f64 = 752.0;
const LEGEND_STEP: f64 = 19.0;

/// The chart; `None` where no coflow took any time.
pub(super) fn chart(comparison: &Comparison, looks: &[String]) -> Option<String> {
    let ranking = comparison.ranking();
    let curves: Vec<Vec<f64>> = comparison.runs.iter().map(ascending_seconds).collect();
    let positive = || curves.iter().flatten().copied().filter(|&s| s > 0.0);
    let (low, high) = (positive().reduce(f64::min)?, positive().reduce(f64::max)?);
    let height = (320.0f64).max(30.0 + LEGEND_STEP * ranking.len() as f64);
    let x = Log::new((low.max(high / 1e8), high), (LEFT, RIGHT));
    let y = Linear::new((0.0, 1.0), (TOP + height, TOP));

    let mut svg = Svg::new(WIDTH, TOP + height + 44.0, "Distribution of coflow completion times by policy");
    axes(&mut svg, &x, &y, TOP + height);
    // The best is drawn last, on top.
    for &run in ranking.iter().rev() {
        svg.open(&format!("data-run=\"{run}\" class=\"{}\"", looks[run]));
        svg.tooltip(&comparison.runs[run].label);
        let path = steps(&curves[run], &x, &y);
        svg.path("grab", &path);
        svg.path("curve", &path);
        svg.close();
    }
    legend(&mut svg, comparison, &ranking, looks);
    Some(svg.finish())
}

fn ascending_seconds(run: &RunFigures) -> Vec<f64> {
    let mut nanos = run.cct.clone();
    nanos.sort_unstable();
    nanos.into_iter().map(|time| time.as_secs_f64()).collect()
}

/// The curve as steps; all that fall into one half pixel are one step.
fn steps(ascending: &[f64], x: &Log, y: &Linear) -> String {
    let column = |seconds: f64| (x.at(seconds.max(f64::MIN_POSITIVE)) * 2.0).round() / 2.0;
    let start = ascending.first().map_or(LEFT, |&first| column(first));
    let mut path = format!("M{} {}", px(start), px(y.at(0.0)));
    for (index, &seconds) in ascending.iter().enumerate() {
        let at = column(seconds);
        if ascending.get(index + 1).is_none_or(|&next| column(next) > at) {
            let share = (index + 1) as f64 / ascending.len() as f64;
            path.push_str(&format!("H{}V{}", px(at), px(y.at(share))));
        }
    }
    path
}

fn axes(svg: &mut Svg, x: &Log, y: &Linear, bottom: f64) {
    svg.open("class=\"axis\"");
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        svg.line("grid", (LEFT, y.at(share)), (RIGHT, y.at(share)));
        svg.text("end", (LEFT - 8.0, y.at(share) + 4.0), &format!("{} %", share * 100.0));
    }
    for tick in x.ticks(52.0) {
        let at = x.at(tick.value);
        svg.line("tick", (at, bottom), (at, bottom + if tick.labelled { 6.0 } else { 3.0 }));
        if tick.labelled {
            svg.line("grid", (at, TOP), (at, bottom));
            svg.text("mid", (at, bottom + 20.0), &time_tick(tick.value));
        }
    }
    svg.text("mid name", ((LEFT + RIGHT) / 2.0, bottom + 40.0), "coflow completion time (log scale)");
    svg.close();
}

fn legend(svg: &mut Svg, comparison: &Comparison, ranking: &[usize], looks: &[String]) {
    let means: Vec<f64> = ranking.iter().map(|&run| comparison.runs[run].cct_summary.mean_s).collect();
    svg.text("end axis-text", (WIDTH, TOP + 6.0), "mean");
    for ((place, &run), mean) in ranking.iter().enumerate().zip(figures::times(&means)) {
        let at = TOP + 26.0 + LEGEND_STEP * place as f64;
        svg.open(&format!("data-run=\"{run}\" class=\"{} legend\"", looks[run]));
        svg.rect("class=\"hit\"", (LEGEND - 6.0, at - 14.0), (WIDTH - LEGEND + 6.0, LEGEND_STEP));
        svg.line("curve", (LEGEND, at - 4.0), (LEGEND + 24.0, at - 4.0));
        svg.text("", (LEGEND + 32.0, at), &shortened(&comparison.runs[run].label, 18));
        svg.text("end muted", (WIDTH, at), &mean);
        svg.close();
    }
}
