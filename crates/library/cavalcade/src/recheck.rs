//! Runs that were kept, looked at again: replayed, and their schedules checked.

use std::collections::BTreeMap;

use cavalcade_validate::{Checks, Verdict, validate};

use crate::engine::Watch;
use crate::error::{Error, Kind};
use crate::folder::{Recorded, SCHEDULE, produce};
use crate::invalid::{Files, TOP, refused};
use crate::parallel::Progress;
use crate::results::{Results, digest_of};

impl Recorded {
    /// Runs it again, and returns the digest of each result if all are the same, bit for bit.
    ///
    /// # Errors
    /// If a file of the folder is not the one of the manifest, the run is refused, or a result
    /// differs.
    pub fn replay(&self, progress: &Progress) -> Result<BTreeMap<String, String>, Error> {
        self.check_files()?;
        let mut results = Results::new(None);
        let watch = Watch { progress: Some(progress), ..Watch::default() };
        produce(&self.scenario, self.has_schedule(), watch, &mut results)?;
        let again = results.digests();
        for (name, digest) in &self.manifest.results {
            if again.get(name) != Some(digest) {
                let message = format!("{name} differs: this run gives other bytes than the manifest records");
                let version = &self.manifest.cavalcade;
                return Err(Error::new(Kind::Assertion, message).help(format!(
                    "the run was made by cavalcade {version}, this is {}",
                    env!("CARGO_PKG_VERSION")
                )));
            }
        }
        Ok(again)
    }

    /// Checks that the files of the folder are still those of the manifest.
    fn check_files(&self) -> Result<(), Error> {
        for (name, digest) in &self.manifest.results {
            let path = self.folder.join(name);
            let found = digest_of(self.file(name)?).map_err(|error| Error::file("read", &path, &error))?;
            if found != *digest {
                let message = format!("{} is not the file of this run: its SHA-256 differs", path.display());
                return Err(Error::input(message).help("it was changed after the run; make the run again"));
            }
        }
        Ok(())
    }

    /// Checks its schedule; also that no capacity was left idle, if its policy is work conserving.
    ///
    /// # Errors
    /// If there is no run, it is broken, or it is not valid: then with all that is wrong
    /// ([`Error::invalid`]).
    pub fn validated(&self) -> Result<Verdict, Error> {
        let segments = self.schedule()?;
        let outcome = self.outcome()?;
        let checks = Checks { work_conservation: self.work_conserving() };
        let (workload, fabric) = (self.scenario.workload(), self.scenario.fabric());
        validate(workload, fabric, segments, &outcome, checks).or_else(|violations| {
            // The segments are read again, because the check uses them up and they are wanted only
            // here.
            let lines: Vec<_> = (TOP + 1..).zip(self.schedule()?).collect();
            let schedule = self.folder.join(SCHEDULE).display().to_string();
            let files = Files { schedule: &schedule, claims: Some(&self.folder) };
            Err(refused(violations, workload, &lines, &files))
        })
    }
}
