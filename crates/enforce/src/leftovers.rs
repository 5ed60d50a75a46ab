//! The remains of an enforcer that was killed: pinned programs, which limit nothing by then, and groups.

use std::path::PathBuf;

use aya::maps::{Array, Map, MapData};

use crate::kernel::{REFRESH, SETTINGS};
use crate::pins::Pins;
use crate::place::Place;
use crate::shared::{Settings, SettingsWords};
use crate::{Error, groups, namespaces};

/// Finds what was left behind at `place`; nothing where an enforcer is at work there.
///
/// # Errors
/// If there is no right to look.
pub fn find(place: &Place) -> Result<Vec<PathBuf>, Error> {
    let pins = match Pins::found(&place.name) {
        Ok(pins) => pins,
        Err(Error::InUse(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found: Vec<PathBuf> =
        pins.iter().flat_map(|pins| pins.names().into_iter().map(|name| pins.path(&name))).collect();
    found.extend(groups::of_place(&place.above, &place.name));
    if let Some(pins) = pins.filter(|pins| pins.names().is_empty()) {
        pins.clear();
    }
    Ok(found)
}

/// Lifts every limit that may still be set, and removes what was left behind. Returns what was removed.
///
/// # Errors
/// If there is no right to, or an enforcer is at work at `place`.
pub fn fix(place: &Place) -> Result<Vec<PathBuf>, Error> {
    let found = find(place)?;
    if let Some(pins) = Pins::found(&place.name)? {
        lift(&pins);
        pins.clear();
    }
    groups::of_place(&place.above, &place.name).iter().for_each(|group| groups::remove(group));
    Ok(found)
}

/// Lifts all limits of the programs that are pinned. What fails is only tried: programs of another version may be there, and
/// their own watch over silence lifts the limits as well.
pub(crate) fn lift(pins: &Pins) {
    let settings = MapData::from_pin(pins.path(SETTINGS)).and_then(|map| {
        let mut settings: Array<_, SettingsWords> = Map::Array(map).try_into()?;
        let lifted = Settings { is_lifted: 1, ..Settings::from_words(settings.get(&0, 0)?) };
        settings.set(0, lifted.to_words(), 0)
    });
    if settings.is_ok() {
        let _ = namespaces::walk_everywhere(pins.path(REFRESH));
    }
}
