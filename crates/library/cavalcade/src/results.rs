//! The files of a run's folder, each with its SHA-256; with no folder, the digests alone.
//!
//! A replay has to know whether it gives the same bytes, not to keep them: it writes into nothing
//! and compares digests, so that a schedule of gigabytes costs no disk.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::manifest::{self, Manifest, hexadecimal};
use crate::output::Folder;

/// A destination of results.
pub struct Results<'a> {
    folder: Option<Place<'a>>,
    digests: BTreeMap<String, String>,
}

/// A folder that is being filled, or one inside it.
struct Place<'a> {
    whole: &'a Folder,
    /// The path of the one inside; empty for the whole.
    inside: PathBuf,
}

impl Place<'_> {
    /// The path of a file from the whole.
    fn name(&self, name: &str) -> PathBuf {
        self.inside.join(name)
    }
}

impl<'a> Results<'a> {
    /// Results that are written into `folder`, or only digested.
    pub fn new(folder: Option<&'a Folder>) -> Self {
        let folder = folder.map(|whole| Place { whole, inside: PathBuf::new() });
        Self { folder, digests: BTreeMap::new() }
    }

    /// Results that are written into a new folder called `name` inside `folder`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn inside(folder: &'a Folder, name: &Path) -> Result<Self, Error> {
        std::fs::create_dir(folder.path(name)).map_err(|error| folder.failure(name, &error))?;
        Ok(Self::within(folder, name.to_owned()))
    }

    /// Results that are written into the folder `inside` of `folder`, which is there.
    pub(crate) fn within(folder: &'a Folder, inside: PathBuf) -> Self {
        Self { folder: Some(Place { whole: folder, inside }), digests: BTreeMap::new() }
    }

    /// Writes one file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> Result<(), Error> {
        let inner: Box<dyn Write + Send> = match &self.folder {
            Some(place) => Box::new(place.whole.file(place.name(name))?),
            None => Box::new(io::sink()),
        };
        let mut out = io::BufWriter::with_capacity(1 << 16, Digesting { inner, hash: Sha256::new() });
        let written = write(&mut out).and_then(|()| out.into_inner().map_err(io::IntoInnerError::into_error));
        let finished = written.and_then(|mut digesting| {
            digesting.inner.flush()?;
            Ok(digesting.hash.finalize())
        });
        match (finished, &self.folder) {
            (Ok(digest), _) => {
                self.digests.insert(name.to_owned(), hexadecimal(&digest));
                Ok(())
            }
            (Err(error), Some(place)) => Err(place.whole.failure(place.name(name), &error)),
            (Err(error), None) => Err(Error::file("make", name.as_ref(), &error)),
        }
    }

    /// Writes the manifest of a run, with the digests of all files before it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self, mut manifest: Manifest) -> Result<(), Error> {
        manifest.results = std::mem::take(&mut self.digests);
        self.write(manifest::NAME, |out| out.write_all(manifest.text().as_bytes()))
    }

    /// The digest of each file.
    pub fn digests(self) -> BTreeMap<String, String> {
        self.digests
    }
}

/// The digest of all that `input` holds.
///
/// # Errors
/// If it cannot be read.
pub fn digest_of(mut input: impl io::Read) -> io::Result<String> {
    let mut digesting = Digesting { inner: io::sink(), hash: Sha256::new() };
    io::copy(&mut input, &mut digesting)?;
    Ok(hexadecimal(&digesting.hash.finalize()))
}

/// Passes bytes on and takes their digest.
struct Digesting<W> {
    inner: W,
    hash: Sha256,
}

impl<W: Write> Write for Digesting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_bytes_with_and_without_a_folder() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::create(&parent.path().join("run")).unwrap();
        let digest = |folder| {
            let mut results = Results::new(folder);
            results.write("a.csv", |out| out.write_all(b"abc")).unwrap();
            results.digests()["a.csv"].clone()
        };
        assert_eq!(digest(Some(&folder)), crate::manifest::sha256(b"abc"));
        assert_eq!(digest(None), crate::manifest::sha256(b"abc"));
        assert_eq!(std::fs::read(folder.path("a.csv")).unwrap(), b"abc");
    }
}
