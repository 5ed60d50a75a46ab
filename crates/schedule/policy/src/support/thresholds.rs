//! Thresholds of bytes that split flows over priority levels: published tables, and ones computed
//! for a workload.
//!
//! # The problem
//! A flow that has sent at most α₁ bytes is served before all others, at most α₂ before the rest,
//! and so on. Small thresholds make short flows wait for few others; too small ones leave most of
//! the load in the last level, where flows are served in order of arrival. For one link with
//! Poisson arrivals at rate λ, preemption between levels and arrival order inside one, the mean
//! time is known exactly (M/G/1, docs/protocols.md §2.3). For a flow of size x in level i, that is
//! α₍ᵢ₋₁₎ < x ≤ αᵢ:
//!
//! ```text
//! T(x) = [ λ·m₂(αᵢ) / (2·(1 − ρ(αᵢ))) + x ] / (1 − ρ(αᵢ₋₁))      ρ(a) = λ·m₁(a)
//! ```
//!
//! where m₁, m₂ are the first two moments of what a flow contributes above a: min(X, a) where flows
//! sink by bytes sent (PIAS, Karuna's type 3), and X·[X ≤ a] where a flow's level is chosen once by
//! its size (Karuna's type 2).
//!
//! # The optimum
//! E[T] is a sum over levels of a term in (α₍ᵢ₋₁₎, αᵢ) alone. So the best thresholds among given
//! candidates are a shortest path of K steps, found exactly by dynamic programming in K·n²/2 steps
//! of a few additions. Candidates are the upper ends of the bins of the size histogram: between two
//! sizes that occur, all thresholds are the same. Rejected: coordinate descent in log α from
//! several starts, slower and only locally optimal.
//!
//! The model is one link; it knows nothing of windows, round trips or coflows. Nor does it take off
//! the load of Karuna's deadline flows, which history does not tell apart.

use cavalcade_model::{Bytes, History, contract::SizeBin};

use cavalcade_spec::{Ascending, Complaint, Value};

/// Choice of thresholds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Thresholds {
    /// PIAS' table for the web search workload.
    WebSearch,
    /// PIAS' table for the data mining workload.
    DataMining,
    /// Computed for the flow sizes in the history; the web search table where there are none.
    Optimised,
    /// The thresholds as given.
    Given(Ascending),
}

impl Value for Thresholds {
    fn read(&mut self, text: &str) -> bool {
        let read = match text {
            "websearch" => Some(Thresholds::WebSearch),
            "datamining" => Some(Thresholds::DataMining),
            "optimised" => Some(Thresholds::Optimised),
            _ => Ascending::parse(text).map(Thresholds::Given),
        };
        read.map(|read| *self = read).is_some()
    }

    fn write(&self) -> String {
        match self {
            Thresholds::WebSearch => "websearch".to_owned(),
            Thresholds::DataMining => "datamining".to_owned(),
            Thresholds::Optimised => "optimised".to_owned(),
            Thresholds::Given(sizes) => sizes.write(),
        }
    }

    fn expected(&self) -> String {
        "websearch, datamining, optimised, or rising sizes such as 100KB/1MB/10MB".to_owned()
    }
}

/// Rule by which a flow finds its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sorting {
    /// It sinks with the bytes that it has sent.
    BySent,
    /// Once, by its size.
    BySize,
}

impl Thresholds {
    /// Checks the load, in percent, against what it is for. Thresholds that are listed have none.
    pub(crate) fn check_load(&self, load: &mut Option<u32>, given: &[&str]) -> Result<(), Complaint> {
        match self {
            Thresholds::WebSearch | Thresholds::DataMining => {
                let row = load.is_some_and(|load| (50..=90).contains(&load) && load.is_multiple_of(10));
                Complaint::unless(row, "load", "50, 60, 70, 80 or 90, for which tables are published")
            }
            Thresholds::Optimised => {
                Complaint::unless(load.is_some_and(|load| (1..=99).contains(&load)), "load", "1 to 99")
            }
            Thresholds::Given(_) => {
                if !given.contains(&"load") {
                    *load = None;
                }
                Complaint::unless(
                    load.is_none(),
                    "load",
                    "none beside listed thresholds: give one of the two",
                )
            }
        }
    }

    /// Lists the thresholds as they come out for `history`. Where there are none, nothing is to
    /// list.
    pub(crate) fn settle(
        &mut self,
        load: &mut Option<u32>,
        levels: usize,
        sorting: Sorting,
        history: &History,
    ) {
        let thresholds = self.resolve(*load, levels, sorting, history);
        if !thresholds.is_empty() {
            (*self, *load) = (Thresholds::Given(Ascending(thresholds)), None);
        }
    }

    /// The thresholds, at most `levels - 1` unless they were given one by one.
    pub(crate) fn resolve(
        &self,
        load: Option<u32>,
        levels: usize,
        sorting: Sorting,
        history: &History,
    ) -> Vec<Bytes> {
        let load = load.unwrap_or(DEFAULT_LOAD);
        let published = |table: &[[u32; 7]; 5]| {
            let row = table[(load.clamp(50, 90) as usize - 50) / 10];
            row.iter().take(levels - 1).map(|&packets| Bytes(u64::from(packets) * PACKET)).collect()
        };
        match self {
            Thresholds::DataMining => published(&DATA_MINING),
            Thresholds::Optimised if !history.flow_sizes().is_empty() => {
                optimise(history.flow_sizes(), f64::from(load) / 100.0, levels, sorting)
            }
            Thresholds::WebSearch | Thresholds::Optimised => published(&WEB_SEARCH),
            Thresholds::Given(sizes) => sizes.0.clone(),
        }
    }
}

/// The load, in percent, for which published experiments are mostly shown.
pub(crate) const DEFAULT_LOAD: u32 = 80;

/// Bytes of payload in a packet, the unit of the tables.
const PACKET: u64 = 1460;

/// In packets, for loads of 50, 60 … 90 % (PIAS-NS2, `run_pias_dctcp.py`; docs/protocols.md §2.2).
const WEB_SEARCH: [[u32; 7]; 5] = [
    [1059, 1412, 1643, 1869, 2008, 2115, 2184],
    [956, 1381, 1718, 2028, 2297, 2551, 2660],
    [999, 1305, 1564, 1763, 1956, 2149, 2309],
    [909, 1329, 1648, 1960, 2143, 2337, 2484],
    [759, 1132, 1456, 1737, 2010, 2199, 2325],
];

/// The same for data mining (`run_pias_vl2.py`).
const DATA_MINING: [[u32; 7]; 5] = [
    [805, 1106, 1401, 10693, 11970, 21162, 22272],
    [840, 1232, 1617, 11950, 12238, 21494, 25720],
    [907, 1301, 1619, 12166, 12915, 21313, 26374],
    [745, 1083, 1391, 13689, 14936, 21149, 27245],
    [750, 1083, 1416, 13705, 14952, 21125, 28253],
];

/// The model of one link: for each candidate threshold, what the objective needs.
struct Link {
    /// Probability that a flow is at most as large; 0 before the first candidate.
    at_most: Vec<f64>,
    /// The mean size counted over those flows alone.
    size_at_most: Vec<f64>,
    /// The mean work that a newcomer to the level below the candidate finds, over the capacity left
    /// to it.
    wait: Vec<f64>,
    /// One over the capacity that levels up to the candidate leave.
    stretch: Vec<f64>,
}

impl Link {
    /// Index 0 is the threshold 0, index k + 1 the end of bin k. Time is in bytes at the link's
    /// rate.
    fn new(bins: &[SizeBin], load: f64, sorting: Sorting) -> Self {
        let flows: f64 = bins.iter().map(|bin| bin.flows as f64).sum();
        let mean = bins.iter().map(|bin| bin.bytes.as_f64()).sum::<f64>() / flows;
        let rate = load / mean;
        let mut link =
            Self { at_most: vec![0.0], size_at_most: vec![0.0], wait: vec![0.0], stretch: vec![1.0] };
        let (mut share, mut first, mut second) = (0.0, 0.0, 0.0);
        for (index, bin) in bins.iter().enumerate() {
            let size = bin.bytes.as_f64() / bin.flows as f64;
            let weight = bin.flows as f64 / flows;
            share += weight;
            first += weight * size;
            second += weight * size * size;
            let last = index + 1 == bins.len();
            let (cut, above) = (bin.largest.as_f64(), if last { 0.0 } else { 1.0 - share });
            let (seen_first, seen_second) = match sorting {
                Sorting::BySent => (first + cut * above, second + cut * cut * above),
                Sorting::BySize => (first, second),
            };
            let left = 1.0 - rate * seen_first;
            link.at_most.push(share);
            link.size_at_most.push(first);
            link.wait.push(rate * seen_second / (2.0 * left));
            link.stretch.push(1.0 / left);
        }
        link
    }

    /// Returns what the level between two candidates adds to the mean time.
    fn level(&self, above: usize, end: usize) -> f64 {
        let waiting = self.wait[end] * (self.at_most[end] - self.at_most[above]);
        (waiting + self.size_at_most[end] - self.size_at_most[above]) * self.stretch[above]
    }

    /// The mean time with these ends of levels, the last of them the largest size.
    fn mean_time(&self, ends: &[usize]) -> f64 {
        let starts = std::iter::once(&0).chain(ends);
        starts.zip(ends).map(|(&above, &end)| self.level(above, end)).sum()
    }

    /// The ends of at most `levels` levels that make the mean time least; the last is always the
    /// largest size.
    fn best_ends(&self, levels: usize) -> Vec<usize> {
        let last = self.at_most.len() - 1;
        let mut best: Vec<f64> = (0..=last).map(|end| self.level(0, end)).collect();
        let mut came_from: Vec<Vec<usize>> = Vec::new();
        for _ in 1..levels {
            let mut next = best.clone();
            // Where one level fewer is as good, the step stays where it is.
            let mut from: Vec<usize> = (0..=last).collect();
            for end in 1..=last {
                let steps = (1..end).map(|above| (best[above] + self.level(above, end), above));
                if let Some((time, above)) = steps.min_by(|a, b| a.0.total_cmp(&b.0))
                    && time < next[end]
                {
                    (next[end], from[end]) = (time, above);
                }
            }
            best = next;
            came_from.push(from);
        }
        let mut ends = vec![last];
        let mut at = last;
        for from in came_from.iter().rev() {
            if from[at] != at {
                at = from[at];
                ends.push(at);
            }
        }
        ends.reverse();
        ends
    }
}

/// The thresholds between at most `levels` levels with the least mean flow completion time at
/// `load`.
fn optimise(bins: &[SizeBin], load: f64, levels: usize, sorting: Sorting) -> Vec<Bytes> {
    let ends = Link::new(bins, load, sorting).best_ends(levels);
    ends[..ends.len() - 1].iter().map(|&end| bins[end - 1].largest).collect()
}

/// A choice of thresholds, and what the model of one link says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ThresholdChoice {
    /// Name: `optimised`, `websearch`, `datamining`, `none`.
    pub name: &'static str,
    /// The thresholds, rising; one fewer than there are levels, or fewer still.
    pub thresholds: Vec<Bytes>,
    /// The mean flow completion time of the model, as bytes that the link sends in it.
    pub mean_bytes: f64,
}

/// For flows of the sizes in `history` at `load` (from 0 to 1, both excluded) over `levels` queues:
/// the thresholds with the least mean flow completion time, then for comparison the published
/// tables for the nearest load, and none at all.
///
/// # Panics
/// If the history has no flow sizes, the load is not between 0 and 1, or there are no levels.
pub fn threshold_choices(history: &History, load: f64, levels: usize) -> Vec<ThresholdChoice> {
    assert!(load > 0.0 && load < 1.0 && levels > 0, "a load is between 0 and 1, and there are levels");
    let bins = history.flow_sizes();
    assert!(!bins.is_empty(), "there are flow sizes");
    let link = Link::new(bins, load, Sorting::BySent);
    let row = ((load * 10.0).round() as u32 * 10).clamp(50, 90);
    let published = |table: Thresholds| table.resolve(Some(row), levels, Sorting::BySent, history);
    let choices = [
        ("optimised", optimise(bins, load, levels, Sorting::BySent)),
        ("websearch", published(Thresholds::WebSearch)),
        ("datamining", published(Thresholds::DataMining)),
        ("none", Vec::new()),
    ];
    let judged = |(name, thresholds): (&'static str, Vec<Bytes>)| {
        let end = |threshold: &Bytes| bins.partition_point(|bin| bin.largest <= *threshold);
        let ends: Vec<usize> = thresholds.iter().map(end).chain([bins.len()]).collect();
        ThresholdChoice { name, mean_bytes: link.mean_time(&ends), thresholds }
    };
    choices.into_iter().map(judged).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::MeasuredSizes;

    const WEB: MeasuredSizes = MeasuredSizes::WEB_SEARCH;
    const MINING: MeasuredSizes = MeasuredSizes::DATA_MINING;

    #[test]
    fn the_best_choice_stands_first_and_is_the_best_of_all() {
        let choices = threshold_choices(&history(WEB), 0.9, 8);
        assert_eq!(choices.iter().map(|choice| choice.name).collect::<Vec<_>>()[0], "optimised");
        assert!(choices.iter().all(|choice| choice.mean_bytes >= choices[0].mean_bytes));
        assert_eq!((choices[1].thresholds.len(), choices[3].thresholds.len()), (7, 0));
        // Two queues have one threshold.
        assert_eq!(threshold_choices(&history(WEB), 0.5, 2)[0].thresholds.len(), 1);
    }

    /// Sizes at the middles of equal shares of a piecewise linear distribution, in units of a
    /// 1000th of a packet.
    fn sizes(law: MeasuredSizes) -> Vec<Bytes> {
        let shares = 400_000;
        let share = |index: i32| (f64::from(index) + 0.5) / f64::from(shares);
        (0..shares).map(|index| Bytes((law.packets_at(share(index)) * 1000.0) as u64)).collect()
    }

    fn history(law: MeasuredSizes) -> History {
        History::default().with_flow_sizes(sizes(law))
    }

    /// The mean time in packets for FIFO, the published table and the optimum.
    fn means(law: MeasuredSizes, load: f64, table: &[u32; 7]) -> [f64; 3] {
        let history = history(law);
        let bins = history.flow_sizes();
        let link = Link::new(bins, load, Sorting::BySent);
        let last = bins.len();
        let mut cuts: Vec<usize> =
            table.iter().map(|&t| bins.partition_point(|bin| bin.largest.0 <= u64::from(t) * 1000)).collect();
        cuts.push(last);
        [vec![last], cuts, link.best_ends(8)].map(|ends| link.mean_time(&ends) / 1000.0)
    }

    fn assert_near(got: f64, want: f64, percent: f64) {
        assert!((got / want - 1.0).abs() * 100.0 < percent, "got {got}, expected {want} within {percent} %");
    }

    #[test]
    fn the_mean_times_of_the_reference_come_out() {
        let cases = [
            (WEB, 0.9, &WEB_SEARCH[4], [33862.0, 11490.0, 7975.0]),
            (WEB, 0.5, &WEB_SEARCH[0], [4776.0, 2328.0, 2072.0]),
            (MINING, 0.9, &DATA_MINING[4], [1505286.0, 71970.0, 31862.0]),
            (MINING, 0.5, &DATA_MINING[0], [171802.0, 12685.0, 8467.0]),
        ];
        for (law, load, table, [fifo, published, optimum]) in cases {
            let got = means(law, load, table);
            assert_near(got[0], fifo, 1.0);
            assert_near(got[1], published, 1.0);
            assert_near(got[2], optimum, 1.0);
        }
    }

    #[test]
    fn the_histogram_keeps_the_moments() {
        let history = history(MINING);
        let exact: Vec<f64> = sizes(MINING).iter().map(|size| size.as_f64()).collect();
        let moment = |power| exact.iter().map(|size| size.powi(power)).sum::<f64>();
        let (mut first, mut second, mut below) = (0.0, 0.0, 0);
        for bin in history.flow_sizes() {
            let mean = bin.bytes.as_f64() / bin.flows as f64;
            first += bin.bytes.as_f64();
            second += mean * mean * bin.flows as f64;
            assert!(bin.largest.0 > below && mean <= bin.largest.as_f64());
            assert!(
                mean * 17.0 / 16.0 >= bin.largest.as_f64(),
                "sizes of a bin differ by less than a sixteenth"
            );
            below = bin.largest.0;
        }
        assert_near(first, moment(1), 1e-9);
        assert_near(second, moment(2), 0.1);
    }

    #[test]
    fn no_other_choice_is_better() {
        let small = History::default().with_flow_sizes([1, 2, 2, 3, 5, 9, 30, 30, 200].map(Bytes));
        for sorting in [Sorting::BySent, Sorting::BySize] {
            let link = Link::new(small.flow_sizes(), 0.8, sorting);
            let last = link.at_most.len() - 1;
            let best = link.mean_time(&link.best_ends(3));
            for first in 1..last {
                for second in first + 1..last {
                    assert!(best <= link.mean_time(&[first, second, last]) + 1e-9);
                }
            }
        }
    }

    #[test]
    fn thresholds_that_were_settled_hold_without_the_history_that_they_came_from() {
        let (past, none) = (history(WEB), History::default());
        for spec in
            ["pias", "pias:thresholds=optimised,load=75", "karuna:thresholds=optimised,sizes_known=true"]
        {
            let policy = crate::parse(spec).unwrap();
            let told = crate::parse(&policy.settled(&past).spec()).unwrap();
            assert_eq!(told.demotion(&none), policy.demotion(&past), "{spec}");
            let rests_on_history = policy.demotion(&none) != policy.demotion(&past);
            assert_eq!(rests_on_history, spec.contains("optimised"), "{spec}");
        }
    }

    #[test]
    fn tables_are_cut_to_the_levels_and_lists_are_not() {
        let none = History::default();
        let web = Thresholds::WebSearch.resolve(Some(80), 8, Sorting::BySent, &none);
        assert_eq!((web.len(), web[0]), (7, Bytes(909 * 1460)));
        assert_eq!(Thresholds::DataMining.resolve(Some(90), 7, Sorting::BySent, &none).len(), 6);
        assert_eq!(Thresholds::Optimised.resolve(Some(80), 8, Sorting::BySent, &none), web);
        let list = Thresholds::Given(Ascending((1..=20).map(Bytes).collect()));
        assert_eq!(list.resolve(Some(80), 8, Sorting::BySent, &none).len(), 20);
    }
}
