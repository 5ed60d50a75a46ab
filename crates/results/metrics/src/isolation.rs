//! Γ: the time that a coflow takes when it has the fabric to itself, the yardstick of slowdown.
//!
//! Without waves it is the largest load over capacity of any link (Varys §5.1), and MADD attains
//! it. With waves, what arrives at `w` or later can only cross a link after `w`, so a link needs at
//! least `w + load(from w on) / capacity` for every wave `w`; Γ is the largest of these over links
//! and waves. No schedule is faster, so a slowdown below one is an error of measurement.
//!
//! Cost: O(flows) for a coflow of one wave, O(flows log flows) otherwise. The loads are kept in one
//! array for all coflows; a map per coflow took most of the time of a whole analysis.
//!
//! A task alone takes at least its longest chain of stages, each alone. Left out is that stages
//! side by side share links: so it is a bound, attained wherever they do not, and a slowdown of
//! tasks is never below one either.

use cavalcade_model::{
    Bytes, CoflowId, Fabric, FabricError, Flow, LinkId, Nanos, StageIndex, Task, Work, Workload,
};

/// Γ of every coflow of `workload` alone on `fabric`, by id. [`Nanos::MAX`] where it does not fit.
///
/// # Errors
/// If the fabric cannot carry the workload: too few ports, or no path.
pub fn isolation_times(workload: &Workload, fabric: &Fabric) -> Result<Vec<Nanos>, FabricError> {
    fabric.check(workload)?;
    let mut meter = IsolationMeter::new(fabric);
    Ok(workload.coflows().map(|coflow| meter.isolation(coflow.flows)).collect())
}

/// Γ of one coflow alone on `fabric`. For many, [`isolation_times`] is faster.
pub fn isolation_time(workload: &Workload, fabric: &Fabric, coflow: CoflowId) -> Nanos {
    let mut meter = IsolationMeter::new(fabric);
    meter.isolation(workload.flows_of(coflow))
}

/// For each task of `workload` the least time that it takes alone: its longest chain of stages,
/// given what coflows take alone, a time for each. [`Nanos::MAX`] where it does not fit.
pub(crate) fn task_isolation_times(workload: &Workload, coflows: &[Nanos]) -> Vec<Nanos> {
    assert_eq!(coflows.len(), workload.coflow_count(), "there is a time for each coflow");
    workload.tasks().iter().map(|task| longest_chain(workload, task, coflows)).collect()
}

fn longest_chain(workload: &Workload, task: &Task, coflows: &[Nanos]) -> Nanos {
    // Stages come after those that they depend on.
    let mut done: Vec<Nanos> = Vec::with_capacity(task.stages.len());
    for stage in &task.stages {
        let last = |of: &[StageIndex]| of.iter().map(|on| done[on.index()]).max().unwrap_or_default();
        let own = match stage.work {
            Work::Transfer(coflow) => coflows[coflow.index()],
            Work::Compute(compute) => {
                let percent = workload.host_of(&compute).map_or(100, |host| host.speed_percent);
                let nanos = u128::from(compute.duration.get()) * 100 / u128::from(percent);
                Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        };
        let end = last(&stage.starts_after).checked_add(own).unwrap_or(Nanos::MAX);
        done.push(end.max(last(&stage.finishes_after)));
    }
    done.into_iter().max().unwrap_or_default()
}

/// Finds Γ of one coflow after the other.
#[derive(Debug)]
pub(crate) struct IsolationMeter<'a> {
    fabric: &'a Fabric,
    /// Bytes of the coflow at hand that cross each link from the wave at hand on; zero between
    /// coflows.
    load: Vec<Bytes>,
    /// The links whose load may not be zero.
    loaded: Vec<LinkId>,
}

impl<'a> IsolationMeter<'a> {
    pub(crate) fn new(fabric: &'a Fabric) -> Self {
        Self { fabric, load: vec![Bytes::ZERO; fabric.link_count()], loaded: Vec::new() }
    }

    /// Γ of a coflow of these flows.
    pub(crate) fn isolation(&mut self, flows: &[Flow]) -> Nanos {
        let one_wave = flows.windows(2).all(|pair| pair[0].wave == pair[1].wave);
        let longest = if one_wave {
            self.add_wave(flows)
        } else {
            let mut latest_first = flows.to_vec();
            latest_first.sort_by_key(|flow| core::cmp::Reverse(flow.wave));
            let waves = latest_first.chunk_by(|a, b| a.wave == b.wave);
            waves.map(|wave| self.add_wave(wave)).max().unwrap_or_default()
        };
        for link in self.loaded.drain(..) {
            self.load[link.index()] = Bytes::ZERO;
        }
        longest
    }

    /// Adds the flows of one wave to the loads and returns the least time by which a link that they
    /// cross is done. Other links gave a later bound when their own last wave was added.
    fn add_wave(&mut self, flows: &[Flow]) -> Nanos {
        let first = self.loaded.len();
        for flow in flows {
            for link in self.fabric.path(flow.src, flow.dst) {
                let load = &mut self.load[link.index()];
                // A link met in an earlier wave is listed again, so that this wave looks at it.
                if *load == Bytes::ZERO || first > 0 {
                    self.loaded.push(link);
                }
                *load += flow.size;
            }
        }
        let busy = self.loaded[first..]
            .iter()
            .map(|&link| self.load[link.index()].time_at(self.fabric.capacity(link)).unwrap_or(Nanos::MAX));
        let start = flows.first().map_or(Nanos::ZERO, |flow| flow.wave);
        start.checked_add(busy.max().unwrap_or_default()).unwrap_or(Nanos::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::{BitsPerSec, Instant, PortId, WorkloadBuilder};
    use proptest::prelude::*;

    fn flow(src: u32, dst: u32, size: u64, wave_s: u64) -> Flow {
        Flow { src: PortId(src), dst: PortId(dst), size: Bytes(size), wave: Nanos::from_secs(wave_s) }
    }

    fn alone(flows: Vec<Flow>) -> Nanos {
        let fabric = Fabric::big_switch(4, BitsPerSec(8)).unwrap();
        let mut builder = WorkloadBuilder::new(4);
        builder.coflow("c", Instant::ZERO, flows);
        isolation_times(&builder.build().unwrap(), &fabric).unwrap()[0]
    }

    #[test]
    fn the_busiest_link_counts_whichever_end_it_is() {
        assert_eq!(alone(vec![flow(0, 1, 3, 0), flow(0, 2, 4, 0), flow(3, 2, 2, 0)]), Nanos::from_secs(7));
        assert_eq!(alone(vec![flow(0, 2, 3, 0), flow(1, 2, 4, 0), flow(3, 2, 2, 0)]), Nanos::from_secs(9));
    }

    #[test]
    fn a_late_wave_waits_for_itself_or_for_what_is_still_in_its_way() {
        assert_eq!(alone(vec![flow(0, 1, 2, 0), flow(0, 1, 1, 10)]), Nanos::from_secs(11));
        assert_eq!(alone(vec![flow(0, 1, 9, 0), flow(0, 1, 5, 2)]), Nanos::from_secs(14));
        assert_eq!(alone(vec![flow(2, 1, 9, 0), flow(0, 3, 5, 2)]), Nanos::from_secs(9));
    }

    /// The definition: every link, every wave, every flow.
    fn slowly(flows: &[Flow], fabric: &Fabric) -> Nanos {
        let bound = |link: LinkId, wave: Nanos| {
            let crosses = |f: &&Flow| f.wave >= wave && fabric.path(f.src, f.dst).contains(&link);
            let load: Bytes = flows.iter().filter(crosses).map(|f| f.size).sum();
            if load == Bytes::ZERO {
                Nanos::ZERO
            } else {
                wave + load.time_at(fabric.capacity(link)).unwrap()
            }
        };
        let all = fabric.links().flat_map(|link| flows.iter().map(move |f| (link, f.wave)));
        all.map(|(link, wave)| bound(link, wave)).max().unwrap()
    }

    /// A task of a computation of 3 s on a host of half speed, a transfer of 4 s after it, one of 9
    /// s beside that which must not end sooner, and one of 2 s after the first transfer.
    #[test]
    fn a_task_alone_takes_its_longest_chain_of_stages() {
        let mut builder = WorkloadBuilder::new(4);
        builder.hosts(vec![cavalcade_model::Host { slots: 1, speed_percent: 50 }; 4]);
        let compute = cavalcade_model::Compute { duration: Nanos::from_secs(3), host: Some(PortId(0)) };
        let stage = |starts: &[u16], ends: &[u16], work| cavalcade_model::Stage {
            starts_after: starts.iter().map(|&on| StageIndex(on.into())).collect(),
            finishes_after: ends.iter().map(|&on| StageIndex(on.into())).collect(),
            work,
        };
        let transfer = || Work::Transfer(CoflowId::default());
        let stages = vec![
            stage(&[], &[], Work::Compute(compute)),
            stage(&[0], &[], transfer()),
            stage(&[], &[1], transfer()),
            stage(&[1], &[], transfer()),
        ];
        let task = Task { stages, ..Task::of_coflow("t", Instant(7 * 1_000_000_000)) };
        let coflow = |size| cavalcade_model::Coflow { flows: vec![flow(0, 1, size, 0)] };
        builder.push(task, vec![coflow(4), coflow(9), coflow(2)]);
        builder.coflow("single", Instant::ZERO, vec![flow(2, 3, 5, 0)]);
        let workload = builder.build().unwrap();
        let fabric = Fabric::big_switch(4, BitsPerSec(8)).unwrap();
        let coflows = isolation_times(&workload, &fabric).unwrap();
        let alone = task_isolation_times(&workload, &coflows);
        assert_eq!(alone, [Nanos::from_secs(5), Nanos::from_secs(6 + 4 + 2)]);
        let longer: Vec<Nanos> = coflows
            .iter()
            .map(|&time| if time == Nanos::from_secs(9) { Nanos::from_secs(20) } else { time })
            .collect();
        assert_eq!(task_isolation_times(&workload, &longer)[1], Nanos::from_secs(20));
    }

    proptest! {
        #[test]
        fn one_pass_over_the_waves_finds_the_largest_bound(
            coflows in proptest::collection::vec(
                proptest::collection::vec((0u32..4, 0u32..4, 1u64..20, 0u64..4), 1..12), 1..4),
            rates in proptest::collection::vec(1u64..50, 8),
        ) {
            let rates: Vec<BitsPerSec> = rates.into_iter().map(BitsPerSec).collect();
            let fabric = Fabric::uneven_big_switch(&rates[..4], &rates[4..]).unwrap();
            let mut builder = WorkloadBuilder::new(4);
            for (index, flows) in coflows.iter().enumerate() {
                let flows = flows.iter().map(|&(src, dst, size, wave)| flow(src, dst, size, wave)).collect();
                builder.coflow(index.to_string(), Instant::ZERO, flows);
            }
            let workload = builder.build().unwrap();
            let fast = isolation_times(&workload, &fabric).unwrap();
            for coflow in workload.coflows() {
                prop_assert_eq!(fast[coflow.id.index()], slowly(coflow.flows, &fabric));
            }
        }
    }
}
