//! What a policy's file provides, and what that makes it to the rest of the house.
//!
//! A policy is a struct of parameters that implements [`Definition`]: its default is the paper's setting, its table of
//! [`Parameter`]s is the only place where a parameter is named. [`Object`] is the same without the type, so that the
//! registry can hold all of them. What can be found out is not stated twice: the scope is read from the terms, and
//! whether a policy knows sizes from the kind of instance that it builds.

use cavalcade_model::{Policy, Setting, Terms};

use crate::params::Parameter;

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

/// A setting that cannot be used.
#[derive(Debug)]
pub(crate) struct Complaint {
    /// The parameter to change.
    pub(crate) parameter: &'static str,
    /// What would have been accepted.
    pub(crate) expected: String,
}

impl Complaint {
    /// That `parameter` should have been as `expected` says.
    pub(crate) fn new(parameter: &'static str, expected: impl Into<String>) -> Self {
        Self { parameter, expected: expected.into() }
    }

    /// An error unless `holds`.
    pub(crate) fn unless(
        holds: bool,
        parameter: &'static str,
        expected: impl Into<String>,
    ) -> Result<(), Complaint> {
        if holds { Ok(()) } else { Err(Self::new(parameter, expected)) }
    }
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

/// A [`Definition`] whose type has been forgotten. Parameters are known by their place in the table.
pub(crate) trait Object: Send + Sync {
    fn boxed_clone(&self) -> Box<dyn Object>;
    fn get(&self, parameter: usize) -> String;
    fn expected(&self, parameter: usize) -> &'static str;
    /// Whether `text` could be read.
    fn set(&mut self, parameter: usize, text: &str) -> bool;
    fn check(&mut self, given: &[&str]) -> Result<(), Complaint>;
    fn terms(&self) -> Terms;
    fn build(&self, setting: &Setting<'_>) -> Policy;
}

impl<D: Definition> Object for D {
    fn boxed_clone(&self) -> Box<dyn Object> {
        Box::new(self.clone())
    }

    fn get(&self, parameter: usize) -> String {
        (D::PARAMETERS[parameter].field)(&mut self.clone()).write()
    }

    fn expected(&self, parameter: usize) -> &'static str {
        (D::PARAMETERS[parameter].field)(&mut self.clone()).expected()
    }

    fn set(&mut self, parameter: usize, text: &str) -> bool {
        (D::PARAMETERS[parameter].field)(self).read(text)
    }

    fn check(&mut self, given: &[&str]) -> Result<(), Complaint> {
        Definition::check(self, given)
    }

    fn terms(&self) -> Terms {
        Definition::terms(self)
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        Definition::build(self, setting)
    }
}
