//! The manifest: what a simulation needs to be run again, bit for bit, and the digests of its
//! results.
//!
//! `manifest.json` names the trace by its content (SHA-256), so that another file of the same name
//! is noticed, and every parameter with its value, so that a default that changes later changes
//! nothing. The digests of all results are in it too: a replay needs no second copy of them to
//! compare with.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use cavalcade_harness::CpuOrder;
use cavalcade_model::{BitsPerSec, FabricSpec, Nanos, Workload};
use cavalcade_sim_fluid::Allocator;
use cavalcade_spec::SpecError;
use cavalcade_trace::Format;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::engine::{Engine, Packets, Transport};
use crate::error::Error;
use crate::order::Order;
use crate::policies::Policy;
use crate::scenario::{Conditions, Scenario};
use crate::source::{STANDARD_INPUT, Source};

/// The name of the file.
pub const NAME: &str = "manifest.json";

/// The version of the layout of a run's folder.
const SCHEMA_VERSION: u32 = 1;

/// The content of `manifest.json`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    schema_version: u32,
    /// The version of the program that wrote it.
    pub cavalcade: String,
    /// The trace.
    pub trace: TraceRecord,
    conditions: ConditionsRecord,
    /// The policy; absent where the order was left to the transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<PolicyRecord>,
    /// The live control plane; absent where decisions held at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    control: Option<ControlRecord>,
    /// The packets; absent where bytes flowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    packets: Option<PacketsRecord>,
    /// For each file of results, its SHA-256.
    pub results: BTreeMap<String, String>,
}

/// The trace of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRecord {
    /// Its path, as it was named; '-' for standard input.
    #[serde(with = "path_text")]
    pub path: PathBuf,
    /// The paths of further logs that were read with it as one cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    more: Vec<PathText>,
    /// Its format.
    pub format: String,
    /// The SHA-256 of its bytes.
    pub sha256: String,
}

/// A path in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
struct PathText(#[serde(with = "path_text")] PathBuf);

impl TraceRecord {
    /// A record of what was read from `source` as `format`.
    ///
    /// # Errors
    /// If it has not been read, and cannot be.
    pub fn new(source: &Source, format: Format) -> Result<Self, Error> {
        let mut paths = source.paths().iter().cloned();
        let path = paths.next().unwrap_or_default();
        let more = paths.map(PathText).collect();
        Ok(Self { path, more, format: format.name().to_owned(), sha256: source.sha256()? })
    }

    /// A record of one file with these bytes, in the native format.
    pub fn of_file(path: PathBuf, bytes: &[u8]) -> Self {
        let sha256 = sha256(bytes);
        Self { path, more: Vec::new(), format: Format::NATIVE.name().to_owned(), sha256 }
    }

    /// Reads the trace again, from where it was or from `instead`. Messages call what holds this
    /// record `whole`, and the file in which it stands `place`.
    ///
    /// # Errors
    /// If it is not there, is another one, or is not valid.
    pub fn read_again(&self, instead: Option<&Path>, whole: &str, place: &Path) -> Result<Workload, Error> {
        if instead.is_none() && self.path == Path::new(STANDARD_INPUT) {
            return Err(Error::input(format!("the {whole} read its trace from standard input"))
                .help("name a file with the same content, or '-' for standard input again,")
                .with_option("trace", "FILE"));
        }
        let path = instead.unwrap_or(&self.path);
        let source = match instead {
            Some(path) => Source::open(path)?,
            None => {
                let more = self.more.iter().map(|PathText(path)| path.clone());
                Source::open_all(&[self.path.clone()].into_iter().chain(more).collect::<Vec<_>>())?
            }
        };
        let check = |source: &Source| {
            if source.sha256()? == self.sha256 {
                return Ok(());
            }
            let message = format!("{} is not the trace of this {whole}: its SHA-256 differs", source.name());
            Err(Error::input(message).help("name the right one").with_option("trace", "FILE"))
        };
        let format = self
            .format
            .parse()
            .map_err(|error: SpecError| Error::input(format!("{}: {error}", place.display())))?;
        // Another trace is told as such before it is told what is wrong with it. Standard input can
        // be read only once.
        if path != Path::new(STANDARD_INPUT) {
            check(&source)?;
        }
        let workload = source.read(Some(format))?.workload;
        check(&source)?;
        Ok(workload)
    }
}

/// A path as text: as it is where it is UTF-8, else its bytes in hexadecimal behind a mark, so that
/// any file can be named.
mod path_text {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer, de};

    const MARK: &str = "bytes:";

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) if !text.starts_with(MARK) => to.serialize_str(text),
            _ => {
                let bytes = super::hexadecimal(path.as_os_str().as_bytes());
                to.serialize_str(&format!("{MARK}{bytes}"))
            }
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(from)?;
        let Some(digits) = text.strip_prefix(MARK) else { return Ok(text.into()) };
        let byte = |pair: &[u8]| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        };
        let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
        let bytes =
            bytes.ok_or_else(|| de::Error::custom("a path that is no text: expected hexadecimal digits"))?;
        Ok(OsString::from_vec(bytes).into())
    }
}

/// Under which conditions.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConditionsRecord {
    rate_bps: u64,
    /// The fabric as `--fabric` takes it; absent for a big switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fabric: Option<String>,
    offline: bool,
    control_delay_ns: u64,
    control_loss: f64,
    seed: u64,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    counters: NonZeroU32,
    #[serde(default, skip_serializing_if = "is_usual", with = "crate::words")]
    cpu_order: CpuOrder,
    #[serde(default, skip_serializing_if = "is_usual", with = "crate::words")]
    allocator: Allocator,
}

/// Conditions that came later than the first manifests are left out where they are what they always
/// were.
const fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn is_one(counters: &NonZeroU32) -> bool {
    *counters == one()
}

fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The policy of a run.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyRecord {
    /// The policy with all its parameters, as `--policy` takes it.
    spec: String,
    /// Its name.
    name: String,
    /// All its parameters.
    params: serde_json::Value,
    /// Of an order of a file: the numbers of the coflows that it lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<Vec<u32>>,
}

impl PolicyRecord {
    /// Returns all that is needed to make `policy` again over `workload`.
    ///
    /// # Errors
    /// If it is one of a caller's own, as its text could not make it again; or an order of a file,
    /// and not one of these coflows.
    fn of(policy: &Policy, workload: &Workload) -> Result<Self, Error> {
        let order = policy.listed(workload)?;
        let spec = match &order {
            Some(_) => policy.label().to_owned(),
            None => match policy.registered() {
                Some(registered) => registered.spec(),
                None => {
                    return Err(Error::usage(
                        "a run under a policy of one's own cannot be made again from a folder",
                    )
                    .place(policy.name().to_owned())
                    .help("keep its tables instead (cavalcade::tables)"));
                }
            },
        };
        let params = policy.params().iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        Ok(Self {
            spec,
            name: policy.name().to_owned(),
            params: params.collect::<serde_json::Map<_, _>>().into(),
            order: order.map(|coflows| coflows.into_iter().map(|coflow| coflow.0).collect()),
        })
    }

    /// Makes the policy again.
    fn policy(&self, workload: &Workload) -> Result<Policy, Error> {
        let made = match (&self.order, self.spec.split_once(':')) {
            (Some(coflows), Some((_, settings))) => Policy::of_order(Order::kept(settings, coflows.clone())?),
            _ => cavalcade_policy::parse(&self.spec)?.into(),
        };
        if Self::of(&made, workload)? == *self {
            return Ok(made);
        }
        Err(Error::input("the policy's parameters are not those of this version of the program"))
    }
}

/// The control plane between decisions and their effect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ControlRecord {
    period_ns: u64,
}

/// The packets of a run.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PacketsRecord {
    /// The transport with all its parameters, as `--transport` takes it.
    transport: String,
    link_delay_ns: u64,
    #[serde(default = "ethernet", skip_serializing_if = "is_ethernet")]
    mtu: u16,
    #[serde(default = "tcp_ip", skip_serializing_if = "is_tcp_ip")]
    headers: u16,
    #[serde(default, skip_serializing_if = "is_out_of_band")]
    in_band: bool,
}

/// The packets of the first manifests that knew packets.
const fn ethernet() -> u16 {
    1_500
}

fn is_ethernet(mtu: &u16) -> bool {
    *mtu == ethernet()
}

fn is_out_of_band(in_band: &bool) -> bool {
    !in_band
}

const fn tcp_ip() -> u16 {
    40
}

fn is_tcp_ip(headers: &u16) -> bool {
    *headers == tcp_ip()
}

impl Manifest {
    /// A manifest of this version, without results yet.
    ///
    /// # Errors
    /// If the policy is one of a caller's own, as its text could not make it again; or an order of
    /// a file, and not one of these coflows.
    pub fn new(trace: TraceRecord, scenario: &Scenario) -> Result<Self, Error> {
        let policy = scenario.policy().map(|policy| PolicyRecord::of(policy, scenario.workload()));
        let packets = match scenario.engine() {
            Engine::Fluid | Engine::Control { .. } => None,
            Engine::Packet(Packets { transport, link_delay, mtu, headers, in_band }) => Some(PacketsRecord {
                transport: transport.spec().to_owned(),
                link_delay_ns: link_delay.get(),
                mtu: *mtu,
                headers: *headers,
                in_band: *in_band,
            }),
        };
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            cavalcade: env!("CARGO_PKG_VERSION").to_owned(),
            trace,
            conditions: scenario.conditions().into(),
            policy: policy.transpose()?,
            control: scenario
                .engine()
                .control()
                .map(|control| ControlRecord { period_ns: control.period.get() }),
            packets,
            results: BTreeMap::new(),
        })
    }

    /// Reads the manifest of a run's folder.
    ///
    /// # Errors
    /// If it does not exist, or is not of this version.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(NAME);
        let shown = path.display();
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Error::input(format!("cannot read {shown}: {error}"))
                .help("name a folder of a run that was kept, or one in 'runs' of a comparison that was")
        })?;
        let cure = "make the run again, and keep it";
        let manifest: Self = serde_json::from_str(&text)
            .map_err(|error| Error::input(format!("{shown}: {error}")).help(cure))?;
        if manifest.schema_version != SCHEMA_VERSION {
            let found = manifest.schema_version;
            let message = format!("{shown}: schema_version is {found}, expected {SCHEMA_VERSION}");
            return Err(Error::input(message).help(cure));
        }
        if let Some(Err(error)) = manifest.conditions.fabric.as_deref().map(str::parse::<FabricSpec>) {
            return Err(Error::input(format!("{shown}: fabric: {error}")).help(cure));
        }
        Ok(manifest)
    }

    /// Checks whether the other run is of the same trace under the same conditions.
    pub fn has_setting_of(&self, other: &Self) -> bool {
        self.trace.sha256 == other.trace.sha256 && self.conditions == other.conditions
    }

    /// Formats the manifest as text.
    pub fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a manifest has only text keys");
        text.push('\n');
        text
    }

    /// The policy, made again for the trace's workload; `None` where the order was left to the
    /// transport.
    ///
    /// # Errors
    /// If there is no such policy, its parameters are others now, or its order is of another
    /// workload.
    pub fn policy(&self, workload: &Workload) -> Result<Option<Policy>, Error> {
        self.policy.as_ref().map(|record| record.policy(workload)).transpose()
    }

    /// The engine.
    ///
    /// # Errors
    /// If it names an unknown transport.
    pub fn engine(&self) -> Result<Engine, SpecError> {
        if let Some(ControlRecord { period_ns }) = self.control {
            return Ok(Engine::Control { period: Nanos(period_ns) });
        }
        let Some(PacketsRecord { transport, link_delay_ns, mtu, headers, in_band }) = &self.packets else {
            return Ok(Engine::Fluid);
        };
        let transport = Transport::from(&cavalcade_transport::parse(transport)?);
        let (link_delay, mtu, headers, in_band) = (Nanos(*link_delay_ns), *mtu, *headers, *in_band);
        Ok(Engine::Packet(Packets { transport, link_delay, mtu, headers, in_band }))
    }

    /// The conditions.
    pub fn conditions(&self) -> Conditions {
        let record = &self.conditions;
        Conditions {
            rate: BitsPerSec(record.rate_bps),
            fabric: record.fabric.as_deref().and_then(|text| text.parse().ok()),
            offline: record.offline,
            control_delay: Nanos(record.control_delay_ns),
            control_loss: record.control_loss,
            seed: record.seed,
            counters: record.counters,
            cpu_order: record.cpu_order,
            allocator: record.allocator,
        }
    }
}

impl From<&Conditions> for ConditionsRecord {
    fn from(conditions: &Conditions) -> Self {
        Self {
            rate_bps: conditions.rate.get(),
            fabric: conditions.fabric.as_ref().map(ToString::to_string),
            offline: conditions.offline,
            control_delay_ns: conditions.control_delay.get(),
            control_loss: conditions.control_loss,
            seed: conditions.seed,
            counters: conditions.counters,
            cpu_order: conditions.cpu_order,
            allocator: conditions.allocator,
        }
    }
}

/// The SHA-256 of `bytes`, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Bytes as hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_no_text_is_read_back() {
        use std::os::unix::ffi::OsStringExt as _;
        for bytes in [&b"plain.txt"[..], b"caf\xe9.txt", b"bytes:x"] {
            let path = PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()));
            let record = TraceRecord::of_file(path, b"");
            let text = serde_json::to_string(&record).unwrap();
            assert_eq!(serde_json::from_str::<TraceRecord>(&text).unwrap(), record, "{text}");
        }
    }

    #[test]
    fn the_digest_is_that_of_the_standard() {
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), digest);
    }
}
