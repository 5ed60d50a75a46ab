//! A policy as a scenario has it: one of the registry, an order that a file holds, or one of your
//! own.
//!
//! What an order lists are names of coflows, so it decides only once it is bound to a workload. A
//! [`crate::Scenario`] does that when it is checked and when it runs.

use std::fmt;
use std::sync::Arc;

use cavalcade_metrics::PolicyFacts;
use cavalcade_model::{BitsPerSec, Bytes, CoflowId, History, PolicyFactory, Setting, Terms, Workload};
use cavalcade_policy::{Configured, Listed, ORDER, Paper, registry};

use crate::error::Error;
use crate::order::Order;

/// A policy with its parameters set, and its name.
#[derive(Clone)]
pub struct Policy {
    name: String,
    label: String,
    params: Vec<(String, String)>,
    factory: Arc<dyn PolicyFactory + Send + Sync>,
    registered: Option<Configured>,
    order: Option<Arc<Order>>,
}

impl Policy {
    /// The policy that `text` names: one of the registry such as `dclas:queues=4`, or `order:FILE`,
    /// which is read now.
    ///
    /// # Errors
    /// If there is no such policy, a value cannot be used, or the file is not an order.
    pub fn named(text: &str) -> Result<Self, Error> {
        let is_order = |(name, _): &(&str, &str)| name.trim().eq_ignore_ascii_case(ORDER);
        match text.split_once(':').filter(is_order) {
            Some((_, settings)) => Order::read(settings).map(Self::of_order),
            None => Ok(cavalcade_policy::parse(text)?.into()),
        }
    }

    /// The policy that serves coflows in this order.
    pub(crate) fn of_order(order: Order) -> Self {
        let params = [("file", order.path().to_owned()), ("discipline", order.discipline_word().to_owned())];
        Self {
            name: ORDER.to_owned(),
            label: order.label(),
            params: params.map(|(name, value)| (name.to_owned(), value)).into(),
            factory: Arc::new(Listed::new(&[], order.discipline())),
            registered: None,
            order: Some(Arc::new(order)),
        }
    }

    /// The coflows of `workload` that its order lists, first to last; `None` where it is not
    /// `order:FILE`.
    ///
    /// # Errors
    /// If the order names a coflow that the workload does not have, or one twice.
    pub fn listed(&self, workload: &Workload) -> Result<Option<Vec<CoflowId>>, Error> {
        self.order.as_ref().map(|order| order.of(workload)).transpose()
    }

    /// The same policy, ready for `workload`.
    pub(crate) fn bound_to(&self, workload: &Workload) -> Result<Self, Error> {
        let (Some(order), Some(listed)) = (&self.order, self.listed(workload)?) else {
            return Ok(self.clone());
        };
        Ok(Self { factory: Arc::new(Listed::new(&listed, order.discipline())), ..self.clone() })
    }

    /// Whether it is an order of a file.
    pub(crate) fn is_order(&self) -> bool {
        self.order.is_some()
    }

    /// A policy of your own.
    pub fn new(name: impl Into<String>, factory: impl PolicyFactory + Send + Sync + 'static) -> Self {
        let name = name.into();
        let (label, factory) = (name.clone(), Arc::new(factory));
        Self { name, label, params: Vec::new(), factory, registered: None, order: None }
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

    /// Its origin, and whether it is told sizes.
    pub(crate) fn about(&self) -> PolicyFacts {
        let own = || {
            let setting = Setting { ports: 1, line_rate: BitsPerSec(1), history: &History::default() };
            // The author of an order has seen the whole trace.
            let told_sizes = self.order.is_some()
                || matches!(self.factory.build(&setting), cavalcade_model::Policy::Clairvoyant(_));
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
            PolicyFacts {
                told_sizes: policy.knows_sizes(),
                paper: paper.unwrap_or_default(),
                stands_for,
                ..PolicyFacts::default()
            }
        })
    }

    /// The policy of the registry, unless it is an order of a file or one of your own.
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
            order: None,
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
