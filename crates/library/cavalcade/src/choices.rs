//! Which policies are run: by name, by the name of a set, and what of a set a fabric and a trace
//! allow.
//!
//! A policy that is named runs or is an error. One of a set is left out where it cannot run, or
//! where it would take hours: sets are what people try first, on whatever trace they have.

use cavalcade_model::TaskId;
use cavalcade_policy::registry;
use cavalcade_spec::Carried;

use crate::{Engine, Error, Kind, Policy, Scenario, Transport};

/// The cure of a policy that cannot be used.
const LISTED: &str = "'cavalcade policies' lists policies and their parameters";

/// The best of ours that is not told sizes.
const OURS: &str = "learn";

/// A policy of the default set that costs too much over traces that are not small.
struct Costly {
    name: &'static str,
    /// What stands for it there.
    instead: Option<&'static str>,
    /// Whether it takes minutes at most on one switch of at most [`MOST_PORTS`] ports, whatever the
    /// trace.
    is_cheap_on_a_switch: bool,
}

/// Such policies. On several switches Baraat's rates are computed from their definition at each
/// event. Literal D-CAS exchanges messages for every pair of a subcoflow and a receiver at each
/// tick, 3·10⁹ on the Facebook trace. Rates by weight are computed from their definition, too.
const COSTLY: [Costly; 3] = [
    Costly { name: "baraat", instead: None, is_cheap_on_a_switch: true },
    Costly { name: "dcas", instead: Some("dcas-quiet"), is_cheap_on_a_switch: false },
    Costly { name: "mltcp", instead: None, is_cheap_on_a_switch: false },
];

/// Policies that are fair sharing where no task declares iterations: sets are without them there.
const OF_ITERATIONS: [&str; 2] = ["cassini", "mltcp"];

/// The most ports of a switch on which Baraat's rates are cheap: rounds look at all links.
const MOST_PORTS: u32 = 1_024;

/// The most flows of a trace on which those take seconds.
const SMALL: usize = 40_000;

/// A policy, the transport that was named with it, and how it was chosen.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The policy; `None` leaves the order to the transport.
    pub policy: Option<Policy>,
    /// The transport of `POLICY over TRANSPORT`.
    pub transport: Option<Transport>,
    /// How it was chosen.
    pub asked: Asked,
}

/// How a policy was chosen.
#[derive(Clone, Debug)]
pub enum Asked {
    /// By its name.
    ByName,
    /// As one of a set.
    InSet,
    /// As one of a set, if the trace is small or the fabric is one switch that is cheap for it;
    /// else another policy stands for it, or no policy does.
    IfSmall {
        /// The policy that stands for it.
        instead: Option<Policy>,
        /// Whether one switch is cheap, whatever the trace.
        or_on_a_switch: bool,
    },
}

impl Choice {
    /// The baseline by default.
    pub const BASELINE: &str = "fair";
    /// The name of the set that is compared by default: fair sharing, each paper's policy under its
    /// name, and our best. Those of training jobs are in no set where no task declares iterations.
    pub const DEFAULT: &str = "default";
    /// The name of the set of all registered policies.
    pub const ALL: &str = "all";

    /// Reads `POLICY`, `POLICY over TRANSPORT` or `over TRANSPORT`.
    ///
    /// # Errors
    /// If a name is unknown or a value cannot be used.
    pub fn named(text: &str) -> Result<Self, Error> {
        let Carried { policy, transport } = Carried::read(text);
        let policy = policy.map(Policy::named).transpose().map_err(|error| match error.cure() {
            None if error.code() == Kind::Usage as u8 => error.help(LISTED),
            _ => error,
        })?;
        let transport = transport.map(cavalcade_transport::parse).transpose();
        let transport = transport.map_err(|error| Error::usage(error.to_string()))?;
        Ok(Self { policy, transport: transport.as_ref().map(Transport::from), asked: Asked::ByName })
    }

    /// The policies of a name: those of a set, or one.
    ///
    /// # Errors
    /// If it is neither a set nor a policy.
    pub fn of_word(word: &str) -> Result<Vec<Self>, Error> {
        let word = word.trim();
        if word.eq_ignore_ascii_case(Self::ALL) {
            let of_set = |name| Ok(Self { asked: Asked::InSet, ..Self::named(name)? });
            return registry().iter().map(|info| of_set(info.name)).collect();
        }
        if word.eq_ignore_ascii_case(Self::DEFAULT) {
            return default_names().map(Self::of_default_set).collect();
        }
        Ok(vec![Self::named(word)?])
    }

    fn of_default_set(name: &str) -> Result<Self, Error> {
        let asked = match COSTLY.iter().find(|costly| costly.name == name) {
            None => Asked::InSet,
            Some(costly) => Asked::IfSmall {
                instead: costly.instead.map(Policy::named).transpose()?,
                or_on_a_switch: costly.is_cheap_on_a_switch,
            },
        };
        Ok(Self { asked, ..Self::named(name)? })
    }

    /// What it is called: the policy, over its transport where one was named.
    pub fn label(&self) -> String {
        let policy = self.policy.as_ref().map(Policy::label);
        Carried { policy, transport: self.transport.as_ref().map(Transport::label) }.to_string()
    }

    /// Whether both are the same policy over the same transport.
    pub fn is(&self, other: &Self) -> bool {
        (&self.policy, &self.transport) == (&other.policy, &other.transport)
    }

    /// Whether it was asked for by name, so that it is an error if it cannot run.
    pub fn is_named(&self) -> bool {
        matches!(self.asked, Asked::ByName)
    }

    /// The engines that it stands on: its own transport, or each of `engines`.
    pub fn engines(&self, engines: &[Engine]) -> Vec<Engine> {
        match &self.transport {
            Some(transport) => {
                let packets = engines.iter().find(|engine| matches!(engine, Engine::Packet(_)));
                vec![packets.unwrap_or(&Engine::Fluid).over(transport.clone())]
            }
            None => engines.to_vec(),
        }
    }
}

/// The names of the default set: fair sharing, the papers' in alphabetical order, ours.
fn default_names() -> impl Iterator<Item = &'static str> {
    let mut papers: Vec<&str> =
        registry().iter().filter(|info| info.paper.is_some()).map(|info| info.name).collect();
    papers.sort_unstable();
    [Choice::BASELINE].into_iter().chain(papers).chain([OURS])
}

/// Scenarios that can be run, and what was left out.
#[derive(Debug, Default)]
pub struct Runnable {
    /// The scenarios.
    pub scenarios: Vec<Scenario>,
    /// For each whether its policy was asked for by name.
    pub named: Vec<bool>,
    /// The place of the first of the baseline among them.
    pub baseline: usize,
    /// Names of a set that cost too much on a trace of this size, with what stands for them.
    pub costly: Vec<(String, Option<String>)>,
    /// Labels of a set that cannot run on this fabric.
    pub unfit: Vec<String>,
}

impl Runnable {
    /// Finds what can be run of `choices`, each on each of `engines`: all that was asked for by
    /// name; of sets what the fabric and the size of the trace allow.
    ///
    /// # Errors
    /// If a named policy cannot be run, or no policy can.
    pub fn of(
        scenario: &Scenario,
        choices: &[Choice],
        engines: &[Engine],
        baseline: usize,
    ) -> Result<Self, Error> {
        let is_small = scenario.workload().flows().len() <= SMALL;
        let is_switch = scenario.fabric().is_one_switch() && scenario.fabric().ports() <= MOST_PORTS;
        let workload = scenario.workload();
        let mut tasks = (0..workload.tasks().len()).map(TaskId::from_index);
        let iterates = tasks.any(|task| workload.iterations(task).is_some());
        let is_cheap = |or_on_a_switch| is_small || or_on_a_switch && is_switch;
        let Afforded { choices, baseline, costly } = Afforded::of(choices, baseline, iterates, is_cheap);
        let mut found = Self { costly, ..Self::default() };
        let (mut place, mut refused) = (None, None);
        for (index, choice) in choices.iter().enumerate() {
            for engine in choice.engines(engines) {
                let one = scenario.on(engine).ordered_by(choice.policy.clone());
                match one.check() {
                    Ok(()) => {
                        if index == baseline {
                            place.get_or_insert(found.scenarios.len());
                        }
                        found.scenarios.push(one);
                        found.named.push(choice.is_named());
                    }
                    Err(error) if choice.is_named() => return Err(error),
                    Err(error) => {
                        found.unfit.push(one.label());
                        refused.get_or_insert(error);
                    }
                }
            }
        }
        if let (true, Some(error)) = (found.scenarios.is_empty(), refused) {
            return Err(error);
        }
        found.unfit.dedup();
        found.baseline = place.unwrap_or(0);
        Ok(found)
    }
}

/// The choices without those that a trace cannot afford.
#[derive(Debug)]
pub struct Afforded {
    /// Those that it can, with what stands for others.
    pub choices: Vec<Choice>,
    /// The place of the baseline among them.
    pub baseline: usize,
    /// Names of a set that cost too much, with what stands for them.
    pub costly: Vec<(String, Option<String>)>,
}

impl Afforded {
    /// What a trace can afford that is not held as a whole.
    pub fn of_stream(choices: &[Choice], baseline: usize) -> Self {
        Self::of(choices, baseline, false, |_| false)
    }

    /// What a trace can afford for which `is_cheap` says whether those of a set are that only a
    /// small one can, or one on a switch. What stands for one that is left out takes its place.
    /// Those that order iterations are of no set where no job `iterates`.
    fn of(choices: &[Choice], baseline: usize, iterates: bool, is_cheap: impl Fn(bool) -> bool) -> Self {
        let mut found = Self { choices: Vec::new(), baseline: 0, costly: Vec::new() };
        for (index, choice) in choices.iter().enumerate() {
            if index == baseline {
                found.baseline = found.choices.len();
            }
            let name = choice.policy.as_ref().map_or("", Policy::name);
            if !iterates && !choice.is_named() && OF_ITERATIONS.contains(&name) {
                continue;
            }
            let instead = match &choice.asked {
                Asked::IfSmall { instead, or_on_a_switch } if !is_cheap(*or_on_a_switch) => instead,
                _ => {
                    found.choices.push(choice.clone());
                    continue;
                }
            };
            found.costly.push((name.to_owned(), instead.as_ref().map(|other| other.name().to_owned())));
            let is_there =
                |other: &Policy| choices.iter().any(|choice| choice.policy.as_ref() == Some(other));
            if let Some(other) = instead.as_ref().filter(|other| !is_there(other)) {
                found.choices.push(Choice { policy: Some(other.clone()), ..choice.clone() });
            }
        }
        found
    }
}
