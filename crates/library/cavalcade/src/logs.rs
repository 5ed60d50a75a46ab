//! The logs of Spark in a folder: one that is spread over several files, or those of several
//! applications, which are read as one cluster.

use std::path::{Path, PathBuf};
use std::{fs, io};

use cavalcade_trace::spark::files_of_log;

use crate::error::Error;
use crate::source::unreadable;

/// The files of each log in the folder at `path`, in the order in which they are read.
///
/// # Errors
/// If it cannot be read, or holds something that is no log.
pub(crate) fn in_folder(path: &Path) -> Result<Vec<Vec<PathBuf>>, Error> {
    let names = names(path)?;
    if let Some(files) = one_log(path, &names)? {
        return Ok(vec![files]);
    }
    if names.iter().any(|name| name == crate::manifest::NAME) {
        return Err(none(path, "the folder of a run")
            .help("name the trace's file; 'cavalcade replay' makes the run again"));
    }
    let mut logs = Vec::new();
    for name in names.iter().filter(|name| !is_beside(name)) {
        let inside = path.join(name);
        if !inside.is_dir() {
            logs.push(vec![inside]);
            continue;
        }
        match one_log(&inside, &self::names(&inside)?)? {
            Some(files) => logs.push(files),
            None => {
                let cure = "name one file, or a folder in which each file, and each folder of a rolling log, is a log";
                return Err(none(path, "a folder that holds another one without a log of Spark").help(cure));
            }
        }
    }
    if logs.is_empty() {
        return Err(
            none(path, "an empty folder").help("name a file that holds a trace, or a folder of Spark logs")
        );
    }
    Ok(logs)
}

/// The names of what is in a folder, in order.
fn names(path: &Path) -> Result<Vec<String>, Error> {
    let read = || -> io::Result<Vec<String>> {
        fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    let mut names = read().map_err(|error| unreadable(&path.display().to_string(), &error))?;
    names.sort_unstable();
    Ok(names)
}

/// The files of the log that a folder with `names` is, if it is one.
fn one_log(path: &Path, names: &[String]) -> Result<Option<Vec<PathBuf>>, Error> {
    let order = files_of_log(names).map_err(|error| Error::input(format!("{}: {error}", path.display())))?;
    Ok(order.map(|order| order.into_iter().map(|index| path.join(&names[index])).collect()))
}

/// Returns whether a file is no log, but what file systems and Spark leave beside logs: checksums,
/// marks.
fn is_beside(name: &str) -> bool {
    name.starts_with(['.', '_']) || name.starts_with("appstatus_")
}

fn none(path: &Path, what: &str) -> Error {
    Error::input(format!("{} is {what}: expected a trace", path.display()))
}
