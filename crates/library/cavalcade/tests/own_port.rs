//! A flow from a port to itself crosses both links of its port, on every engine, as
//! `docs/formats.md` says.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade::model::{Bytes, Flow, Instant, Nanos, PortId, Workload, WorkloadBuilder};
use cavalcade::{Conditions, Engine, Packets, Scenario, Transport};

/// One flow from port 0 to port 1, and one that stays at `own`.
fn beside(own: Option<u32>) -> Workload {
    let flow = |src, dst| {
        vec![Flow { src: PortId(src), dst: PortId(dst), size: Bytes(2_500_000), wave: Nanos::ZERO }]
    };
    let mut builder = WorkloadBuilder::new(3);
    builder.coflow("other", Instant::ZERO, flow(0, 1));
    if let Some(own) = own {
        builder.coflow("own", Instant::ZERO, flow(own, own));
    }
    builder.build().unwrap()
}

/// The time that both take together under fair sharing at 1 Gbps.
fn lasts(own: Option<u32>, engine: &Engine) -> u64 {
    let scenario = Scenario::new(beside(own), Conditions::default()).unwrap();
    scenario.on(engine.clone()).under("fair").unwrap().run().unwrap().task_finish.iter().max().unwrap().0
}

#[test]
fn a_flow_to_its_own_port_takes_its_time_on_both_links_of_that_port() {
    assert_eq!(
        [None, Some(0), Some(1), Some(2)].map(|own| lasts(own, &Engine::Fluid)),
        [20_000_000, 40_000_000, 40_000_000, 20_000_000]
    );
    let dctcp = Transport::from(&cavalcade::transport::parse("dctcp").unwrap());
    for engine in [Engine::Control { period: Nanos::from_millis(1) }, Engine::Packet(Packets::over(dctcp))] {
        let alone = lasts(None, &engine) as f64;
        for (own, slower) in [(0, 1.9..2.1), (1, 1.9..2.1), (2, 0.95..1.05)] {
            let ratio = lasts(Some(own), &engine) as f64 / alone;
            assert!(slower.contains(&ratio), "{ratio} with a flow at {own} on {engine:?}");
        }
    }
}
