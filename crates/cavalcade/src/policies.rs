//! A policy as a scenario has it: one of the registry, or one of your own.

use std::fmt;
use std::sync::Arc;

use cavalcade_metrics::PolicyFacts;
use cavalcade_model::{BitsPerSec, Bytes, History, PolicyFactory, Setting, Terms};
use cavalcade_policy::{Configured, Paper, registry};

/// A policy with its parameters set, and what it is called.
#[derive(Clone)]
pub struct Policy {
    name: String,
    label: String,
    params: Vec<(String, String)>,
    factory: Arc<dyn PolicyFactory + Send + Sync>,
    registered: Option<Configured>,
}

impl Policy {
    /// A policy of your own.
    pub fn new(name: impl Into<String>, factory: impl PolicyFactory + Send + Sync + 'static) -> Self {
        let name = name.into();
        let (label, factory) = (name.clone(), Arc::new(factory));
        Self { name, label, params: Vec::new(), factory, registered: None }
    }

    /// Its name, without parameters.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The shortest text that names it with its parameters.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// All parameters with their values.
    pub fn params(&self) -> &[(String, String)] {
        &self.params
    }

    /// Its origin, and what it is told.
    pub(crate) fn about(&self) -> PolicyFacts {
        let own = || {
            let setting = Setting { ports: 1, line_rate: BitsPerSec(1), history: &History::default() };
            let told_sizes = matches!(self.factory.build(&setting), cavalcade_model::Policy::Clairvoyant(_));
            PolicyFacts { told_sizes, ..PolicyFacts::default() }
        };
        self.registered.as_ref().map_or_else(own, |policy| {
            let named = |paper: Paper| format!("{}, {} {}", paper.system, paper.venue, paper.year);
            let info = policy.info();
            // A variant is not its paper's policy, but it is made after it.
            let relative =
                || registry().iter().filter(|other| other.base == info.base).find_map(|other| other.paper);
            let paper =
                info.paper.map(named).or_else(|| relative().map(|paper| format!("after {}", named(paper))));
            // With other settings it stands for something else.
            let stands_for =
                info.stands_for.filter(|_| self.label == info.name).unwrap_or_default().to_owned();
            PolicyFacts { told_sizes: policy.knows_sizes(), paper: paper.unwrap_or_default(), stands_for }
        })
    }

    /// The policy of the registry, unless it is one of your own.
    pub fn registered(&self) -> Option<&Configured> {
        self.registered.as_ref()
    }
}

impl From<Configured> for Policy {
    fn from(policy: Configured) -> Self {
        let params = policy.params().into_iter().map(|(name, value)| (name.to_owned(), value));
        Self {
            name: policy.name().to_owned(),
            label: policy.label(),
            params: params.collect(),
            factory: Arc::new(policy.clone()),
            registered: Some(policy),
        }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({})", self.label)
    }
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.params == other.params
    }
}

impl PolicyFactory for Policy {
    fn terms(&self) -> Terms {
        self.factory.terms()
    }

    fn build(&self, setting: &Setting<'_>) -> cavalcade_model::Policy {
        self.factory.build(setting)
    }

    fn quiet(&self, ports: u32) -> Bytes {
        self.factory.quiet(ports)
    }
}
