//! `cavalcade spc-proxy`: SPC for programs that speak TCP.

use std::net::TcpListener;

use cavalcade_model::Nanos;
use cavalcade_spc::counters::AgentCounter;
use cavalcade_spc::proxy::{self, TaskRule};
use cavalcade_spc::{Endpoint, IdSource, Options, Settings, TaskCounter};

use crate::arguments::{SpcProxyOptions, TaskOf};
use crate::failure::{Failure, Kind};
use crate::live::{counters_path, socket_path};
use crate::output::tell;

/// The time after which a silent proxy at the other end is given up: clients of TCP are to be told,
/// and try elsewhere.
const PATIENCE: Nanos = Nanos::from_secs(10);

/// Runs the command until an interrupt.
///
/// # Errors
/// If an address cannot be had.
pub(crate) fn run(options: &SpcProxyOptions) -> Result<(), Failure> {
    let (line_rate, base_rtt) = (options.rate, options.round_trip);
    let settings = Settings { line_rate, base_rtt, patience: PATIENCE, ..Settings::default() };
    let spc = Options { settings, ..Options::default() };
    let complain = |error: &std::io::Error| tell(&format!("a connection was not carried: {error}"));
    let cannot = |what: &str| {
        let what = format!("cannot {what}");
        move |error: std::io::Error| Failure::new(Kind::Runtime, format!("{what}: {error}"))
    };
    if let Some(address) = options.from_spc {
        let endpoint =
            Endpoint::bind(address, spc).map_err(cannot(&format!("listen for SPC on {address}")))?;
        tell(&format!("SPC on {address} goes to TCP at {}; Ctrl-C stops it", options.to));
        return proxy::carry_spc(&endpoint.listen(), options.to, complain)
            .map_err(cannot("accept SPC streams"));
    }
    let Some(address) = options.from_tcp else {
        return Err(Failure::usage("the proxy has nothing to accept").help("give --from-tcp or --from-spc"));
    };
    let listener = TcpListener::bind(address).map_err(cannot(&format!("listen for TCP on {address}")))?;
    let any: std::net::IpAddr = match options.to {
        std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let endpoint = Endpoint::bind((any, 0), spc).map_err(cannot("open an SPC endpoint"))?;
    let (first, step) = (options.first_task, options.task_step);
    let tasks: Box<dyn IdSource> = match &options.counter {
        Some(name) => {
            let agent = counters_path(&socket_path(options.socket.as_deref()));
            Box::new(AgentCounter::new(agent, name))
        }
        None if options.background => Box::new(TaskCounter::background(first, step)),
        None => Box::new(TaskCounter::new(first, step)),
    };
    let rule = match options.task_of {
        TaskOf::Connection => TaskRule::Connection,
        TaskOf::Port => TaskRule::Port,
        TaskOf::Burst => TaskRule::Burst,
        TaskOf::Opaque => TaskRule::Opaque,
    };
    tell(&format!("TCP on {address} goes to SPC at {}; Ctrl-C stops it", options.to));
    proxy::carry_tcp(&listener, &endpoint, options.to, rule, tasks, complain)
        .map_err(cannot("accept TCP connections"))
}
