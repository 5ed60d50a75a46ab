//! Shapes of task DAGs, as people publish them: which stage reads which, sometimes how long stages
//! compute, rarely how many bytes move. A shape is no workload; [`crate::generate::Dag`] draws what
//! is missing.
//!
//! There is no format of our own for DAGs here: the [native](crate::native) one carries tasks,
//! stages with both kinds of dependencies, coflows, flows and computation, and can be written by
//! hand. This module reads two published files, each one JSON object of named shapes:
//!
//! ```text
//! {"q1":[[0,"broadcast",null,[],null],[5,"shuffle",20,[0],null]]}          [id,kind,partitions,inputs,bytes]
//! {"q1":[{"tasks":12,"mean_ms":1935.9,"children":[1]},{"tasks":5,"mean_ms":24.7,"children":[]}]}
//! ```
//!
//! The first are exchanges of TPC-DS plans (relJoin): a node is a stage and the exchange that it
//! writes, `inputs` the exchanges that it reads, and the plan's last stage, which reads the
//! exchanges that no other does, is not listed, so it is added. A `reused-…` exchange is read again
//! and not computed here. The second are TPC-H stages (decima-sim): `children` are the stages, by
//! position, that read this one.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{Bytes, Nanos};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Input;
use crate::decimal::Decimal;
use crate::error::{TraceError, TraceErrorKind};
use crate::json;

/// A DAG of stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DagShape {
    /// Name.
    pub name: String,
    /// Its stages, each after those that it reads.
    pub nodes: Vec<DagNode>,
}

/// A stage of a [`DagShape`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DagNode {
    /// The stages whose output it reads, as indices of earlier nodes.
    pub reads: Vec<usize>,
    /// Over how many parallel tasks it is spread, where that is known.
    pub tasks: Option<u32>,
    /// Computation time of one of these tasks, if known.
    pub task_time: Option<Nanos>,
    /// True if every reader gets all of its output rather than a part.
    pub broadcast: bool,
    /// The bytes of its output, where they are known.
    pub output: Option<Bytes>,
}

const FILE: &str =
    r#"shapes like {"q1":[[0,"shuffle",20,[],null]]} or {"q1":[{"tasks":2,"mean_ms":10,"children":[]}]}"#;
/// The longest file after decompression: a few hundred times the largest that is known.
const LONGEST_TEXT: Bytes = Bytes(64 << 20);
/// The longest time of a task that makes sense: eleven days.
const LONGEST: Nanos = Nanos(1_000_000_000_000_000);

/// `[id, kind, partitions, inputs, bytes]`.
#[derive(Deserialize)]
struct Exchange(u32, ExchangeKind, Option<u32>, Vec<u32>, Option<u64>);

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum ExchangeKind {
    Shuffle,
    Broadcast,
    ReusedShuffle,
    ReusedBroadcast,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimedStage {
    tasks: u32,
    mean_ms: Box<RawValue>,
    children: Vec<u32>,
}

/// A node before its inputs are known by position.
struct Draft {
    id: u32,
    inputs: Vec<u32>,
    node: DagNode,
}

/// Reads shapes from the bytes of a file, which may be compressed. They come in order of name.
///
/// # Errors
/// The first thing found wrong, and where.
pub fn read_shapes(bytes: &[u8], source_name: &str) -> Result<Vec<DagShape>, TraceError> {
    let whole = |kind| TraceError::of_whole(source_name, kind);
    let (_, content) = Input::of_bytes(source_name, bytes).open()?.into_text(LONGEST_TEXT)?;
    let broken = |error: serde_json::Error| {
        let (at, kind) = json::problem(&String::from_utf8_lossy(&content), &error, FILE);
        TraceError::in_text(source_name, &content, at, kind)
    };
    let drafts: BTreeMap<String, Vec<Draft>> = if holds_objects(&content) {
        let file: BTreeMap<String, Vec<TimedStage>> = serde_json::from_slice(&content).map_err(broken)?;
        let drafts = file.into_iter().map(|(name, stages)| Ok((name.clone(), of_stages(&name, stages)?)));
        drafts.collect::<Result<_, _>>().map_err(whole)?
    } else {
        let file: BTreeMap<String, Vec<Exchange>> = serde_json::from_slice(&content).map_err(broken)?;
        file.into_iter().map(|(name, exchanges)| (name, of_exchanges(exchanges))).collect()
    };
    if drafts.is_empty() {
        return Err(whole(TraceErrorKind::Empty));
    }
    let shapes = drafts.into_iter().map(|(name, drafts)| sorted(name, drafts));
    shapes.collect::<Result<_, _>>().map_err(whole)
}

/// Returns whether nodes are written as objects: the first bracket inside the first list says.
fn holds_objects(content: &[u8]) -> bool {
    let list = content.iter().position(|&byte| byte == b'[').map_or(content.len(), |at| at + 1);
    content[list..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

fn of_exchanges(exchanges: Vec<Exchange>) -> Vec<Draft> {
    let read: BTreeSet<u32> = exchanges.iter().flat_map(|exchange| exchange.3.iter().copied()).collect();
    let unread: Vec<u32> =
        exchanges.iter().map(|exchange| exchange.0).filter(|id| !read.contains(id)).collect();
    let last = exchanges.iter().map(|exchange| exchange.0).max().map_or(0, |id| id.saturating_add(1));
    let partitions: BTreeMap<u32, Option<u32>> =
        exchanges.iter().map(|exchange| (exchange.0, exchange.2)).collect();
    // An exchange is cut into as many partitions as there are tasks to read it.
    let tasks = |inputs: &[u32]| inputs.iter().filter_map(|input| *partitions.get(input)?).max();
    let draft = |Exchange(id, kind, _, inputs, bytes)| {
        let broadcast = matches!(kind, ExchangeKind::Broadcast | ExchangeKind::ReusedBroadcast);
        let node =
            DagNode { tasks: tasks(&inputs), broadcast, output: bytes.map(Bytes), ..DagNode::default() };
        Draft { id, inputs, node }
    };
    let mut drafts: Vec<Draft> = exchanges.into_iter().map(draft).collect();
    if !unread.is_empty() {
        let node = DagNode { tasks: tasks(&unread), ..DagNode::default() };
        drafts.push(Draft { id: last, inputs: unread, node });
    }
    drafts
}

fn of_stages(shape: &str, stages: Vec<TimedStage>) -> Result<Vec<Draft>, TraceErrorKind> {
    let count = stages.len();
    let mut drafts: Vec<Draft> = Vec::with_capacity(count);
    let mut edges = Vec::new();
    for (stage, id) in stages.into_iter().zip(0u32..) {
        let millis = Decimal::parse(stage.mean_ms.get());
        let task_time = millis.and_then(|millis| millis.times_over(1_000_000, 1)).map(Nanos);
        let Some(task_time) = task_time.filter(|&time| time <= LONGEST && stage.tasks > 0) else {
            let problem =
                format!("shape {shape}: stage {id} has {} tasks of {} ms", stage.tasks, stage.mean_ms);
            let expected = "at least one task, of 0 to 1e9 ms";
            return Err(TraceErrorKind::Schema { problem, expected });
        };
        edges.extend(stage.children.into_iter().map(|child| (id, child)));
        let node = DagNode { tasks: Some(stage.tasks), task_time: Some(task_time), ..DagNode::default() };
        drafts.push(Draft { id, inputs: Vec::new(), node });
    }
    for (from, to) in edges {
        match drafts.get_mut(to as usize) {
            Some(reader) => reader.inputs.push(from),
            None => return Err(missing(shape, from, to)),
        }
    }
    Ok(drafts)
}

fn missing(shape: &str, node: u32, on: u32) -> TraceErrorKind {
    let problem = format!("shape {shape}: node {node} names node {on}, which is not there");
    TraceErrorKind::Schema {
        problem,
        expected: "nodes of the same shape; check that the file was written to its end",
    }
}

/// The nodes in an order in which each comes after those that it reads: of those that may be next,
/// the first given.
fn sorted(name: String, drafts: Vec<Draft>) -> Result<DagShape, TraceErrorKind> {
    let mut index_of = BTreeMap::new();
    for (index, draft) in drafts.iter().enumerate() {
        if index_of.insert(draft.id, index).is_some() {
            let problem = format!("shape {name}: node {} is given twice", draft.id);
            return Err(TraceErrorKind::Schema { problem, expected: "ids to be unique; renumber the nodes" });
        }
    }
    let mut waits_for = vec![0usize; drafts.len()];
    let mut readers = vec![Vec::new(); drafts.len()];
    for (index, draft) in drafts.iter().enumerate() {
        for input in draft.inputs.iter().copied().collect::<BTreeSet<u32>>() {
            let &from = index_of.get(&input).ok_or_else(|| missing(&name, draft.id, input))?;
            readers[from].push(index);
            waits_for[index] += 1;
        }
    }
    let mut ready: BTreeSet<usize> = (0..drafts.len()).filter(|&index| waits_for[index] == 0).collect();
    let mut place = vec![usize::MAX; drafts.len()];
    let mut nodes = Vec::with_capacity(drafts.len());
    while let Some(index) = ready.pop_first() {
        place[index] = nodes.len();
        let mut node = drafts[index].node.clone();
        node.reads = drafts[index].inputs.iter().map(|input| place[index_of[input]]).collect();
        node.reads.sort_unstable();
        node.reads.dedup();
        nodes.push(node);
        for &reader in &readers[index] {
            waits_for[reader] -= 1;
            if waits_for[reader] == 0 {
                ready.insert(reader);
            }
        }
    }
    if nodes.len() < drafts.len() {
        let problem = format!("shape {name}: its nodes read each other in a circle");
        return Err(TraceErrorKind::Schema {
            problem,
            expected: "a graph without cycles; remove a dependency",
        });
    }
    Ok(DagShape { name, nodes })
}
