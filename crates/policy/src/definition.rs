//! What a policy's file provides, and what that makes it to the rest of the house.
//!
//! A policy is a struct of parameters that implements [`Definition`]: its default is the paper's setting, its table of
//! [`Parameter`]s is the only place where a parameter is named. [`Object`] is the same without the type, so that the
//! registry can hold all of them. What can be found out is not stated twice: the scope is read from the terms, and
//! whether a policy knows sizes from the kind of instance that it builds.

use cavalcade_model::{Policy, Setting, Terms};
use cavalcade_spec::{Complaint, Kind, Parameter, ParameterInfo, SpecError, configure, describe};

/// What a person wants to know of a policy before choosing it.
pub(crate) struct About {
    /// Its name in specifications.
    pub(crate) name: &'static str,
    /// What it does, in one line.
    pub(crate) title: &'static str,
    /// Paper and section.
    pub(crate) source: &'static str,
    /// What it looks at.
    pub(crate) knows: &'static str,
    /// The cost of an event.
    pub(crate) cost: &'static str,
}

/// A named setting of a policy's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name by which it is asked for, beginning with its policy's: `dclas-fine`.
    pub name: &'static str,
    /// Its settings, as they would be written after the policy's name: `queues=4,weighted=false`.
    pub settings: &'static str,
    /// What it is good for, in one line.
    pub meaning: &'static str,
}

/// A policy as its file defines it: typed parameters and what follows from them.
pub(crate) trait Definition: Clone + Default + Send + Sync + 'static {
    /// Name, source, cost.
    const ABOUT: About;
    /// Its parameters, in the order in which they are listed.
    const PARAMETERS: &'static [Parameter<Self>] = &[];
    /// Its named settings.
    const PRESETS: &'static [Preset] = &[];

    /// Checks the parameters against each other, once all are set. `given` names those that were set explicitly, so
    /// that a default can give way to the alternative that was asked for.
    fn check(&mut self, given: &[&str]) -> Result<(), Complaint> {
        let _ = given;
        Ok(())
    }

    /// The terms on which its decisions are to be carried out.
    fn terms(&self) -> Terms;

    /// A fresh instance for one place.
    fn build(&self, setting: &Setting<'_>) -> Policy;
}

/// A [`Definition`] whose type has been forgotten.
pub(crate) trait Object: Send + Sync {
    fn boxed_clone(&self) -> Box<dyn Object>;
    /// Every parameter with its value.
    fn parameters(&self) -> Vec<ParameterInfo>;
    /// Sets what `settings` names and checks the whole.
    fn configure(&mut self, settings: &str) -> Result<(), SpecError>;
    fn terms(&self) -> Terms;
    fn build(&self, setting: &Setting<'_>) -> Policy;
}

impl<D: Definition> Object for D {
    fn boxed_clone(&self) -> Box<dyn Object> {
        Box::new(self.clone())
    }

    fn parameters(&self) -> Vec<ParameterInfo> {
        describe(D::PARAMETERS, self)
    }

    fn configure(&mut self, settings: &str) -> Result<(), SpecError> {
        let check = |policy: &mut D, given: &[&str]| Definition::check(policy, given);
        configure((Kind::Policy, D::ABOUT.name), D::PARAMETERS, self, settings, check)
    }

    fn terms(&self) -> Terms {
        Definition::terms(self)
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        Definition::build(self, setting)
    }
}
