//! Tests of what holds for every registered policy.

use cavalcade_model::{
    Bytes, ClassShares, CoflowId, Decision, Discipline, Event, FlowId, Foresee, Instant, Iteration, Nanos,
    Observe, Policy, PolicyFactory, Scope, Target,
};
use proptest::prelude::*;

use crate::scripted::{Driven, Script, drive};
use cavalcade_spec::SpecError;

use crate::{parse, registry};

/// Texts of all kinds of values.
const VALUES: &[&str] = &[
    "1",
    "2",
    "7",
    "60",
    "90",
    "true",
    "false",
    "none",
    "1B",
    "3MB",
    "5MiB",
    "1KB/2MB",
    "0ms",
    "20ms",
    "1us",
    "3s",
    "greedy",
    "madd",
    "maxmin",
    "weighted",
    "highest",
    "websearch",
    "datamining",
    "optimised",
    "sender",
    "link",
    "tick",
    "served",
    "all",
    "leaders",
    "percent",
    "least",
    "flow",
    "even",
    "one",
];

#[test]
fn every_setting_that_is_accepted_round_trips_as_text() {
    for info in registry() {
        let mut specs = vec![info.name.to_owned()];
        for parameter in &info.parameters {
            specs.extend(VALUES.iter().map(|value| format!("{}:{}={value}", info.name, parameter.name)));
            let default = format!("{}:{}={}", info.name, parameter.name, parameter.value);
            assert_eq!(parse(&default).unwrap().label(), info.name, "{default} is the default");
            let changed = |value: &&&str| {
                parse(&format!("{}:{}={value}", info.name, parameter.name))
                    .is_ok_and(|p| p.label() != info.name)
            };
            assert!(
                VALUES.iter().any(|value| changed(&value)),
                "{}: {} cannot be changed",
                info.name,
                parameter.name
            );
        }
        for spec in specs {
            let Ok(policy) = parse(&spec) else { continue };
            let params = policy.params();
            let settings: Vec<String> =
                params.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let again = parse(&format!("{}:{}", info.name, settings.join(","))).unwrap();
            assert_eq!(again.params(), params, "{spec}");
            assert_eq!(parse(&policy.label()).unwrap().params(), params, "{spec} as {}", policy.label());
            assert_eq!(policy.clone().label(), policy.label());
        }
    }
}

#[test]
fn labels_name_only_what_differs() {
    assert_eq!(parse("dclas:queues=10").unwrap().label(), "dclas");
    assert_eq!(
        parse(" dclas : weighted=false , queues=4 ").unwrap().label(),
        "dclas:queues=4,weighted=false"
    );
    let all = [("discipline", "madd"), ("remaining", "true"), ("sync", "0ns")];
    let all = all.map(|(name, value)| (name, value.to_owned()));
    assert_eq!(parse("sebf:discipline=madd").unwrap().params(), all);
}

#[test]
fn names_are_unique_and_every_line_says_something() {
    let mut names: Vec<&str> = registry().iter().map(|info| info.name).collect();
    let listed = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), listed);
    for info in registry() {
        for text in [info.title, info.source, info.knows, info.cost] {
            assert!(!text.is_empty() && !text.ends_with('.'), "{}: {text}", info.name);
        }
    }
}

#[test]
fn every_paper_has_its_policy_under_its_own_name_whatever_the_case() {
    let named: Vec<&str> = registry().iter().filter(|i| i.paper.is_some()).map(|i| i.name).collect();
    let papers = [
        "orchestra",
        "baraat",
        "pfabric",
        "varys",
        "aalo",
        "dcas",
        "tafe",
        "pias",
        "karuna",
        "sincronia",
        "saath",
        "philae",
        "dcoflow",
        "crux",
        "cassini",
        "mltcp",
    ];
    assert_eq!(named, papers);
    for info in registry() {
        let Some(paper) = info.paper else { continue };
        let system = paper.system.replace('-', "").to_lowercase();
        assert_eq!(system, info.name, "the name is the system's");
        assert!((2000..2030).contains(&paper.year), "{}", info.name);
        assert_eq!(parse(&info.name.to_uppercase()).unwrap().label(), info.name);
    }
}

#[test]
fn a_papers_name_means_what_it_prints_and_settings_count_from_there() {
    let params = |spec: &str| parse(spec).unwrap().params();
    assert_eq!(params("varys"), params("sebf:discipline=madd"));
    assert_eq!(params("Baraat"), params("fifo_lm:at=link"));
    assert_eq!(params("aalo"), params("dclas"));
    assert_eq!(params("orchestra"), params("fifo:discipline=madd"));
    assert_eq!(parse("varys:discipline=greedy").unwrap().label(), "varys:discipline=greedy");
    assert_eq!(parse("varys:discipline=madd").unwrap().label(), "varys");
    assert_eq!(parse("baraat:at=sender").unwrap().params(), params("fifo_lm"));
    let transport = |name: &str| parse(name).unwrap().info().paper.and_then(|paper| paper.transport);
    assert!(transport("pFabric").is_some_and(|own| own.name == "pfabric" && own.orders));
    assert!(transport("karuna").is_some_and(|own| own.name == "mcp" && !own.orders));
    assert_eq!(transport("varys"), None);
}

#[test]
fn what_a_live_system_wants_is_asked_of_the_policy() {
    let quiet = |spec: &str| parse(spec).unwrap().quiet(10).0;
    assert_eq!((quiet("aalo"), quiet("dclas:first_threshold=1MB"), quiet("sebf")), (1_000_000, 100_000, 0));
    let live = |spec: &str| parse(spec).unwrap().live().label();
    assert_eq!(live("aalo"), "aalo:sync=0ns");
    assert_eq!(live("dclas:sync=80ms,queues=4"), "dclas:queues=4,sync=80ms", "what was asked for stays");
    assert_eq!(live("dcas"), "dcas", "hosts keep their own period");
}

#[test]
fn an_unknown_name_gets_the_nearest() {
    let message = |spec: &str| parse(spec).unwrap_err().to_string();
    assert_eq!(message("dclass"), "unknown policy \"dclass\": did you mean dclas?");
    assert_eq!(message("fifo-lm"), "unknown policy \"fifo-lm\": did you mean fifo_lm?");
    assert!(message("xyzzy").starts_with("unknown policy \"xyzzy\": known are fair, spark, fifo, "));
    assert_eq!(message("dclas:queue=3"), "policy dclas has no parameter \"queue\": did you mean queues?");
    assert_eq!(message("sff:x=3"), "policy sff has no parameter \"x\": it has none");
}

#[test]
fn a_bad_value_says_what_was_expected() {
    let message = |spec: &str| parse(spec).unwrap_err().to_string();
    assert_eq!(
        message("dclas:queues=ten"),
        "policy dclas: queues=ten cannot be used: expected a whole number up to 4294967295"
    );
    assert_eq!(message("dclas:queues=0"), "policy dclas: queues=0 cannot be used: expected 1 to 1000");
    assert!(message("dclas:sync=10").contains("expected a time such as 10ms"));
    assert!(matches!(parse("dclas:queues"), Err(SpecError::NoValue { .. })));
    assert!(matches!(parse("dclas:queues=1,queues=2"), Err(SpecError::Repeated { .. })));
}

#[test]
fn who_knows_sizes_is_as_the_papers_say() {
    let blind: Vec<&str> = registry().iter().filter(|info| !info.clairvoyant).map(|info| info.name).collect();
    let expected = [
        "fair",
        "spark",
        "fifo",
        "fifo_lm",
        "baraat",
        "las",
        "dclas",
        "aalo",
        "dclas-fine",
        "edf",
        "pias",
        "saath",
        "philae",
        "learn",
        "crux",
        "mltcp",
    ];
    assert_eq!(blind, expected);
    let local = |scope| registry().iter().filter(move |info| info.scope == scope).map(|info| info.name);
    assert_eq!(
        local(Scope::Link).collect::<Vec<_>>(),
        ["baraat"],
        "elsewhere links decide only where asked to"
    );
    let hosts = ["spark", "fifo_lm", "las", "dcas", "dcas-quiet", "pias", "karuna"];
    assert_eq!(local(Scope::Host).collect::<Vec<_>>(), hosts);
    for policy in ["fifo_lm:at=link", "las:at=link"] {
        assert_eq!(parse(policy).unwrap().terms().scope, Scope::Link);
    }
}

/// How equals share, where it is decided and what is claimed: lines of `docs/policies.md`.
#[test]
fn the_terms_of_papers_policies_are_those_of_the_tables() {
    use Discipline::{Greedy, Madd, MaxMin, ShortestFlow};
    use Scope::{Fabric, Host, Link};
    let tables = [
        ("orchestra", Fabric, Madd, true),
        ("baraat", Link, MaxMin, true),
        ("pfabric", Fabric, ShortestFlow, true),
        ("varys", Fabric, Madd, true),
        ("aalo", Fabric, MaxMin, false),
        ("dcas", Host, MaxMin, true),
        ("tafe", Fabric, ShortestFlow, true),
        ("pias", Host, MaxMin, true),
        ("karuna", Host, MaxMin, true),
        ("sincronia", Fabric, Greedy, true),
        ("saath", Fabric, MaxMin, true),
        ("philae", Fabric, MaxMin, true),
        ("dcoflow", Fabric, Greedy, true),
        ("crux", Fabric, MaxMin, true),
        ("cassini", Fabric, MaxMin, true),
        ("mltcp", Fabric, MaxMin, false),
    ];
    let papers: Vec<&str> = registry().iter().filter(|i| i.paper.is_some()).map(|i| i.name).collect();
    assert_eq!(papers, tables.map(|(name, ..)| name));
    for (name, scope, discipline, is_strict) in tables {
        let terms = parse(name).unwrap().terms();
        assert_eq!((terms.scope, terms.discipline), (scope, discipline), "{name}");
        assert_eq!(terms.shares == ClassShares::Strict, is_strict, "{name}");
        let keeps_all_going = ["aalo", "cassini", "mltcp"].contains(&name);
        assert_eq!(terms.starvation_free, keeps_all_going, "{name}: by weights, or in fair shares");
    }
}

/// A driver of the simplest kind: at each step every flow sends what the test drew for it, then
/// watches and wakes are served. It holds a policy to what any driver may rely on.
struct Driver {
    script: Script,
    driven: Driven,
    flows: Vec<(FlowId, u64)>,
    active: Vec<CoflowId>,
    watches: Vec<(Target, u64)>,
    wake: Option<u64>,
    log: Vec<Decision>,
}

impl Driver {
    fn dispatch(&mut self, now: u64, event: Event) {
        let decision = self.driven.at(now, event, &self.script);
        for (target, _) in &decision.priorities {
            let coflow = match *target {
                Target::Coflow(coflow) => coflow,
                Target::Flow(flow) => self.script.flow(flow).coflow,
            };
            assert!(self.active.contains(&coflow), "a priority for {coflow:?}, which is not active");
        }
        for &(target, bytes) in &decision.watches {
            self.watches.retain(|(watched, _)| *watched != target);
            self.watches.push((target, bytes.0));
        }
        if let Some(when) = decision.wake_at {
            assert!(when > Instant(now));
            self.wake = Some(when.0);
        }
        self.log.push(decision);
    }

    fn sent(&self, target: Target) -> u64 {
        match target {
            Target::Coflow(coflow) => self.script.attained(coflow).0,
            Target::Flow(flow) => self.script.flow_attained(flow).0,
        }
    }

    fn serve_watches(&mut self, now: u64) {
        for _ in 0..10_000 {
            let Some(index) = self.watches.iter().position(|&(target, bytes)| self.sent(target) >= bytes)
            else {
                return;
            };
            let (target, _) = self.watches.remove(index);
            self.dispatch(now, Event::Reached(target));
        }
        panic!("watches without end");
    }

    fn step(&mut self, now: u64, share: u64) {
        for index in 0..self.flows.len() {
            let (flow, left) = self.flows[index];
            let bytes = (left / share).max(1).min(left);
            self.flows[index].1 -= bytes;
            self.script.send(flow.index(), bytes);
        }
        self.serve_watches(now);
        let done: Vec<FlowId> =
            self.flows.iter().filter(|(_, left)| *left == 0).map(|(flow, _)| *flow).collect();
        self.flows.retain(|(_, left)| *left > 0);
        for flow in done {
            self.dispatch(now, Event::FlowFinished(flow));
            let coflow = self.script.flow(flow).coflow;
            if self.script.remaining(coflow).0 == 0 && self.active.contains(&coflow) {
                self.active.retain(|&active| active != coflow);
                self.watches.retain(|(target, _)| *target != Target::Coflow(coflow));
                self.dispatch(now, Event::CoflowFinished(coflow));
            }
            self.watches.retain(|(target, _)| *target != Target::Flow(flow));
        }
        if self.wake.is_some_and(|when| when <= now) {
            self.wake = None;
            self.dispatch(now, Event::Wake);
            self.serve_watches(now);
        }
    }
}

/// Returns the decisions of a policy over a random life of a few coflows.
fn live(spec: &str, sizes: &[(u32, u32, u64)], shares: &[u64]) -> Vec<Decision> {
    let (driven, script) = (drive(spec), Script::new());
    let mut driver = Driver {
        script,
        driven,
        flows: Vec::new(),
        active: Vec::new(),
        watches: Vec::new(),
        wake: None,
        log: Vec::new(),
    };
    let mut now = 0;
    for (step, share) in shares.iter().enumerate() {
        now += 40_000_000;
        if let Some(&(src, dst, size)) = sizes.get(step) {
            let coflow = driver.script.add_coflow(step as u32 / 2, now);
            driver.script.facts_mut(coflow).deadline = size.is_multiple_of(3).then_some(Instant(now + size));
            let flow = driver.script.add_flow(coflow, src, dst, size);
            // Every other task is a job of two iterations.
            if step / 2 % 2 == 0 {
                let (number, bytes) = (step as u32 % 2, Bytes(size));
                driver.script.declare(coflow, Iteration { number, bytes, gpus: 2, compute: Nanos(7) });
            }
            driver.active.push(coflow);
            driver.flows.push((flow, size));
            driver.dispatch(now, Event::CoflowArrived(coflow));
            driver.dispatch(now, Event::FlowArrived(flow));
            driver.serve_watches(now);
        }
        driver.step(now, *share);
    }
    driver.log
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn decisions_are_about_what_is_active_and_the_same_every_time(
        sizes in prop::collection::vec((0u32..10, 0u32..10, 1u64..50_000_000), 1..8),
        shares in prop::collection::vec(1u64..6, 8..40),
    ) {
        for info in registry() {
            prop_assert_eq!(live(info.name, &sizes, &shares), live(info.name, &sizes, &shares), "{}", info.name);
        }
        for spec in [
            "fair:conserving=false",
            "dclas:sync=0ms,first_threshold=1KB",
            "fifo_lm:heavy_threshold=1KB",
            "karuna:sizes_known=true",
        ] {
            prop_assert_eq!(live(spec, &sizes, &shares), live(spec, &sizes, &shares));
        }
    }
}

#[test]
fn a_policy_can_be_handed_to_other_threads() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    shared(&parse("fair").unwrap());
}

#[test]
fn an_instance_is_of_the_kind_that_its_listing_says() {
    let setting = cavalcade_model::Setting {
        ports: 3,
        line_rate: cavalcade_model::BitsPerSec(8),
        history: &cavalcade_model::History::default(),
    };
    for info in registry() {
        let policy = parse(info.name).unwrap();
        assert_eq!(policy.knows_sizes(), info.clairvoyant);
        assert_eq!(matches!(policy.build(&setting), Policy::Clairvoyant(_)), info.clairvoyant);
        assert_eq!(policy.terms().scope, info.scope);
    }
}
