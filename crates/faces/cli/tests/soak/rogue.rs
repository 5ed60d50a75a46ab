//! A host in the wrong hands: it has a valid certificate, and says whatever is well formed, and
//! then what is not.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use cavalcade_model::{BitsPerSec, Bytes, Instant, PortId};
use cavalcade_protocol::{
    CoflowEntry, CoflowKey, FlowEntry, KillSwitch, Message, PROTOCOL, Report, Sealed, Standing, frame,
};
use cavalcade_runtime::{Clock, Identity, block_on, connect_as_agent};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::site::ROGUE;

/// Lies to each coordinator in turn until the process is killed.
pub(crate) fn run(coordinators: &str) -> ! {
    let parsed = coordinators.split(',').map(str::parse).collect::<Result<Vec<SocketAddr>, _>>();
    let coordinators = parsed.expect("they are addresses");
    let identity = Identity::load(Path::new(&format!("site/agent-{ROGUE}"))).expect("it has a certificate");
    let lies = block_on(async {
        for round in 0.. {
            // A coordinator that stands by does not listen, and one that cuts it off is tried
            // again.
            let _ = lie(&identity, coordinators[round as usize % coordinators.len()], round).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    });
    unreachable!("it lies until it is killed: {lies:?}")
}

async fn lie(identity: &Identity, address: SocketAddr, round: u64) -> std::io::Result<()> {
    let mut stream = connect_as_agent(identity, address).await?;
    let mut bytes = Vec::new();
    for sequence in 1..=50 {
        frame(&report(round, sequence), &mut bytes).expect("it is short");
    }
    match round / 2 % 4 {
        // Well-formed lies, and then it goes on listening.
        0 | 1 => {}
        // A frame that is none.
        2 => bytes.extend([0x05, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff]),
        // One that is announced and never comes.
        _ => bytes.extend((1u32 << 20).to_le_bytes()),
    }
    stream.write_all(&bytes).await?;
    stream.flush().await?;
    let mut heard = [0; 4096];
    let listen = async { while stream.read(&mut heard).await.is_ok_and(|length| length > 0) {} };
    let _ = tokio::time::timeout(Duration::from_millis(300), listen).await;
    Ok(())
}

/// Returns a report that lies about everything that a report can lie about.
fn report(round: u64, sequence: u64) -> Report {
    let now = Clock::default().now().0;
    let switch = KillSwitch { term: u64::MAX, throw: sequence, is_on: sequence.is_multiple_of(2) };
    let standing = Standing { term: u64::MAX, switch: Some(switch), drains: Vec::new() }.to_bytes();
    // Old, so that it would go before all others; and others' numbers, which are near the present
    // time.
    let serial = if sequence.is_multiple_of(3) { sequence } else { now - sequence };
    let key = CoflowKey::new(serial, &[]);
    let entry = CoflowEntry { key, facts: None, sent: Bytes(1 << 42), owner: 0 };
    let flow = |to| FlowEntry { coflow: 0, to: PortId(to), size: None, sent: Bytes::ZERO, idle: false };
    Report {
        protocol: PROTOCOL,
        // Of its own port mostly, sometimes of another's.
        port: PortId(if sequence == 40 { 0 } else { ROGUE }),
        session: now + round,
        sequence,
        clock: Instant(if sequence.is_multiple_of(5) { u64::MAX } else { now }),
        snapshot: true,
        resync: true,
        standing: Sealed::new(standing),
        up: BitsPerSec(u64::MAX),
        down: BitsPerSec(1),
        // Bytes of others that it claims to have received, and users that it lets into coflows of
        // others.
        arrived: (0..ROGUE).map(|from| (from, Bytes(1 << 40))).collect(),
        coflows: [(0, entry)].into_iter().collect(),
        grants: [(0, vec![0, 1_000])].into_iter().collect(),
        flows: (0..ROGUE).map(|to| (to, flow(to))).collect(),
        progress: Default::default(),
        closed: Default::default(),
        left: Default::default(),
    }
}
