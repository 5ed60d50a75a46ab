//! What is needed to run a simulation again, bit for bit, and what came out.
//!
//! `manifest.json` names the trace by its content (SHA-256), so that another file of the same name is noticed, and every
//! parameter with its value, so that a default that changes later changes nothing. The digests of all results are in it
//! too: a replay needs no second copy of them to compare with.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use cavalcade_model::{BitsPerSec, FabricSpec, Nanos, Workload};
use cavalcade_spec::SpecError;
use cavalcade_trace::{Format, UnknownFormat};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::arguments::{AllocatorName, Conditions, CpuOrderName};
use crate::carriers::{Carrier, Wire};
use crate::fabric::argument::FabricArgument;
use crate::failure::Failure;
use crate::input::{STANDARD_INPUT, Source};

/// The name of the file.
pub(crate) const NAME: &str = "manifest.json";

/// The version of the layout of a run's folder.
const SCHEMA_VERSION: u32 = 1;

/// The content of `manifest.json`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    /// The version of the program that wrote it.
    pub(crate) cavalcade: String,
    pub(crate) trace: TraceRecord,
    pub(crate) conditions: ConditionsRecord,
    pub(crate) policy: PolicyRecord,
    /// The live control plane; absent where decisions held at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    control: Option<ControlRecord>,
    /// How packets were carried; absent where bytes flowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) packets: Option<PacketsRecord>,
    /// For each file of results, its SHA-256.
    pub(crate) results: BTreeMap<String, String>,
}

/// Which trace.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceRecord {
    /// Where it was, as it was named; '-' for standard input.
    pub(crate) path: PathBuf,
    /// Its format.
    pub(crate) format: String,
    /// The SHA-256 of its bytes.
    pub(crate) sha256: String,
}

impl TraceRecord {
    /// A record of what was read from `source` as `format`.
    pub(crate) fn new(path: &Path, source: &Source, format: Format) -> Self {
        Self { path: path.to_owned(), format: format.name().to_owned(), sha256: sha256(source.bytes()) }
    }

    /// Reads the trace again, from where it was or from `instead`. Messages call what holds this record `whole`, and the
    /// file in which it stands `place`.
    ///
    /// # Errors
    /// Where it is not there, is another one, or is not valid.
    pub(crate) fn read_again(
        &self,
        instead: Option<&Path>,
        whole: &str,
        place: &Path,
    ) -> Result<Workload, Failure> {
        if instead.is_none() && self.path == Path::new(STANDARD_INPUT) {
            return Err(Failure::input(format!("the {whole} read its trace from standard input"))
                .help("name a file with the same content by --trace FILE ('-' for standard input again)"));
        }
        let path = instead.unwrap_or(&self.path);
        let source = Source::open(path)?;
        if sha256(source.bytes()) != self.sha256 {
            let message = format!("{} is not the trace of this {whole}: its SHA-256 differs", path.display());
            return Err(Failure::input(message).help("name the right one by --trace FILE"));
        }
        let format = self
            .format
            .parse()
            .map_err(|error: UnknownFormat| Failure::input(format!("{}: {error}", place.display())))?;
        let (workload, _) = source.parse(Some(format))?;
        Ok(workload)
    }
}

/// Under which conditions.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConditionsRecord {
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
    #[serde(default, skip_serializing_if = "is_usual")]
    cpu_order: CpuOrderName,
    #[serde(default, skip_serializing_if = "is_usual")]
    allocator: AllocatorName,
}

/// Conditions that came later than the first manifests are left out where they are what they always were.
const fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn is_one(counters: &NonZeroU32) -> bool {
    *counters == one()
}

fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Which policy.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyRecord {
    /// The policy with all its parameters, as `--policy` takes it.
    pub(crate) spec: String,
    /// Its name.
    pub(crate) name: String,
    /// All its parameters.
    pub(crate) params: serde_json::Value,
}

/// The control plane between decisions and their effect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ControlRecord {
    period_ns: u64,
}

/// How packets were carried.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PacketsRecord {
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
    /// A manifest of this program, without results yet.
    pub(crate) fn new(
        trace: TraceRecord,
        conditions: &Conditions,
        policy: PolicyRecord,
        carrier: &Carrier,
    ) -> Self {
        let cavalcade = env!("CARGO_PKG_VERSION").to_owned();
        let results = BTreeMap::new();
        let conditions = conditions.into();
        let control = carrier.control().map(|control| ControlRecord { period_ns: control.period.get() });
        let packets = match carrier {
            Carrier::Fluid | Carrier::Controlled { .. } => None,
            Carrier::Packets { transport, wire: Wire { link_delay, mtu, headers, in_band }, .. } => {
                Some(PacketsRecord {
                    transport: transport.spec(),
                    link_delay_ns: link_delay.get(),
                    mtu: *mtu,
                    headers: *headers,
                    in_band: *in_band,
                })
            }
        };
        Self {
            schema_version: SCHEMA_VERSION,
            cavalcade,
            trace,
            conditions,
            policy,
            control,
            packets,
            results,
        }
    }

    /// Reads the manifest of a run's folder.
    ///
    /// # Errors
    /// Where there is none, or it is not one of this version.
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(NAME);
        let shown = path.display();
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Failure::input(format!("cannot read {shown}: {error}"))
                .help("name a folder that 'cavalcade simulate --out' wrote")
        })?;
        let cure = "make the run again with 'cavalcade simulate --out'";
        let manifest: Self = serde_json::from_str(&text)
            .map_err(|error| Failure::input(format!("{shown}: {error}")).help(cure))?;
        if manifest.schema_version != SCHEMA_VERSION {
            let found = manifest.schema_version;
            let message = format!("{shown}: schema_version is {found}, expected {SCHEMA_VERSION}");
            return Err(Failure::input(message).help(cure));
        }
        if let Some(Err(error)) = manifest.conditions.fabric.as_deref().map(str::parse::<FabricSpec>) {
            return Err(Failure::input(format!("{shown}: fabric: {error}")).help(cure));
        }
        Ok(manifest)
    }

    /// Whether the other run is of the same trace under the same conditions.
    pub(crate) fn has_setting_of(&self, other: &Self) -> bool {
        self.trace.sha256 == other.trace.sha256 && self.conditions == other.conditions
    }

    /// As text.
    pub(crate) fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a manifest has only text keys");
        text.push('\n');
        text
    }

    /// What carried the bytes.
    ///
    /// # Errors
    /// Where it names a transport that there is not.
    pub(crate) fn carrier(&self) -> Result<Carrier, SpecError> {
        if let Some(ControlRecord { period_ns }) = self.control {
            return Ok(Carrier::Controlled { period: Nanos(period_ns) });
        }
        let Some(PacketsRecord { transport, link_delay_ns, mtu, headers, in_band }) = &self.packets else {
            return Ok(Carrier::Fluid);
        };
        let transport = cavalcade_transport::parse(transport)?;
        let wire =
            Wire { link_delay: Nanos(*link_delay_ns), mtu: *mtu, headers: *headers, in_band: *in_band };
        Ok(Carrier::Packets { transport, is_named: true, wire })
    }

    /// The conditions that it records.
    pub(crate) fn conditions(&self) -> Conditions {
        let ConditionsRecord {
            rate_bps,
            offline,
            control_delay_ns,
            control_loss,
            seed,
            counters,
            cpu_order,
            allocator,
            ..
        } = self.conditions;
        Conditions {
            rate: Some(BitsPerSec(rate_bps)),
            fabric: self
                .conditions
                .fabric
                .as_deref()
                .and_then(|text| text.parse().ok())
                .map(FabricArgument::Text),
            offline,
            control_delay: Nanos(control_delay_ns),
            control_loss,
            seed,
            counters,
            cpu_order,
            allocator,
        }
    }
}

impl From<&Conditions> for ConditionsRecord {
    fn from(conditions: &Conditions) -> Self {
        let &Conditions {
            ref fabric,
            offline,
            control_delay,
            control_loss,
            seed,
            counters,
            cpu_order,
            allocator,
            ..
        } = conditions;
        let fabric = fabric.as_ref().map(ToString::to_string);
        Self {
            rate_bps: conditions.rate().get(),
            fabric,
            offline,
            control_delay_ns: control_delay.get(),
            control_loss,
            seed,
            counters,
            cpu_order,
            allocator,
        }
    }
}

/// The SHA-256 of `bytes`, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_standard() {
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), digest);
    }
}
