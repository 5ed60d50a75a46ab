//! All policies, and the way from text to one with its parameters set.
//!
//! A specification is a policy's or preset's name, and settings behind a colon: `dclas:queues=4,weighted=false`. What
//! [`Configured::params`] prints can be given back as settings and yields the same policy.

use std::fmt;
use std::sync::LazyLock;

use cavalcade_model::{BitsPerSec, History, Policy, PolicyFactory, Scope, Setting, Terms};

use crate::definition::{Definition, Object, Preset};
use crate::error::{PolicyError, hint};
use crate::policies;

/// One line for each policy, in the order in which they are listed.
const ENTRIES: &[Entry] = &[
    Entry::of::<policies::fair::Fair>(),
    Entry::of::<policies::fifo::Fifo>(),
    Entry::of::<policies::fifo_lm::FifoLm>(),
    Entry::of::<policies::stf::Stf>(),
    Entry::of::<policies::sff::Sff>(),
    Entry::of::<policies::sebf::Sebf>(),
    Entry::of::<policies::las::Las>(),
    Entry::of::<policies::dclas::Dclas>(),
    Entry::of::<policies::dcas::Dcas>(),
    Entry::of::<policies::tafe::Tafe>(),
    Entry::of::<policies::edf::Edf>(),
    Entry::of::<policies::pias::Pias>(),
    Entry::of::<policies::karuna::Karuna>(),
    Entry::of::<policies::sincronia::Sincronia>(),
    Entry::of::<policies::saath::Saath>(),
    Entry::of::<policies::philae::Philae>(),
    Entry::of::<policies::dcoflow::Dcoflow>(),
    Entry::of::<policies::crux::Crux>(),
];

/// A policy before anything is set.
struct Entry {
    info: fn() -> PolicyInfo,
    default: fn() -> Box<dyn Object>,
}

impl Entry {
    const fn of<D: Definition>() -> Self {
        Self { info: describe::<D>, default: || Box::new(D::default()) }
    }
}

/// What is known of a policy, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyInfo {
    /// Its name in specifications.
    pub name: &'static str,
    /// What it does, in one line.
    pub title: &'static str,
    /// Paper and section.
    pub source: &'static str,
    /// Whether it is told sizes (with default parameters).
    pub clairvoyant: bool,
    /// How much one instance sees.
    pub scope: Scope,
    /// What it looks at, in one line.
    pub knows: &'static str,
    /// What an event costs it.
    pub cost: &'static str,
    /// Its parameters, in the order in which they are printed.
    pub parameters: Vec<ParameterInfo>,
    /// Its named settings.
    pub presets: &'static [Preset],
}

/// What is known of a parameter, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// Its name in specifications.
    pub name: &'static str,
    /// Its default, as text.
    pub default: String,
    /// What values are accepted.
    pub expected: &'static str,
    /// What it does, in one line.
    pub meaning: &'static str,
}

fn describe<D: Definition>() -> PolicyInfo {
    let default = D::default();
    let parameters = D::PARAMETERS.iter().enumerate().map(|(index, parameter)| ParameterInfo {
        name: parameter.name,
        default: default.get(index),
        expected: default.expected(index),
        meaning: parameter.meaning,
    });
    PolicyInfo {
        name: D::ABOUT.name,
        title: D::ABOUT.title,
        source: D::ABOUT.source,
        clairvoyant: builds_clairvoyant(&default),
        scope: Definition::terms(&default).scope,
        knows: D::ABOUT.knows,
        cost: D::ABOUT.cost,
        parameters: parameters.collect(),
        presets: D::PRESETS,
    }
}

/// Found out by building one, so that it cannot be misstated.
fn builds_clairvoyant(policy: &dyn Object) -> bool {
    let setting = Setting { ports: 1, line_rate: BitsPerSec(1), history: &History::default() };
    matches!(policy.build(&setting), Policy::Clairvoyant(_))
}

/// All policies.
pub fn registry() -> &'static [PolicyInfo] {
    static INFOS: LazyLock<Vec<PolicyInfo>> =
        LazyLock::new(|| ENTRIES.iter().map(|entry| (entry.info)()).collect());
    &INFOS
}

/// A policy with its parameters set: a factory of instances.
pub struct Configured {
    policy: Box<dyn Object>,
    info: &'static PolicyInfo,
}

impl Configured {
    /// The policy's name (not a preset's).
    pub fn name(&self) -> &'static str {
        self.info.name
    }

    /// What is known of the policy.
    pub fn info(&self) -> &'static PolicyInfo {
        self.info
    }

    /// Every parameter with its value as text, in the order of [`PolicyInfo::parameters`].
    pub fn params(&self) -> Vec<(&'static str, String)> {
        let names = self.info.parameters.iter().map(|parameter| parameter.name);
        names.enumerate().map(|(index, name)| (name, self.policy.get(index))).collect()
    }

    /// The shortest specification of this policy: a preset's name, or the policy's with what differs from the defaults.
    pub fn label(&self) -> String {
        let params = self.params();
        let is_this = |spec: &str| parse(spec).is_ok_and(|other| other.params() == params);
        if let Some(preset) = self.info.presets.iter().find(|preset| is_this(preset.name)) {
            return preset.name.to_owned();
        }
        let spec = |settings: &[(&str, String)]| match settings {
            [] => self.name().to_owned(),
            _ => {
                let parts: Vec<String> =
                    settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("{}:{}", self.name(), parts.join(","))
            }
        };
        let mut settings = params.clone();
        // One setting may imply another (a threshold given switches the percentile off), so being equal to the default
        // is not the test: being needed is.
        for index in (0..settings.len()).rev() {
            let dropped = settings.remove(index);
            if !is_this(&spec(&settings)) {
                settings.insert(index, dropped);
            }
        }
        spec(&settings)
    }

    /// Whether its instances are told sizes.
    pub fn knows_sizes(&self) -> bool {
        builds_clairvoyant(&*self.policy)
    }

    /// Sets what `settings` names and checks the whole.
    fn configure(&mut self, settings: &str) -> Result<(), PolicyError> {
        let policy = self.name();
        let mut given: Vec<&'static str> = Vec::new();
        for setting in settings.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
            let no_value = || PolicyError::NoValue { policy, setting: setting.to_owned() };
            let (name, value) = setting.split_once('=').ok_or_else(no_value)?;
            let (name, value) = (name.trim(), value.trim());
            let index = self.info.parameters.iter().position(|parameter| parameter.name == name);
            let index = index.ok_or_else(|| {
                let known: Vec<&str> = self.info.parameters.iter().map(|parameter| parameter.name).collect();
                PolicyError::UnknownParameter { policy, name: name.to_owned(), hint: hint(name, &known) }
            })?;
            let parameter = &self.info.parameters[index];
            if given.contains(&parameter.name) {
                return Err(PolicyError::Repeated { policy, parameter: parameter.name });
            }
            given.push(parameter.name);
            if !self.policy.set(index, value) {
                let expected = parameter.expected.to_owned();
                return Err(PolicyError::BadValue {
                    policy,
                    parameter: parameter.name,
                    value: value.to_owned(),
                    expected,
                });
            }
        }
        self.policy.check(&given).map_err(|complaint| {
            let index = self.info.parameters.iter().position(|known| known.name == complaint.parameter);
            let value = self.policy.get(index.expect("a complaint names a parameter of its policy"));
            PolicyError::BadValue {
                policy,
                parameter: complaint.parameter,
                value,
                expected: complaint.expected,
            }
        })
    }
}

impl Clone for Configured {
    fn clone(&self) -> Self {
        Self { policy: self.policy.boxed_clone(), info: self.info }
    }
}

impl fmt::Debug for Configured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Configured({})", self.label())
    }
}

impl PolicyFactory for Configured {
    fn terms(&self) -> Terms {
        self.policy.terms()
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        self.policy.build(setting)
    }
}

/// Makes a policy from its specification: `dclas`, `dclas:queues=4,weighted=false`, or a preset's name, with or without
/// settings of its own.
///
/// # Errors
/// Where a name is unknown (the message names the nearest) or a value cannot be used (it says what was expected).
pub fn parse(spec: &str) -> Result<Configured, PolicyError> {
    let (name, settings) = spec.split_once(':').unwrap_or((spec, ""));
    let name = name.trim();
    for (entry, info) in ENTRIES.iter().zip(registry()) {
        let fresh = || Configured { policy: (entry.default)(), info };
        if info.name == name {
            let mut made = fresh();
            made.configure(settings)?;
            return Ok(made);
        }
        if let Some(preset) = info.presets.iter().find(|preset| preset.name == name) {
            let mut made = fresh();
            made.configure(preset.settings)?;
            made.configure(settings)?;
            return Ok(made);
        }
    }
    let presets = registry().iter().flat_map(|info| info.presets).map(|preset| preset.name);
    let known: Vec<&str> = registry().iter().map(|info| info.name).chain(presets).collect();
    Err(PolicyError::UnknownPolicy { name: name.to_owned(), hint: hint(name, &known) })
}
