//! Properties of standard output: whether it is a terminal, and how wide.

use std::io::IsTerminal;

use cavalcade_report::TableOptions;

/// Returns the options of a printed table. Colour only on a terminal, and not where `NO_COLOR` asks for none (<https://no-color.org>).
pub(crate) fn table_options(by_bin: bool) -> TableOptions {
    let plain = TableOptions { by_bin, ..TableOptions::default() };
    if !std::io::stdout().is_terminal() {
        return plain;
    }
    let color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let width = terminal_size::terminal_size().map_or(plain.width, |(width, _)| width.0);
    TableOptions { color, width, ..plain }
}
