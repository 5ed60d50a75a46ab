//! Messages of what runs: events with fields, as lines for people or as JSON for collectors.

use tracing_subscriber::filter::LevelFilter;

use super::config::LogTable;
use crate::arguments::{LogFormat, LogLevel, Logging};

/// From now on events go to standard error.
pub(super) fn start(options: Logging, file: &LogTable) {
    let level = match options.log_level.or(file.level).unwrap_or_default() {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    // Libraries speak of their own internals below warnings.
    let own = tracing_subscriber::filter::filter_fn(|metadata| {
        metadata.target().starts_with("cavalcade") || *metadata.level() <= tracing::Level::WARN
    });
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = lines.with_ansi(is_terminal && std::env::var_os("NO_COLOR").is_none());
    use tracing_subscriber::prelude::*;
    let registry = tracing_subscriber::registry().with(level);
    // A second start in one process keeps the first one's form.
    let _ = match options.log_format.or(file.format).unwrap_or_default() {
        LogFormat::Text => registry.with(lines.with_filter(own)).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true).with_filter(own)).try_init(),
    };
}
