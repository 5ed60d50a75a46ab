//! The files of a workload: one, or a folder with one for each rank.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use cavalcade_trace::Input;
use cavalcade_training::{Options, Read, WorkloadFile};

use crate::error::Error;

/// Reads the workload at `path`; files may be compressed.
///
/// # Errors
/// If it cannot be read, or is not valid, with the file and the place.
pub(super) fn read(path: &Path, options: &Options) -> Result<Read, Error> {
    let files = paths(path)?.into_iter().map(opened).collect::<Result<Vec<_>, _>>()?;
    cavalcade_training::read(files, options).map_err(|error| Error::input(error.to_string()))
}

/// The files of a folder in the order of their names, or the one file.
fn paths(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |error| Error::file("read", path, &error);
    let entries = fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed)?;
    let mut paths: Vec<PathBuf> =
        entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort_unstable();
    if paths.is_empty() {
        let problem = format!("{} is an empty folder", path.display());
        return Err(Error::input(problem).help("name a folder with a file for each rank"));
    }
    Ok(paths)
}

fn opened(path: PathBuf) -> Result<WorkloadFile<'static>, Error> {
    let name = path.display().to_string();
    let input = Input::new(name.clone(), move || {
        File::open(path).map(|file| Box::new(BufReader::new(file)) as Box<dyn std::io::BufRead>)
    });
    let content = input.decompressed().map_err(|error| Error::input(error.to_string()))?;
    Ok(WorkloadFile { name, content: Box::new(BufReader::with_capacity(1 << 16, content)) })
}
