//! Where the bytes of a reduce task came from, and where those of a map task went: the estimates of
//! an import.
//!
//! A task's bytes are shared among the hosts that they may have come from, in proportion to what
//! each wrote. Shares are whole bytes and add up exactly. What came from hosts that the log does
//! not name comes from a port that serves no other host, so that nothing is claimed of what else
//! waits for it; what went there goes to the same port.

use std::collections::BTreeMap;
use std::rc::Rc;

use cavalcade_model::{Bytes, Flow, Nanos, PortId};

use super::dag::{Importer, proportion};
use super::log::{Application, Run};
use super::outputs::Outputs;
use super::service::Service;
use super::tries::Try;
use crate::error::TraceErrorKind;

/// Source of a shuffle's bytes to one executor.
#[derive(Clone, Copy)]
struct Source {
    /// Index of the shuffle among those that the stage reads.
    slot: usize,
    port: PortId,
    weight: u64,
}

impl Application {
    /// Whether any of its bytes went through hosts that its log does not name.
    pub(super) fn goes_beyond(&self) -> bool {
        let mut runs = self.stages.values().flat_map(|stage| &stage.runs);
        matches!(self.service(), Service::Elsewhere(_)) || runs.any(|run| run.merged > 0)
    }
}

/// What an attempt of a stage reads.
pub(super) struct Readings<'i, 'l> {
    importer: &'i mut Importer<'l>,
    application: &'l Application,
    /// The shuffles read: what each map stage wrote.
    outputs: Vec<Rc<Outputs>>,
    /// For each executor, and how many replacements of outputs its tasks knew, where their bytes
    /// came from.
    sources_of: BTreeMap<(u32, usize), Rc<[Source]>>,
    flows: Vec<Vec<Flow>>,
}

impl<'i, 'l> Readings<'i, 'l> {
    /// The flows of each shuffle that `one` read, with the stage that wrote it; only those that
    /// have any.
    pub(super) fn of(
        importer: &'i mut Importer<'l>,
        index: usize,
        parents: &[u32],
        one: &Try<'l>,
    ) -> Result<Vec<(u32, Vec<Flow>)>, TraceErrorKind> {
        let parents: Vec<u32> =
            parents.iter().copied().filter(|&parent| importer.written(index, parent) > 0).collect();
        let outputs: Vec<_> =
            parents.iter().map(|&parent| Rc::clone(&importer.outputs[&(index, parent)])).collect();
        let application = &importer.cluster.applications[index];
        let flows = vec![Vec::new(); parents.len()];
        let mut readings = Self { importer, application, outputs, sources_of: BTreeMap::new(), flows };
        for run in &one.runs {
            readings.run(run, Nanos((run.launched - one.span.launched) * 1_000_000))?;
        }
        let Self { importer, flows, .. } = readings;
        importer.tally.joins += usize::from(flows.iter().filter(|flows| !flows.is_empty()).count() > 1);
        Ok(parents.into_iter().zip(flows).filter(|(_, flows)| !flows.is_empty()).collect())
    }

    fn run(&mut self, run: &Run, wave: Nanos) -> Result<(), TraceErrorKind> {
        let tally = &mut self.importer.tally;
        tally.stayed = tally.stayed.saturating_add(run.local);
        tally.received = tally.received.saturating_add(run.remote);
        let service = self.application.service();
        let from_beyond = if let Service::Elsewhere(_) = service { run.remote } else { run.merged };
        if from_beyond > 0 {
            let tally = &mut self.importer.tally;
            tally.from_beyond = tally.from_beyond.saturating_add(from_beyond);
            let port = self.importer.beyond(self.application.host_of(run.executor));
            let source =
                |(slot, outputs): (usize, &Rc<Outputs>)| Source { slot, port, weight: outputs.bytes() };
            let sources: Vec<Source> = self.outputs.iter().enumerate().map(source).collect();
            self.fetch(run, from_beyond, wave, &sources, false)?;
        }
        let from_executors = run.remote - from_beyond;
        if from_executors > 0 {
            let known = self.outputs.iter().map(|outputs| outputs.changes_before(run.launched)).sum();
            let sources = match self.sources_of.get(&(run.executor, known)) {
                Some(sources) => Rc::clone(sources),
                None => {
                    let sources = self.sources(run);
                    self.sources_of.insert((run.executor, known), Rc::clone(&sources));
                    sources
                }
            };
            let is_guess = matches!(service, Service::Executors(_));
            self.fetch(run, from_executors, wave, &sources, is_guess)?;
        }
        Ok(())
    }

    /// Lists the hosts that the executor of `reader` fetches from, with the bytes written there.
    fn sources(&self, reader: &Run) -> Rc<[Source]> {
        let application = self.application;
        let host_local = application.reads_host_local();
        let mut weights: BTreeMap<(usize, PortId), Source> = BTreeMap::new();
        for (slot, outputs) in self.outputs.iter().enumerate() {
            for output in outputs.at(reader.launched).filter(|output| output.bytes > 0) {
                let host = application.host_of(output.executor);
                let is_local = if host_local {
                    host == application.host_of(reader.executor)
                } else {
                    output.executor == reader.executor
                };
                if !is_local {
                    let port = self.importer.port_of[host];
                    let source = weights.entry((slot, port)).or_insert(Source { slot, port, weight: 0 });
                    source.weight = source.weight.saturating_add(output.bytes);
                }
            }
        }
        weights.into_values().collect()
    }

    /// Adds flows for `amount` bytes of a task, shared by weight so that they add up exactly.
    /// `is_guess`: even where there is one source, it is not known.
    fn fetch(
        &mut self,
        run: &Run,
        amount: u64,
        wave: Nanos,
        sources: &[Source],
        is_guess: bool,
    ) -> Result<(), TraceErrorKind> {
        let whole: u128 = sources.iter().map(|source| u128::from(source.weight)).sum();
        let tally = &mut self.importer.tally;
        if whole == 0 {
            tally.sourceless = tally.sourceless.saturating_add(amount);
            return Ok(());
        }
        if sources.len() > 1 || is_guess {
            tally.shared = tally.shared.saturating_add(amount);
        } else if sources[0].port.0 < self.importer.port_of.len() as u32 {
            tally.known = tally.known.saturating_add(amount);
        }
        let here = self.importer.port_of[self.application.host_of(run.executor)];
        let (mut weight, mut given) = (0u128, 0u64);
        for source in sources {
            weight += u128::from(source.weight);
            // The sum up to here, rounded down, less what was given: a share within a byte of the
            // true one.
            let upto = proportion(amount, weight, whole);
            let size = upto - given;
            given = upto;
            if source.port == here {
                let tally = &mut self.importer.tally;
                tally.stayed_by_share = tally.stayed_by_share.saturating_add(size);
            } else if size > 0 {
                self.importer.count_flow()?;
                self.flows[source.slot].push(Flow { src: source.port, dst: here, size: Bytes(size), wave });
            }
        }
        Ok(())
    }
}

impl Importer<'_> {
    /// The port that stands for the hosts, which the log does not name, that exchange bytes with
    /// `host`.
    pub(super) fn beyond(&self, host: usize) -> PortId {
        PortId(self.port_of.len() as u32 + self.port_of[host].0)
    }

    /// What the map tasks of an attempt gave to hosts that the log does not name, while they ran.
    pub(super) fn given_away(
        &mut self,
        application: &Application,
        one: &Try<'_>,
    ) -> Result<Vec<Flow>, TraceErrorKind> {
        let mut flows = Vec::new();
        for run in one.runs.iter().filter(|run| run.written > 0) {
            self.count_flow()?;
            self.tally.to_beyond = self.tally.to_beyond.saturating_add(run.written);
            let host = application.host_of(run.executor);
            flows.push(Flow {
                src: self.port_of[host],
                dst: self.beyond(host),
                size: Bytes(run.written),
                wave: Nanos((run.launched - one.span.launched) * 1_000_000),
            });
        }
        Ok(flows)
    }

    fn count_flow(&mut self) -> Result<(), TraceErrorKind> {
        let too_many = TraceErrorKind::TooManyFlows { limit: self.flow_limit };
        self.flows_left = self.flows_left.checked_sub(1).ok_or(too_many)?;
        Ok(())
    }
}
