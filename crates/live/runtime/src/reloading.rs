//! Settings that change while a component runs: on SIGHUP, and when an administrator asks.
//!
//! Where settings come from is the program's affair ([`Reload`]): it reads its file again and says
//! what has changed and what cannot. What can is in [`Settings`], which the component's loop takes
//! over between two events. All else belongs to sockets, policies and leases, which a change would
//! have to take from those who use them: a restart does that, and loses nothing, since all state is
//! soft.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cavalcade_control::Budget;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, oneshot};

use crate::capacity::Capacity;

/// The settings that may change while a component runs; `None` where one is as at its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The budget of one user's clients, at an agent.
    pub budget: Option<Budget>,
    /// The limits of the component.
    pub capacity: Option<Capacity>,
    /// True if decisions are made and not carried out.
    pub shadow: Option<bool>,
}

/// A setting that has changed, or one that has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name, as `agent.user_budget`.
    pub name: String,
    /// Its value now, or why it is not what was asked for.
    pub text: String,
}

/// The result of reading settings again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// The settings that have changed.
    pub changed: Vec<Setting>,
    /// The settings that have not, though the file says so.
    pub refused: Vec<Setting>,
}

/// Reads what settings come from, on a thread of its own: a file may be on a disk that hangs, and
/// the component has a lease to keep.
pub type Reading = Box<dyn FnOnce() -> Result<String, String> + Send>;

/// The place that settings come from.
pub trait Reload {
    /// Returns what reads it. Nothing has changed until its text is taken over.
    ///
    /// # Errors
    /// If there is nothing to read. The error is for people.
    fn reading(&self) -> Result<Reading, String>;

    /// Takes over what has been read.
    ///
    /// # Errors
    /// If it is wrong; then nothing has changed. The error is for people.
    fn take_over(&mut self, text: &str) -> Result<Reloaded, String>;

    /// Sets how much is logged.
    ///
    /// # Errors
    /// If there is no such level.
    fn set_log_level(&mut self, level: &str) -> Result<Reloaded, String>;

    /// The settings that hold now.
    fn settings(&self) -> Settings;
}

struct Place {
    place: RefCell<Box<dyn Reload>>,
    /// True while a thread reads.
    is_reading: Cell<bool>,
    /// Notifies that something was taken over.
    changed: Notify,
}

/// The settings of a component; without a place that they come from none of them changes.
#[derive(Clone, Default)]
pub struct Reloading(Option<Rc<Place>>);

impl std::fmt::Debug for Reloading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reloading")
    }
}

impl Reloading {
    /// Settings that come from `place`.
    pub fn from(place: impl Reload + 'static) -> Self {
        let place: RefCell<Box<dyn Reload>> = RefCell::new(Box::new(place));
        Self(Some(Rc::new(Place { place, is_reading: Cell::new(false), changed: Notify::new() })))
    }

    /// The settings that hold now.
    pub fn settings(&self) -> Settings {
        self.0.as_ref().map(|place| place.place.borrow().settings()).unwrap_or_default()
    }

    /// Waits until settings were taken over.
    pub(crate) async fn changed(&self) {
        match &self.0 {
            Some(place) => place.changed.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Reads settings again, or sets the level of the log where there is one, and logs what came of
    /// it. Nothing else waits meanwhile.
    ///
    /// # Errors
    /// If that cannot be done, or they are being read already: the error is for people.
    pub async fn ask(&self, log_level: &str) -> Result<Reloaded, String> {
        let Some(place) = &self.0 else {
            return Err("this process has no settings to read again".to_owned());
        };
        let asked = if log_level.is_empty() {
            place.reread().await
        } else {
            place.place.borrow_mut().set_log_level(log_level)
        };
        place.changed.notify_one();
        let reloaded = asked.inspect_err(|error| tracing::warn!(error, "settings not reread"))?;
        for setting in &reloaded.changed {
            tracing::info!(setting = setting.name, now = setting.text, "setting changed");
        }
        for setting in &reloaded.refused {
            tracing::warn!(setting = setting.name, reason = setting.text, "setting not changed");
        }
        if reloaded == Reloaded::default() {
            tracing::info!("settings reread: none changed");
        }
        Ok(reloaded)
    }
}

impl Place {
    async fn reread(&self) -> Result<Reloaded, String> {
        if self.is_reading.get() {
            return Err("the settings are being read already: the file's disk may hang".to_owned());
        }
        let reading = self.place.borrow().reading()?;
        let (done, is_done) = oneshot::channel();
        let read = move || drop(done.send(reading()));
        let spawned = std::thread::Builder::new().name("reload".to_owned()).spawn(read);
        spawned.map_err(|error| format!("no thread to read the settings: {error}"))?;
        self.is_reading.set(true);
        let text = is_done.await;
        self.is_reading.set(false);
        let text = text.map_err(|_| "reading the settings has failed".to_owned())??;
        self.place.borrow_mut().take_over(&text)
    }
}

/// The requests of the system to read settings again (SIGHUP). From the first one on the signal no
/// longer ends the process.
#[derive(Debug)]
pub struct Hangups(Signal);

impl Hangups {
    /// Waits for them from now on.
    ///
    /// # Errors
    /// If signals cannot be waited for.
    pub fn new() -> std::io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Waits for one, and has settings be read again.
    pub async fn reload(&mut self, reloading: &Reloading) {
        self.0.recv().await;
        let reloading = reloading.clone();
        // The outcome is logged; a signal has no reply.
        tokio::task::spawn_local(async move { drop(reloading.ask("").await) });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A file on a disk that hangs until something is sent.
    struct Hanging(Cell<Option<mpsc::Receiver<&'static str>>>, Settings);

    impl Reload for Hanging {
        fn reading(&self) -> Result<Reading, String> {
            let disk = self.0.take().ok_or("read twice")?;
            Ok(Box::new(move || disk.recv().map(str::to_owned).map_err(|error| error.to_string())))
        }
        fn take_over(&mut self, text: &str) -> Result<Reloaded, String> {
            self.1.shadow = Some(text == "shadow");
            Ok(Reloaded::default())
        }
        fn set_log_level(&mut self, _: &str) -> Result<Reloaded, String> {
            Ok(Reloaded::default())
        }
        fn settings(&self) -> Settings {
            self.1
        }
    }

    #[test]
    fn while_a_disk_hangs_the_loop_goes_on_and_what_comes_of_it_is_taken_over_at_last() {
        let (disk, hangs) = mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let reloading = Reloading::from(Hanging(Cell::new(Some(hangs)), Settings::default()));
            let asking = reloading.clone();
            let asked = tokio::task::spawn_local(async move { asking.ask("").await });
            tokio::task::yield_now().await;
            assert!(!asked.is_finished());
            let second = reloading.ask("").await;
            assert!(second.is_err_and(|reason| reason.contains("already")));
            reloading.changed().await;
            assert_eq!(reloading.settings().shadow, None);
            disk.send("shadow").unwrap();
            reloading.changed().await;
            assert_eq!(reloading.settings().shadow, Some(true));
            assert!(asked.await.unwrap().is_ok());
        });
    }
}
