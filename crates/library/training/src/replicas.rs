//! Equal replicas: where rank 0 of a job stands for all others, so that its operations alone need
//! to be run.
//!
//! All ranks of a job in a [`Row`] do the same, so they come to a step at once if they left the one
//! before at once. If the collectives of a step are equal but for the names of their links, and no
//! two of them share a link, each takes as long as each other, under any policy that lets a coflow
//! alone on its links have them; then ranks leave the step at once, too. So the operations of rank
//! 0, one after the other, have the times of all. Packets are answered, so links of the way back
//! count; and over packets rank 0 misses the last answers to others, which a next step may meet for
//! the time of a header.
//!
//! Not so where collectives of a step share links, as those of two GPUs with one network card: an
//! order lets one of them wait, and whoever waits is behind from there on. Nor where another job
//! shares links. Such jobs are written out whole.
//!
//! # Cost
//! A look at all flows of each different step, once, however often the job repeats it.
//!
//! Rejected: one flow for all between two hosts or to the same card, with weights, which would give
//! coflows other sizes and so other places in an order. Stages that exist only while they run need
//! little memory, too, but the time of all flows.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{Bytes, Fabric, LinkId, PortId};

use crate::cluster::Cluster;
use crate::collective::{Collective, GroupId, size};
use crate::plan::{Job, PlanError, Unfolded, hosts_of, unfolded_collective};
use crate::program::Program;
use crate::row::{Row, Step};

/// The most flows that are looked at, which takes some hundred bytes for each.
const MOST_LOOKED_AT: usize = 1 << 22;

/// The operations of rank 0, which stand for those of all ranks.
#[derive(Clone, Debug)]
pub(crate) struct First {
    /// Them.
    pub(crate) program: Program,
    /// What each different one comes to on the cluster.
    different: BTreeMap<Step, Vec<Unfolded>>,
    steps: Vec<Step>,
    /// What other ranks send from port to port in an iteration.
    pub(crate) others: BTreeMap<(PortId, PortId), Bytes>,
}

impl First {
    /// Those of a job in a row; `None` where they do not stand for all.
    ///
    /// # Errors
    /// If the algorithm does not fit a group.
    pub(crate) fn of(
        cluster: &Cluster,
        fabric: &Fabric,
        job: &Job,
        row: &Row,
    ) -> Result<Option<Self>, PlanError> {
        // How often each different step is taken, and what it comes to for rank 0.
        let mut steps: BTreeMap<Step, (u64, Vec<Unfolded>)> = BTreeMap::new();
        for &step in row.steps() {
            steps.entry(step).or_default().0 += 1;
        }
        let each_once = steps.keys().map(|&step| size_of_step(job, row, step).1);
        if each_once.fold(0, usize::saturating_add) > MOST_LOOKED_AT {
            return Ok(None);
        }
        let mut marks = Marks::of(fabric);
        let mut others = BTreeMap::new();
        for (&step, (count, of_first)) in &mut steps {
            let Step::Collective { group, kind, bytes } = step else {
                let Step::Compute(duration) = step else { continue };
                of_first.push(Unfolded::lasting(duration));
                continue;
            };
            let collective = Collective::new(GroupId(0), kind, bytes);
            marks.next_step();
            let mut known: Option<Vec<u64>> = None;
            for members in row.groups(group) {
                let parts = unfolded_collective(cluster, job, members, &collective)?;
                let Some(outline) = marks.outline(fabric, &parts) else { return Ok(None) };
                if *known.get_or_insert_with(|| outline.clone()) != outline {
                    return Ok(None);
                }
                if members.contains(&0) {
                    *of_first = parts;
                    continue;
                }
                for flow in parts.iter().flat_map(|part| &part.flows) {
                    let sum: &mut Bytes = others.entry((flow.src, flow.dst)).or_default();
                    *sum = Bytes(sum.0.saturating_add(flow.size.0.saturating_mul(*count)));
                }
            }
        }
        let different = steps.into_iter().map(|(step, (_, parts))| (step, parts)).collect();
        Ok(Some(Self { program: row.of_first(), different, steps: row.steps().to_vec(), others }))
    }

    /// What each operation comes to on the cluster.
    pub(crate) fn unfolded(&self) -> Vec<&[Unfolded]> {
        self.steps.iter().map(|step| self.different[step].as_slice()).collect()
    }
}

fn sum((rounds, flows): (usize, usize), (more_rounds, more_flows): (usize, usize)) -> (usize, usize) {
    (rounds.saturating_add(more_rounds), flows.saturating_add(more_flows))
}

/// How many rounds and flows a step has at all ranks.
fn size_of_step(job: &Job, row: &Row, step: Step) -> (usize, usize) {
    let Step::Collective { group, kind, bytes } = step else { return (row.ranks() as usize, 0) };
    let collective = Collective::new(GroupId(0), kind, bytes);
    let of_group = |members: &Vec<u32>| size(&collective, &hosts_of(job, members), job.algorithm);
    row.groups(group).iter().map(of_group).fold((0, 0), sum)
}

/// How many rounds and flows an iteration has at all ranks, without writing it out.
pub(crate) fn size_of_row(job: &Job, row: &Row) -> (usize, usize) {
    let mut known = BTreeMap::new();
    let sizes =
        row.steps().iter().map(|&step| *known.entry(step).or_insert_with(|| size_of_step(job, row, step)));
    sizes.fold((0, 0), sum)
}

/// Links by the group of a step that uses them.
struct Marks {
    /// The last group that used each link, counted over all steps, and the link's place among those
    /// of the group.
    last: Vec<(u64, u64)>,
    /// The groups so far.
    groups: u64,
    /// The groups before this step.
    before: u64,
}

impl Marks {
    fn of(fabric: &Fabric) -> Self {
        Self { last: vec![(0, 0); fabric.link_count()], groups: 0, before: 0 }
    }

    fn next_step(&mut self) {
        self.before = self.groups;
    }

    /// What the next group of a step sends, with its links named in the order of their use: equal
    /// for groups whose flows are equal but for their links. `None` if it has a link of another
    /// group of the step.
    fn outline(&mut self, fabric: &Fabric, parts: &[Unfolded]) -> Option<Vec<u64>> {
        self.groups += 1;
        let mut outline = Vec::new();
        let mut links = 0;
        for part in parts {
            outline.extend([part.wait.0, part.flows.len() as u64]);
            for flow in &part.flows {
                outline.push(flow.size.0);
                for link in both_ways(fabric, flow.src, flow.dst) {
                    let (group, place) = &mut self.last[link.index()];
                    if *group != self.groups {
                        if *group > self.before {
                            return None;
                        }
                        (*group, *place) = (self.groups, links);
                        links += 1;
                    }
                    outline.extend([*place, fabric.capacity(link).get()]);
                }
                outline.push(u64::MAX);
            }
        }
        Some(outline)
    }
}

/// The links of a flow, and those on which packets are answered.
fn both_ways(fabric: &Fabric, src: PortId, dst: PortId) -> impl Iterator<Item = LinkId> {
    fabric.path(src, dst).into_iter().chain(fabric.path(dst, src))
}

/// Checks that no link has flows of two jobs, given the ports between which each sends.
pub(crate) fn are_apart(fabric: &Fabric, jobs: &[BTreeSet<(PortId, PortId)>]) -> bool {
    let mut users: Vec<Option<usize>> = vec![None; fabric.link_count()];
    let mut is_free = |job: usize, link: LinkId| *users[link.index()].get_or_insert(job) == job;
    let mut is_alone = |(job, pairs): (usize, &BTreeSet<(PortId, PortId)>)| {
        pairs.iter().all(|&(src, dst)| both_ways(fabric, src, dst).all(|link| is_free(job, link)))
    };
    jobs.iter().enumerate().all(&mut is_alone)
}

#[cfg(test)]
mod tests;
