//! All policies, and the way from text to one with its parameters set.
//!
//! A specification is a name, and settings behind a colon: `dclas:queues=4,weighted=false`. A
//! policy may have several names, each with its own defaults: `aalo` is `dclas` as Aalo's paper
//! prints it, and settings are counted from there. What [`Configured::params`] prints can be given
//! back as settings and yields the same policy.

use std::fmt;
use std::sync::LazyLock;

use cavalcade_model::{BitsPerSec, Bytes, Demotion, History, Policy, PolicyFactory, Scope, Setting, Terms};
use cavalcade_spec::{Kind, ParameterInfo, SpecError, find, print};

use crate::definition::{About, Definition, Named, Object, Paper};
use crate::policies;

/// One line for each policy, in the order in which they are listed.
const ENTRIES: &[Entry] = &[
    Entry::of::<policies::fair::Fair>(),
    Entry::of::<policies::spark::Spark>(),
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
    Entry::of::<policies::cassini::Cassini>(),
    Entry::of::<policies::mltcp::Mltcp>(),
];

/// A policy before anything is set.
struct Entry {
    name: &'static str,
    infos: fn() -> Vec<PolicyInfo>,
    default: fn() -> Box<dyn Object>,
}

impl Entry {
    const fn of<D: Definition>() -> Self {
        Self { name: D::ABOUT.name, infos: describe::<D>, default: || Box::new(D::default()) }
    }
}

/// A name that can be asked for, and what is known of the policy behind it, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyInfo {
    /// The name in specifications.
    pub name: &'static str,
    /// Description in one line.
    pub title: &'static str,
    /// Paper and section, or where the idea is from.
    pub source: &'static str,
    /// The paper whose policy the name stands for; `None` for generic orders and variants of ours.
    pub paper: Option<Paper>,
    /// The policy whose code this is: `name` itself, or the name of another with `settings`.
    pub base: &'static str,
    /// What it stands for with its defaults, as people say: `TCP`. [`parse`] takes it as a name.
    pub stands_for: Option<&'static str>,
    /// The settings of `base` that are this name's defaults.
    pub settings: &'static str,
    /// True if it is told sizes (with default parameters).
    pub clairvoyant: bool,
    /// Scope of one instance.
    pub scope: Scope,
    /// Knowledge that it uses, in one line.
    pub knows: &'static str,
    /// Cost of an event.
    pub cost: &'static str,
    /// Its parameters with the defaults of this name, in the order in which they are printed.
    pub parameters: Vec<ParameterInfo>,
}

/// Describes all names of a policy, its own first.
fn describe<D: Definition>() -> Vec<PolicyInfo> {
    let About { name, title, source, paper, .. } = D::ABOUT;
    let own = Named { name, title, source, paper, settings: "" };
    std::iter::once(&own).chain(D::NAMES).map(describe_as::<D>).collect()
}

/// Describes a policy under one of its names.
fn describe_as<D: Definition>(named: &Named) -> PolicyInfo {
    let mut policy = D::default();
    let configured = policy.configure(named.name, named.settings);
    assert!(configured.is_ok(), "the settings of a name can be used: {configured:?}");
    PolicyInfo {
        name: named.name,
        title: named.title,
        source: named.source,
        paper: named.paper,
        base: D::ABOUT.name,
        stands_for: D::STANDS_FOR.filter(|_| named.name == D::ABOUT.name),
        settings: named.settings,
        clairvoyant: builds_clairvoyant(&policy),
        scope: Definition::terms(&policy).scope,
        knows: D::ABOUT.knows,
        cost: D::ABOUT.cost,
        parameters: Object::parameters(&policy),
    }
}

/// Finds out whether instances are told sizes by building one, so that it cannot be misstated.
fn builds_clairvoyant(policy: &dyn Object) -> bool {
    let setting = Setting { ports: 1, line_rate: BitsPerSec(1), history: &History::default() };
    matches!(policy.build(&setting), Policy::Clairvoyant(_))
}

/// Lists all names.
pub fn registry() -> &'static [PolicyInfo] {
    static INFOS: LazyLock<Vec<PolicyInfo>> =
        LazyLock::new(|| ENTRIES.iter().flat_map(|entry| (entry.infos)()).collect());
    &INFOS
}

/// A policy with its parameters set: a factory of instances.
pub struct Configured {
    policy: Box<dyn Object>,
    info: &'static PolicyInfo,
}

impl Configured {
    /// The name that was asked for.
    pub fn name(&self) -> &'static str {
        self.info.name
    }

    /// Returns the description of the policy.
    pub fn info(&self) -> &'static PolicyInfo {
        self.info
    }

    /// Every parameter with its value as text, in the order of [`PolicyInfo::parameters`].
    pub fn params(&self) -> Vec<(&'static str, String)> {
        self.policy.parameters().into_iter().map(|info| (info.name, info.value)).collect()
    }

    /// The specification of this policy with all its parameters, which means the same even after a
    /// default has changed.
    pub fn spec(&self) -> String {
        let params = self.params();
        print(self.name(), params.iter().map(|(name, value)| (*name, value.as_str())))
    }

    /// The shortest specification of this policy: its name with what differs from the name's
    /// defaults.
    pub fn label(&self) -> String {
        let params = self.params();
        let is_this = |spec: &str| parse(spec).is_ok_and(|other| other.params() == params);
        let spec = |settings: &[(&'static str, String)]| {
            print(self.name(), settings.iter().map(|(name, value)| (*name, value.as_str())))
        };
        let mut settings = params.clone();
        // One setting may imply another (a threshold given switches the percentile off), so being
        // equal to the default is not the test: being needed is.
        for index in (0..settings.len()).rev() {
            let dropped = settings.remove(index);
            if !is_this(&spec(&settings)) {
                settings.insert(index, dropped);
            }
        }
        spec(&settings)
    }

    /// The policy as a live system runs it. Staleness is the system's own there: a policy that
    /// would wait for multiples of a period of its own does not do so besides, unless that period
    /// was asked for.
    pub fn live(&self) -> Self {
        let mut live = self.clone();
        live.policy.go_live();
        live
    }

    /// The policy for a network that keeps `queues` classes and knows no order inside them.
    pub fn for_queues(&self, queues: u32) -> Self {
        let mut sorted = self.clone();
        sorted.policy.go_to_queues(queues);
        sorted
    }

    /// The rule by which hosts sort their flows without asking a coordinator, where that is what
    /// the policy does: `pias`, `karuna`. `history` has the sizes for which thresholds are
    /// computed, where they are.
    pub fn demotion(&self, history: &History) -> Option<Demotion> {
        self.policy.demotion(history)
    }

    /// The policy with the thresholds by which hosts sort listed as they come out for `history`:
    /// programs that are told it as text have no history.
    pub fn settled(&self, history: &History) -> Self {
        let mut settled = self.clone();
        settled.policy.settle(history);
        settled
    }

    /// Returns whether its instances are told sizes.
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

    fn quiet(&self, ports: u32) -> Bytes {
        self.policy.quiet(ports)
    }
}

/// The name of an order of coflows that a file holds ([`crate::Listed`]). It is no policy that a
/// text can make.
pub const ORDER: &str = "order";

/// Makes a policy from its specification: a name, in capitals or not, with or without settings:
/// `dclas`, `Aalo:queues=4,weighted=false`. What a policy stands for names it as well: `tcp` is
/// `fair`.
///
/// # Errors
/// If a name is unknown (the message names the nearest) or a value cannot be used (it says what was
/// expected).
pub fn parse(spec: &str) -> Result<Configured, SpecError> {
    let name = spec.split(':').next().unwrap_or_default().trim();
    if name.eq_ignore_ascii_case(ORDER) {
        let hint =
            "an order is of the coflows of one trace, so only compare, simulate and report take order:FILE";
        return Err(SpecError::UnknownName {
            kind: Kind::Policy,
            name: name.to_owned(),
            hint: hint.to_owned(),
        });
    }
    let other = registry().iter().filter_map(|info| Some((info.stands_for?, info)));
    let known: Vec<(&str, &PolicyInfo)> =
        registry().iter().map(|info| (info.name, info)).chain(other).collect();
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let (place, settings) = find(Kind::Policy, spec, &names)?;
    let info = known[place].1;
    let entry = ENTRIES.iter().find(|entry| entry.name == info.base).expect("a name's policy is listed");
    let mut policy = (entry.default)();
    policy.configure(info.name, info.settings)?;
    policy.configure(info.name, settings)?;
    Ok(Configured { policy, info })
}
