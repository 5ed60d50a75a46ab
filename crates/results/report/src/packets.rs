//! The columns that only runs over packets have: flow completion times by size, what waited in
//! switches, and what hosts said to each other over the network.

use cavalcade_metrics::{MessageUse, Occupancy, QueueTotals, QueueUse, RunFigures, Summary};

use crate::figures;
use crate::grid::Grid;

/// The note below the table.
pub(crate) const NOTE: &str = "Queues: the output ports of all switches. Occupancy is what one port held at so many per cent of all times and ports; \
     use is the share of a link's capacity from the beginning to the end, on average and of the busiest.";

/// The classes of size, as the tables name them.
const CLASSES: [&str; 3] = ["to 100 KB", "to 10 MB", "above"];

/// Flow completion times by size; `None` where no run has any.
pub(crate) fn flow_times(runs: &[&RunFigures]) -> Option<Grid> {
    let runs: Vec<_> = runs.iter().filter_map(|run| run.fct.as_ref().map(|fct| (run, fct))).collect();
    if runs.is_empty() {
        return None;
    }
    let mut grid =
        Grid::default().text("flow completion time", runs.iter().map(|(run, _)| run.label.clone()));
    for (class, name) in CLASSES.iter().enumerate() {
        // The flows are the same in all runs, so a class is empty in all or in none.
        let of_class: Option<Vec<&Summary>> = runs.iter().map(|(_, fct)| fct[class].as_ref()).collect();
        let Some(of_class) = of_class else { continue };
        let times = |value: fn(&Summary) -> f64| {
            figures::times(&of_class.iter().map(|summary| value(summary)).collect::<Vec<_>>())
        };
        grid = grid
            .figures(format!("{name} mean"), times(|summary| summary.mean_s))
            .figures(format!("{name} p95"), times(|summary| summary.p95_s))
            .figures(format!("{name} p99"), times(|summary| summary.p99_s));
    }
    Some(grid)
}

/// Makes the table of switch queues; `None` where no run has recorded them.
pub(crate) fn queues(runs: &[&RunFigures]) -> Option<Grid> {
    let runs: Vec<_> = runs.iter().filter_map(|run| run.queue_use.as_ref().map(|used| (run, used))).collect();
    if runs.is_empty() {
        return None;
    }
    let totals: Vec<QueueTotals> = runs.iter().map(|(_, used)| used.totals()).collect();
    let counts = |count: fn(&QueueTotals) -> u64| -> Vec<String> {
        totals.iter().map(|totals| figures::count(count(totals) as usize)).collect()
    };
    let shares = |share: fn(&QueueTotals) -> f64| -> Vec<String> {
        totals.iter().map(|totals| figures::percent(share(totals), 1.0)).collect()
    };
    let held = |bytes: fn(&Occupancy) -> cavalcade_model::Bytes| -> Vec<String> {
        let of = |(_, used): &(&&RunFigures, &QueueUse)| figures::bytes(bytes(&used.occupancy));
        runs.iter().map(of).collect()
    };
    let grid = Grid::default()
        .text("queues", runs.iter().map(|(run, _)| run.label.clone()))
        .figures("p50", held(|o| o.p50))
        .figures("p95", held(|o| o.p95))
        .figures("p99", held(|o| o.p99))
        .figures("most", held(|o| o.max))
        .figures("dropped", counts(|t| t.dropped))
        .figures("marked", counts(|t| t.marked))
        .figures("lost", counts(|t| t.lost))
        .figures("mean use", shares(|t| t.mean_utilisation))
        .figures("most use", shares(|t| t.most_utilisation));
    Some(grid)
}

/// The note below the table.
pub(crate) const NEGOTIATION_NOTE: &str = "Negotiation: datagrams between hosts, in which a policy's instances agree. Share is that of all bytes on links, headers \
     included; delay is from the decision to send to the last bit.";

/// Makes the table of datagrams between hosts; `None` where there were none.
pub(crate) fn negotiation(runs: &[&RunFigures]) -> Option<Grid> {
    let runs: Vec<_> = runs.iter().filter_map(|run| run.messages.as_ref().map(|used| (run, used))).collect();
    if runs.is_empty() {
        return None;
    }
    let counts = |count: fn(&MessageUse) -> u64| -> Vec<String> {
        runs.iter().map(|(_, used)| figures::count(count(used) as usize)).collect()
    };
    let times = |time: fn(&MessageUse) -> f64| -> Vec<String> {
        figures::times(&runs.iter().map(|(_, used)| time(used)).collect::<Vec<_>>())
    };
    let grid = Grid::default()
        .text("negotiation", runs.iter().map(|(run, _)| run.label.clone()))
        .figures("datagrams", counts(|used| used.sent))
        .figures("statements", counts(|used| used.statements))
        .figures("bytes", runs.iter().map(|(_, used)| figures::bytes(used.payload)))
        .figures("share", runs.iter().map(|(_, used)| format!("{:.4} %", 100.0 * used.share())))
        .figures("lost", counts(|used| used.lost))
        .figures("too late", counts(|used| used.left_out))
        .figures("mean delay", times(|used| used.mean_delay().as_secs_f64()))
        .figures("most", times(|used| used.longest.as_secs_f64()));
    Some(grid)
}
