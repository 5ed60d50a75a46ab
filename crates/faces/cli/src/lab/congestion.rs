//! The congestion control of a policy's connections under the kernel path, and the ports that it
//! needs.
//!
//! A paper that proposes a transport beside its policy is run with that, where the kernel path has
//! it: which transport it is stands with the policy, and from what ports mark and how much they
//! hold stands with the transport, as for the packet engine.

use cavalcade::transport::{self, Configured, Definition, Visitor};
use cavalcade_enforce::Law;
use cavalcade_lab::{Congestion, Marking};
use cavalcade_model::{BitsPerSec, Bytes};

use crate::failure::Failure;

/// The word for none.
const NONE: &str = "none";
/// What can be set of a transport: the rest is fixed in the kernel's laws.
const SETTINGS: [&str; 3] = ["marking", "buffer", "largest"];

/// The transport whose law windows follow.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Windows(Configured);

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked {
    /// What each policy's paper proposes.
    AsPublished,
    /// None: connections keep Reno.
    Nothing,
    /// One for all.
    One(Windows),
}

impl Asked {
    /// Reads a command line's word.
    ///
    /// # Errors
    /// If it is no transport that the kernel path has as a congestion control, or sets what cannot
    /// be set there.
    pub(crate) fn read(text: Option<&str>) -> Result<Self, Failure> {
        let Some(text) = text else { return Ok(Self::AsPublished) };
        if text == NONE {
            return Ok(Self::Nothing);
        }
        let refused = |why: String| {
            let example = "give one of them, perhaps with settings as dctcp:marking=30KB, or 'none'";
            Failure::usage(format!("--congestion {text}: {why}")).help(example)
        };
        let read = transport::parse(text).map_err(|error| refused(error.to_string()))?;
        let names = format!("the kernel path has {}", Law::names());
        let law: Law = read.name().parse().map_err(|_| refused(names))?;
        let own = transport::parse(law.name()).map_err(|error| refused(error.to_string()))?.params();
        let fixed =
            read.params().into_iter().find(|param| !own.contains(param) && !SETTINGS.contains(&param.0));
        match fixed {
            Some((name, _)) => {
                Err(refused(format!("{name} is fixed in the kernel; {} can be set", SETTINGS.join(", "))))
            }
            None => Ok(Self::One(Windows(read))),
        }
    }

    /// That of the policy with this name.
    pub(super) fn for_policy(&self, name: &str) -> Option<Windows> {
        match self {
            Self::Nothing => None,
            Self::One(windows) => Some(windows.clone()),
            Self::AsPublished => {
                let mut policies = cavalcade_policy::registry().iter();
                let own = policies.find(|info| info.name == name)?.paper?.transport?;
                own.name.parse::<Law>().ok()?;
                transport::parse(own.name).ok().map(Windows)
            }
        }
    }
}

impl Windows {
    /// The shortest text that names it.
    pub(super) fn label(&self) -> String {
        self.0.label()
    }

    /// What the lab is told; nothing where the kernel path has no such law.
    pub(super) fn congestion(&self) -> Option<Congestion> {
        struct Marks;
        impl Visitor for Marks {
            type Output = Option<Marking>;
            fn visit<T: Definition>(self, transport: &T) -> Option<Marking> {
                let needs = transport.needs();
                needs.marking.map(|at| Marking { at, buffer: needs.buffer })
            }
        }
        let law: Law = self.0.name().parse().ok()?;
        let largest = self.0.params().into_iter().find(|(name, _)| *name == "largest");
        let largest = largest.and_then(|(_, value)| value.parse().ok()).unwrap_or(Bytes(0));
        Some(Congestion { law, marking: self.0.visit(Marks)?, largest })
    }
}

/// The transport for the packet engine's prediction of a lab with ports of `rate`: that one, or
/// Reno, with the lab's timers.
///
/// # Errors
/// If it cannot be used so.
pub(super) fn for_prediction(windows: Option<&Windows>, rate: BitsPerSec) -> Result<Configured, Failure> {
    let Some(Windows(own)) = windows else {
        let buffer = cavalcade_lab::port_buffer(rate);
        return parsed(&format!("reno:minimum_rto=10ms,buffer={buffer}"));
    };
    let settings = own.params().into_iter().map(|(name, value)| {
        let value = match name {
            "minimum_rto" => "10ms".to_owned(),
            // The kernel has this form of MCP.
            "published" => "false".to_owned(),
            // TAFE's ports count tasks. Those of the lab do not: the coordinator does it for them.
            "thresholds" => "1000000000GB".to_owned(),
            _ => value,
        };
        format!("{name}={value}")
    });
    parsed(&format!("{}:{}", own.name(), settings.collect::<Vec<_>>().join(",")))
}

fn parsed(spec: &str) -> Result<Configured, Failure> {
    transport::parse(spec).map_err(|error| Failure::usage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_the_congestion_control_of_its_paper_where_the_kernel_path_has_it() {
        let of = |name| Asked::AsPublished.for_policy(name).map(|windows| windows.label());
        assert_eq!(
            ["pias", "karuna", "tafe"].map(of),
            ["dctcp", "mcp", "tafe"].map(|name| Some(name.to_owned()))
        );
        assert_eq!(["dcas", "aalo", "varys", "sff", "fifo-lm"].map(of), [const { None }; 5]);
        assert_eq!(Asked::read(Some("none")).unwrap().for_policy("pias"), None);
        let one = Asked::read(Some("dctcp:marking=30KB")).unwrap();
        assert_eq!(one.for_policy("aalo").unwrap().congestion().unwrap().marking.at, Bytes(30_000));
    }

    #[test]
    fn ports_mark_and_hold_what_the_packet_engines_transport_asks_for() {
        for law in Law::ALL {
            let transport = transport::parse(law.name()).unwrap();
            let windows = Windows(transport.clone());
            let told = windows.congestion().unwrap();
            let of = |name: &str| transport.params().into_iter().find(|param| param.0 == name).unwrap().1;
            assert_eq!(told.law, law);
            assert_eq!(
                (told.marking.at.to_string(), told.marking.buffer.to_string()),
                (of("marking"), of("buffer"))
            );
            let predicted = for_prediction(Some(&windows), BitsPerSec(200_000_000)).unwrap();
            assert_eq!(Windows(predicted).congestion(), Some(told));
        }
    }

    #[test]
    fn what_the_kernel_path_has_not_is_refused_with_what_it_has() {
        for (text, word) in [
            ("reno", "dctcp, d2tcp, tafe, mcp"),
            ("dctpc", "unknown transport"),
            ("dctcp:gain_divisor=8", "marking, buffer, largest"),
            ("dctcp:marking=400KB", "buffer"),
        ] {
            let message = format!("{:?}", Asked::read(Some(text)).unwrap_err());
            assert!(message.contains(word), "{message}");
        }
    }
}
