//! What tests use of Debian: clang, which builds the programs for the kernel (`bpf/`), applications
//! that these are tried on, etcd, which keeps the lease of leadership, Chromium, which reports are
//! looked at in, rsvg-convert, which draws figures as others do, ethtool, which sets receive
//! offload, nft, which takes options out of packets, and tshark, which reads captures. A plain
//! build does without.

use std::path::Path;
use std::process::Command;

use crate::fetch::runs;
use crate::steps::{Failure, Run};

/// A check of whether something is there.
type Probe = fn() -> bool;

/// Packages, each with its probe.
const PACKAGES: [(&str, Probe); 14] = [
    ("chromium", || runs("chromium", "--version")),
    ("clang", || runs("clang", "--version")),
    ("ethtool", || runs("ethtool", "--version")),
    ("etcd-server", || runs("etcd", "--version")),
    ("iperf3", || runs("iperf3", "--version")),
    ("nginx-light", || runs("nginx", "-v")),
    ("memcached", || runs("memcached", "--version")),
    ("libmemcached-tools", || runs("memccp", "--version")),
    ("librsvg2-bin", || runs("rsvg-convert", "--version")),
    ("nftables", || runs("nft", "--version")),
    ("openmpi-bin", || runs("mpirun", "--version")),
    ("python3-mpi4py", || Path::new("/usr/lib/python3/dist-packages/mpi4py").exists()),
    ("postgresql", || {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        versions.map(|version| version.path()).any(|version| Path::new(&version).join("bin/initdb").exists())
    }),
    ("tshark", || runs("tshark", "--version")),
];

fn wanted() -> Vec<&'static str> {
    PACKAGES.iter().filter(|(_, is_there)| !is_there()).map(|&(name, _)| name).collect()
}

/// Tells what is missing to have them all: one is not there, and cannot be installed.
pub(crate) fn missing() -> Option<String> {
    let can_install = runs("apt-get", "--version") && is_root();
    let wanted = wanted().join(" ");
    (!wanted.is_empty() && !can_install)
        .then(|| format!("{wanted} (in Debian: apt-get install {wanted}; as root this is done here)"))
}

/// Installs from the distribution what is not there.
pub(crate) fn install() -> Result<(), Failure> {
    let wanted = wanted();
    if wanted.is_empty() {
        return Ok(());
    }
    let apt = |words: &[&str]| {
        Run::new(Command::new("apt-get")).args(words).env("DEBIAN_FRONTEND", "noninteractive").quietly()
    };
    let install = [&["install", "--yes", "--no-install-recommends"][..], &wanted].concat();
    // The lists of a fresh image are empty.
    apt(&install).or_else(|_| apt(&["update"]).and_then(|()| apt(&install)))
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
}
