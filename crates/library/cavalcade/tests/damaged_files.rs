//! Broken manifests, certificates and fabrics are refused with a reason, or are others; none makes
//! a reader panic.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade::bound::{self, lower_bounds};
use cavalcade::folder::{Recorded, keep};
use cavalcade::manifest::TraceRecord;
use cavalcade::model::{BitsPerSec, FabricSpec};
use cavalcade::output::Folder;
use cavalcade::results::Results;
use cavalcade::trace::{Format, write};
use cavalcade::validate::certificate::{Certificate, check};
use cavalcade::{Conditions, Scenario, Watch, generate};
use cavalcade_testing::damage;

fn scenario() -> Scenario {
    let fabric = Some("tree:pods=2,racks=2,hosts=2".parse().unwrap());
    let conditions = Conditions { fabric, ..Conditions::default() };
    Scenario::new(generate("facebook:coflows=3,ports=8", 1).unwrap(), conditions).unwrap()
}

#[test]
fn no_damage_of_a_manifest_makes_its_reader_panic() {
    let place = tempfile::tempdir().unwrap();
    let (trace, run) = (place.path().join("trace.jsonl"), place.path().join("run"));
    let scenario = scenario().under("dclas:queues=4").unwrap();
    let mut text = Vec::new();
    write(scenario.workload(), Format::NATIVE, &mut text).unwrap();
    std::fs::write(&trace, &text).unwrap();
    let out = Folder::create(&run).unwrap();
    let record = TraceRecord::of_file(trace, &text);
    keep(&scenario, &record, false, Watch::default(), Results::new(Some(&out))).unwrap();
    out.keep().unwrap();
    let manifest = run.join("manifest.json");
    damage(&std::fs::read(&manifest).unwrap(), |bytes| {
        std::fs::write(&manifest, bytes).unwrap();
        Recorded::open(&run, None).is_ok()
    });
}

#[test]
fn no_damage_of_a_certificate_makes_its_checker_panic() {
    let scenario = scenario();
    let (workload, fabric) = (scenario.workload(), scenario.fabric());
    let mut go_on = |progress: &bound::Progress| progress.programs < 20;
    for found in lower_bounds(workload, fabric, bound::Conditions::default(), &mut go_on).unwrap().bounds {
        damage(&serde_json::to_vec(&found.certificate).unwrap(), |bytes| {
            Certificate::read(bytes).is_ok_and(|read| check(workload, fabric, &read).is_ok())
        });
    }
}

#[test]
fn no_damage_of_a_fabric_makes_its_reader_panic() {
    for text in [
        "tree:pods=2,racks=2,hosts=2,rate=1Gbps,oversubscription=2.5",
        "leafspine:leaves=4,hosts=2,spines=2",
        "fattree:arity=4",
        "bigswitch:ports=12",
    ] {
        damage(text.as_bytes(), |bytes| {
            let spec = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<FabricSpec>().ok());
            // Some variants have a thousand times the hosts: these are read and not built.
            let is_small = |spec: &FabricSpec| spec.to_string().len() <= text.len() + 40;
            spec.filter(is_small).is_some_and(|spec| spec.build(BitsPerSec(1_000_000_000)).is_ok())
        });
    }
}
