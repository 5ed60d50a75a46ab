//! Collectives: what a group of ranks exchanges, and which flows carry it.
//!
//! Sizes have one meaning here: **bytes of the whole buffer at one rank**, the output of an
//! all-gather and the input of all others. Readers convert, since formats differ by a factor of the
//! group.
//!
//! An [`Algorithm`] makes [`Round`]s of a collective: flows that begin together. In one go, a ring
//! of n members moves S·(n−1)/n over each of its n links, an all-reduce twice that: what pipelining
//! over many chunks comes to. Step by step it is n−1 rounds of S/n. Bytes round up, so a flow is
//! never empty.

use core::fmt;
use std::collections::BTreeMap;

use cavalcade_model::Bytes;
use cavalcade_spec::Choice;

use crate::program::ProgramError;

/// A group of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

impl GroupId {
    /// Returns it as an index into an array.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What the members of a group share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// The same parameters on different data.
    Data,
    /// Parts of the same layers.
    Tensor,
    /// Layers one after the other.
    Pipeline,
    /// The experts of a layer.
    Expert,
    /// The same experts on different data.
    DataExpert,
    /// Something that the source does not state.
    Other,
}

impl Choice for GroupKind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("data", Self::Data),
        ("tensor", Self::Tensor),
        ("pipeline", Self::Pipeline),
        ("expert", Self::Expert),
        ("data_expert", Self::DataExpert),
        ("other", Self::Other),
    ];
}

/// A kind of collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectiveKind {
    /// All get the sum.
    AllReduce,
    /// All get everything.
    AllGather,
    /// Each gets a part of the sum.
    ReduceScatter,
    /// Each gets something of its own from each.
    AllToAll,
    /// All get what the root has.
    Broadcast,
    /// The root gets the sum.
    Reduce,
    /// All wait for all.
    Barrier,
}

impl Choice for CollectiveKind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("all_reduce", Self::AllReduce),
        ("all_gather", Self::AllGather),
        ("reduce_scatter", Self::ReduceScatter),
        ("all_to_all", Self::AllToAll),
        ("broadcast", Self::Broadcast),
        ("reduce", Self::Reduce),
        ("barrier", Self::Barrier),
    ];
}

impl CollectiveKind {
    /// The bytes that each member's link carries for each byte of the buffer, in a group of so
    /// many: what nccl-tests multiply the algorithm's bandwidth by to get the bus bandwidth.
    pub fn bus_factor(self, members: usize) -> f64 {
        let others = members.saturating_sub(1) as f64 / members.max(1) as f64;
        match self {
            Self::AllReduce => 2.0 * others,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll => others,
            Self::Broadcast | Self::Reduce => 1.0,
            Self::Barrier => 0.0,
        }
    }
}

/// The way in which a collective's bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Algorithm {
    /// A ring, or over rails where a group has several members on each of several hosts; an
    /// all-to-all directly.
    #[default]
    Auto,
    /// One ring in the order of members, in one go.
    Ring,
    /// The same step by step: each step waits for the last flow of the one before.
    RingSteps,
    /// Two binary trees of half the bytes each for an all-reduce, one for a broadcast or reduce, in
    /// one go; else a ring.
    Tree,
    /// Pairs at distances of half, a quarter …, step by step; for groups of a power of two.
    HalvingDoubling,
    /// From each member to each other one, in one go.
    Direct,
    /// Inside each host over the scale-up network and between hosts over each rail its share, in
    /// one go.
    Rails,
    /// The same, inside and between one after the other.
    RailPhases,
}

impl Choice for Algorithm {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("ring", Self::Ring),
        ("ring_steps", Self::RingSteps),
        ("tree", Self::Tree),
        ("halving_doubling", Self::HalvingDoubling),
        ("direct", Self::Direct),
        ("rails", Self::Rails),
        ("rail_phases", Self::RailPhases),
    ];
}

macro_rules! shown_by_word {
    ($($kind:ty),*) => {$(
        impl $kind {
            /// Its name in files and output.
            pub fn name(self) -> &'static str {
                self.word()
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    )*};
}

shown_by_word!(GroupKind, CollectiveKind, Algorithm);

/// Ranks that do collectives together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// What they share.
    pub kind: GroupKind,
    /// Its ranks, in the order in which rings go round.
    pub members: Vec<u32>,
}

/// One collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Its group.
    pub group: GroupId,
    /// Its kind.
    pub kind: CollectiveKind,
    /// The whole buffer at one rank: the output of an all-gather, the input of all others.
    pub bytes: Bytes,
    /// The member that a broadcast or reduce begins or ends at, from 0.
    pub root: u32,
    /// For an all-to-all of uneven parts, what each member sends to each, row by row.
    pub splits: Option<Vec<Bytes>>,
}

impl Collective {
    /// A collective with even parts, and the first member for its root.
    pub fn new(group: GroupId, kind: CollectiveKind, bytes: Bytes) -> Self {
        Self { group, kind, bytes, root: 0, splits: None }
    }

    /// Checks it against its group.
    pub(crate) fn check(&self, group: &Group) -> Result<(), ProgramError> {
        let members = group.members.len();
        if self.root as usize >= members {
            return Err(ProgramError::BadRoot { kind: self.kind, root: self.root, members });
        }
        match &self.splits {
            Some(splits) if splits.len() != members * members => {
                Err(ProgramError::BadSplits { members, parts: splits.len() })
            }
            _ => Ok(()),
        }
    }
}

/// A flow of a collective, between members by their places in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The member that sends.
    pub from: u32,
    /// The member that receives.
    pub to: u32,
    /// How many bytes.
    pub bytes: Bytes,
}

/// Flows that begin together.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Round {
    /// The flows.
    pub parts: Vec<Part>,
    /// Steps of the algorithm that it stands for, each of which costs the latency of a message.
    pub steps: u32,
}

/// A group whose size an algorithm does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "halving and doubling needs groups of a power of two, and one has {members} members: use ring for this job"
)]
pub struct NotPowerOfTwo {
    /// Members of the group.
    pub members: usize,
}

/// The rounds of a collective whose members are on `hosts`.
///
/// # Errors
/// If the algorithm does not fit the group.
pub fn rounds(
    collective: &Collective,
    hosts: &[u32],
    algorithm: Algorithm,
) -> Result<Vec<Round>, NotPowerOfTwo> {
    use CollectiveKind::{AllReduce, AllToAll, Barrier, Broadcast, Reduce};
    let members = hosts.len();
    if members < 2 || collective.kind == Barrier {
        return Ok(vec![Round { parts: Vec::new(), steps: u32::from(members > 1) }]);
    }
    let all: Vec<u32> = (0..members as u32).collect();
    let bytes = collective.bytes;
    let rails = rails(hosts);
    let algorithm = settled(algorithm, collective.kind, rails.is_some());
    let rounds = match (algorithm, collective.kind) {
        (Algorithm::RingSteps, AllToAll) => shifts(collective, &all),
        (_, AllToAll) => vec![direct(collective, &all)],
        (Algorithm::Tree, Broadcast) => vec![tree(&all, collective.root, bytes, false)],
        (Algorithm::Tree, Reduce) => vec![tree(&all, collective.root, bytes, true)],
        (_, Broadcast) => vec![chain(&all, collective.root, bytes, false)],
        (_, Reduce) => vec![chain(&all, collective.root, bytes, true)],
        (Algorithm::RingSteps, kind) => {
            let step = Round { parts: around(&all, share(bytes, 1, members as u64)), steps: 1 };
            vec![step; ring_steps(kind, members) as usize]
        }
        (Algorithm::Tree, _) => vec![double_tree(&all, bytes)],
        (Algorithm::HalvingDoubling, kind) => halving_doubling(kind, members, bytes)?,
        (Algorithm::Direct, kind) => {
            let half = Round { parts: pairs(&all, share(bytes, 1, members as u64)), steps: 1 };
            vec![half; if kind == AllReduce { 2 } else { 1 }]
        }
        (_, kind) => match &rails {
            Some(rails) if algorithm != Algorithm::Ring => {
                over_rails(kind, rails, bytes, algorithm == Algorithm::RailPhases)
            }
            _ => vec![ring(kind, &all, bytes)],
        },
    };
    Ok(rounds.into_iter().map(without_empty).collect())
}

/// The algorithm that is used for a kind: another one where it has no way of its own.
fn settled(algorithm: Algorithm, kind: CollectiveKind, has_rails: bool) -> Algorithm {
    use CollectiveKind::{AllGather, AllToAll, Barrier, Broadcast, Reduce, ReduceScatter};
    match (algorithm, kind) {
        (Algorithm::RingSteps, AllToAll) => Algorithm::RingSteps,
        (_, AllToAll) => Algorithm::Direct,
        (Algorithm::Tree, Broadcast | Reduce) => Algorithm::Tree,
        (_, Broadcast | Reduce | Barrier) | (Algorithm::Tree, AllGather | ReduceScatter) => Algorithm::Ring,
        (Algorithm::Auto | Algorithm::Rails, _) if has_rails => Algorithm::Rails,
        (Algorithm::RailPhases, _) if has_rails => Algorithm::RailPhases,
        (Algorithm::Auto | Algorithm::Rails | Algorithm::RailPhases, _) => Algorithm::Ring,
        (given, _) => given,
    }
}

/// How many rounds [`rounds`] gives, and how many parts all of them have together, without writing
/// them. Where the algorithm does not fit the group, which [`rounds`] refuses, they mean nothing.
pub(crate) fn size(collective: &Collective, hosts: &[u32], algorithm: Algorithm) -> (usize, usize) {
    use CollectiveKind::{AllReduce, AllToAll, Barrier, Broadcast, Reduce};
    let (members, kind) = (hosts.len(), collective.kind);
    if members < 2 || kind == Barrier {
        return (1, 0);
    }
    let others = members - 1;
    let twice = if kind == AllReduce { 2 } else { 1 };
    let (rounds, parts) = match (settled(algorithm, kind, rails(hosts).is_some()), kind) {
        (algorithm, AllToAll) => {
            let rounds = if algorithm == Algorithm::RingSteps { others } else { 1 };
            let parts = match &collective.splits {
                Some(splits) => {
                    let own = |place: usize| place / members == place % members;
                    let sent = splits.iter().enumerate().filter(|(place, bytes)| !own(*place) && bytes.0 > 0);
                    return (rounds, sent.count());
                }
                None => members.saturating_mul(others),
            };
            (rounds, parts)
        }
        (_, Broadcast | Reduce) => (1, others),
        (Algorithm::RingSteps, _) => (twice * others, (twice * others).saturating_mul(members)),
        (Algorithm::Tree, _) => (1, 4 * others),
        (Algorithm::HalvingDoubling, _) => {
            let rounds = twice * depth(members) as usize;
            (rounds, rounds.saturating_mul(members))
        }
        (Algorithm::Direct, _) => (twice, twice.saturating_mul(members).saturating_mul(others)),
        (Algorithm::Rails, _) => (1, (1 + twice) * members),
        (Algorithm::RailPhases, _) => (1 + twice, (1 + twice) * members),
        _ => (1, members),
    };
    // Bytes round up, so that parts are empty all or none.
    (rounds, if collective.bytes == Bytes::ZERO { 0 } else { parts })
}

fn without_empty(mut round: Round) -> Round {
    round.parts.retain(|part| part.bytes > Bytes::ZERO);
    round
}

/// `bytes · part / of`, rounded up.
fn share(bytes: Bytes, part: u64, of: u64) -> Bytes {
    let share = (u128::from(bytes.0) * u128::from(part)).div_ceil(u128::from(of));
    Bytes(u64::try_from(share).unwrap_or(u64::MAX))
}

/// Steps of a ring.
fn ring_steps(kind: CollectiveKind, members: usize) -> u32 {
    let once = members as u32 - 1;
    if kind == CollectiveKind::AllReduce { 2 * once } else { once }
}

/// A flow from each member to the next.
fn around(members: &[u32], bytes: Bytes) -> Vec<Part> {
    let next = members.iter().cycle().skip(1);
    members.iter().zip(next).map(|(&from, &to)| Part { from, to, bytes }).collect()
}

fn ring(kind: CollectiveKind, members: &[u32], bytes: Bytes) -> Round {
    let steps = ring_steps(kind, members.len());
    Round { parts: around(members, share(bytes, steps.into(), members.len() as u64)), steps }
}

/// From the root to the next and on to the last; or back to the root.
fn chain(members: &[u32], root: u32, bytes: Bytes, is_reduce: bool) -> Round {
    let count = members.len() as u32;
    let at = |place: u32| members[((root + place) % count) as usize];
    let parts = (1..count).map(|place| {
        let (near, far) = (at(place - 1), at(place));
        if is_reduce { Part { from: far, to: near, bytes } } else { Part { from: near, to: far, bytes } }
    });
    Round { parts: parts.collect(), steps: count - 1 }
}

fn pairs(members: &[u32], bytes: Bytes) -> Vec<Part> {
    let to = |from: u32| members.iter().filter(move |&&to| to != from);
    members.iter().flat_map(|&from| to(from).map(move |&to| Part { from, to, bytes })).collect()
}

/// What `from` sends to `to` in an all-to-all.
fn split(collective: &Collective, from: u32, to: u32, members: usize) -> Bytes {
    match &collective.splits {
        Some(splits) => splits[from as usize * members + to as usize],
        None => share(collective.bytes, 1, members as u64),
    }
}

fn direct(collective: &Collective, members: &[u32]) -> Round {
    let mut parts = pairs(members, Bytes::ZERO);
    for part in &mut parts {
        part.bytes = split(collective, part.from, part.to, members.len());
    }
    Round { parts, steps: 1 }
}

/// An all-to-all in which each member sends to the one so many places on, step by step.
fn shifts(collective: &Collective, members: &[u32]) -> Vec<Round> {
    let count = members.len() as u32;
    let step = |shift: u32| {
        let part = |from: u32| {
            let to = (from + shift) % count;
            Part { from, to, bytes: split(collective, from, to, members.len()) }
        };
        Round { parts: (0..count).map(part).collect(), steps: 1 }
    };
    (1..count).map(step).collect()
}

/// The levels below the root of a binary tree.
fn depth(members: usize) -> u32 {
    members.ilog2()
}

/// A binary tree in the order of members, over whose links the bytes go away from the root or
/// towards it.
fn tree(members: &[u32], root: u32, bytes: Bytes, is_reduce: bool) -> Round {
    let count = members.len() as u32;
    let at = |place: u32| members[((root + place) % count) as usize];
    let parts = (1..count).map(|place| {
        let (above, below) = (at((place - 1) / 2), at(place));
        if is_reduce {
            Part { from: below, to: above, bytes }
        } else {
            Part { from: above, to: below, bytes }
        }
    });
    Round { parts: parts.collect(), steps: depth(members.len()) }
}

/// Two trees, the second over the members in reverse, so that an inner node of one is a leaf of the
/// other.
fn double_tree(members: &[u32], bytes: Bytes) -> Round {
    let reversed: Vec<u32> = members.iter().rev().copied().collect();
    let half = share(bytes, 1, 2);
    let mut parts = Vec::new();
    for order in [members, &reversed] {
        for is_reduce in [true, false] {
            parts.extend(tree(order, 0, half, is_reduce).parts);
        }
    }
    Round { parts, steps: 2 * depth(members.len()) }
}

fn halving_doubling(kind: CollectiveKind, members: usize, bytes: Bytes) -> Result<Vec<Round>, NotPowerOfTwo> {
    if !members.is_power_of_two() {
        return Err(NotPowerOfTwo { members });
    }
    let count = members as u32;
    let step = |distance: u32| {
        let bytes = share(bytes, distance.into(), members as u64);
        let part = |from: u32| Part { from, to: from ^ distance, bytes };
        Round { parts: (0..count).map(part).collect(), steps: 1 }
    };
    let halving = (0..depth(members)).rev().map(|level| step(1 << level));
    let doubling = (0..depth(members)).map(|level| step(1 << level));
    Ok(match kind {
        CollectiveKind::ReduceScatter => halving.collect(),
        CollectiveKind::AllGather => doubling.collect(),
        _ => halving.chain(doubling).collect(),
    })
}

/// The members of each host, where there are several hosts with the same number of them, and that
/// is more than one.
fn rails(hosts: &[u32]) -> Option<Vec<Vec<u32>>> {
    let mut by_host: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (member, host) in hosts.iter().enumerate() {
        by_host.entry(*host).or_default().push(member as u32);
    }
    let by_host: Vec<Vec<u32>> = by_host.into_values().collect();
    let each = by_host[0].len();
    (by_host.len() > 1 && each > 1 && by_host.iter().all(|members| members.len() == each)).then_some(by_host)
}

fn over_rails(kind: CollectiveKind, hosts: &[Vec<u32>], bytes: Bytes, in_phases: bool) -> Vec<Round> {
    use CollectiveKind::{AllGather, ReduceScatter};
    let each = hosts[0].len();
    let inside = |kind| {
        let rings = hosts.iter().map(|members| ring(kind, members, bytes));
        merged(rings)
    };
    let rail = |place: usize| hosts.iter().map(|members| members[place]).collect::<Vec<u32>>();
    let between = merged((0..each).map(|place| ring(kind, &rail(place), share(bytes, 1, each as u64))));
    let phases = match kind {
        ReduceScatter => vec![inside(ReduceScatter), between],
        AllGather => vec![between, inside(AllGather)],
        _ => vec![inside(ReduceScatter), between, inside(AllGather)],
    };
    if in_phases {
        return phases;
    }
    let steps = phases.iter().map(|phase| phase.steps).sum();
    vec![Round { steps, ..merged(phases.into_iter()) }]
}

/// Rounds side by side.
fn merged(rounds: impl Iterator<Item = Round>) -> Round {
    rounds.fold(Round::default(), |mut all, round| {
        all.parts.extend(round.parts);
        Round { steps: all.steps.max(round.steps), ..all }
    })
}

#[cfg(test)]
mod tests;
