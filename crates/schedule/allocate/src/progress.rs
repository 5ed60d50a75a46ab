//! What has been sent, and what comes due next: shared by several allocators.

pub(crate) mod attained;
pub(crate) mod ends;
pub(crate) mod min_tree;
pub(crate) mod pairing;
pub(crate) mod service;
pub(crate) mod tolerance;
