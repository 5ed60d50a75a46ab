//! A fabric as it is named on the command line: a line of text, or a file.
//!
//! The file is TOML, since people write it by hand and say why beside it:
//!
//! ```toml
//! # What --fabric takes as text.
//! fabric = "tree:pods=2,racks=4,hosts=8,oversubscription=2,rate=10Gbps"
//!
//! # Links that are not like the others, by the names that 'cavalcade fabric info --links' gives them.
//! [[link]]
//! name = "rack 2 to pod 0"
//! rate = "5Gbps"
//! delay = "10us"
//!
//! [[link]]
//! name = "pod 1 to rack 6"
//! failed = true
//! ```
//!
//! A file is read where the command line is, and what it says is kept as text from then on: a
//! manifest needs no file to run again. What is wrong with a file is a fault of input (3), what is
//! wrong with text one of the command line (2).

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use cavalcade_model::{BitsPerSec, Exception, Fabric, FabricSpec, FabricSpecError, LinkException};
use serde::Deserialize;

use crate::failure::Failure;

/// A fabric, from text or a file.
#[derive(Clone, Debug)]
pub(crate) enum FabricArgument {
    /// A fabric given as text.
    Text(FabricSpec),
    /// The name of a file, and what it says or what is wrong with it.
    File(String, Result<FabricSpec, String>),
}

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FabricFile {
    fabric: String,
    #[serde(default)]
    link: Vec<LinkEntry>,
}

/// A link of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkEntry {
    name: String,
    rate: Option<String>,
    delay: Option<String>,
    #[serde(default)]
    failed: bool,
}

impl FromStr for FabricArgument {
    type Err = FabricSpecError;

    fn from_str(text: &str) -> Result<Self, FabricSpecError> {
        // The name of no shape ends so, and no part has a value that does.
        if Path::new(text).extension().is_some_and(|extension| extension == "toml") {
            let read = fs::read_to_string(text).map_err(|error| format!("cannot be read: {error}"));
            return Ok(Self::File(text.to_owned(), read.and_then(|content| parse(&content))));
        }
        text.parse().map(Self::Text)
    }
}

fn parse(content: &str) -> Result<FabricSpec, String> {
    let file: FabricFile = toml::from_str(content).map_err(|error| error.to_string())?;
    let mut spec: FabricSpec = file.fabric.parse().map_err(|error| format!("fabric: {error}"))?;
    for LinkEntry { name, rate, delay, failed } in file.link {
        let bad = |key: &str, value: &str, error: &dyn fmt::Display| {
            format!("link {name:?}: {key} = {value:?}: {error}")
        };
        let mut own = Vec::new();
        if let Some(rate) = &rate {
            own.push(Exception::Rate(rate.parse().map_err(|error| bad("rate", rate, &error))?));
        }
        if let Some(delay) = &delay {
            own.push(Exception::Delay(delay.parse().map_err(|error| bad("delay", delay, &error))?));
        }
        if failed {
            own.push(Exception::Failed);
        }
        if own.is_empty() {
            return Err(format!("link {name:?} has nothing of its own: give rate, delay or failed = true"));
        }
        spec.exceptions.extend(own.into_iter().map(|what| LinkException { link: name.clone(), what }));
    }
    Ok(spec)
}

impl FabricArgument {
    /// The fabric, with ports of `rate` unless it has a rate of its own.
    ///
    /// # Errors
    /// If there can be no such fabric, or the file is not valid.
    pub(crate) fn build(&self, rate: BitsPerSec) -> Result<Fabric, Failure> {
        let spec = self.checked(rate)?;
        spec.build(rate).map_err(|error| Failure::usage(error.to_string()))
    }

    /// The specification of a fabric that can be built.
    ///
    /// # Errors
    /// As [`FabricArgument::build`].
    pub(crate) fn checked(&self, rate: BitsPerSec) -> Result<FabricSpec, Failure> {
        match self {
            Self::Text(spec) => match spec.build(rate) {
                Ok(_) => Ok(spec.clone()),
                Err(error) => Err(Failure::usage(format!("--fabric {spec}: {error}"))),
            },
            Self::File(name, read) => {
                let cure = "'cavalcade fabric info' says what a file builds";
                let wrong = |error: &dyn fmt::Display| Failure::input(format!("{name}: {error}")).help(cure);
                let spec = read.as_ref().map_err(|error| wrong(error))?;
                spec.build(rate).map_err(|error| wrong(&error))?;
                Ok(spec.clone())
            }
        }
    }
}

impl fmt::Display for FabricArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(spec) | Self::File(_, Ok(spec)) => spec.fmt(f),
            Self::File(name, Err(_)) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_text_says() {
        let content = "fabric = \"tree:pods=1,racks=2,hosts=2\"\n[[link]]\nname = \"rack 1 to pod 0\"\n\
                       rate = \"5Mbps\"\ndelay = \"1us\"\n[[link]]\nname = \"ingress of port 1\"\nfailed = true\n";
        let text = "tree:pods=1,racks=2,hosts=2;rack 1 to pod 0 rate=5Mbps;rack 1 to pod 0 delay=1us;\
                    ingress of port 1 failed";
        assert_eq!(parse(content).unwrap(), text.parse().unwrap());
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named() {
        let wrong = |content: &str| parse(content).unwrap_err();
        assert!(wrong("fabric = 3").contains("line 1"));
        assert!(wrong("fabric = \"ring:ports=3\"").contains("known are bigswitch"));
        let link = |rest: &str| {
            wrong(&format!("fabric = \"bigswitch:ports=2\"\n[[link]]\nname = \"egress of port 0\"\n{rest}"))
        };
        assert!(link("").contains("nothing of its own"));
        assert!(link("rate = \"much\"").contains("rate = \"much\""));
        assert!(link("speed = \"1Gbps\"").contains("unknown field"));
    }
}
