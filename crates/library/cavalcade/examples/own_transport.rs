//! Runs a transport of one's own, a window that never changes, beside DCTCP: two windows, one too
//! small and one too large.
//!
//! ```text
//! cargo run --release -p cavalcade --example own_transport
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use cavalcade::model::{Bytes, Instant, Nanos};
use cavalcade::spec::Parameter;
use cavalcade::transport::{
    Ack, Definition, FlowSetup, NoLogic, PortSetup, Reliability, SwitchNeeds, Transport as Machine,
    WindowLaw, WindowReceiver, WindowSender,
};
use cavalcade::{Conditions, Engine, Packets, Scenario, Transport, compare, generate};

/// The transport: so many segments are in flight, whatever happens.
#[derive(Clone, Debug, Default)]
struct Fixed {
    segments: u32,
}

impl WindowLaw for Fixed {
    const ECN: bool = false;

    fn window(&self) -> u32 {
        self.segments.max(1)
    }

    fn on_ack(&mut self, _: &Ack) {}

    fn on_loss(&mut self, _: &Ack) {}

    fn on_timeout(&mut self, _: Instant) {}
}

impl Machine for Fixed {
    type Extra = ();
    type Sender = WindowSender<Self>;
    type Receiver = WindowReceiver;
    type PortLogic = NoLogic;

    fn sender(&self, setup: &FlowSetup) -> Self::Sender {
        WindowSender::new(setup, self.clone(), Reliability::tcp(Nanos(2_000_000)))
    }

    fn receiver(&self, setup: &FlowSetup) -> Self::Receiver {
        WindowReceiver::new(setup, Default::default())
    }

    fn port_logic(&self, _: &PortSetup) -> NoLogic {
        NoLogic
    }

    fn needs(&self) -> SwitchNeeds {
        SwitchNeeds { marking: None, buffer: Bytes(240 * 1_500), shortest_first: false }
    }
}

impl Definition for Fixed {
    const NAME: &'static str = "fixed";
    const TITLE: &'static str = "A window that never changes";
    const SOURCE: &'static str = "this example";
    const PARAMETERS: &'static [Parameter<Self>] = &[];
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workload = generate("fixed:coflows=20,ports=5,size=200KB", 1)?;
    let scenario = Scenario::new(workload, Conditions::default())?;
    let dctcp = scenario.under("fair over dctcp")?;
    println!("DCTCP           mean CCT {:.3} ms", compare(&[dctcp], 0)?.runs[0].cct_summary.mean_s * 1e3);
    for segments in [1, 20] {
        let packets = Engine::Packet(Packets::over(Transport::new(Fixed { segments })));
        let mean_s = compare(&[scenario.on(packets)], 0)?.runs[0].cct_summary.mean_s;
        println!("fixed at {segments:>2}     mean CCT {:.3} ms", mean_s * 1e3);
    }
    Ok(())
}
