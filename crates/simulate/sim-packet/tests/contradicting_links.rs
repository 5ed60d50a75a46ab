//! Links that rank flows differently: what SPC comes to over packets (Baraat §4.3, Algorithms 1 and
//! 2), against the definition of a fluid engine's rates where links have priorities of their own
//! (`cavalcade_allocate::reference`).

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use std::sync::Arc;

use cavalcade_allocate::reference::{self, Past};
use cavalcade_model::{
    BitsPerSec, Bytes, Discipline, Fabric, FabricSpec, Flow, Instant, Nanos, Path, PortId, Priority, Scope,
    Terms, WorkloadBuilder,
};
use cavalcade_sim_packet::{Network, Options, simulate};
use cavalcade_transport::spc::{Port, Spc, SpcHeader};
use cavalcade_transport::{FlowSetup, Header, PortLogic, PortSetup, SwitchNeeds, Transport};

const PACKETS: u64 = 8_000;

/// A flow: from, to, and its rank at each link of its path.
type Ranked = (u32, u32, &'static [u32]);

/// Flows of one size on a fabric of links of 1 Gbps.
struct Scene {
    name: &'static str,
    /// By so much the mean time over packets may differ, in times that a flow takes alone.
    within: f64,
    fabric: &'static str,
    flows: &'static [Ranked],
}

/// The scenes; the mean over different starts is compared. Where ranks are reversed any split of
/// the link stands still: the definition shares it evenly, and over packets one of two flows keeps
/// all, by chance either one. A circle of four never comes to rest, and loses capacity.
const SCENES: &[Scene] = &[
    Scene {
        name: "alike",
        within: 0.02,
        fabric: "bigswitch:ports=2",
        flows: &[(0, 1, &[0, 0]), (0, 1, &[1, 1])],
    },
    Scene {
        name: "reversed",
        within: 0.5,
        fabric: "bigswitch:ports=2",
        flows: &[(0, 1, &[0, 1]), (0, 1, &[1, 0])],
    },
    Scene {
        name: "tied where they leave",
        within: 0.06,
        fabric: "bigswitch:ports=2",
        flows: &[(0, 1, &[0, 0]), (0, 1, &[1, 0])],
    },
    Scene {
        name: "tied where they enter",
        within: 0.06,
        fabric: "bigswitch:ports=2",
        flows: &[(0, 1, &[0, 0]), (0, 1, &[0, 1])],
    },
    Scene {
        name: "circle of four",
        within: 0.6,
        fabric: "bigswitch:ports=2",
        flows: &[(0, 0, &[0, 1]), (0, 1, &[1, 0]), (1, 1, &[0, 1]), (1, 0, &[1, 0])],
    },
    Scene {
        name: "held back elsewhere",
        within: 0.03,
        fabric: "bigswitch:ports=4",
        flows: &[(0, 2, &[0, 0]), (1, 2, &[0, 0]), (0, 3, &[1, 0])],
    },
    Scene {
        name: "tied, with one between",
        within: 0.35,
        fabric: "bigswitch:ports=4",
        flows: &[(0, 2, &[0, 0]), (0, 3, &[1, 0]), (0, 2, &[2, 0])],
    },
    Scene {
        name: "racks reverse their hosts",
        within: 0.9,
        fabric: "tree:pods=1,racks=2,hosts=2,oversubscription=2",
        flows: &[(0, 2, &[0, 0, 1, 0]), (1, 3, &[0, 1, 0, 0])],
    },
    Scene {
        name: "racks tied on the way down",
        within: 0.1,
        fabric: "tree:pods=1,racks=2,hosts=2,oversubscription=2",
        flows: &[(0, 2, &[0, 0, 0, 0]), (1, 3, &[0, 1, 0, 0])],
    },
];

/// SPC whose ports rank tasks by a table: for each port and task its rank there.
#[derive(Clone)]
struct Contrary(Spc, Arc<Vec<Vec<u32>>>);

/// A port of SPC that reads other task-ids than packets carry.
struct Renaming(Port, Vec<u32>);

impl PortLogic<SpcHeader> for Renaming {
    fn arrive(&mut self, now: Instant, backlog: Bytes, header: &mut Header, extra: &mut SpcHeader) {
        let rename = |extra: &SpcHeader, task: u32| {
            let mut bytes = extra.to_bytes();
            bytes[..4].copy_from_slice(&task.to_be_bytes());
            SpcHeader::from_bytes(&bytes).unwrap()
        };
        let task = extra.task();
        let mut renamed = rename(extra, self.1[task as usize]);
        self.0.arrive(now, backlog, header, &mut renamed);
        *extra = rename(&renamed, task);
    }
}

impl Transport for Contrary {
    type Extra = SpcHeader;
    type Sender = <Spc as Transport>::Sender;
    type Receiver = <Spc as Transport>::Receiver;
    type PortLogic = Renaming;

    fn sender(&self, setup: &FlowSetup) -> Self::Sender {
        self.0.sender(setup)
    }

    fn receiver(&self, setup: &FlowSetup) -> Self::Receiver {
        self.0.receiver(setup)
    }

    fn port_logic(&self, setup: &PortSetup) -> Renaming {
        Renaming(self.0.port_logic(setup), self.1[setup.port as usize].clone())
    }

    fn needs(&self) -> SwitchNeeds {
        self.0.needs()
    }
}

impl Scene {
    fn fabric(&self) -> Fabric {
        let mut fabric = self.fabric.parse::<FabricSpec>().unwrap().build(BitsPerSec(1_000_000_000)).unwrap();
        fabric.set_delays(Nanos(1_000));
        fabric
    }

    fn paths(&self) -> Vec<Path> {
        let fabric = self.fabric();
        self.flows.iter().map(|&(src, dst, _)| fabric.path(PortId(src), PortId(dst))).collect()
    }

    /// Returns the time of each flow over packets where one comes after the other, in the order
    /// given; in times that a flow takes alone.
    fn over_packets(&self, order: &[usize], apart: Nanos) -> Vec<f64> {
        let network = Network::new(&self.fabric()).unwrap();
        let mut builder = WorkloadBuilder::new(network.hosts());
        let mut ranks = vec![vec![0; order.len()]; network.links().len()];
        let paths = self.paths();
        for (task, &flow) in order.iter().enumerate() {
            let (src, dst, own) = self.flows[flow];
            let sent =
                Flow { src: PortId(src), dst: PortId(dst), size: Bytes(PACKETS * 1_460), wave: Nanos::ZERO };
            builder.coflow(task.to_string(), Instant(task as u64 * apart.get()), vec![sent]);
            for (&link, &rank) in paths[flow].iter().zip(own) {
                ranks[network.number(link) as usize][task] = rank;
            }
        }
        let workload = builder.build().unwrap();
        let transport = Contrary(Spc::default(), Arc::new(ranks));
        let run = simulate(&workload, &network, &transport, None, &Options::default(), None).unwrap();
        let mut times = vec![0.0; order.len()];
        for (task, &flow) in order.iter().enumerate() {
            times[flow] = run.outcome.flow_finish[task].as_f64() / (PACKETS as f64 * 12_000.0);
        }
        times
    }

    /// The same by the definition, where all come at once.
    fn by_definition(&self) -> Vec<f64> {
        let terms = Terms::strict(Scope::Link, Discipline::MaxMin);
        let paths: Vec<Vec<u32>> =
            self.paths().iter().map(|path| path.iter().map(|link| link.index() as u32).collect()).collect();
        let rank = |&rank: &u32| Priority::new(0, u64::from(rank));
        let ranks: Vec<Vec<Priority>> =
            self.flows.iter().map(|(.., own)| own.iter().map(rank).collect()).collect();
        let (mut left, mut times, mut now) = (vec![1.0; paths.len()], vec![0.0; paths.len()], 0.0);
        loop {
            let there: Vec<usize> = (0..left.len()).filter(|&flow| left[flow] > 1e-9).collect();
            if there.is_empty() {
                return times;
            }
            let asked = there.iter().map(|&flow| reference::Flow {
                path: &paths[flow],
                coflow: flow as u32,
                priorities: &ranks[flow],
                remaining: left[flow],
                cap: f64::INFINITY,
            });
            let asked: Vec<reference::Flow<'_>> = asked.collect();
            let past = Past { rates: &vec![0.0; there.len()], same_coflows: false };
            let rates = reference::allocate(&terms, &vec![1.0; self.fabric().link_count()], &asked, past);
            let ends = there.iter().zip(&rates).map(|(&flow, rate)| left[flow] / rate);
            let wait = ends.fold(f64::INFINITY, f64::min);
            now += wait;
            for (&flow, rate) in there.iter().zip(&rates) {
                left[flow] -= rate * wait;
                if left[flow] <= 1e-9 {
                    times[flow] = now;
                }
            }
        }
    }
}

#[test]
fn spc_comes_to_what_the_definition_says() {
    let mut far = Vec::new();
    for scene in SCENES {
        let ascending: Vec<usize> = (0..scene.flows.len()).collect();
        let descending: Vec<usize> = ascending.iter().rev().copied().collect();
        let starts = [0, 100, 300, 1_000].map(|apart| Nanos(apart * 1_000));
        let runs = starts.into_iter().flat_map(|apart| [(&ascending, apart), (&descending, apart)]);
        let runs: Vec<Vec<f64>> = runs.map(|(order, apart)| scene.over_packets(order, apart)).collect();
        for (flow, defined) in scene.by_definition().into_iter().enumerate() {
            let mean = runs.iter().map(|times| times[flow]).sum::<f64>() / runs.len() as f64;
            if (mean - defined).abs() > scene.within {
                far.push(format!(
                    "{}: flow {flow} takes {mean:.2}, by the definition {defined:.2}: {runs:.2?}",
                    scene.name
                ));
            }
        }
    }
    assert!(far.is_empty(), "{}", far.join("\n"));
}
