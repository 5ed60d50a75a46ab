//! What a build without features leaves out: the simulators need no TLS, no gRPC and no terminal
//! UI.

use crate::steps::Failure;
use crate::workspace::Workspace;

/// Crates of the live system and of `top`.
const LEFT_OUT: &[&str] = &[
    "cavalcade-client",
    "cavalcade-lab",
    "cavalcade-runtime",
    "crossterm",
    "h2",
    "hyper",
    "prost",
    "ratatui",
    "rustls",
    "tokio",
    "tonic",
];

/// Returns every crate in `tree`, lines of `cargo tree`, that a simulator must not need, in words.
fn faults_in(tree: &str) -> Vec<String> {
    let names = tree.lines().filter_map(|line| line.split_whitespace().next());
    let found = names.filter(|name| LEFT_OUT.contains(name));
    let found: std::collections::BTreeSet<&str> = found.collect();
    found
        .into_iter()
        .map(|name| format!("cavalcade-cli without features needs {name}: make the dependency optional"))
        .collect()
}

/// Returns what the program needs without features and must not, in words.
pub(crate) fn faults(workspace: &Workspace) -> Result<Vec<String>, Failure> {
    let tree = ["tree", "-p", "cavalcade-cli", "--no-default-features", "-e", "normal", "--prefix", "none"];
    let printed = workspace.cargo(&tree).printed()?;
    if !printed.starts_with("cavalcade-cli") {
        return Err(Failure::new(format!("cargo tree does not begin with cavalcade-cli: {printed}")));
    }
    Ok(faults_in(&printed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_of_the_live_system_is_named() {
        let tree = "cavalcade-cli v0.1.0 (/work)\nserde v1.0.0\ntokio v1.40.0\ntokio v1.40.0 (*)\n";
        let found = faults_in(tree);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("needs tokio"), "{found:?}");
        assert!(faults_in("serde v1.0.0\n").is_empty());
    }
}
