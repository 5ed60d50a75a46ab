//! The configuration file, read again while a component runs.
//!
//! What is in effect is compared with the file key by key: a key that has changed is taken over if
//! it can be ([`CHANGEABLE`]), and refused by name if it cannot, every time until the component is
//! started again or the file says what is in effect. A file with an error changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cavalcade_runtime::{Reading, Reload, Reloaded, Setting, Settings};
use clap::ValueEnum;
use toml::Value;

use super::config::{self, File};
use super::logging::Level;
use super::settings;
use crate::arguments::{LogLevel, Options};
use crate::failure::Failure;

/// The keys of a component's own table that may change while it runs.
const CHANGEABLE: [&str; 4] = ["max_connections", "max_buffers", "shadow", "user_budget"];

/// The origin of a component's settings, and those that flags set.
pub(super) struct Reloader {
    path: Option<PathBuf>,
    /// The tables that the component obeys, its own first.
    tables: &'static [&'static str],
    flags: File,
    in_effect: BTreeMap<String, Value>,
    level: Level,
    settings: Settings,
}

impl Reloader {
    /// Prepares a component that obeys `tables` of the file at `path`, read as `text`; without a
    /// file both are empty.
    pub(super) fn new(
        path: Option<&Path>,
        text: &str,
        tables: &'static [&'static str],
        flags: File,
        level: Level,
    ) -> Self {
        let path = path.map(Path::to_path_buf);
        Self { path, tables, flags, in_effect: keys(text, tables), level, settings: Settings::default() }
    }

    /// Takes a key over from what flags and the file say now; returns why not if it has not
    /// changed.
    fn take_key_over(&mut self, key: &str, now: &File) -> Result<(), String> {
        let own = key.strip_prefix(self.tables[0]).and_then(|rest| rest.strip_prefix('.'));
        if key != "log.level" && !own.is_some_and(|name| CHANGEABLE.contains(&name)) {
            return Err("it changes when the component is started again".to_owned());
        }
        let (flags, access, shadow) = match self.tables[0] {
            "coordinator" => {
                (self.flags.coordinator.keys(""), &now.coordinator.access, now.coordinator.deciding.shadow)
            }
            _ => (self.flags.agent.keys(""), &now.agent.access, now.agent.shadow),
        };
        let is_flag = match own {
            Some(name) => flags.contains(&(name, true)),
            None => self.flags.log.level.is_some(),
        };
        if is_flag {
            return Err("a flag sets it: start the component without that flag".to_owned());
        }
        match own {
            Some("max_connections" | "max_buffers") => {
                self.settings.capacity = Some(settings::capacity(access));
            }
            Some("shadow") => self.settings.shadow = Some(shadow),
            Some(_) => self.settings.budget = Some(now.agent.clients.user_budget.unwrap_or_default()),
            None => self.level.set(now.log.level.unwrap_or_default()),
        }
        Ok(())
    }
}

/// The reason of a failure; who shows it puts its own "error:" before it.
fn reason(failure: &Failure) -> String {
    crate::failure::shown(failure, false).replacen("error: ", "", 1)
}

impl Reload for Reloader {
    fn reading(&self) -> Result<Reading, String> {
        let path = self.path.clone().ok_or(
            "it was started without --config, so there is no file to reread: 'cavalcade reload --log-level LEVEL' changes the log level",
        )?;
        Ok(Box::new(move || config::text_of_regular(&path).map_err(|failure| reason(&failure))))
    }

    fn take_over(&mut self, text: &str) -> Result<Reloaded, String> {
        let path = self.path.clone().unwrap_or_default();
        let file = config::parse(&path, text).map_err(|failure| reason(&failure))?.under(&self.flags);
        let found = keys(text, self.tables);
        let names: BTreeSet<String> = found.keys().chain(self.in_effect.keys()).cloned().collect();
        let mut reloaded = Reloaded::default();
        for name in names {
            let (now, before) = (found.get(&name), self.in_effect.get(&name));
            if now == before {
                continue;
            }
            let taken = self.take_key_over(&name, &file);
            let shown = |value: &Value| serde_json::to_string(value).unwrap_or_default();
            let text = now.map_or_else(|| "its default".to_owned(), shown);
            match taken {
                Ok(()) => {
                    match now {
                        Some(now) => _ = self.in_effect.insert(name.clone(), now.clone()),
                        None => _ = self.in_effect.remove(&name),
                    }
                    reloaded.changed.push(Setting { name, text });
                }
                Err(reason) => reloaded.refused.push(Setting { name, text: reason }),
            }
        }
        Ok(reloaded)
    }

    fn set_log_level(&mut self, level: &str) -> Result<Reloaded, String> {
        let wanted = LogLevel::from_str(level, true)
            .map_err(|_| format!("'{level}' is not a log level: expected error, warn, info or debug"))?;
        self.level.set(wanted);
        let changed = vec![Setting { name: "log.level".to_owned(), text: level.to_owned() }];
        Ok(Reloaded { changed, refused: Vec::new() })
    }

    fn settings(&self) -> Settings {
        self.settings
    }
}

/// The keys of some tables of a file that has been read before, as `agent.socket`.
fn keys(text: &str, tables: &[&str]) -> BTreeMap<String, Value> {
    let all: toml::Table = text.parse().unwrap_or_default();
    let mut keys = BTreeMap::new();
    for (table, value) in all {
        let Value::Table(values) = value else { continue };
        if tables.contains(&table.as_str()) {
            keys.extend(values.into_iter().map(|(key, value)| (format!("{table}.{key}"), value)));
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Logging;

    #[test]
    fn a_limit_that_a_flag_sets_stays_when_the_file_changes_another() {
        let log = super::super::logging::start(&Logging::default());
        let mut flags = File::default();
        flags.coordinator.access.max_connections = Some(100);
        let tables = &["coordinator", "site", "log"];
        let mut reloader = Reloader::new(Some(Path::new("site.toml")), "", tables, flags, log.level.clone());
        let text = "[coordinator]\nmax_connections = 5\nmax_buffers = \"1MB\"\n";
        let reloaded = reloader.take_over(text).unwrap();
        assert_eq!(reloaded.changed[0].name, "coordinator.max_buffers");
        let refused = &reloaded.refused[0];
        assert!(refused.name == "coordinator.max_connections" && refused.text.contains("a flag sets it"));
        let capacity = reloader.settings().capacity.unwrap();
        assert_eq!((capacity.connections, capacity.bytes), (100, 1_000_000));
    }
}
