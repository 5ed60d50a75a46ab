//! A fabric as one line of text: `tree:pods=30,racks=30,hosts=40,rate=1Gbps,oversubscription=2`.
//!
//! The name of a shape, then its parts as `key=value`; then, each after a semicolon, links that are exceptions, by the
//! names that [`Fabric::link_name`] gives them: `;rack 2 to pod 0 rate=500Mbps;ingress of port 3 delay=5us;pod 1 to core
//! 0 failed`. Text that says the same gives an equal value, and what is printed
//! is read back as the same value, so a manifest can keep it.

use core::fmt;
use core::str::FromStr;

use super::{Fabric, FabricError, Oversubscription, Shape};
use crate::{BitsPerSec, Nanos};

/// A shape, the rate of its ports, and how long a byte takes along each link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricSpec {
    /// The shape.
    pub shape: Shape,
    /// The capacity of every port in each direction; `None` where the text leaves it to whoever uses it.
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
    /// What it has of its own.
    pub what: Exception,
}

/// What a link has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exception {
    /// A capacity.
    Rate(BitsPerSec),
    /// How long a byte takes along it.
    Delay(Nanos),
    /// It carries nothing any more.
    Failed,
}

/// Why a text names no fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricSpecError {
    /// A shape that there is not.
    #[error("there is no fabric {name:?}: expected one of bigswitch, tree, leafspine, fattree")]
    UnknownShape {
        /// What was given.
        name: String,
    },
    /// A key that the shape does not have, or something without a value.
    #[error("{shape}: {part:?} is none of its parts: expected key=value with {expected}")]
    UnknownPart {
        /// The shape.
        shape: &'static str,
        /// What was given.
        part: String,
        /// The keys that there are.
        expected: String,
    },
    /// A part that is needed and not there.
    #[error("{shape}: {part} is missing: give {part}=…")]
    Missing {
        /// The shape.
        shape: &'static str,
        /// The key.
        part: &'static str,
    },
    /// A part that is given twice.
    #[error("{shape}: {part} is given twice")]
    Twice {
        /// The shape.
        shape: &'static str,
        /// The key.
        part: &'static str,
    },
    /// A value that cannot be read.
    #[error("{shape}: {part}={value}: {problem}")]
    BadValue {
        /// The shape.
        shape: &'static str,
        /// The key.
        part: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A link with nothing of its own, or something that cannot be read.
    #[error(
        "{text:?} is no exception: expected a link's name and rate=…, delay=… or failed, as \"rack 2 to pod 0 failed\"{problem}"
    )]
    BadException {
        /// What was given.
        text: String,
        /// What is wrong with the value, after a colon; empty where there is none.
        problem: String,
    },
    /// A fabric that cannot be built.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

/// Each shape's name and its parts; those after the mark need not be given.
const SHAPES: [(&str, &[&str], &[&str]); 4] = [
    ("bigswitch", &["ports"], &[]),
    ("tree", &["pods", "racks", "hosts"], &["oversubscription", "pod_oversubscription"]),
    ("leafspine", &["leaves", "spines", "hosts"], &["oversubscription"]),
    ("fattree", &["arity"], &[]),
];

/// What every shape has.
const COMMON: [&str; 2] = ["rate", "delay"];

struct Parts<'a> {
    shape: &'static str,
    given: Vec<(&'static str, &'a str)>,
}

impl Parts<'_> {
    fn read<T: FromStr<Err: fmt::Display>>(&self, part: &'static str) -> Result<Option<T>, FabricSpecError> {
        let Some((_, value)) = self.given.iter().find(|(key, _)| *key == part) else { return Ok(None) };
        value.parse().map(Some).map_err(|error: T::Err| FabricSpecError::BadValue {
            shape: self.shape,
            part,
            value: (*value).to_owned(),
            problem: error.to_string(),
        })
    }

    fn count(&self, part: &'static str) -> Result<u32, FabricSpecError> {
        self.read(part)?.ok_or(FabricSpecError::Missing { shape: self.shape, part })
    }

    fn oversubscription(&self, part: &'static str) -> Result<Oversubscription, FabricSpecError> {
        Ok(self.read(part)?.unwrap_or(Oversubscription::NONE))
    }
}

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
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let unknown = || FabricSpecError::UnknownShape { name: name.to_owned() };
        let &(shape, needed, optional) =
            SHAPES.iter().find(|(other, ..)| *other == name).ok_or_else(unknown)?;
        let keys = || needed.iter().chain(optional).chain(&COMMON).copied();
        let mut parts = Parts { shape, given: Vec::new() };
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            let known =
                part.split_once('=').and_then(|(key, value)| Some((keys().find(|k| *k == key)?, value)));
            let (key, value) = known.ok_or_else(|| FabricSpecError::UnknownPart {
                shape,
                part: part.to_owned(),
                expected: keys().collect::<Vec<_>>().join(", "),
            })?;
            if parts.given.iter().any(|(other, _)| *other == key) {
                return Err(FabricSpecError::Twice { shape, part: key });
            }
            parts.given.push((key, value));
        }
        let shape = match shape {
            "bigswitch" => Shape::BigSwitch { ports: parts.count("ports")? },
            "tree" => Shape::Tree {
                pods: parts.count("pods")?,
                racks: parts.count("racks")?,
                hosts: parts.count("hosts")?,
                oversubscription: parts.oversubscription("oversubscription")?,
                pod_oversubscription: parts.oversubscription("pod_oversubscription")?,
            },
            "leafspine" => Shape::LeafSpine {
                leaves: parts.count("leaves")?,
                spines: parts.count("spines")?,
                hosts: parts.count("hosts")?,
                oversubscription: parts.oversubscription("oversubscription")?,
            },
            _ => Shape::FatTree { arity: parts.count("arity")? },
        };
        let (rate, delay) = (parts.read("rate")?, parts.read("delay")?.unwrap_or(Nanos::ZERO));
        Ok(Self { shape, rate, delay, exceptions })
    }
}

impl fmt::Display for FabricSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.shape.name())?;
        match self.shape {
            Shape::BigSwitch { ports } => write!(f, "ports={ports}")?,
            Shape::Tree { pods, racks, hosts, oversubscription, pod_oversubscription } => {
                write!(f, "pods={pods},racks={racks},hosts={hosts},oversubscription={oversubscription}")?;
                write!(f, ",pod_oversubscription={pod_oversubscription}")?;
            }
            Shape::LeafSpine { leaves, spines, hosts, oversubscription } => {
                write!(
                    f,
                    "leaves={leaves},spines={spines},hosts={hosts},oversubscription={oversubscription}"
                )?;
            }
            Shape::FatTree { arity } => write!(f, "arity={arity}")?,
        }
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
    /// The fabric, with ports of `rate` where the text does not say.
    ///
    /// # Errors
    /// Where there can be no such fabric, an exception names no link of it, or a link would have no capacity.
    pub fn build(&self, rate: BitsPerSec) -> Result<Fabric, FabricError> {
        let mut fabric = Fabric::new(self.shape, self.rate.unwrap_or(rate))?;
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
