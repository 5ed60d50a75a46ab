//! `cavalcade trace`: what is in a trace, another format for it, and traces out of nothing.

use std::path::Path;

use cavalcade::output::write_file;
use cavalcade::read_file;
use cavalcade_model::{Workload, WorkloadError};
use cavalcade_spec::{ParameterInfo, SpecError};
use cavalcade_trace::generate::{permute_sizes, spread_sizes};
use cavalcade_trace::shapes::read_shapes;
use serde_json::{Value, json};

use cavalcade_trace::{Failures, Generator, WriteError, generate, with_failures, write};

use crate::arguments::{Convert, Generate, Info, Trace, TraceOutput};
use crate::failure::{Failure, Kind};
use crate::input::parse;
use crate::output::{print, print_bytes};
use crate::terminal;
use crate::trace_facts::Facts;

/// Runs the command.
///
/// # Errors
/// If the trace or the generator is not valid, or an output cannot be written.
pub(crate) fn run(command: &Trace) -> Result<(), Failure> {
    match command {
        Trace::Info(options) => info(options),
        Trace::Convert(options) => convert(options),
        Trace::Generate(options) => make(options),
    }
}

fn info(options: &Info) -> Result<(), Failure> {
    let facts = Facts::of(options.input.open()?.read(options.input.format)?);
    print(&if options.json { facts.json() } else { facts.text(terminal::fit(false)) })
}

fn convert(options: &Convert) -> Result<(), Failure> {
    let (restarted, speculated) = (options.restart, options.speculate);
    if restarted + speculated > 1.0 {
        let shares = format!("--restart {restarted} and --speculate {speculated} are more than all flows");
        return Err(Failure::usage(shares).help("give shares that sum to at most 1"));
    }
    let (mut workload, _) = parse(&options.input.open()?, options.input.format)?;
    let failure = |error: WorkloadError| Failure::usage(error.to_string());
    if let Some(sigma) = options.spread {
        workload = spread_sizes(&workload, sigma, options.seed).map_err(failure)?;
    }
    if options.permute_sizes {
        workload = permute_sizes(&workload, options.seed).map_err(failure)?;
    }
    if restarted + speculated > 0.0 {
        let failures = Failures { restarted, speculated, after: options.after };
        workload = with_failures(&workload, &failures, options.seed).map_err(failure)?;
    }
    put(&workload, &options.output)
}

fn make(options: &Generate) -> Result<(), Failure> {
    match &options.generator {
        Some(spec) => put(&generated(spec, options.shapes.as_deref(), options.seed)?, &options.output),
        None if options.json => print(&catalogue_json()),
        None => print(&catalogue()),
    }
}

/// Writes the trace to its file, as a whole, or to standard output.
fn put(workload: &Workload, output: &TraceOutput) -> Result<(), Failure> {
    let mut text = Vec::new();
    write(workload, output.to, &mut text).map_err(|error| {
        let failure = Failure::new(Kind::Runtime, error.to_string());
        match error {
            WriteError::CannotCarry { instead, .. } => failure.help(format!("give --to {instead}")),
            WriteError::ReadOnly { .. } | WriteError::Io(_) => failure,
        }
    })?;
    match &output.out {
        Some(path) => write_file(path, |out| out.write_all(&text)),
        None => print_bytes(&text),
    }
}

/// All generators with their parameters.
fn catalogue() -> String {
    let mut text = String::new();
    for info in Generator::catalogue() {
        text += &format!("{}  {}\n    source  {}\n", info.name, info.meaning, info.source);
        let setting = |parameter: &ParameterInfo| format!("{}={}", parameter.name, parameter.value);
        let width = info.parameters.iter().map(|parameter| setting(parameter).len()).max().unwrap_or(0);
        for parameter in &info.parameters {
            text += &format!("    {:width$}  {}\n", setting(parameter), parameter.meaning);
        }
        text.push('\n');
    }
    text + "Use one as 'cavalcade trace generate NAME:PARAMETER=VALUE,…'\n"
}

/// The same as JSON.
fn catalogue_json() -> String {
    let parameter = |parameter: &ParameterInfo| json!({ "name": parameter.name, "default": parameter.value, "meaning": parameter.meaning });
    let generators: Vec<Value> = Generator::catalogue()
        .iter()
        .map(|info| {
            let parameters: Vec<Value> = info.parameters.iter().map(parameter).collect();
            let (name, meaning, source) = (info.name, info.meaning, info.source);
            json!({ "name": name, "meaning": meaning, "source": source, "parameters": parameters })
        })
        .collect();
    format!("{:#}\n", json!({ "schema_version": 1, "generators": generators }))
}

/// The workload that `spec` describes, with the shapes of a file where one is named.
///
/// # Errors
/// If there is no such generator or parameter, or the file holds no shapes.
pub(crate) fn generated(spec: &str, shapes: Option<&Path>, seed: u64) -> Result<Workload, Failure> {
    let generator: Generator = spec.parse().map_err(|error: SpecError| {
        Failure::usage(error.to_string())
            .help("'cavalcade trace generate' lists generators and their parameters")
    })?;
    let made = match (shapes, &generator) {
        (None, _) => generate(&generator, seed),
        (Some(path), Generator::Dag(dag)) => {
            let (name, bytes) = read_file(path);
            let bytes = bytes.map_err(|error| Failure::file("read", path, &error))?;
            let shapes = read_shapes(&bytes, &name).map_err(|error| Failure::input(error.to_string()))?;
            dag.generate_from(&shapes, seed)
        }
        (Some(_), other) => {
            return Err(Failure::usage(format!("the generator {} takes no shapes", other.name()))
                .help("leave out --shapes, or generate dag"));
        }
    };
    made.map_err(|error| Failure::usage(format!("{spec}: {error}")))
}
