//! The interface that each policy implements, and its form without the type.
//!
//! A policy is a struct of parameters that implements [`Definition`]; its table of [`Parameter`]s
//! is the only place where a parameter is named. One policy may have several names: each [`Named`]
//! is the same code with other defaults. Under a paper's name the defaults are what the paper
//! prints, so a deviation is always a setting that can be seen. [`Object`] is the same without the
//! type, so that the registry can hold all of them. What can be found out is not stated twice: the
//! scope is read from the terms, and whether a policy knows sizes from the kind of instance that it
//! builds.

use cavalcade_model::{Bytes, Demotion, History, Policy, Setting, Terms};
use cavalcade_spec::{Complaint, Kind, Parameter, ParameterInfo, SpecError, configure, describe};

/// Description of a policy, for those who choose one.
pub(crate) struct About {
    /// Its name in specifications.
    pub(crate) name: &'static str,
    /// Description in one line.
    pub(crate) title: &'static str,
    /// Paper and section, or where the idea is from.
    pub(crate) source: &'static str,
    /// The paper whose policy it is, where it has the paper's name.
    pub(crate) paper: Option<Paper>,
    /// Knowledge that it uses.
    pub(crate) knows: &'static str,
    /// The cost of an event.
    pub(crate) cost: &'static str,
}

/// Another name for a policy, with settings of its own: a paper's, or a variant of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The name in specifications.
    pub(crate) name: &'static str,
    /// Description in one line.
    pub(crate) title: &'static str,
    /// Paper and section, or where the idea is from.
    pub(crate) source: &'static str,
    /// The paper whose policy it is.
    pub(crate) paper: Option<Paper>,
    /// The settings that are its defaults, as they would be written after the policy's own name.
    pub(crate) settings: &'static str,
}

/// The paper whose policy a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper {
    /// The system's name as the paper writes it: `D-CAS`.
    pub system: &'static str,
    /// Venue: `SIGCOMM`.
    pub venue: &'static str,
    /// Year of publication.
    pub year: u16,
    /// Source that the implementation follows.
    pub follows: Follows,
    /// The transport that is part of the proposal, which a packet simulation needs to run it as
    /// published.
    pub transport: Option<OwnTransport>,
}

/// The transport that a paper proposes with its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnTransport {
    /// Its name.
    pub name: &'static str,
    /// True if it orders packets by itself, in its switches or queues, so that no policy stands
    /// beside it.
    pub orders: bool,
}

impl OwnTransport {
    /// A transport that orders packets by itself.
    pub(crate) const fn alone(name: &'static str) -> Option<Self> {
        Some(Self { name, orders: true })
    }

    /// A transport whose packets carry the policy's priorities.
    pub(crate) const fn beside(name: &'static str) -> Option<Self> {
        Some(Self { name, orders: false })
    }
}

/// Source that an implementation of a paper's policy follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// The paper's text, literally.
    Text,
    /// Code that its authors released, where the text could not be had in full.
    ReleasedCode,
    /// Descriptions in other papers, where neither text nor code could be had.
    SecondarySources,
}

impl Follows {
    /// Says it in words, for listings.
    pub fn words(self) -> &'static str {
        match self {
            Self::Text => "as printed",
            Self::ReleasedCode => "from its released code",
            Self::SecondarySources => "from secondary sources",
        }
    }
}

/// The meaning of the parameter `discipline`, which several policies have.
pub(crate) const DISCIPLINE: &str = "how flows share what their order leaves them; equal coflows share under maxmin, else the older goes first";

/// The meaning of the parameter `conserving`, which several policies have.
pub(crate) const CONSERVING: &str =
    "true: others get what a flow cannot use of its link; false: it is lost, as in CoflowSim";

/// A policy as its file defines it: typed parameters and what follows from them.
pub(crate) trait Definition: Clone + Default + Send + Sync + 'static {
    /// Name, source, cost.
    const ABOUT: About;
    /// Its parameters, in the order in which they are listed.
    const PARAMETERS: &'static [Parameter<Self>] = &[];
    /// What it stands for with its defaults, as people say: taken as a name of it, in capitals or
    /// not.
    const STANDS_FOR: Option<&'static str> = None;
    /// Other names that it goes by, with their settings.
    const NAMES: &'static [Named] = &[];

    /// Checks the parameters against each other, once all are set. `given` names those that were
    /// set explicitly, so that a default can give way to the alternative that was asked for.
    fn check(&mut self, given: &[&str]) -> Result<(), Complaint> {
        let _ = given;
        Ok(())
    }

    /// The terms on which its decisions are to be carried out.
    fn terms(&self) -> Terms;

    /// A fresh instance for one place.
    fn build(&self, setting: &Setting<'_>) -> Policy;

    /// See [`cavalcade_model::PolicyFactory::quiet`].
    fn quiet(&self, ports: u32) -> Bytes {
        let _ = ports;
        Bytes::ZERO
    }

    /// The rule by which hosts sort their flows without asking, where that is what the policy does.
    fn demotion(&self, history: &History) -> Option<Demotion> {
        let _ = history;
        None
    }

    /// Gives values that come from history as numbers, so that a text names them where there is no
    /// history.
    fn settle(&mut self, history: &History) {
        let _ = history;
    }

    /// Gives up the staleness that the policy models, where a live system has its own: `standard`
    /// are the defaults, and what differs from them was asked for.
    fn go_live(&mut self, standard: &Self) {
        let _ = standard;
    }

    /// Makes classes of its orders, so that a network which keeps `queues` classes and no order
    /// carries it out as far as it can; unless another number was asked for.
    fn go_to_queues(&mut self, queues: u32) {
        let _ = queues;
    }
}

/// A [`Definition`] whose type has been forgotten.
pub(crate) trait Object: Send + Sync {
    fn boxed_clone(&self) -> Box<dyn Object>;
    /// Lists every parameter with its value.
    fn parameters(&self) -> Vec<ParameterInfo>;
    /// Sets what `settings` names and checks the whole; `name` is the name that was asked for.
    fn configure(&mut self, name: &'static str, settings: &str) -> Result<(), SpecError>;
    fn terms(&self) -> Terms;
    fn build(&self, setting: &Setting<'_>) -> Policy;
    fn quiet(&self, ports: u32) -> Bytes;
    fn demotion(&self, history: &History) -> Option<Demotion>;
    fn settle(&mut self, history: &History);
    fn go_live(&mut self);
    fn go_to_queues(&mut self, queues: u32);
}

impl<D: Definition> Object for D {
    fn boxed_clone(&self) -> Box<dyn Object> {
        Box::new(self.clone())
    }

    fn parameters(&self) -> Vec<ParameterInfo> {
        describe(D::PARAMETERS, self)
    }

    fn configure(&mut self, name: &'static str, settings: &str) -> Result<(), SpecError> {
        let check = |policy: &mut D, given: &[&str]| Definition::check(policy, given);
        configure((Kind::Policy, name), D::PARAMETERS, self, settings, check)
    }

    fn terms(&self) -> Terms {
        Definition::terms(self)
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        Definition::build(self, setting)
    }

    fn quiet(&self, ports: u32) -> Bytes {
        Definition::quiet(self, ports)
    }

    fn demotion(&self, history: &History) -> Option<Demotion> {
        Definition::demotion(self, history)
    }

    fn settle(&mut self, history: &History) {
        Definition::settle(self, history);
    }

    fn go_live(&mut self) {
        Definition::go_live(self, &D::default());
    }

    fn go_to_queues(&mut self, queues: u32) {
        Definition::go_to_queues(self, queues);
    }
}
