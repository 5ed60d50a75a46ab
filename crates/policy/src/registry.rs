//! All policies, and the way from text to one with its parameters set.
//!
//! A specification is a policy's or preset's name, and settings behind a colon: `dclas:queues=4,weighted=false`. What
//! [`Configured::params`] prints can be given back as settings and yields the same policy.

use std::fmt;
use std::sync::LazyLock;

use cavalcade_model::{BitsPerSec, History, Policy, PolicyFactory, Scope, Setting, Terms};
use cavalcade_spec::{Kind, ParameterInfo, SpecError, find, print};

use crate::definition::{Definition, Object, Preset};
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
    Entry::of::<policies::learn::Learn>(),
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

fn describe<D: Definition>() -> PolicyInfo {
    let default = D::default();
    PolicyInfo {
        name: D::ABOUT.name,
        title: D::ABOUT.title,
        source: D::ABOUT.source,
        clairvoyant: builds_clairvoyant(&default),
        scope: Definition::terms(&default).scope,
        knows: D::ABOUT.knows,
        cost: D::ABOUT.cost,
        parameters: Object::parameters(&default),
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
        self.policy.parameters().into_iter().map(|info| (info.name, info.value)).collect()
    }

    /// The specification of this policy with all its parameters, which means the same even after a default has changed.
    pub fn spec(&self) -> String {
        let params = self.params();
        print(self.name(), params.iter().map(|(name, value)| (*name, value.as_str())))
    }

    /// The shortest specification of this policy: a preset's name, or the policy's with what differs from the defaults.
    pub fn label(&self) -> String {
        let params = self.params();
        let is_this = |spec: &str| parse(spec).is_ok_and(|other| other.params() == params);
        if let Some(preset) = self.info.presets.iter().find(|preset| is_this(preset.name)) {
            return preset.name.to_owned();
        }
        let spec = |settings: &[(&'static str, String)]| {
            print(self.name(), settings.iter().map(|(name, value)| (*name, value.as_str())))
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
/// settings of its own. Case does not matter in names.
///
/// # Errors
/// Where a name is unknown (the message names the nearest) or a value cannot be used (it says what was expected).
pub fn parse(spec: &str) -> Result<Configured, SpecError> {
    let policies = registry().iter().enumerate().map(|(index, info)| (info.name, index, ""));
    let presets = registry().iter().enumerate().flat_map(|(index, info)| {
        info.presets.iter().map(move |preset| (preset.name, index, preset.settings))
    });
    let known: Vec<(&str, usize, &str)> = policies.chain(presets).collect();
    let names: Vec<&str> = known.iter().map(|(name, ..)| *name).collect();
    let (place, settings) = find(Kind::Policy, spec, &names)?;
    let (_, index, preset) = known[place];
    let mut policy = (ENTRIES[index].default)();
    policy.configure(preset)?;
    policy.configure(settings)?;
    Ok(Configured { policy, info: &registry()[index] })
}
