//! Everything that can be added to the project, added from outside of it: a policy, a policy that
//! negotiates, a transport, a trace format and a fabric. Each is one type and is handed over as a
//! value; what CONTRIBUTING.md says of a file and a line for each is this, inside.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use std::io;

use cavalcade::model::{
    BitsPerSec, Bytes, ClassShares, CoflowId, Decision, Discipline, Event, Fabric, FabricSpec, Flow, Instant,
    Level, Message, Nanos, Node, NonClairvoyant, Observe, Path, Payload, PolicyFactory, PortId, Priority,
    Scope, Setting, Shape, Terms, Tier, Topology, Workload, WorkloadBuilder,
};
use cavalcade::spec::{Complaint, Parameter};
use cavalcade::trace::{Content, Format, Opening, ReadOptions, Reader, Syntax, WriteError};
use cavalcade::transport::reno::{Law, Reno};
use cavalcade::transport::{
    Definition, FlowSetup, NoLogic, PortSetup, SwitchNeeds, Transport as Machine, WindowReceiver,
    WindowSender,
};
use cavalcade::{Conditions, Engine, Packets, Policy, Scenario, Transport, compare};

/// Two coflows into one port: a large one first, a small one behind it.
fn workload() -> Workload {
    let text = "pairs\n0>2:4000000\n1>2:1000000\n";
    cavalcade::trace::read(text.as_bytes(), "t", &with_pairs()).unwrap().0
}

fn scenario() -> Scenario {
    Scenario::new(workload(), Conditions::default()).unwrap()
}

fn terms(scope: Scope) -> Terms {
    Terms {
        scope,
        discipline: Discipline::MaxMin,
        shares: ClassShares::Strict,
        flow_events: false,
        work_conserving: true,
        starvation_free: false,
        ticks: None,
    }
}

/// A policy: last come, first served.
#[derive(Clone)]
struct Lifo;

impl PolicyFactory for Lifo {
    fn terms(&self) -> Terms {
        terms(Scope::Fabric)
    }

    fn build(&self, _: &Setting<'_>) -> cavalcade::model::Policy {
        cavalcade::model::Policy::NonClairvoyant(Box::new(Self))
    }
}

impl NonClairvoyant for Lifo {
    fn handle(&mut self, _: Instant, event: Event, _: &dyn Observe, decision: &mut Decision) {
        if let Event::CoflowArrived(coflow) = event {
            decision.set_coflow(coflow, Priority::new(0, u64::MAX - u64::from(coflow.0)));
        }
    }
}

#[test]
fn a_policy_is_one_type() {
    let runs = [scenario(), scenario().with_policy(Policy::new("lifo", Lifo))];
    let comparison = compare(&runs, 0).unwrap();
    assert_eq!(comparison.runs[1].label, "lifo");
    let alone = Bytes(1_000_000).time_at(BitsPerSec(1_000_000_000)).unwrap();
    assert_eq!(comparison.runs[1].cct[1], alone, "the second coflow goes first");
    assert!(comparison.runs[0].cct[1] > alone);
}

/// A policy that negotiates: the host of the second coflow asks all others to stand back, in an
/// encoding of its own.
struct Polite {
    here: bool,
}

struct PoliteFactory;

impl PolicyFactory for PoliteFactory {
    fn terms(&self) -> Terms {
        terms(Scope::Host)
    }

    fn build(&self, _: &Setting<'_>) -> cavalcade::model::Policy {
        cavalcade::model::Policy::NonClairvoyant(Box::new(Polite { here: false }))
    }
}

impl NonClairvoyant for Polite {
    fn handle(&mut self, _: Instant, event: Event, _: &dyn Observe, decision: &mut Decision) {
        match event {
            Event::CoflowArrived(CoflowId(1)) => {
                decision.set_coflow(CoflowId(1), Priority::new(0, 0));
                let payload = Payload::new(b"after you").unwrap();
                decision.send(PortId(0), Message { coflow: CoflowId(0), payload });
            }
            Event::CoflowArrived(_) => self.here = true,
            Event::Received { from: PortId(1), message } if self.here => {
                assert_eq!(message.payload.as_bytes(), b"after you");
                decision.set_coflow(message.coflow, Priority::new(1, 0));
            }
            _ => {}
        }
    }
}

#[test]
fn a_negotiating_policy_is_one_type_with_messages_of_its_own() {
    let outcome = scenario().with_policy(Policy::new("polite", PoliteFactory)).run().unwrap();
    let alone = Bytes(1_000_000).time_at(BitsPerSec(1_000_000_000)).unwrap();
    assert_eq!(outcome.cct(CoflowId(1)), alone);
}

/// A transport: Reno that starts with one segment.
#[derive(Clone, Default)]
struct Cautious {
    inner: Reno,
}

impl Machine for Cautious {
    type Extra = ();
    type Sender = WindowSender<Law>;
    type Receiver = WindowReceiver;
    type PortLogic = NoLogic;

    fn sender(&self, setup: &FlowSetup) -> Self::Sender {
        self.inner.sender(setup)
    }

    fn receiver(&self, setup: &FlowSetup) -> Self::Receiver {
        self.inner.receiver(setup)
    }

    fn port_logic(&self, _: &PortSetup) -> NoLogic {
        NoLogic
    }

    fn needs(&self) -> SwitchNeeds {
        self.inner.needs()
    }
}

impl Definition for Cautious {
    const NAME: &'static str = "cautious";
    const TITLE: &'static str = "Reno under another name";
    const SOURCE: &'static str = "this test";
    const PARAMETERS: &'static [Parameter<Self>] = &[];
}

#[test]
fn a_transport_is_one_type() {
    let packets = Engine::Packet(Packets::over(Transport::new(Cautious::default())));
    let own = scenario().on(packets);
    assert_eq!(own.label(), "fair over cautious");
    assert_eq!(
        own.run().unwrap().coflow_finish,
        scenario().under("fair over reno").unwrap().run().unwrap().coflow_finish
    );
}

/// A trace format: `src>dst:bytes`, one flow on each line.
static PAIRS: Syntax = Syntax {
    name: "pairs",
    recognises: |opening: &Opening<'_>| opening.words == ["pairs"],
    read: Reader::Text(|text, _| {
        let mut builder = WorkloadBuilder::new(3);
        for (number, line) in text.lines().skip(1).enumerate() {
            let (ports, size) = line.split_once(':').unwrap();
            let (src, dst) = ports.split_once('>').unwrap();
            let port = |text: &str| PortId(text.parse().unwrap());
            let flow = Flow {
                src: port(src),
                dst: port(dst),
                size: Bytes(size.parse().unwrap()),
                wave: Nanos::ZERO,
            };
            builder.coflow(number.to_string(), Instant::ZERO, vec![flow]);
        }
        Ok(Content::from(builder.build().unwrap()))
    }),
    write: Some(write_pairs),
};

fn write_pairs(workload: &Workload, out: &mut dyn io::Write) -> Result<(), WriteError> {
    writeln!(out, "pairs")?;
    for flow in workload.flows() {
        writeln!(out, "{}>{}:{}", flow.src.0, flow.dst.0, flow.size.get())?;
    }
    Ok(())
}

fn with_pairs() -> ReadOptions {
    ReadOptions { format: Some(Format::new(&PAIRS)), ..ReadOptions::default() }
}

#[test]
fn a_trace_format_is_one_table_entry() {
    let workload = workload();
    let mut text = Vec::new();
    cavalcade::trace::write(&workload, Format::new(&PAIRS), &mut text).unwrap();
    assert_eq!(cavalcade::trace::read(&text, "t", &with_pairs()).unwrap().0, workload);
    assert_eq!(text, b"pairs\n0>2:4000000\n1>2:1000000\n");
}

/// A fabric: two switches with `ports` hosts each, joined by one cable that is as fast as a port.
#[derive(Clone, Debug, Default)]
struct Dumbbell {
    ports: u32,
}

const SIDE: Tier = Tier { height: 1, name: "side", plural: "sides" };
const MIDDLE: Tier = Tier { height: 2, name: "middle", plural: "middle" };

impl Topology for Dumbbell {
    const NAME: &'static str = "dumbbell";
    const PARAMETERS: &'static [Parameter<Self>] =
        &[Parameter { name: "ports", meaning: "hosts on each side", field: |p| &mut p.ports }];

    fn check(&self) -> Result<(), Complaint> {
        Complaint::unless(self.ports > 0, "ports", "at least 1")
    }

    fn ports(&self) -> u64 {
        2 * u64::from(self.ports)
    }

    fn levels(&self, rate: BitsPerSec) -> Vec<Level> {
        vec![Level { links: 2, rate }]
    }

    fn switch_of(&self, port: u32) -> Node {
        Node::Switch(&SIDE, port / self.ports)
    }

    fn between(&self, _: usize, nth: u32) -> [Node; 2] {
        [Node::Switch(&SIDE, nth), Node::Switch(&MIDDLE, 0)]
    }

    fn path(&self, fabric: &Fabric, src: PortId, dst: PortId) -> Option<Path> {
        let [up, _] = fabric.up_and_down(0, src.0 / self.ports);
        let [_, down] = fabric.up_and_down(0, dst.0 / self.ports);
        Some(Path::new(&[fabric.ingress(src), up, down, fabric.egress(dst)]))
    }
}

#[test]
fn a_fabric_is_one_type_for_both_engines() {
    let shape = Shape::new(Dumbbell { ports: 2 });
    assert_eq!(shape.to_string(), "dumbbell:ports=2");
    let spec = FabricSpec { shape, rate: None, delay: Nanos::ZERO, exceptions: Vec::new() };
    let crossed =
        Scenario::new(workload(), Conditions { fabric: Some(spec), ..Conditions::default() }).unwrap();
    let bytes = Bytes(5_000_000).time_at(BitsPerSec(1_000_000_000)).unwrap();
    assert_eq!(crossed.run().unwrap().coflow_finish[0], Instant::ZERO.checked_add(bytes).unwrap());
    assert!(crossed.under("fair over reno").unwrap().run().is_ok());
}

#[test]
fn a_run_that_is_cancelled_ends_with_an_error_that_says_so() {
    let progress = cavalcade::Progress::default();
    progress.cancel();
    let watch = cavalcade::Watch { progress: Some(&progress), ..cavalcade::Watch::default() };
    let error = scenario().run_with(watch).unwrap_err();
    assert!(error.to_string().contains("cancelled"), "{error}");
}
