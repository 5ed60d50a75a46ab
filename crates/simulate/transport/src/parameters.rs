//! Parameters that several transports have: one name and one meaning.

use cavalcade_spec::{Complaint, Parameter, Value};

pub(crate) const fn initial_window<P>(field: fn(&mut P) -> &mut dyn Value) -> Parameter<P> {
    Parameter { name: "initial_window", meaning: "segments that a flow starts with", field }
}

pub(crate) const fn minimum_rto<P>(field: fn(&mut P) -> &mut dyn Value) -> Parameter<P> {
    Parameter { name: "minimum_rto", meaning: "the least retransmission timeout", field }
}

pub(crate) const fn ack_every<P>(field: fn(&mut P) -> &mut dyn Value) -> Parameter<P> {
    Parameter { name: "ack_every", meaning: "one acknowledgement for so many segments", field }
}

pub(crate) const fn buffer<P>(field: fn(&mut P) -> &mut dyn Value) -> Parameter<P> {
    Parameter { name: "buffer", meaning: "what a switch port holds", field }
}

/// The window of the receiver, for flow control under explicit rates.
pub(crate) const fn receive_window<P>(field: fn(&mut P) -> &mut dyn Value) -> Parameter<P> {
    Parameter { name: "window", meaning: "segments that the receiver has room for", field }
}

pub(crate) const fn spare_gain<P>(field: fn(&mut P) -> &mut dyn Value) -> Parameter<P> {
    let meaning = "of what a link had to spare, given away more each round trip, in percent";
    Parameter { name: "spare_gain", meaning, field }
}

pub(crate) const fn queue_gain<P>(field: fn(&mut P) -> &mut dyn Value) -> Parameter<P> {
    let meaning = "of the queue as a rate, given away less each round trip, in percent";
    Parameter { name: "queue_gain", meaning, field }
}

/// Refuses a `parameter` of zero.
pub(crate) fn at_least_one(parameter: &'static str, value: u32) -> Result<(), Complaint> {
    Complaint::unless(value > 0, parameter, "at least 1")
}
