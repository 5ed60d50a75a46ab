//! What is in a trace, in figures that tell whether it is the one that was meant.

use std::fmt::Write as _;

use cavalcade_metrics::{Bin, BinThresholds, Percent, RecordedSetup, percentile};
use cavalcade_model::{BitsPerSec, Bytes, Fabric, Instant, LinkId, Nanos, Workload};
use cavalcade_report::{Fit, Grid, recorded_on};
use cavalcade_trace::spark::Shuffle;
use cavalcade_trace::{Format, Note, Reading};
use serde_json::{Value, json};

use crate::input::note_lines;

/// Ports that are named one by one.
const NAMED: usize = 8;

/// The figures.
pub(crate) struct Facts {
    format: Format,
    ports: u32,
    /// Names of ports; empty where the trace gives none.
    port_names: Vec<String>,
    tasks: usize,
    coflows: usize,
    flows: usize,
    bytes: Bytes,
    first_arrival: Instant,
    last_arrival: Instant,
    deadlines: usize,
    /// Tasks of more than one stage.
    staged: usize,
    /// Flows that arrive after their coflow has begun.
    late_flows: usize,
    width: Spread,
    length: Spread,
    size: Spread,
    /// For each bin: coflows and bytes.
    bins: [(usize, Bytes); 4],
    busiest: Busiest,
    /// The cluster that a Spark log was written on.
    recorded_on: Option<RecordedSetup>,
    /// The reader's notes.
    notes: Vec<Note>,
    /// The shuffles of a Spark log's coflows, with their names.
    shuffles: Vec<(String, Shuffle)>,
}

/// Percentiles by nearest rank.
struct Spread {
    p50: u64,
    p95: u64,
    p99: u64,
    max: u64,
}

/// The link that carries most.
struct Busiest {
    name: String,
    bytes: Bytes,
}

impl Facts {
    /// The figures of what was read.
    pub(crate) fn of(reading: Reading) -> Self {
        let Reading { workload, format, notes, shuffles, setup, .. } = reading;
        let named = |shuffle: Shuffle| (workload.coflow_name(shuffle.coflow), shuffle);
        let tasks = workload.tasks();
        let thresholds = BinThresholds::default();
        let mut bins = [(0, Bytes::ZERO); 4];
        for coflow in workload.coflows() {
            let bin = &mut bins[thresholds.bin_of(&coflow).index()];
            *bin = (bin.0 + 1, bin.1 + coflow.size());
        }
        Self {
            format,
            ports: workload.ports(),
            port_names: workload.port_names().to_vec(),
            tasks: tasks.len(),
            coflows: workload.coflow_count(),
            flows: workload.flows().len(),
            bytes: workload.bytes(),
            first_arrival: workload.origin(),
            last_arrival: tasks
                .last()
                .map_or(Instant::ZERO, |task| workload.in_trace(task.arrival).unwrap_or(Instant::MAX)),
            deadlines: tasks.iter().filter(|task| task.deadline.is_some()).count(),
            staged: tasks.iter().filter(|task| task.stages.len() > 1).count(),
            late_flows: workload.flows().iter().filter(|flow| flow.wave > Nanos::ZERO).count(),
            width: Spread::of(workload.coflows().map(|coflow| coflow.width() as u64)),
            length: Spread::of(workload.coflows().map(|coflow| coflow.length().get())),
            size: Spread::of(workload.coflows().map(|coflow| coflow.size().get())),
            bins,
            busiest: Busiest::of(&workload),
            recorded_on: setup.as_ref().map(crate::recorded::setup),
            notes,
            shuffles: shuffles.into_iter().map(named).collect(),
        }
    }

    /// Formats the facts as JSON.
    pub(crate) fn json(&self) -> String {
        let bins: serde_json::Map<String, Value> = Bin::ALL
            .into_iter()
            .zip(self.bins)
            .map(|(bin, (coflows, bytes))| {
                (bin.code().to_owned(), json!({ "coflows": coflows, "bytes": bytes.get() }))
            })
            .collect();
        let notes =
            self.notes.iter().map(|note| json!({ "certainty": note.certainty.name(), "text": note.text }));
        let shuffles = self.shuffles.iter().map(|(name, shuffle)| {
            json!({
                "coflow": name,
                "map_stage": shuffle.map_stage,
                "reduce_stage": shuffle.reduce_stage,
                "written_bytes": shuffle.written.get(),
                "moved_bytes": shuffle.moved.get(),
            })
        });
        let mut facts = json!({
            "schema_version": 1,
            "format": self.format.name(),
            "ports": self.ports,
            "tasks": self.tasks,
            "coflows": self.coflows,
            "flows": self.flows,
            "bytes": self.bytes.get(),
            "first_arrival_ns": self.first_arrival.get(),
            "last_arrival_ns": self.last_arrival.get(),
            "tasks_with_deadline": self.deadlines,
            "tasks_of_several_stages": self.staged,
            "flows_in_later_waves": self.late_flows,
            "width": self.width.json(),
            "length_bytes": self.length.json(),
            "size_bytes": self.size.json(),
            "bins": bins,
            "busiest_link": { "name": self.busiest.name, "bytes": self.busiest.bytes.get() },
        });
        // Only where there is something to say: most formats leave nothing open.
        if !self.port_names.is_empty() {
            facts["port_names"] = self.port_names.clone().into();
        }
        if !self.notes.is_empty() {
            facts["notes"] = notes.collect();
        }
        if !self.shuffles.is_empty() {
            facts["shuffles"] = shuffles.collect();
        }
        format!("{facts:#}\n")
    }

    /// For people.
    pub(crate) fn text(&self, fit: Fit) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a string takes all text");
        self.write_origin(&mut text, fit);
        text
    }

    /// The first names of ports, behind their number.
    fn hosts(&self) -> String {
        let named: Vec<&str> =
            self.port_names.iter().take(NAMED).map(String::as_str).filter(|name| !name.is_empty()).collect();
        let more = match self.ports as usize - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        // A name of a trace must not change the terminal.
        let named = named.join(", ").replace(char::is_control, "\u{fffd}");
        if named.is_empty() { named } else { format!(": {named}{more}") }
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let (first, last) = (self.first_arrival.as_secs_f64(), self.last_arrival.as_secs_f64());
        writeln!(out, "format    {}", self.format)?;
        if let Some(setup) = &self.recorded_on {
            writeln!(out, "recorded  {}", recorded_on(setup))?;
        }
        writeln!(out, "ports     {}{}", self.ports, self.hosts())?;
        writeln!(out, "tasks     {}", self.tasks)?;
        writeln!(out, "coflows   {}", self.coflows)?;
        writeln!(out, "flows     {}", self.flows)?;
        writeln!(out, "bytes     {}", amount(self.bytes.get()))?;
        writeln!(out, "arrivals  from {first:.3} s to {last:.3} s")?;
        let extras = [
            (self.deadlines, ["task has", "tasks have"], "a deadline"),
            (self.staged, ["task has", "tasks have"], "several stages"),
            (self.late_flows, ["flow arrives", "flows arrive"], "in later waves"),
        ];
        for (count, [one, several], what) in extras.into_iter().filter(|(count, ..)| *count > 0) {
            writeln!(out, "          {count} {} {what}", if count == 1 { one } else { several })?;
        }
        let Busiest { name, bytes } = &self.busiest;
        let name = name.replace(char::is_control, "\u{fffd}");
        let gigabit = bytes.time_at(BitsPerSec(1_000_000_000)).unwrap_or(Nanos::MAX).as_secs_f64();
        writeln!(out, "busiest   {name}: {}, {gigabit:.1} s at 1Gbps", amount(bytes.get()))?;
        writeln!(out, "\ncoflows       p50        p95        p99        max")?;
        writeln!(out, "width   {}", self.width.row(|flows| flows.to_string()))?;
        writeln!(out, "length  {}", self.length.row(amount))?;
        writeln!(out, "size    {}", self.size.row(amount))?;
        writeln!(out, "\nbin                coflows      bytes")?;
        for (bin, (coflows, bytes)) in Bin::ALL.into_iter().zip(self.bins) {
            let coflows = share(coflows as f64, self.coflows as f64);
            let bytes = share(bytes.as_f64(), self.bytes.as_f64());
            writeln!(out, "{bin}  {:13}  {coflows:5.1} %    {bytes:5.1} %", bin.name())?;
        }
        Ok(())
    }

    /// Writes where an imported workload comes from, and how far it can be trusted.
    fn write_origin(&self, out: &mut String, fit: Fit) {
        if !self.shuffles.is_empty() {
            let column = |of: &dyn Fn(&Shuffle) -> String| {
                self.shuffles.iter().map(|(_, shuffle)| of(shuffle)).collect::<Vec<_>>()
            };
            let to_stage = |shuffle: &Shuffle| match shuffle.reduce_stage {
                Some(stage) => stage.to_string(),
                None => "service".to_owned(),
            };
            let grid = Grid::default()
                .text("coflow", self.shuffles.iter().map(|(name, _)| name.clone()))
                .figures("from stage", column(&|shuffle| shuffle.map_stage.to_string()))
                .figures("to stage", column(&to_stage))
                .figures("written", column(&|shuffle| amount(shuffle.written.get())))
                .figures("moved", column(&|shuffle| amount(shuffle.moved.get())));
            out.push_str(&format!("\n{}", grid.show(fit)));
        }
        if !self.notes.is_empty() {
            out.push('\n');
        }
        for note in &self.notes {
            out.push_str(&format!("{}\n", note_lines(note, fit.width)));
        }
    }
}

impl Spread {
    fn of(values: impl Iterator<Item = u64>) -> Self {
        let mut ascending: Vec<u64> = values.collect();
        ascending.sort_unstable();
        let at = |percent| percentile(&ascending, percent).unwrap_or_default();
        Self {
            p50: at(Percent::P50),
            p95: at(Percent::P95),
            p99: at(Percent::P99),
            max: at(Percent::whole(100)),
        }
    }

    fn json(&self) -> Value {
        json!({ "p50": self.p50, "p95": self.p95, "p99": self.p99, "max": self.max })
    }

    fn row(&self, shown: impl Fn(u64) -> String) -> String {
        let cells = [self.p50, self.p95, self.p99, self.max].map(|value| format!("{:>9}", shown(value)));
        cells.join("  ")
    }
}

impl Busiest {
    fn of(workload: &Workload) -> Self {
        // Links have names and numbers only on a fabric; its rate does not matter here.
        let fabric = Fabric::big_switch(workload.ports(), BitsPerSec(1)).expect("a workload has ports");
        let mut load = vec![Bytes::ZERO; fabric.link_count()];
        for flow in workload.flows() {
            for link in fabric.path(flow.src, flow.dst) {
                load[link.index()] += flow.size;
            }
        }
        // The first of equals.
        let most = (0..load.len()).rev().max_by_key(|&link| load[link]).unwrap_or(0);
        Self { name: workload.link_name(&fabric, LinkId::from_index(most)), bytes: load[most] }
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// Bytes to three digits, in decimal units.
fn amount(bytes: u64) -> String {
    Bytes(bytes).rounded().to_string()
}
