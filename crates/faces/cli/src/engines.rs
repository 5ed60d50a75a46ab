//! The engines that a command line asks for.

use cavalcade::spec::list;
use cavalcade::{Engine, Packets, Transport};

use crate::arguments::{EngineName, EngineOptions};
use crate::failure::Failure;

/// The transport if none is named.
const DEFAULT: &str = "dctcp";

/// The engines that the command line asks for, in the order given.
///
/// # Errors
/// If a transport is unknown, or one is named for the fluid engine.
pub(crate) fn selected(options: &EngineOptions) -> Result<Vec<Engine>, Failure> {
    if let (Some(transports), false) = (&options.transport, options.engine.contains(&EngineName::Packet)) {
        let problem = format!("--transport {transports}: the fluid engine has no packets to send");
        return Err(Failure::usage(problem).help("add --engine packet"));
    }
    idle_options(options)?;
    let mut engines = Vec::new();
    for name in &options.engine {
        let named = match name {
            EngineName::Fluid => vec![Engine::Fluid],
            EngineName::Control => vec![Engine::Control { period: options.period }],
            EngineName::Packet => packets(options)?,
        };
        for engine in named {
            if !engines.contains(&engine) {
                engines.push(engine);
            }
        }
    }
    Ok(engines)
}

/// Refuses options that no engine of the command line looks at.
fn idle_options(options: &EngineOptions) -> Result<(), Failure> {
    let usual = EngineOptions::default();
    let given = [
        ("period", options.period != usual.period, EngineName::Control, "control"),
        ("link-delay", options.link_delay != usual.link_delay, EngineName::Packet, "packet"),
        ("mtu", options.mtu != usual.mtu, EngineName::Packet, "packet"),
        ("headers", options.headers != usual.headers, EngineName::Packet, "packet"),
        ("in-band", options.in_band, EngineName::Packet, "packet"),
    ];
    match given.iter().find(|(_, is_set, engine, _)| *is_set && !options.engine.contains(engine)) {
        Some((option, .., engine)) => {
            let problem = format!("--{option} is for the {engine} engine, which is not asked for");
            Err(Failure::usage(problem).help(format!("leave it out, or add --engine {engine}")))
        }
        None => Ok(()),
    }
}

fn packets(options: &EngineOptions) -> Result<Vec<Engine>, Failure> {
    let EngineOptions { link_delay, mtu, headers, in_band, .. } = *options;
    if headers == 0 || headers >= mtu {
        return Err(Failure::usage(format!(
            "--mtu {mtu}B --headers {headers}B: expected 1 B <= headers < mtu"
        )));
    }
    let over = |transport| Engine::Packet(Packets { transport, link_delay, mtu, headers, in_band });
    let named = list(options.transport.as_deref().unwrap_or(DEFAULT));
    named.iter().map(|spec| transport(spec).map(over)).collect()
}

/// Reads one transport.
fn transport(spec: &str) -> Result<Transport, Failure> {
    let read = cavalcade::transport::parse(spec);
    read.map(|transport| Transport::from(&transport))
        .map_err(|error| Failure::usage(format!("--transport {spec}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::Nanos;

    #[test]
    fn an_option_of_an_engine_that_does_not_run_is_refused() {
        let fluid = EngineOptions::default;
        for options in [
            EngineOptions { period: Nanos(1), ..fluid() },
            EngineOptions { link_delay: Nanos(1), ..fluid() },
            EngineOptions { mtu: 9_000, engine: vec![EngineName::Control], ..fluid() },
            EngineOptions { headers: 20, ..fluid() },
            EngineOptions { in_band: true, ..fluid() },
        ] {
            assert!(selected(&options).is_err(), "{options:?}");
        }
        let engine = vec![EngineName::Control, EngineName::Packet];
        let options = EngineOptions { period: Nanos(1), mtu: 9_000, engine, ..fluid() };
        assert_eq!(selected(&options).unwrap().len(), 2);
    }

    #[test]
    fn a_transport_is_named_for_packets_only() {
        let transport = Some("dctcp".to_owned());
        let options = EngineOptions { transport, ..EngineOptions::default() };
        assert!(selected(&options).is_err());
        let options = EngineOptions { engine: vec![EngineName::Packet, EngineName::Packet], ..options };
        assert_eq!(selected(&options).unwrap().len(), 1);
        assert_eq!(selected(&EngineOptions::default()).unwrap(), [Engine::Fluid]);
        let options = EngineOptions {
            engine: vec![EngineName::Fluid, EngineName::Control],
            ..EngineOptions::default()
        };
        let names: Vec<_> = selected(&options).unwrap().iter().map(Engine::name).collect();
        assert_eq!(names, [None, Some("control".to_owned())]);
    }
}
