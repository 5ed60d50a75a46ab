//! Users' shares of the table of counts (`bpf/share.h`).

use std::net::Ipv4Addr;

use aya::maps::{HashMap, MapData};

use super::{ACK, Bench, NEXT, PASSES, over_v4, tcp};
use crate::Flow;
use crate::shared::{CountWords, FLOWS, FlowWords, Socket};

impl Bench {
    /// Sends a byte of a coflow to each of so many peers; returns how many of these flows are
    /// counted.
    fn send_to(&mut self, coflow: u32, peers: u32) -> usize {
        let packet = over_v4(&tcp(NEXT, ACK, 1));
        for peer in 0..peers {
            self.carry_for(Flow { coflow, peer: Ipv4Addr::from_bits(peer).into() }, Socket::default());
            assert_eq!(self.judge(&packet), PASSES);
        }
        let counts: HashMap<&mut MapData, FlowWords, CountWords> = self.map("counts");
        counts.keys().filter(|flow| flow.as_ref().is_ok_and(|flow| flow[0] == coflow)).count()
    }
}

#[test]
fn a_user_has_no_more_flows_than_are_free_and_leaves_room_for_the_next() {
    let Some(mut bench) = Bench::new() else { return };
    for coflow in [1, 2, 3, 4] {
        // The second coflow is the first user's as well.
        bench.own(coflow, coflow.max(2));
    }
    assert_eq!(bench.send_to(1, 20_000), 20_000);
    assert_eq!(bench.send_to(2, FLOWS), FLOWS as usize / 2 - 20_000);
    assert_eq!(bench.send_to(3, FLOWS), FLOWS as usize / 4);
    assert_eq!(bench.send_to(4, 1_000), 1_000);
}
