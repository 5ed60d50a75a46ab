//! Parameters of generators: declared once, with meaning and default.

use core::fmt;

use cavalcade_spec::{Parameter, Value};

/// A struct with a table of its parameters.
pub(super) trait Parameters: Clone + Default + 'static {
    /// All parameters, in order.
    const PARAMETERS: &'static [Parameter<Self>];
}

/// Declares a struct of parameters. The doc comment of a field is its meaning.
macro_rules! parameters {
    ($(#[doc = $about:literal])* $name:ident {
        $($(#[doc = $meaning:literal])+ $field:ident: $kind:ty = $default:expr,)*
    }) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $meaning])+ pub $field: $kind,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::generate::parameters::Parameters for $name {
            const PARAMETERS: &'static [cavalcade_spec::Parameter<Self>] = &[$(cavalcade_spec::Parameter {
                name: stringify!($field),
                // Each line of a comment begins with a space.
                meaning: concat!($($meaning),+).trim_ascii(),
                field: |parameters| &mut parameters.$field,
            }),*];
        }
    };
}
pub(super) use parameters;

/// Shares of the four classes of coflows, in any unit: short and narrow, long and narrow, short and
/// wide, long and wide. As text, `52/16/15/17`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix(pub [f64; 4]);

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [sn, ln, sw, lw] = self.0;
        write!(f, "{sn}/{ln}/{sw}/{lw}")
    }
}

impl Mix {
    /// Reads four shares, none negative and not all zero.
    fn parse(text: &str) -> Option<Self> {
        let share = |part: &str| part.trim().parse().ok().filter(|share| (0.0..1e9).contains(share));
        let shares: Vec<f64> = text.split('/').map(share).collect::<Option<_>>()?;
        let shares: [f64; 4] = shares.try_into().ok()?;
        (shares.iter().sum::<f64>() > 0.0).then_some(Self(shares))
    }
}

impl Value for Mix {
    fn read(&mut self, text: &str) -> bool {
        Self::parse(text).map(|mix| *self = mix).is_some()
    }
    fn write(&self) -> String {
        self.to_string()
    }
    fn expected(&self) -> String {
        "four shares such as 52/16/15/17, none negative and not all 0".to_owned()
    }
}
