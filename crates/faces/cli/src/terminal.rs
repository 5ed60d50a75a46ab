//! Properties of standard output: whether it is a terminal, how wide, and whether it takes colour.

use std::env::var_os;
use std::io::IsTerminal;

use cavalcade_report::Fit;

/// Returns the width of messages, where standard error is a terminal.
pub(crate) fn width_of_messages() -> Option<u16> {
    terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| width.0)
}

/// Returns the room for text on standard output. What is not a terminal has no limit and no colour;
/// `wide` asks for no limit on a terminal too. Colour gives way to `NO_COLOR`
/// (<https://no-color.org>) and to a terminal that has none.
pub(crate) fn fit(wide: bool) -> Fit {
    if !std::io::stdout().is_terminal() {
        return Fit::default();
    }
    let is_plain = var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || var_os("TERM").is_some_and(|value| value == "dumb");
    // A terminal that does not know its size, such as a serial line, may be told it by the shell.
    let columns = || var_os("COLUMNS")?.to_str()?.parse().ok().filter(|&columns| columns > 0);
    let width = terminal_size::terminal_size().map(|(width, _)| width.0).or_else(columns);
    Fit { width: width.filter(|_| !wide), color: !is_plain }
}
