//! All transports, and the way from text to one with its parameters set.
//!
//! A driver is generic over its transport, so what is read from text comes back through a
//! [`Visitor`]: a generic function as a value, called with the transport's own type.

use cavalcade_spec::{
    Complaint, Kind, Parameter, ParameterInfo, SpecError, configure, describe, find, print,
};

use crate::contract::Transport;

/// A transport as its file defines it.
pub trait Definition: Transport + Clone + Default + Send + Sync + 'static {
    /// Its name in specifications.
    const NAME: &'static str;
    /// Description in one line.
    const TITLE: &'static str;
    /// Paper and section.
    const SOURCE: &'static str;
    /// Its parameters, in the order in which they are listed.
    const PARAMETERS: &'static [Parameter<Self>];

    /// Checks the parameters against each other.
    ///
    /// # Errors
    /// Names the parameter to change, and what would be accepted.
    fn check(&self) -> Result<(), Complaint> {
        Ok(())
    }
}

/// Something to be done with a transport, whatever its type.
pub trait Visitor {
    /// Result.
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

            fn configure(&mut self, settings: &str) -> Result<(), SpecError> {
                match self {
                    $(Self::$variant(transport) => set_all(transport, settings),)*
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

    /// Its parameters with their values.
    pub fn parameters(&self) -> Vec<ParameterInfo> {
        struct Parameters;
        impl Visitor for Parameters {
            type Output = Vec<ParameterInfo>;
            fn visit<T: Definition>(self, transport: &T) -> Self::Output {
                describe(T::PARAMETERS, transport)
            }
        }
        self.visit(Parameters)
    }

    /// Its parameters as text, which [`parse`] takes back.
    pub fn params(&self) -> Vec<(&'static str, String)> {
        self.parameters().into_iter().map(|info| (info.name, info.value)).collect()
    }

    /// Name and all parameters, as [`parse`] takes them.
    pub fn spec(&self) -> String {
        let params = self.params();
        print(self.name(), params.iter().map(|(name, value)| (*name, value.as_str())))
    }

    /// The shortest specification: the name, and what differs from the defaults.
    pub fn label(&self) -> String {
        let defaults = parse(self.name()).map(|default| default.params()).unwrap_or_default();
        let params = self.params();
        let own = params.iter().filter(|param| !defaults.contains(param));
        print(self.name(), own.map(|(name, value)| (*name, value.as_str())))
    }
}

/// All transports with their defaults.
pub fn registry() -> Vec<Configured> {
    Any::defaults().into_iter().map(Configured).collect()
}

/// Reads a specification: a name, and settings behind a colon, as
/// `dctcp:marking=30KB,initial_window=16`.
///
/// # Errors
/// If a name is unknown or a value cannot be used.
pub fn parse(spec: &str) -> Result<Configured, SpecError> {
    let mut known = registry();
    let names: Vec<&str> = known.iter().map(Configured::name).collect();
    let (place, settings) = find(Kind::Transport, spec, &names)?;
    let mut found = known.swap_remove(place);
    found.0.configure(settings)?;
    Ok(found)
}

fn set_all<T: Definition>(transport: &mut T, settings: &str) -> Result<(), SpecError> {
    configure((Kind::Transport, T::NAME), T::PARAMETERS, transport, settings, |transport, _| {
        transport.check()
    })
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
        assert!(message("cubic").starts_with("unknown transport \"cubic\": known are reno, dctcp, "));
        assert!(
            message("dctcp:k=65")
                .starts_with("transport dctcp has no parameter \"k\": known are initial_window,")
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
