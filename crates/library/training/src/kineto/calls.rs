//! What the host did to communicate: operations of torch.distributed, their bytes, and what waits
//! for them.
//!
//! Kernels of collectives have their bytes since PyTorch 2.3 only, and over PyTorch's fake process
//! group there is none. But where shapes were recorded, the operation that launches a collective
//! has those of its tensors. An operation, NCCL's part of it and what it records of itself lie in
//! each other on one thread, so that the outermost of them is a call. A kernel is that of the call
//! within which the host launched it.
//!
//! # Who waits for a call without a kernel
//! - What FSDP gathers for a layer, the copy of the layer's parameters that follows.
//! - What FSDP reduces, the next layer that reduces, or the optimizer.
//! - A functional collective, the `wait_tensor` of as many elements, or else the next one.
//! - One that is not asynchronous, whatever the host launches next.
//! - Any other, the optimizer; without one, the next iteration.

use std::collections::{BTreeMap, VecDeque};

use cavalcade_model::Bytes;

use super::event::{Args, Meta};

/// Something of the host.
#[derive(Debug)]
pub(super) struct Hosted {
    pub(super) thread: u64,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) what: Said,
}

/// What it is.
#[derive(Debug)]
pub(super) enum Said {
    /// An operation of torch.distributed.
    Operation(Shapes),
    /// One of those that return tensors, around an operation.
    Functional,
    /// NCCL's part of an operation.
    Nccl(Shapes),
    /// What a collective records of itself.
    Comms(Option<Box<Meta>>),
    /// Something waits for the functional collective whose result has so many elements.
    WaitTensor(Option<u64>),
    /// FSDP gathers a layer.
    Gathers(String),
    /// FSDP copies what it gathered for a layer.
    CopiesOut(String),
    /// FSDP reduces a layer.
    Reduces,
    /// The optimizer runs.
    Step,
}

/// The tensors of an operation, as recorded.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    /// The collective.
    pub(super) name: String,
    /// Elements, where they were recorded.
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    /// Bytes of an element.
    pub(super) each: Option<u64>,
    pub(super) is_async: Option<bool>,
}

impl Said {
    /// An operation of torch.distributed by its name, or NCCL's part of it; `None` for those that
    /// move nothing.
    pub(super) fn call(name: &str, args: &Args) -> Option<Self> {
        if let Some(name) = name.strip_prefix("nccl:") {
            // A send's partner follows its name.
            let name = name.split(' ').next().unwrap_or_default().to_owned();
            let (input, each) = (args.all_elements(), args.element_bytes());
            return Some(Self::Nccl(Shapes { name, input, each, ..Shapes::default() }));
        }
        if let Some(name) = name.strip_prefix("c10d::") {
            let name = name.trim_matches('_').to_owned();
            let in_place = ["allreduce", "broadcast", "barrier", "send", "recv"];
            let in_place = in_place.iter().any(|start| name.starts_with(start)) || name == "reduce";
            let [first, second] = [0, 1].map(|place| args.elements(place));
            let (input, output) = if in_place { (first, first) } else { (second, first) };
            let (each, is_async) = (args.element_bytes(), args.last_truth());
            return Some(Self::Operation(Shapes { name, input, output, each, is_async }));
        }
        let (_, name) = name.split_once("c10d_functional::")?;
        Some(if name == "wait_tensor" { Self::WaitTensor(args.elements(0)) } else { Self::Functional })
    }

    /// A span that tells who waits, by its name.
    pub(super) fn mark(name: &str) -> Option<Self> {
        let layer = |start: &str| name.strip_prefix(start).map(str::to_owned);
        if let Some(layer) = layer("FSDP::all_gather_copy_out") {
            return Some(Self::CopiesOut(layer));
        }
        if let Some(layer) = layer("FSDP::all_gather") {
            return Some(Self::Gathers(layer));
        }
        match name {
            _ if name.starts_with("FSDP::post_backward_reduce") => Some(Self::Reduces),
            _ if name.starts_with("Optimizer.step#") => Some(Self::Step),
            _ => None,
        }
    }
}

/// A collective that the host called.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) thread: u64,
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Its details; `None` without sizes.
    pub(super) meta: Option<Meta>,
    /// Its name.
    pub(super) name: String,
    /// From when on what the host launches waits for it.
    pub(super) waited: Option<u64>,
}

/// What is known of a call while its parts are put together.
#[derive(Default)]
struct Parts {
    operation: Option<Shapes>,
    nccl: Option<Shapes>,
    comms: Option<Box<Meta>>,
    /// The function's result is waited for by name.
    is_functional: bool,
    /// The layer that FSDP gathers around it.
    gathers: Option<String>,
    reduces: bool,
}

impl Parts {
    fn name(&self) -> &str {
        let shapes = self.operation.as_ref().or(self.nccl.as_ref());
        shapes
            .map(|shapes| shapes.name.as_str())
            .or(self.comms.as_ref().map(|meta| meta.collective.as_str()))
            .unwrap_or_default()
    }

    /// The tensors that both have together.
    fn meta(&self) -> Option<Meta> {
        if let Some(meta) = &self.comms {
            return Some((**meta).clone());
        }
        let of = |wanted: &dyn Fn(&Shapes) -> Option<u64>| {
            let said = [&self.operation, &self.nccl];
            said.into_iter().find_map(|shapes| shapes.as_ref().and_then(wanted))
        };
        let each = of(&|shapes| shapes.each)?;
        let input = of(&|shapes| shapes.input)?;
        let output = of(&|shapes| shapes.output);
        let bytes = |elements: u64| Bytes(elements.saturating_mul(each));
        let larger = output
            .filter(|&output| input > 0 && output > 0)
            .map(|output| output.max(input) / output.min(input));
        let sized =
            ["allgather", "all_gather", "reduce_scatter"].iter().any(|part| self.name().contains(part));
        Some(Meta {
            collective: self.name().to_owned(),
            input: bytes(input),
            output: bytes(output.unwrap_or(0)),
            // A gather's result has a part for each member, and the reverse.
            size: larger.filter(|_| sized).and_then(|size| u32::try_from(size).ok()),
            ..Meta::default()
        })
    }
}

/// Puts the calls of a host together, in the order in which they begin.
pub(super) fn calls(mut hosted: Vec<Hosted>) -> Vec<Call> {
    hosted.sort_by_key(|one| (one.begin, core::cmp::Reverse(one.end)));
    let mut open: BTreeMap<u64, Thread> = BTreeMap::new();
    let mut found: Vec<(u64, u64, u64, Parts)> = Vec::new();
    for one in &mut hosted {
        let (thread, begin, end) = (one.thread, one.begin, one.end);
        let around = open.entry(thread).or_default();
        let (operation, nccl, comms) = match &mut one.what {
            Said::Operation(shapes) => (Some(core::mem::take(shapes)), None, None),
            Said::Nccl(shapes) => (None, Some(core::mem::take(shapes)), None),
            Said::Comms(meta) => (None, None, meta.take()),
            Said::Functional => {
                around.functional = end;
                continue;
            }
            Said::Gathers(layer) => {
                around.gathers = Some((layer.clone(), end));
                continue;
            }
            Said::Reduces => {
                around.reduces = end;
                continue;
            }
            Said::WaitTensor(_) | Said::CopiesOut(_) | Said::Step => continue,
        };
        let parts = match around.call.filter(|&(call, until)| end <= until && call < found.len()) {
            Some((call, _)) => &mut found[call].3,
            None => {
                around.call = Some((found.len(), end));
                let gathers = around.gathers.as_ref().filter(|(_, until)| begin <= *until);
                let parts = Parts {
                    is_functional: begin < around.functional,
                    gathers: gathers.map(|(layer, _)| layer.clone()),
                    reduces: begin < around.reduces,
                    ..Parts::default()
                };
                found.push((thread, begin, end, parts));
                let last = found.len() - 1;
                &mut found[last].3
            }
        };
        parts.operation = parts.operation.take().or(operation);
        parts.nccl = parts.nccl.take().or(nccl);
        parts.comms = parts.comms.take().or(comms);
    }
    let waited = waited(&found, &hosted);
    let calls = found.into_iter().zip(waited).map(|((thread, begin, end, parts), waited)| Call {
        thread,
        begin,
        end,
        meta: parts.meta(),
        name: parts.name().to_owned(),
        waited,
    });
    // A wait is recorded as a collective is, without details.
    calls.filter(|call| !call.name.is_empty()).collect()
}

/// What goes on around what a thread does next: until when.
#[derive(Default)]
struct Thread {
    call: Option<(usize, u64)>,
    functional: u64,
    gathers: Option<(String, u64)>,
    reduces: u64,
}

/// From when on what is launched waits for each call.
fn waited(found: &[(u64, u64, u64, Parts)], hosted: &[Hosted]) -> Vec<Option<u64>> {
    let mut waited = vec![None; found.len()];
    functional(found, hosted, &mut waited);
    // From the end, so that what comes next is known.
    let mut copies: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut reduces, mut step) = (None, None);
    let mut marks = hosted.iter().rev().peekable();
    for (place, (_, begin, end, parts)) in found.iter().enumerate().rev() {
        while let Some(mark) = marks.next_if(|mark| mark.begin > *begin) {
            match &mark.what {
                Said::CopiesOut(layer) => drop(copies.insert(layer, mark.begin)),
                Said::Reduces => reduces = Some(mark.begin),
                Said::Step => step = Some(mark.begin),
                _ => {}
            }
        }
        if waited[place].is_some() {
            continue;
        }
        let copied = parts.gathers.as_ref().and_then(|layer| copies.get(layer.as_str()).copied());
        let is_async = parts.operation.as_ref().and_then(|shapes| shapes.is_async);
        waited[place] = match is_async {
            _ if parts.gathers.is_some() => copied,
            _ if parts.reduces => [reduces, step].into_iter().flatten().min(),
            Some(false) => Some(*end),
            _ => step,
        };
    }
    waited
}

/// Joins functional collectives with the waits for their results.
fn functional(found: &[(u64, u64, u64, Parts)], hosted: &[Hosted], waited: &mut [Option<u64>]) {
    let mut open: VecDeque<usize> = VecDeque::new();
    let mut calls = (0..found.len()).peekable();
    for one in hosted {
        let Said::WaitTensor(elements) = one.what else { continue };
        while let Some(call) = calls.next_if(|&call| found[call].1 < one.begin) {
            open.extend(found[call].3.is_functional.then_some(call));
        }
        let result = |&call: &usize| found[call].3.operation.as_ref().and_then(|shapes| shapes.output);
        let same = open.iter().position(|call| elements.is_some() && result(call) == elements);
        if let Some(call) = open.remove(same.unwrap_or(0)) {
            waited[call] = Some(one.begin);
        }
    }
}

/// Calls by the time of a launch within them.
pub(super) struct ByLaunch<'a> {
    of_thread: BTreeMap<u64, Vec<&'a Call>>,
}

impl<'a> ByLaunch<'a> {
    pub(super) fn new(calls: &'a [Call]) -> Self {
        let mut of_thread: BTreeMap<u64, Vec<&Call>> = BTreeMap::new();
        calls.iter().for_each(|call| of_thread.entry(call.thread).or_default().push(call));
        Self { of_thread }
    }

    /// The call during which a thread launched something.
    pub(super) fn call(&self, thread: u64, at: u64) -> Option<&'a Call> {
        let calls = self.of_thread.get(&thread)?;
        let before = calls.partition_point(|call| call.begin <= at);
        calls[..before].last().copied().filter(|call| at <= call.end)
    }
}
