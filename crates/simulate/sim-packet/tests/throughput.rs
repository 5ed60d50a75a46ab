//! What each transport carries, by loss and by buffer: a table that is kept as text, so that a
//! change of a transport shows in a diff.
//!
//! Four hosts send 1 MB each to a fifth at 10 Gbps; the figure is their payload over the time until
//! the last byte has arrived, in Mbps.
//! `CAVALCADE_GOLDEN=rewrite cargo test -p cavalcade-sim-packet` rewrites the table; read the
//! difference before you commit it.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use std::fmt::Write;
use std::path::Path;

use cavalcade_model::{BitsPerSec, Bytes, Flow, Instant, Nanos, PortId, Workload, WorkloadBuilder};
use cavalcade_sim_packet::{Link, Network, Options, Run, simulate};
use cavalcade_transport::{Configured, Definition, Visitor, parse, registry};

const LINK: Link = Link { rate: BitsPerSec(10_000_000_000), delay: Nanos(1_000) };
const SENDERS: u32 = 4;
const SIZE: u64 = 1_000_000;
/// Buffers of a switch port, in KB: 10, 40 and 240 full packets.
const BUFFERS: [u64; 3] = [15, 60, 360];
/// The share of packets that each link loses.
const LOSSES: [f64; 3] = [0.0, 0.001, 0.01];

struct Simulate<'a>(&'a Workload, &'a Network, Options);

impl Visitor for Simulate<'_> {
    type Output = Run;

    fn visit<T: Definition>(self, transport: &T) -> Run {
        simulate(self.0, self.1, transport, None, &self.2, None).unwrap()
    }
}

/// The transport with `buffer` KB at each port. What marks does so from a third of that.
fn with_buffer(name: &str, buffer: u64) -> Configured {
    let marking = parse(&format!("{name}:buffer={buffer}KB,marking={}KB", buffer / 3));
    marking.or_else(|_| parse(&format!("{name}:buffer={buffer}KB"))).unwrap()
}

fn megabits_per_second(transport: &Configured, loss: f64) -> u64 {
    let mut builder = WorkloadBuilder::new(SENDERS + 1);
    for sender in 0..SENDERS {
        let flow = Flow { src: PortId(sender), dst: PortId(SENDERS), size: Bytes(SIZE), wave: Nanos::ZERO };
        builder.coflow(sender.to_string(), Instant(0), vec![flow]);
    }
    let (workload, network) = (builder.build().unwrap(), Network::star(SENDERS + 1, LINK).unwrap());
    let run = transport.visit(Simulate(&workload, &network, Options { loss, ..Options::default() }));
    let last = run.outcome.flow_finish.iter().max().unwrap().get();
    u64::from(SENDERS) * SIZE * 8 * 1_000 / last
}

#[test]
fn every_transport_carries_what_the_table_says() {
    let mut table = String::from("transport");
    for buffer in BUFFERS {
        for loss in LOSSES {
            write!(table, " {:>12}", format!("{buffer}KB {}%", loss * 100.0)).unwrap();
        }
    }
    for transport in registry() {
        write!(table, "\n{:<9}", transport.name()).unwrap();
        for buffer in BUFFERS {
            let transport = with_buffer(transport.name(), buffer);
            for loss in LOSSES {
                write!(table, " {:>12}", megabits_per_second(&transport, loss)).unwrap();
            }
        }
    }
    table.push('\n');
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/throughput.txt");
    if std::env::var_os("CAVALCADE_GOLDEN").is_some_and(|word| word == "rewrite") {
        std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
        return std::fs::write(golden, table).unwrap();
    }
    let kept = std::fs::read_to_string(golden).unwrap();
    assert!(kept == table, "the table has changed; it was\n{kept}\nand is\n{table}");
}
