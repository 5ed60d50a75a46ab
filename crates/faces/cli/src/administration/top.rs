//! `cavalcade top`: the coflows of a running coordinator or agent, or the ports of a switch, looked
//! at again and again.
//!
//! One connection is kept and asked each time; when it is lost the last picture stays and says so,
//! and another is tried. What is drawn is a function of the answers and of the keys that were
//! pressed ([`Picture`]), so that it can be tested without a terminal. `w` asks what
//! `cavalcade why` asks about the selected coflow.

mod looks;
mod picture;
mod selection;

use std::io::IsTerminal;
use std::time::Duration;

use cavalcade_runtime::administration::proto::View;
use cavalcade_runtime::administration::{AdministrationError, Administrator};
use cavalcade_runtime::block_on;
use ratatui::crossterm::event::{self, Event};

use super::{Place, Versioned, connect, duration, no_json, place, reasons, refused};
use crate::arguments::Top;
use crate::failure::{Failure, Kind};
use crate::output::print;
use picture::{Picture, Wish};

/// The longest time before a key is handled.
const KEYS: Duration = Duration::from_millis(50);

/// `cavalcade top`.
pub(crate) fn run(options: &Top) -> Result<(), Failure> {
    let place = place(&options.at)?;
    if !options.json && !std::io::stdout().is_terminal() {
        return Err(Failure::usage("'cavalcade top' needs a terminal on standard output")
            .help("use --json for a line of JSON per refresh, or 'cavalcade ps' for a single list"));
    }
    let every = duration(options.every);
    let runs = block_on(async {
        let first = match connect(&place).await {
            Ok(administrator) => administrator,
            Err(error) => return Ok(Err(refused(error))),
        };
        if options.json { Ok(lines(first, every).await) } else { watch(first, &place, every).await.map(Ok) }
    });
    runs.map_err(|error| Failure::new(Kind::Runtime, error.to_string()))?
}

/// Prints a line of JSON per refresh, until interrupted.
async fn lines(mut administrator: Administrator, every: Duration) -> Result<(), Failure> {
    loop {
        let view = administrator.look("", false).await.map_err(refused)?;
        print(&(serde_json::to_string(&Versioned::new(&view)).map_err(no_json)? + "\n"))?;
        tokio::time::sleep(every).await;
    }
}

/// Draws until a key ends it.
async fn watch(first: Administrator, place: &Place, every: Duration) -> std::io::Result<()> {
    let mut administrator = Some(first);
    let mut picture = Picture::default();
    let mut terminal = ratatui::try_init()?;
    let mut next = tokio::time::Instant::now();
    let result = loop {
        if tokio::time::Instant::now() >= next {
            next = tokio::time::Instant::now() + every;
            picture.take(look(&mut administrator, place).await);
        }
        if let Err(error) = terminal.draw(|frame| picture.draw(frame)) {
            break Err(error);
        }
        match pressed(&mut picture) {
            Ok(None) => tokio::time::sleep(KEYS).await,
            Ok(Some(Wish::End)) => break Ok(()),
            Ok(Some(Wish::Why(coflow))) => picture.explain(why(&mut administrator, place, &coflow).await),
            Err(error) => break Err(error),
        }
    };
    ratatui::try_restore()?;
    result
}

async fn look(kept: &mut Option<Administrator>, place: &Place) -> Result<View, AdministrationError> {
    let mut administrator = take(kept, place).await?;
    let view = administrator.look("", false).await?;
    *kept = Some(administrator);
    Ok(view)
}

/// Asks what `cavalcade why` asks of a coflow.
async fn why(kept: &mut Option<Administrator>, place: &Place, coflow: &str) -> String {
    let found = async {
        let mut administrator = take(kept, place).await?;
        let found = administrator.why(coflow).await;
        *kept = Some(administrator);
        found
    };
    match found.await {
        Ok(found) => reasons(&found),
        Err(error) => error.to_string(),
    }
}

/// Returns the connection that was kept, or makes one.
async fn take(kept: &mut Option<Administrator>, place: &Place) -> Result<Administrator, AdministrationError> {
    match kept.take() {
        Some(administrator) => Ok(administrator),
        None => connect(place).await,
    }
}

/// Takes in the keys that were pressed, until one asks for something.
fn pressed(picture: &mut Picture) -> std::io::Result<Option<Wish>> {
    while event::poll(Duration::ZERO)? {
        if let Event::Key(key) = event::read()?
            && let Some(wish) = picture.press(key)
        {
            return Ok(Some(wish));
        }
    }
    Ok(None)
}
