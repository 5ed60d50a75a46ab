//! A workload out of rows, one for each flow: what a CSV and a table in memory are read into.
//!
//! Hosts are port numbers where all of them are whole numbers that lie close: below `SMALL`, or
//! below `SPREAD` times their number. Otherwise they are names, be they numbers, as addresses in
//! decimal are: a fabric of 3,232,235,779 ports for two hosts is not what anyone meant. Names get
//! ports in the order in which they appear.
//!
//! Rows come in any order: a coflow arrives with the first of its flows. Nothing of a row is kept
//! but its flow, 24 bytes.

use std::collections::HashMap;

use cavalcade_model::{Bytes, Flow, Instant, LATEST, Nanos, PortId, Workload, WorkloadBuilder};

use crate::ReadOptions;
use crate::decimal::Decimal;
use crate::error::TraceErrorKind;
use crate::names::{Names, of_lone_flow};
use crate::tokens::{checked_ports, whole_number};

/// Hosts that are all whole numbers below this are ports.
const SMALL: u64 = 4096;
/// Hosts that are all whole numbers below so many times their number are ports.
const SPREAD: u64 = 16;
/// The largest size of a flow.
const LARGEST: u64 = 1 << 63;

/// What a host may be.
pub const HOST: &str = "the name or number of a host";
/// What a size may be.
pub const SIZE: &str = "whole bytes, above 0 and at most 2^63, without separators of thousands";
/// What a start may be.
pub const START: &str = "a time from 0 on, below 146 years, as 12.5 (with a point)";

/// A size as text, in units of so many bytes; `None` if it is not [`SIZE`].
pub fn size(text: &str, unit: u64) -> Option<Bytes> {
    let whole = Decimal::parse(text.strip_prefix('+').unwrap_or(text))?.times_exactly(unit)?;
    (1..=LARGEST).contains(&whole).then_some(Bytes(whole))
}

/// A whole size in units of so many bytes; `None` if it is not [`SIZE`].
pub fn whole_size(size: u64, unit: u64) -> Option<Bytes> {
    size.checked_mul(unit).filter(|bytes| (1..=LARGEST).contains(bytes)).map(Bytes)
}

/// A start as text, in units of so many nanoseconds; `None` if it is not [`START`].
pub fn start(text: &str, unit: u64) -> Option<Nanos> {
    let time = match text.strip_prefix('-') {
        // Programs that count in floating point write a zero so.
        Some(zero) => Decimal::parse(zero).filter(|time| time.is_zero()),
        None => Decimal::parse(text.strip_prefix('+').unwrap_or(text)),
    };
    time?.times_over(unit, 1).filter(|&time| time <= LATEST.0).map(Nanos)
}

/// A whole start in units of so many nanoseconds; `None` if it is not [`START`].
pub fn whole_start(start: u64, unit: u64) -> Option<Nanos> {
    start.checked_mul(unit).filter(|&time| time <= LATEST.0).map(Nanos)
}

/// A host among the rows so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host(u32);

/// A coflow among the rows so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(usize);

/// A coflow, found so far.
struct Found {
    /// Its name; none where it is a flow without a coflow, in that row.
    name: Result<String, usize>,
    /// Its flows between hosts in the order of their appearance, with waves that count from time
    /// zero.
    flows: Vec<Flow>,
}

/// All rows so far.
pub struct FlowRows<'o> {
    options: &'o ReadOptions,
    /// Hosts in the order in which they appear.
    hosts: Vec<String>,
    /// Looked up, never walked; nor is `group_of`.
    host_of: HashMap<String, u32>,
    groups: Vec<Found>,
    group_of: HashMap<String, usize>,
    rows: u64,
}

impl<'o> FlowRows<'o> {
    /// No rows yet.
    pub fn new(options: &'o ReadOptions) -> Self {
        let (hosts, host_of) = (Vec::new(), HashMap::new());
        Self { options, hosts, host_of, groups: Vec::new(), group_of: HashMap::new(), rows: 0 }
    }

    /// Checks that there is room for another row.
    ///
    /// # Errors
    /// If there are as many as the limits allow.
    pub fn room(&self) -> Result<(), TraceErrorKind> {
        let limit = self.options.limits.flows;
        if self.rows < limit { Ok(()) } else { Err(TraceErrorKind::TooManyFlows { limit }) }
    }

    /// The host of that name, which is not empty.
    pub fn host(&mut self, name: &str) -> Host {
        if let Some(&host) = self.host_of.get(name) {
            return Host(host);
        }
        let host = self.hosts.len() as u32;
        self.hosts.push(name.to_owned());
        self.host_of.insert(name.to_owned(), host);
        Host(host)
    }

    /// The coflow of that name.
    pub fn coflow(&mut self, name: &str) -> Group {
        if let Some(&group) = self.group_of.get(name) {
            return Group(group);
        }
        self.group_of.insert(name.to_owned(), self.groups.len());
        self.group(Ok(name.to_owned()))
    }

    /// A coflow of one flow without a name, in the next row.
    pub fn lone(&mut self) -> Group {
        self.group(Err(self.rows as usize + 1))
    }

    fn group(&mut self, name: Result<String, usize>) -> Group {
        self.groups.push(Found { name, flows: Vec::new() });
        Group(self.groups.len() - 1)
    }

    /// Adds a row.
    pub fn add(&mut self, coflow: Group, src: Host, dst: Host, size: Bytes, start: Nanos) {
        self.rows += 1;
        let (src, dst) = (PortId(src.0), PortId(dst.0));
        self.groups[coflow.0].flows.push(Flow { src, dst, size, wave: start });
    }

    /// For each host, its port, if hosts are numbers of ports.
    fn numbers(&self) -> Option<Vec<u32>> {
        let number = |name: &String| u32::try_from(whole_number(name)?).ok();
        let numbers: Vec<u32> = self.hosts.iter().map(number).collect::<Option<_>>()?;
        let most = u64::from(*numbers.iter().max()?);
        let close = SMALL.max(SPREAD * self.hosts.len() as u64).max(self.options.ports.unwrap_or(0).into());
        (most < close).then_some(numbers)
    }

    /// Numbers hosts, names flows without a coflow, and makes the workload.
    ///
    /// # Errors
    /// If there are no rows, too many ports, or no such workload.
    pub fn finish(self) -> Result<Workload, TraceErrorKind> {
        if self.rows == 0 {
            return Err(TraceErrorKind::NoCoflows);
        }
        let numbers = self.numbers();
        let are_names = numbers.is_none();
        let port_of = numbers.unwrap_or_else(|| (0..self.hosts.len() as u32).collect());
        let most = port_of.iter().copied().max().unwrap_or_default();
        checked_ports(u64::from(most) + 1, 0..0, self.options).map_err(|fault| fault.kind)?;
        if let Some(last) = self.options.ports.filter(|&given| given <= most) {
            return Err(TraceErrorKind::PortOutOfRange { port: most, last: last.saturating_sub(1) });
        }
        let mut names = Names::default();
        self.groups.iter().filter_map(|group| group.name.as_ref().ok()).for_each(|name| names.take(name));
        let mut builder = WorkloadBuilder::new(self.options.ports.unwrap_or(most + 1));
        if are_names {
            builder.port_names(self.hosts);
        }
        for Found { name, mut flows } in self.groups {
            let arrival = flows.iter().map(|flow| flow.wave).min().unwrap_or_default();
            for flow in &mut flows {
                flow.wave -= arrival;
                flow.src = PortId(port_of[flow.src.index()]);
                flow.dst = PortId(port_of[flow.dst.index()]);
            }
            let name = name.unwrap_or_else(|row| {
                let row = row.to_string();
                if names.is_taken(&row) { names.make_up(&row, of_lone_flow) } else { row }
            });
            builder.coflow(name, Instant(arrival.0), flows);
        }
        builder.build().map_err(TraceErrorKind::Workload)
    }
}
