//! Text around specifications: names in registries, lists, and policies over transports.

use core::fmt;

use crate::error::{Kind, SpecError, hint};

/// Splits `spec` into its name and settings and finds the name among `known`, without regard to
/// case. Returns the place of the name and the settings.
///
/// # Errors
/// If the name is not among them; the message suggests the nearest.
pub fn find<'t>(kind: Kind, spec: &'t str, known: &[&str]) -> Result<(usize, &'t str), SpecError> {
    let (name, settings) = spec.split_once(':').unwrap_or((spec, ""));
    let name = name.trim();
    let place = known.iter().position(|known| known.eq_ignore_ascii_case(name));
    let unknown = || SpecError::UnknownName { kind, name: name.to_owned(), hint: hint(name, known) };
    place.map(|place| (place, settings)).ok_or_else(unknown)
}

/// Splits a list of specifications at commas: what has an `=` but no name belongs to the
/// specification before it.
///
/// ```
/// assert_eq!(cavalcade_spec::list("fair,dclas:queues=4,weighted=false, sebf"), [
///     "fair", "dclas:queues=4,weighted=false", "sebf"
/// ]);
/// ```
pub fn list(text: &str) -> Vec<String> {
    let mut specs: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let is_setting = part.split_once('=').is_some_and(|(key, _)| !key.contains([':', ' ']));
        match specs.last_mut() {
            Some(last) if is_setting => {
                let name = last.rsplit(' ').next().unwrap_or_default();
                last.push(if name.contains(':') { ',' } else { ':' });
                last.push_str(part);
            }
            _ => specs.push(part.to_owned()),
        }
    }
    specs
}

/// A policy over a transport, as text: `sebf`, `pias over dctcp`, or `over pfabric` for a transport
/// that orders packets itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried<'a> {
    /// The policy's specification.
    pub policy: Option<&'a str>,
    /// The transport's specification.
    pub transport: Option<&'a str>,
}

impl<'a> Carried<'a> {
    /// Reads `POLICY`, `POLICY over TRANSPORT` or `over TRANSPORT`.
    pub fn read(text: &'a str) -> Self {
        let text = text.trim();
        if let Some(transport) = text.strip_prefix("over ") {
            return Self { policy: None, transport: Some(transport.trim()) };
        }
        match text.split_once(" over ") {
            Some((policy, transport)) => {
                Self { policy: Some(policy.trim()), transport: Some(transport.trim()) }
            }
            None => Self { policy: Some(text), transport: None },
        }
    }
}

impl fmt::Display for Carried<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.policy, self.transport) {
            (Some(policy), Some(transport)) => write!(f, "{policy} over {transport}"),
            (Some(policy), None) => f.write_str(policy),
            (None, Some(transport)) => write!(f, "over {transport}"),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_belong_to_the_specification_before_them() {
        assert_eq!(list("dctcp,pfabric"), ["dctcp", "pfabric"]);
        let with = list("dctcp:marking=30KB,initial_window=16,reno:ack_every=2, pfabric");
        assert_eq!(with, ["dctcp:marking=30KB,initial_window=16", "reno:ack_every=2", "pfabric"]);
        let over = list("pias:queues=4,x=1 over dctcp,marking=30KB,ack_every=2,fair over reno");
        assert_eq!(over, ["pias:queues=4,x=1 over dctcp:marking=30KB,ack_every=2", "fair over reno"]);
        assert!(list(" , ").is_empty());
    }

    #[test]
    fn a_policy_over_a_transport_is_read_back() {
        for text in ["sebf", "pias:queues=4 over dctcp:marking=30KB", "over pfabric"] {
            assert_eq!(Carried::read(text).to_string(), text);
        }
        assert_eq!(Carried::read(" over pfabric").policy, None);
    }

    #[test]
    fn a_name_is_found_without_regard_to_case() {
        assert_eq!(find(Kind::Policy, "DCLAS:queues=4", &["fair", "dclas"]), Ok((1, "queues=4")));
        let error = find(Kind::Policy, "dclass", &["fair", "dclas"]).unwrap_err();
        assert_eq!(error.to_string(), "unknown policy \"dclass\": did you mean dclas?");
    }
}
