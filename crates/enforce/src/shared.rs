//! What the programs in the kernel and this crate say to each other: made by `build.rs` from `bpf/enforce.h`.

#![allow(dead_code, reason = "the header also has what only the programs use")]

include!(concat!(env!("OUT_DIR"), "/shared.rs"));

/// The programs, where this build has them.
#[cfg(has_programs)]
pub(crate) const PROGRAMS: Result<&[u8], &str> =
    Ok(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/enforce.o")));
/// The congestion controls, where this build has them.
#[cfg(has_programs)]
pub(crate) const CONTROLS: Result<&[u8], &str> =
    Ok(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/congestion.o")));
/// Why there are none.
#[cfg(not(has_programs))]
pub(crate) const PROGRAMS: Result<&[u8], &str> = Err(env!("CAVALCADE_NO_PROGRAMS"));
/// Why there are none.
#[cfg(not(has_programs))]
pub(crate) const CONTROLS: Result<&[u8], &str> = Err(env!("CAVALCADE_NO_PROGRAMS"));
