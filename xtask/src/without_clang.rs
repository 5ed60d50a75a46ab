//! A build on a machine without clang: it has no programs for the kernel, and says so when they are
//! wanted.
//!
//! It is made with the profile of development, whose dependencies tests have as well, so it costs
//! this workspace's crates without optimisation. The program is removed in the end, so that
//! nobody takes it for one that has programs for the kernel.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::steps::{Failure, Run};
use crate::workspace::Workspace;

/// Tells the test that there must be no programs.
const WANTED: &str = "CAVALCADE_TEST_WITHOUT_CLANG";

/// Builds without clang, and runs the test of what such a build says, and what needs no programs.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let path = workspace.target.join("without-clang");
    fs::create_dir_all(&path)?;
    for folder in std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()) {
        link_all_but_clang(&folder, &path)?;
    }
    let without = |run: Run| run.env("PATH", &path).env(WANTED, "1").env("CARGO_PROFILE_DEV_DEBUG", "0");
    // Of the whole workspace, or dependencies would have other features than tests have.
    let test = ["test", "--profile", "dev", "--workspace", "--test", "without_programs"];
    without(workspace.cargo(&test)).check()?;
    without(workspace.cargo(&["build", "--workspace", "--bin", "cavalcade"])).check()?;
    let built = workspace.target.join("debug/cavalcade");
    let program = |word: &str| without(Run::new(Command::new(&built))).args(&[word]).in_folder(&path);
    let demo = program("demo").check();
    let said = program("doctor").printed();
    fs::remove_file(&built)?;
    demo?;
    let said = said?;
    if said.contains("built without kernel enforcement") {
        return Ok(());
    }
    Err(Failure::new(format!(
        "'cavalcade doctor' does not say that it was built without kernel enforcement:\n{said}"
    )))
}

/// Links each program in a folder from another, where there is none of that name yet.
fn link_all_but_clang(from: &Path, to: &Path) -> Result<(), Failure> {
    let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
    for entry in entries.flatten().filter(|entry| !entry.file_name().to_string_lossy().starts_with("clang")) {
        match symlink(entry.path(), to.join(entry.file_name())) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_programs_are_there_but_clang() {
        let folder = std::env::temp_dir().join(format!("cavalcade-without-clang-{}", std::process::id()));
        let [from, to] = ["from", "to"].map(|name| folder.join(name));
        for name in ["cc", "clang", "clang-14"] {
            fs::create_dir_all(&from).unwrap();
            fs::write(from.join(name), "").unwrap();
        }
        fs::create_dir_all(&to).unwrap();
        link_all_but_clang(&from, &to).unwrap();
        link_all_but_clang(&from, &to).unwrap();
        link_all_but_clang(Path::new("/nowhere"), &to).unwrap();
        let names: Vec<_> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["cc"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
