//! Plain flow lists: one flow per line, the form that is easiest to write from a script.
//!
//! ```text
//! # anything after a hash is a comment
//! id src dst bytes start_ns [coflow]
//! ```
//!
//! A flow without a coflow is a coflow of its own, called by the flow's id, or `flow-` and that
//! where another coflow has that name. The flows of a coflow may stand anywhere and start at
//! different times: the coflow arrives with its earliest flow, and later ones are its waves.
//! Coflows that arrive together are ordered by their first line.
//!
//! A list does not say how many ports there are: one more than the largest port named, unless
//! [`ReadOptions::ports`] says. That, and the ids of flows that have a coflow, are what a list
//! loses.

use std::collections::HashMap;
use std::io::Write;

use cavalcade_model::{
    Bytes, Flow, Instant, LATEST, Nanos, PortId, Task, TaskClass, Work, Workload, WorkloadBuilder,
};

use crate::csv_list;
use crate::error::{Expectation, Fault, TraceErrorKind, WriteError};
use crate::names::{Names, of_lone_flow};
use crate::tokens::{Tokens, Word, build, checked_ports, port, whole_number};
use crate::{Content, Format, ReadOptions, Reader, Syntax};

const LINE: &str = "a line reads `id src dst bytes start_ns [coflow]`";
const ID: Expectation = Expectation::new("the flow's id", LINE);
const SOURCE: Expectation = Expectation::new("the flow's source port", LINE);
const DESTINATION: Expectation = Expectation::new("the flow's destination port", LINE);
const SIZE: Expectation = Expectation::new(
    "the flow's size in whole bytes, above 0 and at most 2^63",
    "remove flows that carry nothing, and check that sizes are in bytes",
);
const START: Expectation = Expectation::new("the flow's start in whole nanoseconds, from 0 to 2^62", LINE);
const COFLOW: Expectation = Expectation::new("the coflow's name", LINE);
const END: Expectation = Expectation::new("the end of the line", LINE);

/// The entry in the table of formats.
pub static SYNTAX: Syntax = Syntax {
    name: "flows",
    recognises: |opening| matches!(opening.words.len(), 5 | 6) && !csv_list::is_header(opening),
    read: Reader::Text(|text, options| read(text, options).map(Content::from)),
    write: Some(|workload, out| write(workload, out)),
};

pub(crate) fn read(text: &str, options: &ReadOptions) -> Result<Workload, Fault> {
    let mut tokens = Tokens::new(text).with_comments();
    let mut reader = Lines {
        ports: Ports { given: options.ports, used: 0 },
        options,
        groups: Vec::new(),
        group_of: HashMap::new(),
        ids: Ids::default(),
    };
    if let Some(ports) = options.ports {
        checked_ports(ports.into(), 0..0, options)?;
    }
    let mut flows = 0;
    while tokens.skip_blank_lines() {
        let start = tokens.offset();
        flows += 1;
        if flows > options.limits.flows {
            let kind = TraceErrorKind::TooManyFlows { limit: options.limits.flows };
            return Err(Fault::of_line(start..start, kind));
        }
        reader.line(&mut tokens)?;
    }
    if flows == 0 {
        return Err(Fault::new(0..0, TraceErrorKind::Empty));
    }
    reader.ids.check()?;
    let mut builder = WorkloadBuilder::new(reader.ports.given.unwrap_or(reader.ports.used));
    let offsets: Vec<usize> = reader.groups.iter().map(|group| group.name.offset).collect();
    let is_taken = |group: &Group<'_>| !group.named && reader.group_of.contains_key(group.name.text);
    let mut names = Names::default();
    if reader.groups.iter().any(is_taken) {
        reader.groups.iter().for_each(|group| names.take(group.name.text));
    }
    for mut group in reader.groups {
        let name = if !group.named && reader.group_of.contains_key(group.name.text) {
            names.make_up(group.name.text, of_lone_flow)
        } else {
            group.name.text.to_owned()
        };
        // Until here a wave counted from time zero.
        let arrival = group.flows.iter().map(|flow| flow.wave).min().unwrap_or_default();
        for flow in &mut group.flows {
            flow.wave -= arrival;
        }
        builder.coflow(name, Instant(arrival.0), group.flows);
    }
    build(builder, text, &offsets)
}

/// The flows of one coflow, found so far.
struct Group<'a> {
    name: Word<'a>,
    /// True if its name is that of a coflow rather than of its only flow.
    named: bool,
    flows: Vec<Flow>,
}

struct Lines<'a> {
    ports: Ports,
    options: &'a ReadOptions,
    groups: Vec<Group<'a>>,
    /// Index of each named coflow; looked up, never walked.
    group_of: HashMap<&'a str, usize>,
    ids: Ids<'a>,
}

impl<'a> Lines<'a> {
    fn line(&mut self, tokens: &mut Tokens<'a>) -> Result<(), Fault> {
        let id = tokens.name(&ID)?;
        let src = self.ports.read(tokens, &SOURCE, self.options)?;
        let dst = self.ports.read(tokens, &DESTINATION, self.options)?;
        let word = tokens.expect(&SIZE)?;
        let size = whole_number(word.text)
            .filter(|bytes| (1..=1 << 63).contains(bytes))
            .map(Bytes)
            .ok_or_else(|| word.unexpected(&SIZE))?;
        let word = tokens.expect(&START)?;
        let start = whole_number(word.text)
            .filter(|&start| start <= LATEST.0)
            .map(Nanos)
            .ok_or_else(|| word.unexpected(&START))?;
        let coflow = tokens.word().map(|word| word.as_name(&COFLOW)).transpose()?;
        tokens.end_line(&END)?;
        self.ids.push(id);
        let flow = Flow { src, dst, size, wave: start };
        let Some(name) = coflow else {
            self.groups.push(Group { name: id, named: false, flows: vec![flow] });
            return Ok(());
        };
        // Most lists keep the flows of a coflow together; that saves the look-up.
        if let Some(last) = self.groups.last_mut().filter(|last| last.named && last.name.text == name.text) {
            last.flows.push(flow);
            return Ok(());
        }
        let next = self.groups.len();
        let group = *self.group_of.entry(name.text).or_insert(next);
        if group == next {
            self.groups.push(Group { name, named: true, flows: Vec::new() });
        }
        self.groups[group].flows.push(flow);
        Ok(())
    }
}

/// The ports that flows may name, and have named.
struct Ports {
    given: Option<u32>,
    used: u32,
}

impl Ports {
    fn read(
        &mut self,
        tokens: &mut Tokens<'_>,
        expected: &'static Expectation,
        options: &ReadOptions,
    ) -> Result<PortId, Fault> {
        let word = tokens.expect(expected)?;
        let port = port(word, self.given.unwrap_or(u32::MAX), expected)?;
        if self.given.is_none() {
            self.used = self.used.max(checked_ports(u64::from(port.0) + 1, word.span(), options)?);
        }
        Ok(port)
    }
}

/// The ids of all flows, to find one that is given twice.
#[derive(Default)]
struct Ids<'a> {
    last: Option<u64>,
    /// True if an id was no number or not larger than the one before; only then is there anything
    /// to find.
    disordered: bool,
    all: Vec<Word<'a>>,
}

impl<'a> Ids<'a> {
    fn push(&mut self, id: Word<'a>) {
        // "07" and "7" are two ids, so a number with a leading zero does not count as one.
        let number = whole_number(id.text).filter(|_| id.text == "0" || !id.text.starts_with('0'));
        self.disordered |= number.is_none() || (self.last.is_some() && number <= self.last);
        self.last = number;
        self.all.push(id);
    }

    fn check(mut self) -> Result<(), Fault> {
        if !self.disordered {
            return Ok(());
        }
        self.all.sort_unstable_by_key(|id| (id.text, id.offset));
        let twice = self.all.windows(2).filter(|pair| pair[0].text == pair[1].text).map(|pair| pair[1]);
        match twice.min_by_key(|id| id.offset) {
            Some(id) => Err(Fault::new(id.span(), TraceErrorKind::DuplicateFlow { id: id.text.to_owned() })),
            None => Ok(()),
        }
    }
}

pub(crate) fn write(workload: &Workload, out: &mut dyn Write) -> Result<(), WriteError> {
    for coflow in workload.coflows() {
        check_plain(coflow.task, Format::FLOW_LIST)?;
        let refuse = |what: String| WriteError::CannotCarry {
            task: coflow.task.name.clone(),
            format: Format::FLOW_LIST,
            what,
            instead: Format::NATIVE,
        };
        if workload.waves_in_turn(workload.place(coflow.id).task) {
            return Err(refuse("waves that come in turn".to_owned()));
        }
        let first = coflow.flows.iter().map(|flow| flow.wave).min().unwrap_or_default();
        if first > Nanos::ZERO {
            return Err(refuse(format!("a coflow whose first flow starts {first} after its task")));
        }
        if let Some(flow) = coflow.flows.iter().find(|flow| coflow.submitted.checked_add(flow.wave).is_none())
        {
            return Err(refuse(format!("a start {} after {}", flow.wave, coflow.submitted)));
        }
    }
    // An id stands first on its line, where some names would pass for another format.
    let is_id = |name: &str| !name.starts_with('{') && !name.contains([',', ';']);
    let lone = workload.coflows().all(|coflow| coflow.width() == 1 && is_id(&coflow.task.name));
    let mut number = 0u64;
    for coflow in workload.coflows() {
        let task = coflow.task;
        for Flow { src, dst, size, wave } in coflow.flows {
            let start = (coflow.submitted + *wave).0;
            if lone {
                writeln!(out, "{} {src} {dst} {} {start}", task.name, size.0)?;
            } else {
                writeln!(out, "{number} {src} {dst} {} {start} {}", size.0, task.name)?;
            }
            number += 1;
        }
    }
    Ok(out.flush()?)
}

/// Refuses what none of the text formats can carry: a task that is more than one coflow, or that
/// says more than when it arrives.
pub(crate) fn check_plain(task: &Task, format: Format) -> Result<(), WriteError> {
    let what = if !is_word(&task.name) {
        "a name that is empty, has blank space or control characters in it or begins with `#`"
    } else if task.stages.len() > 1
        || !task.stages.iter().all(|stage| matches!(stage.work, Work::Transfer(_)))
    {
        "a task of several stages or with computation"
    } else if task.deadline.is_some() {
        "a deadline"
    } else if task.class != TaskClass::Online {
        "a background task"
    } else if task.weight != 1 {
        "a weight"
    } else {
        return Ok(());
    };
    Err(WriteError::CannotCarry {
        task: task.name.clone(),
        format,
        what: what.to_owned(),
        instead: Format::NATIVE,
    })
}

/// Returns whether the tokenizer reads a name back as it is.
fn is_word(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(['#', '\u{feff}'])
        && !name.chars().any(|character| character == ' ' || character.is_control())
}
