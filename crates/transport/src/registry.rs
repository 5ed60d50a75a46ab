//! All transports, and the way from text to one with its parameters set.
//!
//! A carrier is generic over its transport, so what is read from text comes back through a [`Visitor`]: a generic function
//! as a value, called with the transport's own type.

use crate::contract::Transport;
use crate::parameters::Parameter;

/// A transport as its file defines it.
pub trait Definition: Transport + Clone + Default + Send + Sync + 'static {
    /// Its name in specifications.
    const NAME: &'static str;
    /// What it does, in one line.
    const TITLE: &'static str;
    /// Paper and section.
    const SOURCE: &'static str;
    /// Its parameters, in the order in which they are listed.
    const PARAMETERS: &'static [Parameter<Self>];

    /// Checks the parameters against each other.
    ///
    /// # Errors
    /// The parameter to change, and what would be accepted.
    fn check(&self) -> Result<(), (&'static str, String)> {
        Ok(())
    }
}

/// Something to be done with a transport, whatever its type.
pub trait Visitor {
    /// What comes of it.
    type Output;
    /// Does it.
    fn visit<T: Definition>(self, transport: &T) -> Self::Output;
}

macro_rules! transports {
    ($($variant:ident = $kind:ty;)*) => {
        #[derive(Clone, Debug, PartialEq, Eq)]
        enum Any {
            $($variant($kind),)*
        }

        impl Any {
            fn defaults() -> Vec<Self> {
                vec![$(Self::$variant(<$kind>::default()),)*]
            }

            fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
                match self {
                    $(Self::$variant(transport) => visitor.visit(transport),)*
                }
            }

            fn set(&mut self, name: &str, text: &str) -> Result<(), TransportError> {
                match self {
                    $(Self::$variant(transport) => set(transport, name, text),)*
                }
            }
        }
    };
}

// One line for each transport, in the order in which they are listed.
transports! {
    Reno = crate::reno::Reno;
    Dctcp = crate::dctcp::Dctcp;
    D2tcp = crate::d2tcp::D2tcp;
    Tafe = crate::tafe::Tafe;
    Mcp = crate::mcp::Mcp;
    Pfabric = crate::pfabric::Pfabric;
    Rcp = crate::rcp::Rcp;
    Spc = crate::spc::Spc;
    D3 = crate::d3::D3;
    Pdq = crate::pdq::Pdq;
}

/// A transport with its parameters set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured(Any);

/// Why a specification of a transport is refused. Each message says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// No transport of that name.
    #[error("unknown transport {name}: known are {known}")]
    UnknownTransport {
        /// The name given.
        name: String,
        /// All names.
        known: String,
    },
    /// The transport has no such parameter.
    #[error("transport {transport} has no parameter {name}: known are {known}")]
    UnknownParameter {
        /// The transport.
        transport: &'static str,
        /// The name given.
        name: String,
        /// All names.
        known: String,
    },
    /// A setting without `=`.
    #[error("transport {transport}: the setting {setting} has no value: write it as parameter=value")]
    NoValue {
        /// The transport.
        transport: &'static str,
        /// What was given.
        setting: String,
    },
    /// A value that the parameter cannot take, alone or beside the others.
    #[error("transport {transport}: {parameter}={value} cannot be used: expected {expected}")]
    BadValue {
        /// The transport.
        transport: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The value given.
        value: String,
        /// What would be accepted.
        expected: String,
    },
}

impl Configured {
    /// Does something with the transport, as its own type.
    pub fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
        self.0.visit(visitor)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        struct Name;
        impl Visitor for Name {
            type Output = &'static str;
            fn visit<T: Definition>(self, _: &T) -> &'static str {
                T::NAME
            }
        }
        self.visit(Name)
    }

    /// Its parameters as text, which [`parse`] takes back.
    pub fn params(&self) -> Vec<(&'static str, String)> {
        struct Params;
        impl Visitor for Params {
            type Output = Vec<(&'static str, String)>;
            fn visit<T: Definition>(self, transport: &T) -> Self::Output {
                let mut transport = transport.clone();
                let text = |parameter: &Parameter<T>| {
                    let value = (parameter.field)(&mut transport).write();
                    (parameter.name, value)
                };
                T::PARAMETERS.iter().map(text).collect()
            }
        }
        self.visit(Params)
    }

    /// Name and all parameters, as [`parse`] takes them.
    pub fn spec(&self) -> String {
        let params: Vec<String> =
            self.params().iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}:{}", self.name(), params.join(","))
    }
}

/// All transports with their defaults.
pub fn registry() -> Vec<Configured> {
    Any::defaults().into_iter().map(Configured).collect()
}

/// Reads a specification: a name, and settings behind a colon, as `dctcp:marking=30KB,initial_window=16`.
///
/// # Errors
/// Where a name is unknown or a value cannot be used.
pub fn parse(spec: &str) -> Result<Configured, TransportError> {
    let (name, settings) = spec.split_once(':').unwrap_or((spec, ""));
    let known = registry();
    let Some(found) = known.iter().find(|transport| transport.name() == name) else {
        let known: Vec<_> = known.iter().map(Configured::name).collect();
        return Err(TransportError::UnknownTransport { name: name.to_owned(), known: known.join(", ") });
    };
    let mut configured = found.clone();
    for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
        let Some((parameter, value)) = setting.split_once('=') else {
            return Err(TransportError::NoValue { transport: found.name(), setting: setting.to_owned() });
        };
        configured.0.set(parameter, value)?;
    }
    configured.visit(Check)?;
    Ok(configured)
}

fn set<T: Definition>(transport: &mut T, name: &str, text: &str) -> Result<(), TransportError> {
    let Some(parameter) = T::PARAMETERS.iter().find(|parameter| parameter.name == name) else {
        let known: Vec<_> = T::PARAMETERS.iter().map(|parameter| parameter.name).collect();
        let (name, known) = (name.to_owned(), known.join(", "));
        return Err(TransportError::UnknownParameter { transport: T::NAME, name, known });
    };
    let field = (parameter.field)(transport);
    if field.read(text) {
        return Ok(());
    }
    let (value, expected) = (text.to_owned(), field.expected().to_owned());
    Err(TransportError::BadValue { transport: T::NAME, parameter: parameter.name, value, expected })
}

struct Check;

impl Visitor for Check {
    type Output = Result<(), TransportError>;

    fn visit<T: Definition>(self, transport: &T) -> Self::Output {
        transport.check().map_err(|(parameter, expected)| {
            let mut transport = transport.clone();
            let place = T::PARAMETERS.iter().find(|candidate| candidate.name == parameter);
            let value = place.map_or_else(String::new, |place| (place.field)(&mut transport).write());
            TransportError::BadValue { transport: T::NAME, parameter, value, expected }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_read_back() {
        for transport in registry() {
            assert_eq!(parse(&transport.spec()), Ok(transport.clone()));
            assert_eq!(parse(transport.name()), Ok(transport));
        }
        let changed = parse("dctcp:marking=30KB,initial_window=16").unwrap();
        assert_eq!(parse(&changed.spec()), Ok(changed));
    }

    #[test]
    fn bad_specifications_say_what_to_write_instead() {
        let message = |spec: &str| parse(spec).unwrap_err().to_string();
        assert!(message("cubic").starts_with("unknown transport cubic: known are reno, dctcp, "));
        assert!(
            message("dctcp:k=65")
                .starts_with("transport dctcp has no parameter k: known are initial_window,")
        );
        assert_eq!(
            message("dctcp:marking=400KB"),
            "transport dctcp: marking=400KB cannot be used: expected less than the buffer of 360KB"
        );
        for setting in ["reno:ack_every=0", "dctcp:gain_divisor=0", "pfabric:window=0"] {
            assert!(message(setting).ends_with("cannot be used: expected at least 1"), "{setting}");
        }
        assert!(message("reno:buffer=big").contains("buffer=big cannot be used: expected a size"));
        assert!(message("reno:buffer").contains("has no value"));
    }
}
