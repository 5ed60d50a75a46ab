use super::*;
use CollectiveKind::{AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter};

fn collective(kind: CollectiveKind, bytes: u64) -> Collective {
    Collective::new(GroupId(0), kind, Bytes(bytes))
}

/// What each member sends and receives in all rounds.
fn moved(rounds: &[Round], members: usize) -> Vec<(u64, u64)> {
    let mut moved = vec![(0, 0); members];
    for part in rounds.iter().flat_map(|round| &round.parts) {
        moved[part.from as usize].0 += part.bytes.0;
        moved[part.to as usize].1 += part.bytes.0;
    }
    moved
}

#[test]
fn every_algorithm_moves_what_its_collective_needs_and_no_more() {
    // 8 members with 8,000 bytes: 7,000 out and in for half an all-reduce, which no algorithm can
    // undercut.
    let hosts = [0, 0, 1, 1, 2, 2, 3, 3];
    let least = |kind| if kind == AllReduce { 14_000 } else { 7_000 };
    for kind in [AllReduce, AllGather, ReduceScatter] {
        for algorithm in
            [Algorithm::Ring, Algorithm::RingSteps, Algorithm::HalvingDoubling, Algorithm::Direct]
        {
            let rounds = rounds(&collective(kind, 8_000), &hosts, algorithm).unwrap();
            assert_eq!(moved(&rounds, 8), [(least(kind), least(kind)); 8], "{kind} by {algorithm}");
        }
        for algorithm in [Algorithm::Auto, Algorithm::Rails, Algorithm::RailPhases] {
            let rounds = rounds(&collective(kind, 8_000), &hosts, algorithm).unwrap();
            assert_eq!(moved(&rounds, 8), [(least(kind), least(kind)); 8], "{kind} by {algorithm}");
            // Three quarters of a half each over the rails, half of it inside.
            let parts = rounds.iter().flat_map(|round| &round.parts);
            let between = parts.filter(|part| hosts[part.from as usize] != hosts[part.to as usize]);
            let between: u64 = between.map(|part| part.bytes.0).sum();
            assert_eq!(between, 8 * least(kind) / 7 * 3, "{kind} by {algorithm}");
        }
    }
}

#[test]
fn steps_are_those_of_the_algorithm() {
    let steps = |kind, members: u32, algorithm| {
        let hosts: Vec<u32> = (0..members).collect();
        let rounds = rounds(&collective(kind, 1 << 20), &hosts, algorithm).unwrap();
        (rounds.len(), rounds.iter().map(|round| round.steps).sum::<u32>())
    };
    assert_eq!(steps(AllReduce, 8, Algorithm::Ring), (1, 14));
    assert_eq!(steps(AllReduce, 8, Algorithm::RingSteps), (14, 14));
    assert_eq!(steps(AllReduce, 8, Algorithm::HalvingDoubling), (6, 6));
    assert_eq!(steps(ReduceScatter, 8, Algorithm::Ring), (1, 7));
    assert_eq!(steps(AllReduce, 8, Algorithm::Tree), (1, 6));
    assert_eq!(steps(AllToAll, 8, Algorithm::Auto), (1, 1));
    assert_eq!(steps(AllToAll, 8, Algorithm::RingSteps), (7, 7));
    assert_eq!(steps(AllReduce, 1, Algorithm::Auto), (1, 0), "a group of one moves nothing");
    assert_eq!(steps(CollectiveKind::Barrier, 4, Algorithm::Auto), (1, 1));
}

#[test]
fn a_double_tree_gives_no_member_more_than_a_whole_buffer_each_way_twice() {
    let hosts: Vec<u32> = (0..8).collect();
    let rounds = rounds(&collective(AllReduce, 8_000), &hosts, Algorithm::Tree).unwrap();
    // A leaf of one tree is inside the other: half a buffer up, and one to each of two below.
    assert!(moved(&rounds, 8).iter().all(|&(sent, received)| sent <= 16_000 && received <= 16_000));
    let all: u64 = moved(&rounds, 8).iter().map(|&(sent, _)| sent).sum();
    assert_eq!(all, 2 * 7 * 8_000);
}

#[test]
fn a_broadcast_leaves_the_root_and_a_reduce_comes_to_it() {
    for algorithm in [Algorithm::Ring, Algorithm::Tree] {
        for (kind, at_root) in [(Broadcast, 0), (Reduce, 1)] {
            let given = Collective { root: 2, ..collective(kind, 100) };
            let rounds = rounds(&given, &[0, 1, 2, 3], algorithm).unwrap();
            let moved = moved(&rounds, 4);
            let at = |(sent, received)| [received, sent][at_root];
            assert_eq!(at(moved[2]), 0, "{kind} by {algorithm}");
            assert!((0..4).filter(|member| *member != 2).all(|member| at(moved[member]) == 100));
        }
    }
}

#[test]
fn uneven_parts_of_an_all_to_all_go_as_given() {
    let splits = [0, 5, 7, 1, 0, 0, 2, 3, 0].map(Bytes).to_vec();
    let given = Collective { splits: Some(splits), ..collective(AllToAll, 12) };
    for algorithm in [Algorithm::Auto, Algorithm::RingSteps] {
        let rounds = rounds(&given, &[0, 1, 2], algorithm).unwrap();
        assert_eq!(moved(&rounds, 3), [(12, 3), (1, 8), (5, 7)]);
        assert!(rounds.iter().flat_map(|round| &round.parts).all(|part| part.bytes > Bytes::ZERO));
    }
}

#[test]
fn rounds_and_parts_are_counted_as_they_are_written() {
    let kinds = CollectiveKind::WORDS.iter().map(|(_, kind)| *kind);
    let given = kinds.flat_map(|kind| [collective(kind, 0), collective(kind, 3), collective(kind, 8_000)]);
    let uneven: Vec<Bytes> = (0..64).map(|place| Bytes(place % 3)).collect();
    let uneven = Collective { splits: Some(uneven), ..collective(AllToAll, 64) };
    for given in given.chain([uneven]) {
        for &(_, algorithm) in Algorithm::WORDS {
            for hosts in [[0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 2, 3, 4, 5, 6, 7], [0, 0, 0, 0, 0, 0, 0, 1]] {
                let rounds = rounds(&given, &hosts, algorithm).unwrap();
                let parts = rounds.iter().map(|round| round.parts.len()).sum::<usize>();
                let counted = size(&given, &hosts, algorithm);
                assert_eq!(counted, (rounds.len(), parts), "{given:?} by {algorithm} on {hosts:?}");
            }
        }
    }
}

#[test]
fn halving_of_three_is_refused() {
    let refused = rounds(&collective(AllReduce, 8), &[0, 1, 2], Algorithm::HalvingDoubling);
    assert_eq!(refused, Err(NotPowerOfTwo { members: 3 }));
}
