//! Where a workload comes from, as a line of text: a source, and after each `|` what is done to it.
//!
//! | text | is |
//! |---|---|
//! | `facebook:coflows=100` | a generator of `cavalcade trace generate`, with the run's seed |
//! | `trace:coflow/FB.txt` | a trace of the data folder, which need not be there |
//! | `swim:swim/FB.tsv` | 100 jobs of a SWIM file of the data folder, on 20 ports at 60 % load; the run's seed chooses which |
//! | `file:example.jsonl` | a trace beside the experiment |
//! | `dag:tasks=20 @ dag/shapes.json` | the generator `dag` with shapes of the data folder |
//! | `… \| permute` | its arrival times given out again, by the run's seed |
//! | `… \| spread 1` | the bytes of each receiver split by a log-normal law of this σ, by the run's seed |
//! | `… \| shuffle` | the sizes of each coflow given out to its flows at random, by the run's seed |
//! | `… \| inputs swim/FB.tsv` | each task as large as a job's input in a SWIM file of the data folder, drawn by the run's seed; none above their 99th percentile |
//! | `… \| load 0.8` | the arrivals stretched until the bytes drawn use the busiest port so much |
//! | `… \| until 1800s`, `… \| from 1800s` | the tasks that arrive before, or from then on |
//! | `… \| waves 4` | coflows with many senders come in up to so many waves |
//! | `… \| waves 4 split` | the same, but each wave is a coflow of its own |
//! | `… \| waves 4 held` | the same, but none of a coflow's flows starts before its last wave (a barrier) |
//! | `… \| turns 4`, `… \| turns 4 split` | the same, but a wave starts when the one before it has ended |
//! | `… \| ports 100` | racks dealt out to so many ports in turn: of 100, rack 103 is port 3 |
//! | `… \| scale 0.3` | every flow so many times as large, and at least a byte |
//! | `… \| computing` | each job computes first, so long that its share of communication alone is that of a bin of Aalo's Table 2, drawn by the run's seed |
//! | `… \| computing 0.125` | the same, with so much of each job's time alone in computation |
//! | `… \| uncouple` | every port serves its part of a coflow alone (a concurrent open shop) |

mod computing;
mod waves;

use std::collections::BTreeMap;

use cavalcade_model::{BitsPerSec, Bytes, Flow, Instant, Nanos, PortId, Workload, WorkloadBuilder};
use cavalcade_spec::SpecError;
use cavalcade_trace::generate::{
    Swim, SwimError, at_load, between, on_ports, permute_arrivals, permute_sizes, scale_sizes, spread_sizes,
    swim_inputs, with_task_sizes,
};
use cavalcade_trace::{GenerateError, Generator, ReadOptions, TraceError, generate, read, shapes};

use computing::computing;
use waves::{Apart, Shape, in_waves};

/// A folder that files are taken from.
pub trait Files {
    /// The bytes of a file of the data folder; `None` where it is not there.
    fn data(&self, path: &str) -> Option<Vec<u8>>;
    /// The bytes of a file beside the experiment; `None` where it is not there.
    fn beside(&self, path: &str) -> Option<Vec<u8>>;
}

/// A file that a workload is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needed<'a> {
    /// One of the data folder, which need not be there.
    Data(&'a str),
    /// One beside the experiment.
    Beside(&'a str),
}

/// A workload's text, read.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSpec {
    source: Source,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Source {
    Generated(Generator),
    Shaped(Generator, String),
    Data(String),
    Jobs(String),
    Beside(String),
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Inputs(String),
    Load(f64),
    Permute,
    Spread(f64),
    Shuffle,
    Between { from: Instant, until: Instant },
    Waves { most: usize, shape: Shape, in_turn: bool },
    Ports(u32),
    Scale(f64),
    Computing(Option<f64>),
    Uncouple,
}

/// Why there is no workload.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A generator that there is not, or that has no such parameter.
    #[error(transparent)]
    Generator(#[from] SpecError),
    /// A step that there is not.
    #[error(
        "'{0}' is nothing that can be done to a workload: write permute, 'spread SIGMA' with SIGMA from 0 to 10, shuffle, 'inputs FILE', 'load L' with L above 0 and up to 100, 'from TIME', 'until TIME', 'ports N' with N from 2 to 100000, 'scale S' with S above 0 and up to 1000, computing, 'computing C' with C from 0 to below 1, uncouple, or 'waves N', 'waves N split', 'waves N held', 'turns N' or 'turns N split' with N from 2 to 4"
    )]
    UnknownStep(String),
    /// Shapes for a generator that takes no shapes.
    #[error("only the generator dag takes shapes: leave out '@ {0}'")]
    ShapesWithoutDag(String),
    /// A file that is not there.
    #[error("{0} is not there")]
    Missing(String),
    /// A file that is no trace, or no shapes.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A file that is not SWIM's, or has too few jobs.
    #[error(transparent)]
    Swim(#[from] SwimError),
    /// A generator's parameters make no workload.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// The generated workload is invalid.
    #[error(transparent)]
    Model(#[from] cavalcade_model::WorkloadError),
}

impl core::str::FromStr for WorkloadSpec {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let mut parts = text.split('|').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let source = if let Some(path) = first.strip_prefix("trace:") {
            Source::Data(path.to_owned())
        } else if let Some(path) = first.strip_prefix("swim:") {
            Source::Jobs(path.to_owned())
        } else if let Some(path) = first.strip_prefix("file:") {
            Source::Beside(path.to_owned())
        } else if let Some((generator, path)) = first.split_once('@') {
            let (generator, path): (Generator, _) = (generator.trim().parse()?, path.trim().to_owned());
            if !matches!(generator, Generator::Dag(_)) {
                return Err(WorkloadError::ShapesWithoutDag(path));
            }
            Source::Shaped(generator, path)
        } else {
            Source::Generated(first.parse()?)
        };
        let steps = parts.map(Step::read).collect::<Result<_, _>>()?;
        Ok(Self { source, steps })
    }
}

impl Step {
    fn read(text: &str) -> Result<Self, WorkloadError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let waves = |most: &str, shape, in_turn| match most.parse() {
            Ok(most @ 2..=4) => Some(Step::Waves { most, shape, in_turn }),
            _ => None,
        };
        let time = |text: &str| text.parse::<Nanos>().ok().map(|time| Instant(time.0));
        let step = match words[..] {
            ["permute"] => Some(Step::Permute),
            ["spread", sigma] => {
                sigma.parse().ok().filter(|sigma| (0.0..=10.0).contains(sigma)).map(Step::Spread)
            }
            ["shuffle"] => Some(Step::Shuffle),
            ["inputs", path] => Some(Step::Inputs(path.to_owned())),
            ["load", load] => load.parse().ok().filter(|&load| load > 0.0 && load <= 100.0).map(Step::Load),
            ["until", until] => time(until).map(|until| Step::Between { from: Instant::ZERO, until }),
            ["from", from] => time(from).map(|from| Step::Between { from, until: Instant(u64::MAX) }),
            ["ports", ports] => {
                ports.parse().ok().filter(|ports| (2..=100_000).contains(ports)).map(Step::Ports)
            }
            ["scale", scale] => {
                scale.parse().ok().filter(|&scale| scale > 0.0 && scale <= 1000.0).map(Step::Scale)
            }
            ["computing"] => Some(Step::Computing(None)),
            ["computing", share] => {
                let share = share.parse().ok().filter(|share| (0.0..1.0).contains(share));
                share.map(|share| Step::Computing(Some(share)))
            }
            ["uncouple"] => Some(Step::Uncouple),
            ["waves", most] => waves(most, Shape::Late, false),
            ["waves", most, "split"] => waves(most, Shape::Split, false),
            ["waves", most, "held"] => waves(most, Shape::Held, false),
            ["turns", most] => waves(most, Shape::Late, true),
            ["turns", most, "split"] => waves(most, Shape::Split, true),
            _ => None,
        };
        step.ok_or_else(|| WorkloadError::UnknownStep(text.to_owned()))
    }

    /// Returns whether it draws by the run's seed.
    fn is_random(&self) -> bool {
        matches!(
            self,
            Self::Permute | Self::Spread(_) | Self::Shuffle | Self::Inputs(_) | Self::Computing(None)
        )
    }
}

impl WorkloadSpec {
    /// Returns whether another seed gives another workload.
    pub fn is_random(&self) -> bool {
        matches!(self.source, Source::Generated(_) | Source::Shaped(..) | Source::Jobs(_))
            || self.steps.iter().any(Step::is_random)
    }

    /// The files that it needs.
    pub fn needs(&self) -> impl Iterator<Item = Needed<'_>> {
        let source = match &self.source {
            Source::Data(path) | Source::Jobs(path) | Source::Shaped(_, path) => Some(Needed::Data(path)),
            Source::Beside(path) => Some(Needed::Beside(path)),
            Source::Generated(_) => None,
        };
        let of_steps = self.steps.iter().filter_map(|step| match step {
            Step::Inputs(path) => Some(Needed::Data(path)),
            _ => None,
        });
        source.into_iter().chain(of_steps)
    }

    /// Makes the workload of `seed`.
    ///
    /// # Errors
    /// If a file is missing or not valid, or a generator's parameters are out of range.
    pub fn build(&self, seed: u64, rate: BitsPerSec, files: &dyn Files) -> Result<Workload, WorkloadError> {
        let missing = |path: &String| WorkloadError::Missing(path.clone());
        let mut workload = match &self.source {
            Source::Generated(generator) => generate(generator, seed)?,
            Source::Shaped(generator, path) => {
                let bytes = files.data(path).ok_or_else(|| missing(path))?;
                let shapes = shapes::read_shapes(&bytes, path)?;
                let Generator::Dag(dag) = generator else {
                    return Err(WorkloadError::ShapesWithoutDag(path.clone()));
                };
                dag.generate_from(&shapes, seed)?
            }
            Source::Data(path) => {
                let bytes = files.data(path).ok_or_else(|| missing(path))?;
                read(&bytes, path, &ReadOptions::default())?.0
            }
            Source::Jobs(path) => {
                let bytes = files.data(path).ok_or_else(|| missing(path))?;
                let swim = Swim { ports: 20, jobs: 100, load: 0.6, rate };
                swim.workload(&String::from_utf8_lossy(&bytes), seed)?
            }
            Source::Beside(path) => {
                let bytes = files.beside(path).ok_or_else(|| missing(path))?;
                read(&bytes, path, &ReadOptions::default())?.0
            }
        };
        for step in &self.steps {
            workload = match *step {
                Step::Inputs(ref path) => {
                    let bytes = files.data(path).ok_or_else(|| missing(path))?;
                    let sizes = swim_inputs(&String::from_utf8_lossy(&bytes), 99.0)?;
                    with_task_sizes(&workload, &sizes, seed)?
                }
                Step::Load(load) => at_load(&workload, load, rate)?,
                Step::Permute => permute_arrivals(&workload, seed)?,
                Step::Spread(sigma) => spread_sizes(&workload, sigma, seed)?,
                Step::Shuffle => permute_sizes(&workload, seed)?,
                Step::Between { from, until } => between(&workload, from, until)?,
                Step::Waves { most, shape, in_turn } => {
                    let apart = if in_turn { Apart::InTurn } else { Apart::AtRate(rate) };
                    in_waves(&workload, most, shape, apart)?
                }
                Step::Ports(ports) => on_ports(&workload, ports)?,
                Step::Scale(scale) => scale_sizes(&workload, scale)?,
                Step::Computing(share) => computing(&workload, share, rate, seed)?,
                Step::Uncouple => uncoupled(&workload)?,
            };
        }
        Ok(workload)
    }
}

/// Each coflow as one flow for each port that it sends from or receives at, on a link that nothing
/// else couples: ingress and egress ports become ports of their own, each of which sends to itself.
fn uncoupled(workload: &Workload) -> Result<Workload, cavalcade_model::WorkloadError> {
    let mut builder = WorkloadBuilder::new(2 * workload.ports());
    for coflow in workload.coflows() {
        let mut loads = BTreeMap::<PortId, u64>::new();
        for flow in coflow.flows {
            *loads.entry(flow.src).or_default() += flow.size.0;
            *loads.entry(PortId(workload.ports() + flow.dst.0)).or_default() += flow.size.0;
        }
        let alone = |(port, bytes)| Flow { src: port, dst: port, size: Bytes(bytes), wave: Nanos::ZERO };
        let flows = loads.into_iter().map(alone).collect();
        builder.coflow(workload.coflow_name(coflow.id), coflow.task.arrival, flows);
    }
    builder.build()
}

/// The bottleneck time of some flows on ports of `rate`.
fn alone(flows: &[Flow], rate: BitsPerSec) -> Nanos {
    let busiest = |port: fn(&Flow) -> u32| {
        let mut loads = BTreeMap::<u32, u64>::new();
        flows.iter().for_each(|flow| *loads.entry(port(flow)).or_default() += flow.size.0);
        loads.into_values().max().unwrap_or(0)
    };
    let most = busiest(|flow| flow.src.0).max(busiest(|flow| flow.dst.0));
    Bytes(most).time_at(rate).unwrap_or(Nanos::ZERO)
}

#[cfg(test)]
mod tests {
    use cavalcade_model::{CoflowId, Stage, StageIndex, Work};

    use super::waves::deal;
    use super::*;

    struct Nothing;

    impl Files for Nothing {
        fn data(&self, _: &str) -> Option<Vec<u8>> {
            None
        }
        fn beside(&self, path: &str) -> Option<Vec<u8>> {
            let trace = b"{\"cavalcade_trace\":1,\"ports\":2}\n\
                          {\"name\":\"a\",\"arrival_ns\":0,\"stages\":[{\"flows\":[[0,1,8]]}]}\n";
            (path == "one.jsonl").then(|| trace.to_vec())
        }
    }

    const RATE: BitsPerSec = BitsPerSec(8_000_000_000);

    fn spec(text: &str) -> WorkloadSpec {
        text.parse().unwrap()
    }

    #[test]
    fn a_file_beside_is_read_and_one_that_is_missing_is_named() {
        let one = spec("file:one.jsonl").build(1, RATE, &Nothing).unwrap();
        assert_eq!(one.coflow_count(), 1);
        let missing = spec("trace:coflow/FB.txt");
        let needs = |spec: &WorkloadSpec| spec.needs().map(|file| format!("{file:?}")).collect::<Vec<_>>();
        assert_eq!(needs(&spec("file:one.jsonl")), [r#"Beside("one.jsonl")"#]);
        assert_eq!(needs(&missing), [r#"Data("coflow/FB.txt")"#]);
        assert!(!missing.is_random());
        assert!(spec("trace:coflow/FB.txt | permute").is_random());
        let inputs = spec("tasks | inputs swim/a.tsv | load 0.5");
        assert_eq!(needs(&inputs), [r#"Data("swim/a.tsv")"#]);
        assert!(inputs.is_random());
        let both = spec("trace:coflow/FB.txt | inputs swim/a.tsv");
        assert_eq!(needs(&both), [r#"Data("coflow/FB.txt")"#, r#"Data("swim/a.tsv")"#]);
        assert_eq!(inputs.build(1, RATE, &Nothing).unwrap_err().to_string(), "swim/a.tsv is not there");
        assert_eq!(missing.build(1, RATE, &Nothing).unwrap_err().to_string(), "coflow/FB.txt is not there");
    }

    #[test]
    fn what_is_no_step_is_refused() {
        for text in [
            "tasks | load 0",
            "tasks | load x",
            "tasks | inputs",
            "tasks | wave",
            "tasks | waves 5",
            "tasks | waves",
            "tasks @ x.json",
            "nonsense:a=b",
        ] {
            assert!(text.parse::<WorkloadSpec>().is_err(), "{text}");
        }
    }

    #[test]
    fn waves_keep_bytes_and_give_most_to_those_with_most_senders() {
        let plain = spec("classes:coflows=100,ports=40").build(2, RATE, &Nothing).unwrap();
        for split in ["", " split"] {
            let text = format!("classes:coflows=100,ports=40 | waves 4{split}");
            let waved = spec(&text).build(2, RATE, &Nothing).unwrap();
            assert_eq!((waved.bytes(), waved.tasks().len()), (plain.bytes(), 100));
            let coflows = if split.is_empty() { 100 } else { 100 + 9 + 4 * 2 + 6 * 3 };
            assert_eq!(waved.coflow_count(), coflows);
            let late = waved.flows().iter().filter(|flow| flow.wave > Nanos::ZERO).count();
            assert_eq!(late > 0, split.is_empty());
        }
    }

    #[test]
    fn a_wave_starts_when_the_one_before_could_have_ended() {
        let flow =
            |src, size| Flow { src: PortId(src), dst: PortId(9), size: Bytes(size), wave: Nanos::ZERO };
        let parts = deal(&[flow(0, 5), flow(1, 7), flow(2, 3)], 2, Apart::AtRate(RATE));
        // At 8 Gbps a byte takes a nanosecond: senders 0 and 2 first, 8 bytes into one port.
        assert_eq!(parts, [(Nanos(0), vec![flow(0, 5), flow(2, 3)]), (Nanos(8), vec![flow(1, 7)])]);
    }

    #[test]
    fn waves_in_turn_wait_for_each_other_as_one_coflow_or_as_stages() {
        let text = "classes:coflows=100,ports=40 | turns 4";
        let one = spec(text).build(2, RATE, &Nothing).unwrap();
        let in_turn =
            (0..100).map(cavalcade_model::TaskId::from_index).filter(|&task| one.waves_in_turn(task));
        assert_eq!((in_turn.count(), one.coflow_count()), (9 + 4 + 6, 100));
        let split = spec(&format!("{text} split")).build(2, RATE, &Nothing).unwrap();
        let stages = split.tasks().iter().filter(|task| task.stages.len() > 1);
        stages.for_each(|task| {
            let after = task.stages.iter().map(|stage| stage.starts_after.len()).collect::<Vec<_>>();
            assert_eq!((after[0], after.iter().sum::<usize>()), (0, after.len() - 1));
        });
    }

    #[test]
    fn held_flows_start_with_the_last_wave_of_their_coflow() {
        let of = |text: &str| {
            spec(&format!("classes:coflows=100,ports=40 | {text}")).build(2, RATE, &Nothing).unwrap()
        };
        let (late, held) = (of("waves 4"), of("waves 4 held"));
        for (late, held) in late.coflows().zip(held.coflows()) {
            let last = late.flows.iter().map(|flow| flow.wave).max();
            assert!(held.flows.iter().all(|flow| Some(flow.wave) == last));
        }
    }

    #[test]
    fn racks_are_dealt_out_to_ports_and_flows_scaled_with_all_else_as_it_was() {
        let before = spec("facebook:coflows=20,ports=9 | waves 4").build(1, RATE, &Nothing).unwrap();
        let text = "facebook:coflows=20,ports=9 | waves 4 | ports 4 | scale 0.5";
        let after = spec(text).build(1, RATE, &Nothing).unwrap();
        assert_eq!((after.ports(), after.coflow_count()), (4, before.coflow_count()));
        for (before, after) in before.coflows().zip(after.coflows()) {
            assert_eq!(before.task.arrival, after.task.arrival);
            for (before, after) in before.flows.iter().zip(after.flows) {
                assert_eq!((after.src.0, after.dst.0), (before.src.0 % 4, before.dst.0 % 4));
                assert_eq!((after.size.0, after.wave), ((before.size.0 / 2).max(1), before.wave));
            }
        }
        for text in ["tasks | ports 1", "tasks | scale 0", "tasks | scale x", "tasks | ports"] {
            assert!(text.parse::<WorkloadSpec>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_job_computes_as_much_as_leaves_its_shuffle_the_share_that_was_asked_for() {
        let before = spec("facebook:coflows=400,ports=9").build(1, RATE, &Nothing).unwrap();
        let job = |workload: &Workload, at: usize| {
            let task = &workload.tasks()[at];
            let [Stage { work: Work::Compute(first), .. }, shuffle] = &task.stages[..] else {
                panic!("a computation and a shuffle: {task:?}")
            };
            assert_eq!(shuffle.starts_after, [StageIndex::from_index(0)]);
            let alone = alone(workload.flows_of(CoflowId::from_index(at)), RATE).as_f64();
            alone / (alone + first.duration.as_f64())
        };
        let text = "facebook:coflows=400,ports=9 | computing 0.125";
        let after = spec(text).build(1, RATE, &Nothing).unwrap();
        assert_eq!((after.bytes(), after.coflow_count()), (before.bytes(), 400));
        assert!((0..400).all(|at| (job(&after, at) - 0.875).abs() < 1e-3));
        let drawn = spec("facebook:coflows=400,ports=9 | computing");
        assert!(drawn.is_random() && !spec("trace:a | computing 0.5").is_random());
        let drawn = drawn.build(1, RATE, &Nothing).unwrap();
        let seldom = (0..400).filter(|&at| job(&drawn, at) < 0.25).count();
        assert!((220..270).contains(&seldom), "61 % of 400: {seldom}");
        assert!("tasks | computing 1".parse::<WorkloadSpec>().is_err());
    }

    #[test]
    fn uncoupled_ports_keep_their_loads() {
        let coupled = spec("classes:coflows=20,ports=9").build(1, RATE, &Nothing).unwrap();
        let uncoupled = spec("classes:coflows=20,ports=9 | uncouple").build(1, RATE, &Nothing).unwrap();
        assert_eq!((uncoupled.ports(), uncoupled.bytes().0), (18, 2 * coupled.bytes().0));
        for (before, after) in coupled.coflows().zip(uncoupled.coflows()) {
            for flow in after.flows {
                let at = |other: &&Flow| other.src == flow.src || other.dst.0 + 9 == flow.src.0;
                let load: u64 = before.flows.iter().filter(at).map(|flow| flow.size.0).sum();
                assert_eq!((flow.src, flow.size.0), (flow.dst, load));
            }
        }
    }
}
