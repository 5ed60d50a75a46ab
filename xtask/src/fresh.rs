//! What a newcomer's machine does, without anything that this one has by accident.
//!
//! A step can lean on what an earlier, unrelated build left in the caches of its user; then it
//! passes where it was written and fails on the next machine. Two forms find that:
//!
//! - [`fetching`] is cheap and a part of `cargo xtask test`: empty homes for the steps that fetch.
//! - [`whole`] takes as long as a newcomer: a fresh clone, empty homes, a `PATH` with the toolchain
//!   and the base system only, and the README's commands one by one, with their times. Where it
//!   may, it runs them in a mount namespace in which the real home and the folder around the
//!   checkout are empty as well.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::steps::{Failure, Run};
use crate::workspace::Workspace;
use crate::{deny, fetch, readme};

/// The base system's programs.
const BASE: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Sections of cargo's own configuration that say how crates are reached.
const REACHING: &[&str] = &["source", "registries", "registry", "http", "net"];

/// A folder that is removed in the end, with empty homes in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("cavalcade-fresh-{}", std::process::id()));
        for name in ["home", "cargo", "toolchain"] {
            fs::create_dir_all(folder.join(name))?;
        }
        let own = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let own = own.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
        if let Some(text) = own.and_then(|home| fs::read_to_string(home.join("config.toml")).ok()) {
            fs::write(folder.join("cargo/config.toml"), reaching(&text))?;
        }
        Ok(Self(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// An environment that has what reaches the network and else only empty homes.
    fn environment(&self, run: Run, toolchain: &Path) -> Run {
        let path = format!("{}:{BASE}", toolchain.join("bin").display());
        let run = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| reaches_the_network(name))
            .fold(run.without_environment(), |run, (name, value)| run.env(&name, value));
        run.env("PATH", path).env("HOME", self.path("home")).env("CARGO_HOME", self.path("cargo"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

/// Fetches everything into empty homes and has cargo-deny, which reads of all steps the most, do
/// with that.
pub(crate) fn fetching(workspace: &Workspace, deny: &Path) -> Result<(), Failure> {
    let scratch = Scratch::new()?;
    let toolchain = toolchain()?;
    let empty = |run: Run| scratch.environment(run, &toolchain);
    for manifest in fetch::MANIFESTS {
        fetch::one(workspace, manifest, empty)?;
        let words = ["metadata", "--quiet", "--locked", "--offline", "--format-version", "1"];
        empty(workspace.cargo(&[&words[..], &["--manifest-path", manifest]].concat())).quietly()?;
    }
    deny::check(workspace, deny, empty)
}

/// Runs `commands`, by default those of the README that begin with `cargo`, as a newcomer would.
pub(crate) fn whole(workspace: &Workspace, commands: &[&str]) -> Result<(), Failure> {
    let scratch = Scratch::new()?;
    let clone = scratch.path("cavalcade");
    let mut git = Command::new("git");
    git.args(["clone", "--quiet", "--no-hardlinks"]).arg(&workspace.root).arg(&clone);
    Run::new(git).check()?;
    let text = workspace.read("README.md")?;
    let commands = match commands {
        [] => readme::commands(&text).into_iter().filter(|line| line.starts_with("cargo ")).collect(),
        given => given.to_vec(),
    };
    let toolchain = toolchain()?;
    let hides = fetch::runs("unshare", "--mount");
    if !hides {
        eprintln!("no mount namespace can be made here (that needs root on Linux): only the homes are empty");
    }
    let mut times = Vec::new();
    for command in commands {
        eprintln!("\n== {command}");
        let start = Instant::now();
        let run = if hides {
            let hidden = hidden(workspace, &scratch.0);
            scratch
                .environment(namespaced(command, &toolchain, &scratch, &hidden), &scratch.path("toolchain"))
        } else {
            let mut shell = Command::new("sh");
            shell.args(["-c", command]);
            scratch.environment(Run::new(shell), &toolchain)
        };
        let ended = run.in_folder(&clone).check();
        times.push(format!("{:>8.1} s  {command}", start.elapsed().as_secs_f64()));
        if ended.is_err() {
            println!("{}", times.join("\n"));
            return ended;
        }
    }
    println!("{}", times.join("\n"));
    Ok(())
}

/// `command` where the folders `hidden` are empty and the toolchain lies in the scratch folder.
fn namespaced(command: &str, toolchain: &Path, scratch: &Scratch, hidden: &[PathBuf]) -> Run {
    // The toolchain may lie below a hidden folder, so it is bound to its new place first.
    let script = "set -e; here=$PWD; mount --bind \"$1\" \"$2\"; command=$3; shift 3; \
                  for folder in \"$@\"; do mount -t tmpfs none \"$folder\"; done; \
                  cd \"$here\"; exec sh -c \"$command\"";
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", script, "sh"]).arg(toolchain).arg(scratch.path("toolchain"));
    unshare.arg(command).args(hidden);
    Run::new(unshare)
}

/// The real home and the folder around the checkout, where the scratch folder does not lie in them.
fn hidden(workspace: &Workspace, scratch: &Path) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let around = workspace.root.parent().map(Path::to_owned);
    let folders = home.into_iter().chain(around);
    folders.filter(|folder| folder.is_dir() && !scratch.starts_with(folder)).collect()
}

/// The toolchain's own folder: its programs need no rustup, and so nothing in the real home.
fn toolchain() -> Result<PathBuf, Failure> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output()?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if path.is_empty() { Err(Failure::new("rustc names no sysroot")) } else { Ok(path.into()) }
}

/// Returns whether an environment variable says how the network is reached.
fn reaches_the_network(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.ends_with("_proxy")
        || lower.starts_with("ssl_cert")
        || ["CARGO_HTTP_", "CARGO_NET_", "CARGO_SOURCE_", "CARGO_REGISTRIES_", "CARGO_REGISTRY_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// Those lines of a cargo configuration that say how crates are reached.
fn reaching(config: &str) -> String {
    let mut keeps = false;
    let mut kept = String::new();
    for line in config.lines() {
        if let Some(section) = line.trim().strip_prefix('[') {
            let first = section.split(['.', ']']).next().unwrap_or_default().trim();
            keeps = REACHING.contains(&first);
        }
        if keeps {
            kept += line;
            kept.push('\n');
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_configuration_only_the_way_to_the_crates_is_kept() {
        let config = "[build]\njobs = 1\n[source.crates-io]\nreplace-with = \"mirror\"\n[net]\nretry = 3\n[env]\nA = \"1\"\n";
        assert_eq!(reaching(config), "[source.crates-io]\nreplace-with = \"mirror\"\n[net]\nretry = 3\n");
    }

    #[test]
    fn of_an_environment_only_the_way_to_the_network_is_kept() {
        assert!(
            ["https_proxy", "NO_PROXY", "SSL_CERT_FILE", "CARGO_HTTP_CAINFO"].map(reaches_the_network)
                == [true; 4]
        );
        assert!(
            ["HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTFLAGS", "PATH"].map(reaches_the_network) == [false; 5]
        );
    }
}
