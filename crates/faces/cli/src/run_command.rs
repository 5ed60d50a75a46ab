//! `cavalcade run`: a command whose transfers belong to a coflow.
//!
//! What a program says through a client library is per connection. A program that knows nothing of
//! coflows is told apart by its control group: the enforcer moves this process into one, and then
//! this process becomes the command. Without an enforcer the command runs as it would, and that is
//! said. Either way it finds the coflow in its environment and can pass it on to a library. The
//! exit code is the command's; 127 where there is no such command, and 126 where it cannot be run,
//! as env, nice and timeout have it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use cavalcade_client::{CoflowKey, TaskClass};
use cavalcade_enforce::{Name, Request};

use crate::administration::key_of;
use crate::arguments::{Class, RunCommand, What};
use crate::failure::{Failure, Kind};
use crate::output::tell;

/// The environment variable that names a program's coflow.
const VARIABLE: &str = "CAVALCADE_COFLOW";

/// Becomes the command. Returns only where that fails.
///
/// # Errors
/// If the coflow is none, or the command cannot be run.
pub(crate) fn run(options: &RunCommand) -> Result<(), Failure> {
    let RunCommand { what, class, deadline, sends, door, command } = options;
    let name = name(what)?;
    let class = if *class == Class::Background { TaskClass::Background } else { TaskClass::Online };
    let request = Request { name: name.clone(), class, deadline: *deadline, sends: sends.clone() };
    let (program, arguments) = command.split_first().expect("the command line asks for one word at least");
    let key = match (request.send(door), name) {
        (Ok(key), _) => Some(key),
        (Err(error), name) => {
            tell(&format!(
                "What {} sends by itself is plain TCP: no enforcer has tagged it ({}: {error}). 'cavalcade enforce' runs one.",
                program.display(),
                door.display()
            ));
            if let Name::Coflow(key) = name { Some(key) } else { None }
        }
    };
    let mut command = Command::new(program);
    command.args(arguments).envs(key.map(|key: CoflowKey| (VARIABLE, key.to_string())));
    let error = command.exec();
    let kind = if error.kind() == io::ErrorKind::NotFound { Kind::NoCommand } else { Kind::CannotRun };
    Err(Failure::new(kind, format!("cannot run {}: {error}", program.display())))
}

fn name(what: &What) -> Result<Name, Failure> {
    if let Some(task) = &what.task {
        let is_word = !task.is_empty() && task.len() <= 64 && !task.contains(char::is_whitespace);
        return if is_word {
            Ok(Name::Task(task.clone()))
        } else {
            Err(Failure::usage(format!("--task '{task}': expected one word of at most 64 bytes")))
        };
    }
    let coflow = what.coflow.as_deref().unwrap_or_default();
    // A key needs no agent: the coflow may be of another host, or of before the agent.
    let key = match coflow.parse::<CoflowKey>() {
        Ok(key) => key,
        Err(()) => key_of(coflow)?,
    };
    Ok(Name::Coflow(key))
}
