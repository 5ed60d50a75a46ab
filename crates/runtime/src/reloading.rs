//! Settings that change while a component runs: on SIGHUP, and when an administrator asks.
//!
//! Where settings come from is the program's affair ([`Reload`]): it reads its file again and says what has changed and what
//! cannot. What can is in [`Settings`], which the component's loop takes over between two events. All else belongs to sockets,
//! policies and leases, which a change would have to take from those who use them: a restart does that, and loses nothing,
//! since all state is soft.

use std::cell::RefCell;
use std::rc::Rc;

use cavalcade_control::Budget;
use tokio::signal::unix::{Signal, SignalKind, signal};

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

/// The place that settings come from.
pub trait Reload {
    /// Reads the settings again.
    ///
    /// # Errors
    /// If there is nothing to read, or it is wrong; then nothing has changed. The error is for people.
    fn reload(&mut self) -> Result<Reloaded, String>;

    /// Sets how much is logged.
    ///
    /// # Errors
    /// If there is no such level.
    fn set_log_level(&mut self, level: &str) -> Result<Reloaded, String>;

    /// The settings that hold now.
    fn settings(&self) -> Settings;
}

/// The settings of a component; without a place that they come from none of them changes.
#[derive(Clone, Default)]
pub struct Reloading(Option<Rc<RefCell<dyn Reload>>>);

impl std::fmt::Debug for Reloading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reloading")
    }
}

impl Reloading {
    /// Settings that come from `place`.
    pub fn from(place: impl Reload + 'static) -> Self {
        Self(Some(Rc::new(RefCell::new(place))))
    }

    /// The settings that hold now.
    pub fn settings(&self) -> Settings {
        self.0.as_ref().map(|place| place.borrow().settings()).unwrap_or_default()
    }

    /// Reads settings again, or sets the level of the log where there is one, and logs what came of it.
    ///
    /// # Errors
    /// If that cannot be done: the error is for people.
    pub fn ask(&self, log_level: &str) -> Result<Reloaded, String> {
        let Some(place) = &self.0 else {
            return Err("this process has no settings to read again".to_owned());
        };
        let mut place = place.borrow_mut();
        let asked = if log_level.is_empty() { place.reload() } else { place.set_log_level(log_level) };
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

/// The requests of the system to read settings again (SIGHUP). From the first one on the signal no longer ends the process.
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

    /// Waits for one, and reads settings again.
    pub async fn heed(&mut self, reloading: &Reloading) {
        self.0.recv().await;
        // The outcome is logged; a signal has no reply.
        drop(reloading.ask(""));
    }
}
