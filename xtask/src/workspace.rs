//! What `cargo metadata` says of this checkout.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::steps::{Failure, Run};

/// The checkout: where it is, where builds go, and its packages.
pub(crate) struct Workspace {
    /// The folder of the workspace's manifest.
    pub(crate) root: PathBuf,
    /// The folder in which cargo builds.
    pub(crate) target: PathBuf,
    /// The packages of the workspace.
    pub(crate) packages: Vec<Package>,
    /// True if cargo may not use the network.
    is_offline: bool,
}

/// One package of the workspace.
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// The folder of its manifest.
    pub(crate) folder: PathBuf,
    /// Names of what it depends on to build or run; dependencies of tests alone are left out.
    pub(crate) dependencies: Vec<String>,
}

impl Workspace {
    /// Asks cargo about the workspace that this program was built from.
    pub(crate) fn load() -> Result<Self, Failure> {
        let output = Command::new(cargo())
            .args(["metadata", "--format-version", "1", "--no-deps"])
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
            .output()?;
        if !output.status.success() {
            return Err(Failure::new(String::from_utf8_lossy(&output.stderr)));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| Failure::new(format!("cargo metadata: {error}")))?;
        Self::from_metadata(&metadata).ok_or_else(|| Failure::new("cargo metadata has an unknown shape"))
    }

    fn from_metadata(metadata: &Value) -> Option<Self> {
        Some(Self {
            root: metadata["workspace_root"].as_str()?.into(),
            target: metadata["target_directory"].as_str()?.into(),
            packages: metadata["packages"]
                .as_array()?
                .iter()
                .map(Package::from_metadata)
                .collect::<Option<_>>()?,
            is_offline: false,
        })
    }

    /// From now on cargo may not use the network.
    pub(crate) fn go_offline(&mut self) {
        self.is_offline = true;
    }

    /// A cargo command in the root of the checkout.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Run {
        let mut command = Command::new(cargo());
        command.args(arguments).current_dir(&self.root);
        let run = Run::new(command);
        if self.is_offline { run.env("CARGO_NET_OFFLINE", "true") } else { run }
    }

    /// The text of a file of the checkout.
    pub(crate) fn read(&self, path: &str) -> Result<String, Failure> {
        std::fs::read_to_string(self.root.join(path))
            .map_err(|error| Failure::new(format!("{path}: {error}")))
    }
}

impl Package {
    fn from_metadata(package: &Value) -> Option<Self> {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        let dependencies = package["dependencies"].as_array()?.iter();
        Some(Self {
            name: package["name"].as_str()?.to_owned(),
            folder: manifest.parent()?.to_owned(),
            dependencies: dependencies
                .filter(|dependency| dependency["kind"] != "dev")
                .map(|dependency| dependency["name"].as_str().map(str::to_owned))
                .collect::<Option<_>>()?,
        })
    }
}

/// The cargo that runs us, so that a toolchain chosen for the outer call holds for the inner ones.
fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_tests_are_left_out() {
        let package = serde_json::json!({
            "name": "cavalcade-policy",
            "manifest_path": "/somewhere/policy/Cargo.toml",
            "dependencies": [
                { "name": "cavalcade-model", "kind": null },
                { "name": "cc", "kind": "build" },
                { "name": "proptest", "kind": "dev" },
            ],
        });
        let package = Package::from_metadata(&package).unwrap();
        assert_eq!(package.dependencies, ["cavalcade-model", "cc"]);
        assert_eq!(package.folder, Path::new("/somewhere/policy"));
    }
}
