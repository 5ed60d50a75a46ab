//! The policies, one file each.

pub(crate) mod cassini;
pub(crate) mod crux;
pub(crate) mod dcas;
pub(crate) mod dclas;
pub(crate) mod dcoflow;
pub(crate) mod edf;
pub(crate) mod fair;
pub(crate) mod fifo;
pub(crate) mod fifo_lm;
pub(crate) mod karuna;
pub(crate) mod las;
pub(crate) mod learn;
pub(crate) mod mltcp;
pub(crate) mod philae;
pub(crate) mod pias;
pub(crate) mod saath;
pub(crate) mod sebf;
pub(crate) mod sff;
pub(crate) mod sincronia;
pub(crate) mod spark;
pub(crate) mod stf;
pub(crate) mod tafe;
