//! Where an enforcer works: a control group, and a name for what it leaves in the kernel.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::groups::{Hierarchy, numbers_from};
use crate::pins::Pins;

/// The name of the host's place, and with a group's number behind it that of a place below.
const NAME: &str = "cavalcade";

/// A place at which programs are attached and pinned. Enforcers at several places work side by side.
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

    /// The places that have pins though their control group has gone: no enforcer comes back to those and cleans up.
    ///
    /// # Errors
    /// If there are no control groups of version 2.
    pub fn without_group() -> Result<Vec<Self>, Error> {
        let root = Hierarchy::find()?.root;
        let numbers = numbers_from(&root);
        let number = |name: &str| name.strip_prefix(NAME)?.strip_prefix('-')?.parse().ok();
        let gone =
            Pins::folders().filter(|name| number(name).is_some_and(|number| !numbers.contains(&number)));
        Ok(gone.map(|name| Self { above: root.join(&name), name }).collect())
    }
}
