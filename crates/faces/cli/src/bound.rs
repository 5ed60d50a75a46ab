//! `cavalcade bound`: what no schedule can beat, and a proof of it.
//!
//! The search is one that may be stopped at any time. Whatever stops it, its budget or an
//! interrupt, the figure is valid and the program has done what it was asked to; the output says
//! what stopped it, so that a person can tell whether more time would pay.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use cavalcade::manifest::TraceRecord;
use cavalcade::output::{check_writable, write_file};
use cavalcade::{Budget, Scenario};
use cavalcade_bound::{Bound, Bounds, Certificate, Conditions, DeadlineBound, Method, Progress};
use cavalcade_model::Nanos;
use cavalcade_report::{Grid, time_rounded_down};
use serde::Serialize;

use crate::arguments::{self, Objective};
use crate::certificate::{self, Subject};
use crate::claim::{Claim, Terms};
use crate::failure::Failure;
use crate::input::read;
use crate::interrupt;
use crate::output::print;
use crate::progress::watched;
use crate::recorded::at_recorded_rate;
use crate::terminal::fit;

/// Runs the command.
///
/// # Errors
/// If an argument or the trace is not valid, or the certificate cannot be written.
pub(crate) fn run(options: &arguments::Bound) -> Result<(), Failure> {
    options.certificate.iter().try_for_each(|path| check_writable(path))?;
    let source = options.input.open()?;
    let (reading, _notes) = read(&source, options.input.format)?;
    // The bound submits tasks at time zero itself: so jobs of a certificate are those of the trace
    // as it is.
    let conditions = arguments::Conditions { rate: options.rate, ..Default::default() };
    let conditions = at_recorded_rate(&reading, &conditions)?.of_run()?;
    let (scenario, format) = (Scenario::new(reading.workload, conditions)?, reading.format);
    let deadlines = scenario.workload().tasks().iter().filter(|task| task.deadline.is_some()).count();
    if options.objective == Objective::Deadlines && deadlines == 0 {
        return Err(Failure::usage(format!("no task of {} has a deadline", source.name()))
            .help("leave out --objective to bound the mean completion time"));
    }
    let found = Found::search(&scenario, options);
    let mut text = if options.json { found.json(&scenario, options) } else { found.text(options) };
    if let Some(path) = &options.certificate {
        let trace = TraceRecord::new(&source, format)?;
        let subject = Subject::new(trace, scenario.conditions().rate);
        write_file(path, |out| certificate::write(&subject, found.certificate(), out))?;
        if !options.json {
            let file = path.display();
            text += &format!("Its proof is in {file}; 'cavalcade validate {file}' checks it.\n");
        }
    }
    if !options.json && deadlines > 0 && options.objective != Objective::Deadlines {
        text += "Tasks have deadlines: --objective deadlines bounds how many of them can be met.\n";
    }
    print(&text)
}

/// The result of a search.
struct Found {
    figures: Figures,
    terms: Terms,
    /// Its progress when it stopped.
    progress: Progress,
    elapsed: Duration,
    interrupted: bool,
}

enum Figures {
    Mean(Bounds),
    Deadlines(DeadlineBound),
}

/// Into how many parts the progress bar divides the budget.
const PARTS: usize = 1000;

impl Found {
    fn search(scenario: &Scenario, options: &arguments::Bound) -> Self {
        let terms = Terms {
            tasks: options.objective != Objective::Coflows,
            weighted: options.weighted,
            offline: options.offline,
            rate: scenario.conditions().rate,
        };
        let conditions = Conditions {
            objective: match options.objective {
                Objective::Coflows => cavalcade_bound::Objective::Coflows,
                Objective::Tasks | Objective::Deadlines => cavalcade_bound::Objective::Tasks,
            },
            offline: options.offline,
            weighted: options.weighted,
        };
        let start = Instant::now();
        let mut last = Progress { looks: 0, programs: 0, mean: Nanos::ZERO };
        let mut interrupted = false;
        let figures = watched(PARTS, |bar| {
            let mut reached = 0;
            interrupt::stops(|asked| {
                let mut go_on = |progress: &Progress| {
                    if progress.mean > last.mean {
                        bar.tell(format!("mean at least {}", time_rounded_down(progress.mean)));
                    }
                    last = *progress;
                    let spent = options.budget.spent(start.elapsed(), progress);
                    let done = (spent * PARTS as f64) as usize;
                    bar.add(done.saturating_sub(reached));
                    reached = reached.max(done);
                    interrupted = asked();
                    spent < 1.0 && !interrupted
                };
                let (workload, fabric) = (scenario.workload(), scenario.fabric());
                let fits = "a scenario's fabric has the ports of its workload";
                if options.objective == Objective::Deadlines {
                    let bound =
                        cavalcade_bound::deadlines_met(workload, fabric, conditions, &mut go_on).expect(fits);
                    Figures::Deadlines(bound)
                } else {
                    let parallel = cavalcade_bound::parallel_bound(workload, fabric, conditions).expect(fits);
                    let mut found =
                        cavalcade_bound::lower_bounds(workload, fabric, conditions, &mut go_on).expect(fits);
                    // The strongest stays the last.
                    found.bounds.splice(found.bounds.len() - 1..found.bounds.len() - 1, parallel);
                    Figures::Mean(found)
                }
            })
        });
        Self { figures, terms, progress: last, elapsed: start.elapsed(), interrupted }
    }

    /// The proof of the best bound.
    fn certificate(&self) -> &Certificate {
        match &self.figures {
            Figures::Mean(bounds) => &bounds.best().certificate,
            Figures::Deadlines(bound) => &bound.certificate,
        }
    }

    fn closed(&self) -> bool {
        match &self.figures {
            Figures::Mean(bounds) => bounds.exhausted,
            Figures::Deadlines(bound) => bound.exhausted,
        }
    }

    fn text(&self, options: &arguments::Bound) -> String {
        let mut text = String::new();
        let claim = match &self.figures {
            Figures::Mean(bounds) => {
                text += &table(bounds, self.terms).show(fit(options.room.wide));
                text.push('\n');
                Claim::Mean(bounds.best().mean())
            }
            Figures::Deadlines(bound) => Claim::Deadlines { at_most: bound.at_most, of: bound.of },
        };
        let sentence = self.terms.sentence(claim);
        let programs = Budget::Programs(self.progress.programs);
        let end = match options.budget {
            _ if self.closed() && self.progress.programs == 0 => {
                "The search ended at once: more time cannot improve it.".to_owned()
            }
            _ if self.closed() => format!("The search ended after {programs}: more time cannot improve it."),
            _ if self.interrupted => {
                format!("The search was interrupted after {programs}: more time may improve it.")
            }
            Budget::Time(time) => {
                format!("The search was stopped after {time} and {programs}: more time may improve it.")
            }
            Budget::Programs(_) => format!("The search was stopped after {programs}: more may improve it."),
        };
        writeln!(text, "{sentence}.\n{end}").expect("a string takes all text");
        text
    }

    fn json(&self, scenario: &Scenario, options: &arguments::Bound) -> String {
        let figures = match &self.figures {
            Figures::Mean(bounds) => FigureRecord::Mean {
                best: bounds.best().method.name(),
                bounds: bounds.bounds.iter().map(MeanRecord::from).collect(),
            },
            Figures::Deadlines(bound) => {
                FigureRecord::Deadlines { deadlines: bound.of, met_at_most: bound.at_most }
            }
        };
        let document = Document {
            schema_version: 1,
            trace: TraceFacts {
                coflows: scenario.workload().coflow_count(),
                ports: scenario.workload().ports(),
                bytes: scenario.workload().bytes().get(),
            },
            rate_bps: scenario.conditions().rate.get(),
            offline: options.offline,
            weighted: options.weighted,
            objective: match options.objective {
                Objective::Coflows => "coflows",
                Objective::Tasks => "tasks",
                Objective::Deadlines => "deadlines",
            },
            figures,
            search: SearchRecord {
                ended: match () {
                    () if self.closed() => "closed",
                    () if self.interrupted => "interrupt",
                    () => "budget",
                },
                linear_programs: self.progress.programs,
                wall_s: self.elapsed.as_secs_f64(),
            },
        };
        serde_json::to_string(&document).expect("text keys and finite numbers can always be written") + "\n"
    }
}

/// The document that `--json` prints; keys and their order are a promise, as those of
/// `compare --json`.
#[derive(Serialize)]
struct Document {
    schema_version: u32,
    trace: TraceFacts,
    rate_bps: u64,
    offline: bool,
    weighted: bool,
    objective: &'static str,
    #[serde(flatten)]
    figures: FigureRecord,
    search: SearchRecord,
}

#[derive(Serialize)]
struct TraceFacts {
    coflows: usize,
    ports: u32,
    bytes: u64,
}

#[derive(Serialize)]
#[serde(untagged)]
enum FigureRecord {
    Mean { best: &'static str, bounds: Vec<MeanRecord> },
    Deadlines { deadlines: u64, met_at_most: u64 },
}

#[derive(Serialize)]
struct MeanRecord {
    method: &'static str,
    mean_s: f64,
    /// The sum as text, since readers of JSON lose digits beyond 2⁵³.
    sum_ns: String,
}

impl From<&Bound> for MeanRecord {
    fn from(bound: &Bound) -> Self {
        let (method, mean_s) = (bound.method.name(), bound.mean().as_secs_f64());
        Self { method, mean_s, sum_ns: bound.sum.to_string() }
    }
}

#[derive(Serialize)]
struct SearchRecord {
    ended: &'static str,
    linear_programs: u64,
    wall_s: f64,
}

/// One row for each bound: its name, the figure, and why it holds.
fn table(bounds: &Bounds, terms: Terms) -> Grid {
    Grid::default()
        .text("bound", bounds.bounds.iter().map(|bound| bound.method.name().to_owned()))
        .figures(terms.mean(), bounds.bounds.iter().map(|bound| time_rounded_down(bound.mean())))
        .text("why", bounds.bounds.iter().map(|bound| reason(bound.method, terms.noun())))
}

fn reason(method: Method, noun: &str) -> String {
    match method {
        Method::Isolation => format!("no {noun} is faster than alone on the fabric"),
        Method::SingleLink => "one link, served in the best order, and the rest alone".to_owned(),
        Method::Counts => "at each time the link that holds up most, shortest first".to_owned(),
        Method::PrimalDual => "prices of links that charge no coflow too much (Sincronia)".to_owned(),
        Method::Parallel => "the best prices of that kind, with releases (a linear program)".to_owned(),
        Method::Completions => format!("by each time, only so many {noun}s can be done"),
    }
}
