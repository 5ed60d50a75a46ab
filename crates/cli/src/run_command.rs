//! `cavalcade run`: a command whose transfers belong to a coflow.
//!
//! What a program says through a client library is per connection. A program that knows nothing of coflows can only be
//! told by the kernel which connections are its own: by its cgroup. This build has no such path, so the command runs as it
//! would without, and that is said; what it starts finds the coflow in its environment and can pass it on to a library.

use std::os::unix::process::CommandExt;
use std::process::Command;

use cavalcade_client::CoflowKey;

use crate::arguments::RunCommand;
use crate::failure::Failure;
use crate::output::tell;

/// Where programs find their coflow.
const VARIABLE: &str = "CAVALCADE_COFLOW";

/// Becomes the command. Returns only where that fails.
///
/// # Errors
/// Where the coflow is none, or the command cannot be run.
pub(crate) fn run(options: &RunCommand) -> Result<(), Failure> {
    let RunCommand { coflow, command } = options;
    let key: CoflowKey = coflow.parse().map_err(|()| {
        Failure::usage(format!("--coflow {coflow}: expected task.stage.serial, as 17.0.17"))
            .help("'cavalcade ps' lists coflows")
    })?;
    let (program, arguments) = command.split_first().expect("the command line asks for one word at least");
    tell(&format!(
        "There is no kernel path here that tags connections by cgroup: what {} sends by itself is plain TCP. Its client \
         libraries find {key} in {VARIABLE}.",
        program.display()
    ));
    let error = Command::new(program).args(arguments).env(VARIABLE, key.to_string()).exec();
    Err(Failure::usage(format!("cannot run {}: {error}", program.display())))
}
