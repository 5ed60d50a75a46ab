//! The program `cavalcade`: policies over traces, from the command line.
//!
//! One module for each command. Scenarios, comparisons and run folders are the library `cavalcade`;
//! here arguments are parsed and results printed. What commands share are [`output`] (what is
//! printed), [`failure`] (how an error is shown) and [`progress`].
//!
//! Start-up costs nothing that is not used: no async runtime, no configuration files, threads only
//! for several runs, and Parquet only where it is written.

#[cfg(feature = "live")]
mod administration;
mod arguments;
mod bench;
mod bound;
mod certificate;
#[cfg(feature = "live")]
mod certificates;
mod claim;
mod compare;
mod completions;
mod demo;
#[cfg(feature = "live")]
mod doctor;
#[cfg(feature = "live")]
mod enforce;
mod engines;
mod experiment;
mod fabric;
mod failure;
mod fault;
mod input;
mod interrupt;
#[cfg(feature = "live")]
mod lab;
#[cfg(feature = "live")]
mod live;
mod output;
mod policies;
mod progress;
mod recorded;
mod replay;
mod report;
#[cfg(feature = "live")]
mod run_command;
mod simulate;
#[cfg(feature = "live")]
mod spc_proxy;
#[cfg(feature = "live")]
mod switch;
mod terminal;
mod trace;
mod trace_facts;
mod train;
mod tune;
mod validate;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};

use arguments::Command;
#[cfg(feature = "live")]
use arguments::LiveCommand;
use failure::Failure;

/// Events on a large fabric touch memory all over; this allocator lays it out in huge pages,
/// glibc's does not. `fifo_lm` on 36,000 servers takes a quarter less time so.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = arguments::groups::parse().unwrap_or_else(|error| without_bad_advice(error).exit());
    if !ends_by_itself(&arguments.command) {
        interrupt::clean_up();
    }
    match run(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::tell(&failure::shown(&failure, std::io::stderr().is_terminal()));
            ExitCode::from(failure.code())
        }
    }
}

/// Takes away the parser's advice to write an unknown flag behind '--', where it would be taken for
/// a file's name.
fn without_bad_advice(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Compare(options) => compare::run(options),
        Command::Bound(options) => bound::run(options),
        Command::Simulate(options) => simulate::run(options),
        Command::Validate(options) => validate::run(options),
        Command::Replay(options) => replay::run(options),
        Command::Policies(options) => policies::list(options),
        Command::Trace(command) => trace::run(command),
        #[cfg(feature = "live")]
        Command::Live(command) => run_live(command),
        Command::Fault(options) => fault::run(options),
        Command::Demo(options) => demo::run(options),
        Command::Fabric(command) => fabric::run(command),
        Command::Train(command) => train::run(command),
        Command::Tune(command) => tune::run(command),
        Command::Bench(command) => bench::run(command),
        Command::Report(command) => report::run(command),
        Command::Experiment(command) => experiment::run(command),
        Command::Completions(options) => completions::run(options),
        Command::Man(options) => completions::write_man_pages(options),
    }
}

/// Tells whether a command ends by itself on an interrupt: what serves does, and a lab has more to
/// clean up.
fn ends_by_itself(command: &Command) -> bool {
    match command {
        #[cfg(feature = "live")]
        Command::Live(command) => {
            use LiveCommand::{Agent, Coordinator, Enforce, Lab, LabHost, Switch, Up};
            matches!(
                command,
                Coordinator(_) | Agent(_) | Enforce(_) | Up(_) | Lab(_) | LabHost(_) | Switch(_)
            )
        }
        _ => false,
    }
}

#[cfg(feature = "live")]
fn run_live(command: &LiveCommand) -> Result<(), Failure> {
    match command {
        LiveCommand::Coordinator(options) => live::coordinator(options),
        LiveCommand::Agent(options) => live::agent(options),
        LiveCommand::Up(options) => live::up(options),
        LiveCommand::Enforce(options) => enforce::run(options),
        LiveCommand::Lab(options) => lab::run(options),
        LiveCommand::LabHost(options) => lab::host(options),
        LiveCommand::Certificates(options) => certificates::run(options),
        LiveCommand::Renew(options) => certificates::renew(options),
        LiveCommand::Revoke(options) => certificates::revoke(options),
        LiveCommand::Ps(options) => administration::ps(options),
        #[cfg(feature = "tui")]
        LiveCommand::Top(options) => administration::top(options),
        LiveCommand::Describe(options) => administration::describe(options),
        LiveCommand::Why(options) => administration::why(options),
        LiveCommand::Drain(options) => administration::drain(options),
        LiveCommand::Reload(options) => administration::reload(options),
        LiveCommand::Doctor(options) => doctor::run(options),
        LiveCommand::Run(options) => run_command::run(options),
        LiveCommand::Switch(options) => switch::run(options),
        LiveCommand::SpcProxy(options) => spc_proxy::run(options),
    }
}
