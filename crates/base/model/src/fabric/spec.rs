//! A fabric as one line of text: `tree:pods=30,racks=30,hosts=40,rate=1Gbps,oversubscription=2`.
//!
//! The name of a shape, then its parts as `key=value`; then, each after a semicolon, links that are
//! exceptions, by the names that [`Fabric::link_name`] gives them: `;rack 2 to pod 0
//! rate=500Mbps;ingress of port 3 delay=5us;pod 1 to core 0 failed`. Texts with the same meaning
//! give equal values, and what is printed is read back as the same value, so a manifest can keep
//! it.

use core::fmt;
use core::str::FromStr;

use cavalcade_spec::{Kind, Parameter, SpecError, configure, find};

use super::{BigSwitch, Fabric, FabricError, FatTree, LeafSpine, Shape, Tree};
use crate::{BitsPerSec, Nanos};

/// A shape, the rate of its ports, and the propagation delay of each link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricSpec {
    /// The shape.
    pub shape: Shape,
    /// The capacity of every port in each direction; `None` if the text leaves it to the caller.
    pub rate: Option<BitsPerSec>,
    /// The delay of every link.
    pub delay: Nanos,
    /// Links that are not like the others, in the order in which they were named.
    pub exceptions: Vec<LinkException>,
}

/// A link that is not like the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkException {
    /// Its name, as [`Fabric::link_name`] gives it.
    pub link: String,
    /// The exception.
    pub what: Exception,
}

/// Property of one link that differs from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exception {
    /// A capacity.
    Rate(BitsPerSec),
    /// Propagation delay.
    Delay(Nanos),
    /// It carries nothing any more.
    Failed,
}

/// Reason that a text names no fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricSpecError {
    /// A shape or parameter that cannot be read.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A link with nothing of its own, or something that cannot be read.
    #[error(
        "{text:?} is no exception: expected a link's name and rate=…, delay=… or failed, as \"rack 2 to pod 0 failed\"{problem}"
    )]
    BadException {
        /// Value given.
        text: String,
        /// Problem with the value, after a colon; empty if there is none.
        problem: String,
    },
    /// A fabric that cannot be built.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

/// All shapes with their defaults: one line for each, in the order in which they are listed.
pub fn shapes() -> Vec<Shape> {
    vec![
        Shape::new(BigSwitch::default()),
        Shape::new(Tree::default()),
        Shape::new(LeafSpine::default()),
        Shape::new(FatTree::default()),
    ]
}

/// Parameters that all shapes share.
#[derive(Clone, Default)]
struct Common {
    rate: Option<BitsPerSec>,
    delay: Nanos,
}

const COMMON: &[Parameter<Common>] = &[
    Parameter { name: "rate", meaning: "capacity of every port in each direction", field: |p| &mut p.rate },
    Parameter { name: "delay", meaning: "propagation delay of each link", field: |p| &mut p.delay },
];

impl FromStr for LinkException {
    type Err = FabricSpecError;

    fn from_str(text: &str) -> Result<Self, FabricSpecError> {
        let bad = |problem: &dyn fmt::Display| FabricSpecError::BadException {
            text: text.to_owned(),
            problem: problem.to_string(),
        };
        let (link, what) = text.rsplit_once(' ').ok_or_else(|| bad(&""))?;
        let what = match what.split_once('=') {
            None if what == "failed" => Exception::Failed,
            Some(("rate", rate)) => {
                Exception::Rate(rate.parse().map_err(|error| bad(&format_args!(": {error}")))?)
            }
            Some(("delay", delay)) => {
                Exception::Delay(delay.parse().map_err(|error| bad(&format_args!(": {error}")))?)
            }
            _ => return Err(bad(&"")),
        };
        Ok(Self { link: link.to_owned(), what })
    }
}

impl fmt::Display for LinkException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            Exception::Rate(rate) => write!(f, "{} rate={rate}", self.link),
            Exception::Delay(delay) => write!(f, "{} delay={delay}", self.link),
            Exception::Failed => write!(f, "{} failed", self.link),
        }
    }
}

impl FromStr for FabricSpec {
    type Err = FabricSpecError;

    fn from_str(text: &str) -> Result<Self, FabricSpecError> {
        let mut sections = text.split(';');
        let text = sections.next().unwrap_or_default();
        let exceptions = sections.map(|section| section.trim().parse()).collect::<Result<_, _>>()?;
        let mut shapes = shapes();
        let names: Vec<&str> = shapes.iter().map(Shape::name).collect();
        let (place, settings) = find(Kind::Fabric, text, &names)?;
        let mut shape = shapes.swap_remove(place);
        let is_common = |setting: &&str| {
            let name = setting.split_once('=').map_or(*setting, |(name, _)| name).trim();
            COMMON.iter().any(|parameter| parameter.name.eq_ignore_ascii_case(name))
        };
        let (common, own): (Vec<&str>, Vec<&str>) = settings.split(',').partition(is_common);
        shape.0.configure(&own.join(","))?;
        let mut values = Common::default();
        configure((Kind::Fabric, shape.name()), COMMON, &mut values, &common.join(","), |_, _| Ok(()))?;
        let Common { rate, delay } = values;
        Ok(Self { shape, rate, delay, exceptions })
    }
}

impl fmt::Display for FabricSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shape)?;
        if let Some(rate) = self.rate {
            write!(f, ",rate={rate}")?;
        }
        if self.delay != Nanos::ZERO {
            write!(f, ",delay={}", self.delay)?;
        }
        self.exceptions.iter().try_for_each(|exception| write!(f, ";{exception}"))
    }
}

impl FabricSpec {
    /// The fabric, with ports of `rate` where the text gives none.
    ///
    /// # Errors
    /// If there can be no such fabric, an exception names no link of it, or a link would have no
    /// capacity.
    pub fn build(&self, rate: BitsPerSec) -> Result<Fabric, FabricError> {
        let mut fabric = Fabric::new(self.shape.clone(), self.rate.unwrap_or(rate))?;
        if self.delay != Nanos::ZERO {
            fabric.set_delays(self.delay);
        }
        for LinkException { link, what } in &self.exceptions {
            let link = fabric.link_named(link)?;
            match *what {
                Exception::Rate(rate) => fabric.set_capacity(link, rate)?,
                Exception::Delay(delay) => fabric.set_delay(link, delay),
                Exception::Failed => fabric.fail(link),
            }
        }
        Ok(fabric)
    }
}
