//! The program `cavalcade`: policies over traces, from the command line.
//!
//! One module for each command; what they share are [`input`] (traces in), [`output`] (files that appear whole or not at
//! all), [`failure`] (errors with a place, a cure and an exit code), [`scene`] and [`parallel`] (running things).
//!
//! Start-up costs nothing that is not used: no async runtime, no configuration files, threads only for several runs, and
//! Parquet only where it is written.

mod administration;
mod arguments;
mod bench;
mod bound;
mod budget;
mod carriers;
mod certificate;
mod certificates;
mod claim;
mod columns;
mod compare;
mod completions;
mod demo;
mod doctor;
mod experiment;
mod fabric;
mod failure;
mod fault;
mod input;
mod interrupt;
mod lab;
mod live;
mod lower_bound;
mod manifest;
mod output;
mod parallel;
mod policies;
mod recorded;
mod replay;
mod report;
mod results;
mod run_command;
mod run_folder;
mod scene;
mod simulate;
mod terminal;
mod trace;
mod trace_facts;
mod tune;
mod validate;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};
use failure::Failure;

/// Events on a large fabric touch memory all over; this allocator lays it out in huge pages, glibc's does not. `fifo_lm` on
/// 36,000 servers takes a quarter less time so.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // What serves ends by itself when it is told to, and a lab has more to clean up.
    let ends_by_itself = matches!(
        arguments.command,
        Command::Coordinator(_) | Command::Agent(_) | Command::Up(_) | Command::Lab(_) | Command::LabHost(_)
    );
    if !ends_by_itself {
        interrupt::clean_up();
    }
    match run(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::tell(&failure.shown(std::io::stderr().is_terminal()));
            ExitCode::from(failure.code())
        }
    }
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
        Command::Coordinator(options) => live::coordinator(options),
        Command::Agent(options) => live::agent(options),
        Command::Up(options) => live::up(options),
        Command::Lab(options) => lab::run(options),
        Command::LabHost(options) => lab::host(options),
        Command::Certificates(options) => certificates::run(options),
        Command::Revoke(options) => certificates::revoke(options),
        Command::Ps(options) => administration::ps(options),
        Command::Top(options) => administration::top(options),
        Command::Describe(options) => administration::describe(options),
        Command::Why(options) => administration::why(options),
        Command::Drain(options) => administration::drain(options),
        Command::Doctor(options) => doctor::run(options),
        Command::Run(options) => run_command::run(options),
        Command::Fault(options) => fault::run(options),
        Command::Demo(options) => demo::run(options),
        Command::Fabric(command) => fabric::run(command),
        Command::Tune(command) => tune::run(command),
        Command::Bench(command) => bench::run(command),
        Command::Report(command) => report::run(command),
        Command::Experiment(command) => experiment::run(command),
        Command::Completions(options) => completions::run(options),
        Command::Man(options) => completions::write_man_pages(options),
    }
}
