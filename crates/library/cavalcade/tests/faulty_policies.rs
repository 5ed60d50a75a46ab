//! A policy's mistake is an error of its run, on every engine: it names the policy, the instant and
//! what it was about.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade::model::{
    BitsPerSec, Bytes, Clairvoyant, CoflowId, Decision, Discipline, Event, Flow, Foresee, Instant, Message,
    Nanos, NonClairvoyant, Observe, Payload, PolicyFactory, PortId, Priority, Scope, Setting, Target, Terms,
    Workload, WorkloadBuilder,
};
use cavalcade::{Conditions, Engine, Kind, Packets, Policy, Scenario, Transport};

/// A kind of mistake.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    WakesInThePast,
    RanksWhatIsNotThere,
    RanksFlowsUnderGreedy,
    CapsAllAtNothing,
    FailsByItself,
    WatchesWhatHasBeenReached,
    SendsToNobody,
}

const ALL: [Mistake; 7] = [
    Mistake::WakesInThePast,
    Mistake::RanksWhatIsNotThere,
    Mistake::RanksFlowsUnderGreedy,
    Mistake::CapsAllAtNothing,
    Mistake::FailsByItself,
    Mistake::WatchesWhatHasBeenReached,
    Mistake::SendsToNobody,
];

struct Faulty(Mistake);

impl PolicyFactory for Faulty {
    fn terms(&self) -> Terms {
        let discipline = match self.0 {
            Mistake::RanksFlowsUnderGreedy => Discipline::Greedy,
            _ => Discipline::MaxMin,
        };
        Terms { flow_events: true, ..Terms::strict(Scope::Fabric, discipline) }
    }

    fn build(&self, _: &Setting<'_>) -> cavalcade::model::Policy {
        cavalcade::model::Policy::NonClairvoyant(Box::new(Faulty(self.0)))
    }
}

impl NonClairvoyant for Faulty {
    fn handle(&mut self, now: Instant, event: Event, _: &dyn Observe, decision: &mut Decision) {
        match (self.0, event) {
            (Mistake::WakesInThePast, Event::CoflowArrived(_)) => decision.wake_at(now),
            (Mistake::RanksWhatIsNotThere, Event::CoflowArrived(_)) => {
                decision.set_coflow(CoflowId(4_000_000), Priority::new(1, 0));
            }
            (Mistake::RanksFlowsUnderGreedy, Event::FlowArrived(flow)) => {
                decision.set_flow(flow, Priority::new(1, 0));
            }
            (Mistake::CapsAllAtNothing, Event::FlowArrived(flow)) => {
                decision.cap(flow, Some(BitsPerSec::ZERO))
            }
            (Mistake::FailsByItself, Event::FlowFinished(_)) => decision.fail("the oracle is silent"),
            (Mistake::WatchesWhatHasBeenReached, Event::Reached(target)) => decision.watch(target, Bytes(1)),
            (Mistake::WatchesWhatHasBeenReached, Event::CoflowArrived(coflow)) => {
                decision.watch(Target::Coflow(coflow), Bytes(1));
            }
            (Mistake::SendsToNobody, Event::CoflowArrived(coflow)) => {
                decision.send(PortId(1), Message { coflow, payload: Payload::of_number(0, 1) });
            }
            _ => {}
        }
    }
}

fn workload() -> Workload {
    let flow =
        |src, dst, size| Flow { src: PortId(src), dst: PortId(dst), size: Bytes(size), wave: Nanos::ZERO };
    let mut builder = WorkloadBuilder::new(3);
    builder.coflow("shuffle", Instant(5_000), vec![flow(0, 1, 4_000_000), flow(0, 2, 8_000_000)]);
    builder.coflow("copy", Instant(9_000), vec![flow(1, 2, 1_000_000)]);
    builder.build().unwrap()
}

fn engines() -> [Engine; 3] {
    let dctcp = Transport::from(&cavalcade::transport::parse("dctcp").unwrap());
    [Engine::Fluid, Engine::Control { period: Nanos::from_millis(1) }, Engine::Packet(Packets::over(dctcp))]
}

fn run(mistake: Mistake, engine: &Engine) -> Result<(), cavalcade::Error> {
    let scenario = Scenario::new(workload(), Conditions::default()).unwrap();
    let policy = Policy::new("mine", Faulty(mistake));
    scenario.on(engine.clone()).with_policy(policy).run().map(drop)
}

#[test]
fn a_mistake_of_a_policy_is_an_error_of_its_run() {
    for engine in engines() {
        for mistake in ALL {
            // The live system passes over names that it does not have: another machine may have
            // given them.
            let is_passed_over =
                mistake == Mistake::RanksWhatIsNotThere && matches!(engine, Engine::Control { .. });
            let found = run(mistake, &engine);
            if is_passed_over {
                assert!(found.is_ok());
                continue;
            }
            let error = found.expect_err(&format!("{mistake:?} on {engine:?}"));
            let text = error.to_string();
            assert_eq!(error.code(), Kind::Runtime as u8, "{mistake:?} on {engine:?}: {text}");
            assert!(text.starts_with("mine: "), "{text}");
            let expected = match mistake {
                Mistake::WakesInThePast => "ask for a later instant",
                Mistake::RanksWhatIsNotThere => "decides about coflow 4000000, which it cannot see",
                Mistake::RanksFlowsUnderGreedy => "Greedy orders coflows: rank its coflow",
                Mistake::CapsAllAtNothing => "coflow shuffle can never end under this policy",
                Mistake::FailsByItself => "fails: the oracle is silent",
                Mistake::WatchesWhatHasBeenReached => "asks for more at once without end",
                Mistake::SendsToNobody => "sends a message to port 1, where it has no peer",
            };
            assert!(text.contains(expected), "{mistake:?} on {engine:?}: {text}");
        }
    }
}

/// A policy that is told sizes, and ranks by them.
struct Told;

impl PolicyFactory for Told {
    fn terms(&self) -> Terms {
        Terms::strict(Scope::Fabric, Discipline::MaxMin)
    }

    fn build(&self, _: &Setting<'_>) -> cavalcade::model::Policy {
        cavalcade::model::Policy::Clairvoyant(Box::new(Told))
    }
}

impl Clairvoyant for Told {
    fn handle(&mut self, _: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        if let Event::CoflowArrived(coflow) = event {
            decision.set_coflow(coflow, Priority::new(0, view.remaining(coflow).0));
        }
    }
}

#[test]
fn whether_a_policy_of_ones_own_is_told_sizes_is_shown_as_it_is() {
    let scenario = Scenario::new(workload(), Conditions::default()).unwrap();
    let runs = [
        scenario.with_policy(Policy::new("told", Told)),
        scenario.with_policy(Policy::new("lax", Faulty(Mistake::SendsToNobody))),
    ];
    let comparison = cavalcade::compare(&runs[..1], 0).unwrap();
    assert!(comparison.runs[0].about.told_sizes);
    assert!(cavalcade::compare(&runs, 0).is_err(), "one of them fails");
}

#[test]
fn a_run_under_a_policy_of_ones_own_is_not_kept_in_a_folder() {
    use cavalcade::manifest::{Manifest, TraceRecord};
    let scenario =
        Scenario::new(workload(), Conditions::default()).unwrap().with_policy(Policy::new("told", Told));
    let error = Manifest::new(TraceRecord::of_file("trace.jsonl".into(), b""), &scenario).unwrap_err();
    assert!(error.to_string().contains("policy of one's own"), "{error}");
}
