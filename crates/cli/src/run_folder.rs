//! The folder of one run: `cavalcade simulate --out` writes it, `replay` and `validate` read it.
//!
//! | file | rows | for |
//! |---|---|---|
//! | `manifest.json` | | running it again |
//! | `coflows.csv`, `coflows.parquet` | one for each coflow | people and notebooks |
//! | `tasks.csv` | one for each task | the same |
//! | `flows.csv`, `schedule.csv` | one for each flow; for each flow and rate | with `--dump-schedule`: checking the run |

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use cavalcade_metrics::{EngineCounts, Outcome};
use cavalcade_model::{FlowId, Instant, Nanos, TaskClass};
use cavalcade_policy::Configured;
use cavalcade_sim_fluid::Observer;
use cavalcade_validate::{ScheduleWriter, Segment};

use crate::carriers::{Capture, Carrier};
use crate::columns::{Column, read_whole, write_csv, write_parquet};
use crate::failure::Failure;
use crate::manifest::{self, Manifest};
use crate::parallel::{Progress, watched};
use crate::policies;
use crate::results::Results;
use crate::scene::{Meter, Scene};

const COFLOWS: &str = "coflows.csv";
const COFLOWS_PARQUET: &str = "coflows.parquet";
const TASKS: &str = "tasks.csv";
const FLOWS: &str = "flows.csv";
/// The dumped schedule.
pub(crate) const SCHEDULE: &str = "schedule.csv";

/// Runs `policy` and writes what comes out. Also says how many seconds the run took, without the writing (but with that
/// of a schedule, which is written as it comes).
///
/// # Errors
/// Where something cannot be written.
pub(crate) fn produce(
    scene: &Scene,
    policy: &Configured,
    carrier: &Carrier,
    dump_schedule: bool,
    capture: Option<Capture<'_>>,
    results: &mut Results<'_>,
) -> Result<(Outcome, f64), Failure> {
    let start = std::time::Instant::now();
    let outcome = watched(scene.workload.coflow_count(), |progress| {
        if dump_schedule {
            dump(scene, policy, results, progress)
        } else {
            carrier.run(scene, policy, false, capture, progress)
        }
    })?;
    let wall_s = start.elapsed().as_secs_f64();
    let coflows = coflow_columns(scene, &outcome);
    results.write(COFLOWS, |mut out| write_csv(&coflows, &mut out))?;
    results.write(COFLOWS_PARQUET, |out| write_parquet(&coflows, out))?;
    results.write(TASKS, |mut out| write_csv(&task_columns(scene, &outcome), &mut out))?;
    if dump_schedule {
        results.write(FLOWS, |mut out| write_csv(&flow_columns(scene, &outcome), &mut out))?;
    }
    Ok((outcome, wall_s))
}

fn dump(
    scene: &Scene,
    policy: &Configured,
    results: &mut Results<'_>,
    progress: &Progress,
) -> Result<Outcome, Failure> {
    let mut outcome = None;
    results.write(SCHEDULE, |out| {
        let writer = ScheduleWriter::new(out)?;
        let mut recorder = Recorder { writer, error: None, meter: Meter::new(progress) };
        outcome = Some(scene.observe(policy, false, &mut recorder));
        recorder.finish()
    })?;
    Ok(outcome.expect("the closure ran to its end, where the outcome is set"))
}

/// Writes down every segment.
struct Recorder<'a, W: Write> {
    writer: ScheduleWriter<W>,
    /// The first failure to write: an observer cannot stop a run.
    error: Option<io::Error>,
    meter: Meter<'a>,
}

impl<W: Write> Recorder<'_, W> {
    fn finish(self) -> io::Result<()> {
        match self.error {
            Some(error) => Err(error),
            None => self.writer.finish().map(drop),
        }
    }
}

impl<W: Write> Observer for Recorder<'_, W> {
    fn segment(&mut self, flow: FlowId, from_ns: f64, to_ns: f64, bytes_per_nano: f64) {
        if self.error.is_none() {
            self.error = self.writer.write(&Segment { flow, from_ns, to_ns, bytes_per_nano }).err();
        }
    }

    fn progress(&mut self, done_coflows: usize) {
        self.meter.reach(done_coflows);
    }
}

fn coflow_columns(scene: &Scene, outcome: &Outcome) -> Vec<Column> {
    let workload = &scene.workload;
    let alone = cavalcade_metrics::isolation_times(workload, &scene.fabric);
    let coflows = || workload.coflows();
    let ns = |times: &[Instant]| times.iter().map(|time| time.get()).collect::<Vec<_>>().into_iter();
    let cct = |id| outcome.cct(id).get();
    vec![
        Column::whole("coflow", coflows().map(|coflow| u64::from(coflow.id.0))),
        Column::whole("task", coflows().map(|coflow| u64::from(workload.place(coflow.id).task.0))),
        Column::whole("stage", coflows().map(|coflow| u64::from(workload.place(coflow.id).stage.0))),
        Column::whole("arrival_ns", ns(&outcome.coflow_arrival)),
        Column::whole("finish_ns", ns(&outcome.coflow_finish)),
        Column::whole("cct_ns", coflows().map(|coflow| cct(coflow.id))),
        Column::whole("alone_ns", alone.iter().map(|time| time.get())),
        Column::real(
            "slowdown",
            coflows().zip(&alone).map(|(coflow, alone)| cct(coflow.id) as f64 / alone.as_f64()),
        ),
        Column::whole("size_bytes", coflows().map(|coflow| coflow.size().get())),
        Column::whole("length_bytes", coflows().map(|coflow| coflow.length().get())),
        Column::whole("width", coflows().map(|coflow| coflow.width() as u64)),
        Column::text("name", coflows().map(|coflow| workload.coflow_name(coflow.id))),
    ]
}

fn task_columns(scene: &Scene, outcome: &Outcome) -> Vec<Column> {
    let tasks = || scene.workload.tasks().iter();
    let class = |class| match class {
        TaskClass::Online => "online",
        TaskClass::Background => "background",
    };
    // As text, since a task without a deadline has an empty cell.
    let deadline = |span: Option<Nanos>| span.map_or_else(String::new, |span| span.get().to_string());
    vec![
        Column::whole("task", 0..tasks().len() as u64),
        Column::whole("arrival_ns", tasks().map(|task| task.arrival.get())),
        Column::whole("finish_ns", outcome.task_finish.iter().map(|finish| finish.get())),
        Column::text("deadline_ns", tasks().map(|task| deadline(task.deadline))),
        Column::whole("weight", tasks().map(|task| u64::from(task.weight))),
        Column::text("class", tasks().map(|task| class(task.class).to_owned())),
        Column::text("name", tasks().map(|task| task.name.clone())),
    ]
}

fn flow_columns(scene: &Scene, outcome: &Outcome) -> Vec<Column> {
    let flows = || scene.workload.flows().iter();
    let ids = || (0..scene.workload.flows().len()).map(FlowId::from_index);
    vec![
        Column::whole("flow", ids().map(|flow| u64::from(flow.0))),
        Column::whole("coflow", ids().map(|flow| u64::from(scene.workload.coflow_of(flow).0))),
        Column::whole("src", flows().map(|flow| u64::from(flow.src.0))),
        Column::whole("dst", flows().map(|flow| u64::from(flow.dst.0))),
        Column::whole("size_bytes", flows().map(|flow| flow.size.get())),
        Column::whole("finish_ns", outcome.flow_finish.iter().map(|finish| finish.get())),
    ]
}

/// A run found again from its folder.
pub(crate) struct Recorded {
    /// The folder.
    pub(crate) folder: PathBuf,
    /// Its manifest.
    pub(crate) manifest: Manifest,
    /// What it was run on.
    pub(crate) scene: Scene,
    /// The policy, with the same parameters.
    pub(crate) policy: Configured,
    /// What carried the bytes.
    pub(crate) carrier: Carrier,
}

impl Recorded {
    /// Reads the manifest of `folder` and the trace that it names, or the one at `trace`.
    ///
    /// # Errors
    /// Where the manifest or the trace is not there, is not valid, or the trace is another one.
    pub(crate) fn open(folder: &Path, trace: Option<&Path>) -> Result<Self, Failure> {
        let manifest = Manifest::read(folder)?;
        let place = folder.join(manifest::NAME);
        let workload = manifest.trace.read_again(trace, "run", &place)?;
        let fault = |what: String| Failure::input(format!("{}: {what}", place.display()));
        let policy =
            cavalcade_policy::parse(&manifest.policy.spec).map_err(|error| fault(error.to_string()))?;
        if policies::record(&policy) != manifest.policy {
            return Err(fault(
                "the policy's parameters are not those of this version of the program".to_owned(),
            ));
        }
        let carrier = manifest.carrier().map_err(|error| fault(error.to_string()))?;
        let scene = Scene::new(workload, manifest.conditions())?;
        Ok(Self { folder: folder.to_owned(), manifest, scene, policy, carrier })
    }

    /// Whether the schedule was dumped.
    pub(crate) fn has_schedule(&self) -> bool {
        self.manifest.results.contains_key(SCHEDULE)
    }

    /// One of its files, to read.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub(crate) fn file(&self, name: &str) -> Result<BufReader<File>, Failure> {
        let path = self.folder.join(name);
        File::open(&path)
            .map(|file| BufReader::with_capacity(1 << 16, file))
            .map_err(|error| Failure::input(format!("cannot read {}: {error}", path.display())))
    }

    /// The times that the files of the folder claim.
    ///
    /// # Errors
    /// Where one is missing or broken.
    pub(crate) fn outcome(&self) -> Result<Outcome, Failure> {
        let [flow_finish] = self.times(FLOWS, ["finish_ns"])?;
        Ok(Outcome { flow_finish, ..self.completions()? })
    }

    /// The times of coflows and tasks that the files of the folder claim, without those of flows.
    ///
    /// # Errors
    /// Where one is missing, broken, or of another workload.
    pub(crate) fn completions(&self) -> Result<Outcome, Failure> {
        let [coflow_arrival, coflow_finish] = self.times(COFLOWS, ["arrival_ns", "finish_ns"])?;
        let [task_finish] = self.times(TASKS, ["finish_ns"])?;
        let workload = &self.scene.workload;
        for (file, rows, expected) in [
            (COFLOWS, coflow_finish.len(), workload.coflow_count()),
            (TASKS, task_finish.len(), workload.tasks().len()),
        ] {
            if rows != expected {
                let place = self.folder.join(file);
                return Err(Failure::input(format!(
                    "{}: found {rows} rows, expected {expected}",
                    place.display()
                ))
                .help("make the run again with 'cavalcade simulate --out'"));
            }
        }
        let counts = EngineCounts::default();
        Ok(Outcome {
            coflow_arrival,
            coflow_finish,
            flow_finish: Vec::new(),
            task_finish,
            counts,
            link_use: None,
            queue_use: None,
            messages: None,
        })
    }

    fn times<const N: usize>(&self, name: &str, columns: [&str; N]) -> Result<[Vec<Instant>; N], Failure> {
        let read = read_whole(self.file(name)?, columns)
            .map_err(|fault| Failure::input(format!("{}: {fault}", self.folder.join(name).display())))?;
        Ok(read.map(|column| column.into_iter().map(Instant).collect()))
    }
}
