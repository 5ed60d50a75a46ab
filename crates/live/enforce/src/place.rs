//! Where an enforcer works: a control group, and a name for what it leaves in the kernel.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::groups::{Hierarchy, by_number};
use crate::pins::Pins;

/// The name of the host's place, and with a group's number behind it that of a place below.
const NAME: &str = "cavalcade";

/// A place at which programs are attached and pinned. Enforcers at several places work side by
/// side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The control group whose sockets, and those of groups below it, can be tagged.
    pub above: PathBuf,
    /// The name of the folder of pins, and of groups of coflows with their number behind it.
    pub name: String,
}

impl Place {
    /// The place of the host's enforcer: all sockets can be tagged.
    ///
    /// # Errors
    /// If there are no control groups of version 2.
    pub fn of_host() -> Result<Self, Error> {
        Ok(Self { above: Hierarchy::find()?.root, name: NAME.to_owned() })
    }

    /// A place below the host's: only sockets of processes in this control group can be tagged.
    ///
    /// # Errors
    /// If there is no such group.
    pub fn below(group: &Path) -> Result<Self, Error> {
        let number = fs::metadata(group).map_err(Error::file("find the control group", group))?.ino();
        Ok(Self { above: group.to_owned(), name: format!("{NAME}-{number}") })
    }

    /// The places below the host's that have pins: those whose control group has gone, to which no
    /// enforcer comes back and cleans up, and the others.
    ///
    /// # Errors
    /// If there are no control groups of version 2.
    pub fn pinned() -> Result<(Vec<Self>, Vec<Self>), Error> {
        let root = Hierarchy::find()?.root;
        let groups = by_number(&root);
        let number = |name: &str| name.strip_prefix(NAME)?.strip_prefix('-')?.parse::<u64>().ok();
        let places = Pins::folders().filter_map(|name| {
            let above = groups.get(&number(&name)?).cloned().unwrap_or_else(|| root.join(&name));
            Some(Self { above, name })
        });
        Ok(places.partition(|place| !place.above.exists()))
    }
}
