//! Parameters as text, as policies have them: a name, a meaning, and the way to the typed field.

use cavalcade_model::{Bytes, Nanos};

/// One parameter of `P`.
pub struct Parameter<P: 'static> {
    /// Its name in specifications.
    pub name: &'static str,
    /// What it does, in one line.
    pub meaning: &'static str,
    /// Where it is kept.
    pub field: fn(&mut P) -> &mut dyn Value,
}

/// Parameters that several transports have: one name and one meaning.
impl<P: 'static> Parameter<P> {
    pub(crate) const fn initial_window(field: fn(&mut P) -> &mut dyn Value) -> Self {
        Self { name: "initial_window", meaning: "segments that a flow starts with", field }
    }

    pub(crate) const fn minimum_rto(field: fn(&mut P) -> &mut dyn Value) -> Self {
        Self { name: "minimum_rto", meaning: "the least retransmission timeout", field }
    }

    pub(crate) const fn ack_every(field: fn(&mut P) -> &mut dyn Value) -> Self {
        Self { name: "ack_every", meaning: "one acknowledgement for so many segments", field }
    }

    pub(crate) const fn buffer(field: fn(&mut P) -> &mut dyn Value) -> Self {
        Self { name: "buffer", meaning: "what a switch port holds", field }
    }

    /// The window of the receiver, for flow control under explicit rates.
    pub(crate) const fn receive_window(field: fn(&mut P) -> &mut dyn Value) -> Self {
        Self { name: "window", meaning: "segments that the receiver has room for", field }
    }

    pub(crate) const fn spare_gain(field: fn(&mut P) -> &mut dyn Value) -> Self {
        let meaning = "of what a link had to spare, given away more each round trip, in percent";
        Self { name: "spare_gain", meaning, field }
    }

    pub(crate) const fn queue_gain(field: fn(&mut P) -> &mut dyn Value) -> Self {
        let meaning = "of the queue as a rate, given away less each round trip, in percent";
        Self { name: "queue_gain", meaning, field }
    }
}

/// A type that a parameter can have. `write` gives what `read` takes; neither uses `,` or `=`.
pub trait Value {
    /// Takes the value from `text`; false, and unchanged, where it cannot.
    fn read(&mut self, text: &str) -> bool;
    /// The value as text.
    fn write(&self) -> String;
    /// What is accepted.
    fn expected(&self) -> &'static str;
}

/// Refuses a `parameter` of zero, in the form of [`crate::Definition::check`].
pub(crate) fn at_least_one(parameter: &'static str, value: u32) -> Result<(), (&'static str, String)> {
    if value == 0 { Err((parameter, "at least 1".to_owned())) } else { Ok(()) }
}

macro_rules! values {
    ($($kind:ty, $expected:literal;)*) => {$(
        impl Value for $kind {
            fn read(&mut self, text: &str) -> bool {
                text.parse().map(|value| *self = value).is_ok()
            }
            fn write(&self) -> String {
                self.to_string()
            }
            fn expected(&self) -> &'static str {
                $expected
            }
        }
    )*};
}

values! {
    bool, "true or false";
    u32, "a whole number";
    Bytes, "a size such as 10MB (B, KB, MB, GB, TB, KiB, MiB, GiB, TiB)";
    Nanos, "a time such as 10ms (ns, us, ms, s, min, h)";
}
