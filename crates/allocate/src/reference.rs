//! What a discipline means.

pub(crate) mod strict;
