//! What tests of all crates share.
//!
//! - [`skipped`], [`public_data`] and [`loadable`] report what a test needs and this machine lacks.
//! - [`eventually`] waits for a condition.
//! - [`damage`] gives a reader broken files.
//! - [`free_port`] returns a port at which nothing listens.
//! - [`Lines`] reads what a child process prints; a [`Player`] is a child that runs the test's own
//!   binary in another role.

mod child;
mod damage;
mod ports;
mod skip;
mod waiting;

pub use child::{Lines, Player, role, say, wait_for_go};
pub use damage::damage;
pub use ports::free_port;
pub use skip::{PREFIX, loadable, public_data, skipped};
pub use waiting::{eventually, eventually_some};
