//! The remains of an enforcer that was killed: pinned programs, which limit nothing by then, and
//! groups.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use aya::maps::{Array, Map, MapData};

use crate::kernel::{REFRESH, SETTINGS};
use crate::pins::Pins;
use crate::place::Place;
use crate::shared::{Settings, SettingsWords};
use crate::{Error, groups, namespaces};

/// The time that an enforcer has to end once it is killed. Until then its pins are its own, and on
/// a busy machine that takes a while.
const FAREWELL: Duration = Duration::from_secs(2);

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
    let found = list(place, pins.as_ref());
    if let Some(pins) = pins.filter(|pins| pins.names().is_empty()) {
        pins.clear();
    }
    Ok(found)
}

fn list(place: &Place, pins: Option<&Pins>) -> Vec<PathBuf> {
    let pinned = pins.iter().flat_map(|pins| pins.names().into_iter().map(|name| pins.path(&name)));
    pinned.chain(groups::of_place(&place.above, &place.name)).collect()
}

/// Lifts every limit that may still be set, and removes what was left behind. Returns what was
/// removed. An enforcer that was killed a moment ago is waited for.
///
/// # Errors
/// If there is no right to, or an enforcer is at work at `place`.
pub fn fix(place: &Place) -> Result<Vec<PathBuf>, Error> {
    let began = Instant::now();
    let pins = loop {
        match Pins::found(&place.name) {
            Err(Error::InUse(_)) if began.elapsed() < FAREWELL => sleep(FAREWELL / 200),
            taken => break taken?,
        }
    };
    let found = list(place, pins.as_ref());
    if let Some(pins) = pins {
        lift(&pins);
        pins.clear();
    }
    groups::of_place(&place.above, &place.name).iter().for_each(|group| groups::remove(group));
    Ok(found)
}

/// Lifts all limits of the programs that are pinned. What fails is only tried: programs of another
/// version may be there, and their own watch over silence lifts the limits as well.
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
