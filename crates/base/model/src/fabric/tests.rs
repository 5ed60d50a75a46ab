//! Shapes against what their definitions say, link by link.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{Contended, Fabric, FabricError, FabricSpec, FatTree, Node, Shape};
use crate::{BitsPerSec, Nanos, PortId};

fn fabric(text: &str) -> Fabric {
    text.parse::<FabricSpec>().unwrap().build(BitsPerSec(1_000_000_000)).unwrap()
}

fn path_names(fabric: &Fabric, src: u32, dst: u32) -> Vec<String> {
    fabric.path(PortId(src), PortId(dst)).into_iter().map(|link| fabric.link_name(link)).collect()
}

fn rate_of(fabric: &Fabric, name: &str) -> u64 {
    fabric.capacity(fabric.link_named(name).unwrap()).get()
}

#[test]
fn a_tree_climbs_only_as_high_as_it_must() {
    let tree = fabric("tree:pods=3,racks=2,hosts=4,oversubscription=2,pod_oversubscription=2.5");
    assert_eq!((tree.ports(), tree.link_count()), (24, 48 + 12 + 6));
    assert_eq!(path_names(&tree, 0, 3), ["ingress of port 0", "egress of port 3"]);
    assert_eq!(
        path_names(&tree, 0, 5),
        ["ingress of port 0", "rack 0 to pod 0", "pod 0 to rack 1", "egress of port 5"]
    );
    assert_eq!(
        path_names(&tree, 17, 5),
        [
            "ingress of port 17",
            "rack 4 to pod 2",
            "pod 2 to core 0",
            "core 0 to pod 0",
            "pod 0 to rack 1",
            "egress of port 5"
        ]
    );
    assert_eq!(rate_of(&tree, "rack 4 to pod 2"), 2_000_000_000);
    assert_eq!(rate_of(&tree, "core 0 to pod 1"), 1_600_000_000);
}

#[test]
fn the_data_centre_of_baraat_has_36000_servers_and_is_2_to_1_at_the_rack() {
    let tree = fabric("tree:pods=30,racks=30,hosts=40,rate=1Gbps,oversubscription=2");
    assert_eq!((tree.ports(), tree.link_count()), (36_000, 72_000 + 1800 + 60));
    assert_eq!(rate_of(&tree, "rack 899 to pod 29"), 20_000_000_000);
    assert_eq!(rate_of(&tree, "pod 29 to core 0"), 600_000_000_000);
}

#[test]
fn a_port_that_sends_to_itself_crosses_its_own_two_links() {
    for text in ["bigswitch:ports=8", "tree:pods=2,racks=2,hosts=2", "fattree:arity=4"] {
        assert_eq!(path_names(&fabric(text), 3, 3), ["ingress of port 3", "egress of port 3"], "{text}");
    }
}

#[test]
fn a_leaf_spine_spreads_pairs_evenly_over_spines() {
    let leaf_spine = fabric("leafspine:leaves=4,spines=4,hosts=32,oversubscription=2");
    assert_eq!(rate_of(&leaf_spine, "leaf 3 to spine 1"), 4_000_000_000);
    let mut pairs = BTreeMap::new();
    for (src, dst) in (0..32).flat_map(|src| (32..64).map(move |dst| (src, dst))) {
        let path = leaf_spine.path(PortId(src), PortId(dst));
        assert_eq!(path.len(), 4);
        *pairs.entry(leaf_spine.ends(path[1])[1]).or_insert(0) += 1;
    }
    assert_eq!(pairs.len(), 4);
    // 1024 pairs over 4 spines: 256 each, with a standard deviation of 14.
    assert!(pairs.values().all(|count| (200..312).contains(count)), "{pairs:?}");
}

#[test]
fn a_fat_tree_spreads_pairs_over_all_its_cores() {
    let fat_tree = fabric("fattree:arity=4");
    assert_eq!((fat_tree.ports(), fat_tree.link_count()), (16, 96));
    let cores: BTreeSet<Node> = (0..4)
        .flat_map(|src| (4..16).map(move |dst| (src, dst)))
        .map(|(src, dst)| fat_tree.path(PortId(src), PortId(dst)))
        .inspect(|path| assert_eq!(path.len(), 6))
        .map(|path| fat_tree.ends(path[2])[1])
        .collect();
    let names: Vec<String> = cores.iter().map(Node::to_string).collect();
    assert_eq!(names, ["core 0", "core 1", "core 2", "core 3"]);
}

#[test]
fn links_that_are_cut_leave_no_path_and_are_reported_for_the_task() {
    let mut tree = fabric("tree:pods=1,racks=2,hosts=2");
    tree.fail(tree.link_named("rack 0 to pod 0").unwrap());
    assert!(tree.find_path(PortId(0), PortId(1)).is_some());
    assert!(tree.find_path(PortId(0), PortId(2)).is_none());
    assert!(tree.find_path(PortId(2), PortId(0)).is_some());
    let mut builder = crate::WorkloadBuilder::new(4);
    let flow = |src, dst| crate::Flow {
        src: PortId(src),
        dst: PortId(dst),
        size: crate::Bytes(1),
        wave: Nanos::ZERO,
    };
    builder.coflow("well", crate::Instant::ZERO, vec![flow(2, 0)]);
    assert_eq!(tree.check(&builder.clone().build().unwrap()), Ok(()));
    builder.coflow("cut", crate::Instant::ZERO, vec![flow(2, 0), flow(1, 3)]);
    let error = tree.check(&builder.build().unwrap());
    let [src, dst] = ["port 1", "port 3"].map(String::from);
    assert_eq!(error, Err(FabricError::NoPath { task: "cut".to_owned(), src, dst }));
}

#[test]
fn bad_text_is_told_with_its_cure() {
    let error = |text: &str| text.parse::<FabricSpec>().unwrap_err().to_string();
    assert_eq!(
        error("ring:ports=3"),
        "unknown fabric \"ring\": known are bigswitch, tree, leafspine, fattree"
    );
    assert_eq!(error("tree:pods=3,racks=2"), "fabric tree: hosts is missing: add hosts=…, at least 1");
    assert!(error("tree:pods=3,racks=2,hosts=1,hosts=2").contains("given twice"));
    assert!(error("tree:pods=3,spines=2").contains("known are pods, racks, hosts"));
    assert!(error("leafspine:leaves=2,spines=2,hosts=2,oversubscription=0").contains("number above 0"));
    assert!(error("fattree:arity=x").contains("arity=x cannot be used: expected a whole number"));
    assert!(error("fattree:arity=3").contains("expected an even number"));
    assert!(error("tree:pods=3,racks=0,hosts=1").contains("racks=0 cannot be used: expected at least 1"));
    assert!(error("tree:pods=3,racks=1,hosts=1,rate=fast").contains("rate=fast cannot be used"));
    let build = |text: &str| text.parse::<FabricSpec>().unwrap().build(BitsPerSec(1)).unwrap_err();
    let direct = Fabric::new(Shape::new(FatTree { arity: 3 }), BitsPerSec(1)).unwrap_err();
    assert!(direct.to_string().contains("expected an even number"));
    assert!(matches!(
        build("tree:pods=4000000000,racks=4000000000,hosts=4000000000"),
        FabricError::TooLarge { .. }
    ));
    let rounded_down = build("tree:pods=1,racks=1,hosts=1,oversubscription=2");
    assert_eq!(rounded_down, FabricError::ZeroCapacity { link: "rack 0 to pod 0".to_owned() });
}

#[test]
fn exceptions_are_links_by_name() {
    let text = "tree:pods=2,racks=1,hosts=2;rack 0 to pod 0 rate=500Mbps; ingress of port 3 delay=5us;egress of port 0 failed";
    let spec: FabricSpec = text.parse().unwrap();
    assert_eq!(spec.to_string().parse::<FabricSpec>().unwrap(), spec);
    let fabric = spec.build(BitsPerSec(1_000_000_000)).unwrap();
    assert_eq!(fabric.capacity(fabric.link_named("rack 0 to pod 0").unwrap()), BitsPerSec(500_000_000));
    assert_eq!(fabric.delay(fabric.ingress(PortId(3))), crate::Nanos(5_000));
    assert!(fabric.has_failed(fabric.egress(PortId(0))));
    assert!(fabric.find_path(PortId(2), PortId(0)).is_none());
    let wrong = |exception: &str| -> String {
        let spec = format!("bigswitch:ports=2;{exception}").parse::<FabricSpec>();
        match spec {
            Ok(spec) => spec.build(BitsPerSec(8)).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    };
    assert!(wrong("egress of port 2 failed").contains("there is no link \"egress of port 2\""));
    assert!(wrong("egress of port 1").contains("expected a link's name and rate=…"));
    assert!(wrong("egress of port 1 rate=fast").contains("rate=fast"));
    assert!(wrong("egress of port 1 rate=0bps").contains("capacity of zero"));
}

fn any_spec() -> impl Strategy<Value = String> {
    prop_oneof![
        (1u32..9).prop_map(|ports| format!("bigswitch:ports={ports}")),
        (1u32..4, 1u32..4, 1u32..4, 500u64..4000).prop_map(|(pods, racks, hosts, over)| format!(
            "tree:pods={pods},racks={racks},hosts={hosts},oversubscription={}.{:03},rate=10Gbps,delay=5us",
            over / 1000,
            over % 1000
        )),
        (1u32..5, 1u32..5, 1u32..4).prop_map(|(l, s, h)| format!(
            "leafspine:leaves={l},spines={s},hosts={h};leaf 0 to spine 0 rate=7Mbps"
        )),
        (1u32..4).prop_map(|half| format!("fattree:arity={}", 2 * half)),
    ]
}

proptest! {
    #[test]
    fn paths_join_end_to_end_and_a_failure_moves_only_what_crossed_it(text in any_spec(), failing in any::<u32>()) {
        let whole = fabric(&text);
        let ports = || (0..whole.ports()).map(PortId);
        let mut cut = whole.clone();
        let failed = crate::LinkId(failing % whole.link_count() as u32);
        cut.fail(failed);
        for (src, dst) in ports().flat_map(|src| ports().map(move |dst| (src, dst))) {
            let path = whole.path(src, dst);
            prop_assert_eq!(path[0], whole.ingress(src));
            prop_assert_eq!(path[path.len() - 1], whole.egress(dst));
            for pair in path.windows(2) {
                prop_assert_eq!(whole.ends(pair[0])[1], whole.ends(pair[1])[0]);
            }
            let distinct: BTreeSet<_> = path.iter().collect();
            prop_assert_eq!(distinct.len(), path.len());
            let after = cut.find_path(src, dst);
            if !path.contains(&failed) {
                prop_assert_eq!(after, Some(path));
            } else if let Some(after) = after {
                prop_assert!(!after.contains(&failed));
                prop_assert_eq!(after.len(), path.len());
            }
        }
    }

    #[test]
    fn links_have_names_and_twins_of_their_own_and_text_reads_back(text in any_spec()) {
        let fabric = fabric(&text);
        for link in fabric.links() {
            prop_assert_eq!(fabric.link_named(&fabric.link_name(link)), Ok(link));
            let (there, back) = (fabric.ends(link), fabric.ends(fabric.twin(link)));
            prop_assert_eq!([there[1], there[0]], back);
            prop_assert_eq!(fabric.twin(fabric.twin(link)), link);
        }
        let spec: FabricSpec = text.parse().unwrap();
        prop_assert_eq!(spec.to_string().parse::<FabricSpec>().unwrap(), spec);
    }
}

#[test]
fn a_link_that_carries_all_that_lies_below_it_is_never_short() {
    let kept = |text: &str| {
        let fabric = fabric(text);
        let links = Contended::of(&fabric);
        let inner = fabric.links().skip(2 * fabric.ports() as usize);
        inner.filter(|&link| links.contains(link)).map(|link| fabric.link_name(link)).collect::<Vec<_>>()
    };
    assert_eq!(kept("tree:pods=2,racks=2,hosts=3"), Vec::<String>::new());
    // The racks' links are slower than their hosts, and those of the pods as fast as their racks.
    let racks = ["rack 0 to pod 0", "rack 1 to pod 1", "pod 0 to rack 0", "pod 1 to rack 1"];
    assert_eq!(kept("tree:pods=2,racks=1,hosts=3,oversubscription=2"), racks);
    // Each of several ways up is slower than what might take it.
    assert_eq!(kept("leafspine:leaves=2,spines=2,hosts=2").len(), 8);
    assert_eq!(kept("leafspine:leaves=2,spines=1,hosts=2").len(), 0);
}

#[test]
fn what_an_allocator_looks_at_are_the_links_of_a_path_that_can_be_short() {
    let mut tree = fabric("tree:pods=2,racks=1,hosts=2");
    let slow = tree.link_named("core 0 to pod 1").unwrap();
    tree.set_capacity(slow, BitsPerSec(1_999_999_999)).unwrap();
    let links = Contended::of(&tree);
    let names = |src, dst| {
        let path = links.path(&tree, PortId(src), PortId(dst));
        path.into_iter().map(|link| tree.link_name(link)).collect::<Vec<_>>()
    };
    assert_eq!(names(0, 3), ["ingress of port 0", "core 0 to pod 1", "egress of port 3"]);
    assert_eq!(names(3, 0), ["ingress of port 3", "egress of port 0"]);
    assert!(!links.at_ports_only() && Contended::all(&tree).is_all());
}
