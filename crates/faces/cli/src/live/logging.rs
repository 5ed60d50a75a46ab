//! Messages of what runs: events with fields, as lines for people or as JSON for collectors.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::{Registry, reload};

use crate::arguments::{LogFormat, LogLevel, Logging};

/// Lines that wait for a slow reader; what comes beyond is dropped and counted.
const WAITING: usize = 4096;
/// The time that the end of the program waits for the last lines.
const FLUSH: Duration = Duration::from_millis(200);

/// The sink of events: a thread writes them, so that a reader of standard error that hangs stops
/// nothing else.
#[derive(Clone)]
struct Lines {
    waiting: SyncSender<Line>,
    dropped: Arc<AtomicU64>,
}

enum Line {
    Text(Vec<u8>),
    /// All before it is written: say so.
    Flush(SyncSender<()>),
}

impl Lines {
    fn start() -> Self {
        let (waiting, lines) = std::sync::mpsc::sync_channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let unsaid = Arc::clone(&dropped);
        std::thread::spawn(move || {
            for line in lines {
                match line {
                    Line::Text(text) => {
                        let count = unsaid.swap(0, Ordering::Relaxed);
                        if write(&text, count).is_err() {
                            unsaid.fetch_add(count + 1, Ordering::Relaxed);
                        }
                    }
                    Line::Flush(done) => drop(done.send(())),
                }
            }
        });
        Self { waiting, dropped }
    }
}

/// Writes a line to standard error, after how many were dropped before it. On a disk that is full
/// it is dropped too.
fn write(text: &[u8], dropped: u64) -> std::io::Result<()> {
    let mut out = std::io::stderr().lock();
    if dropped > 0 {
        writeln!(out, "{dropped} lines were dropped: standard error was full, or not read in time")?;
    }
    out.write_all(text)
}

impl Write for Lines {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        if self.waiting.try_send(Line::Text(text.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The log of a process; dropping it writes the last lines.
pub(crate) struct Log {
    lines: Lines,
    pub(super) level: Level,
}

/// The level of logging, which may change.
#[derive(Clone)]
pub(super) struct Level(reload::Handle<LevelFilter, Registry>);

impl Level {
    /// Sets it.
    pub(super) fn set(&self, level: LogLevel) {
        // There is no log any more: the process ends.
        drop(self.0.reload(filter(level)));
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let (done, is_done) = std::sync::mpsc::sync_channel(1);
        if self.lines.waiting.try_send(Line::Flush(done)).is_ok() {
            let _ = is_done.recv_timeout(FLUSH);
        }
    }
}

/// Sends events to standard error from now on.
pub(crate) fn start(options: &Logging) -> Log {
    let (level, handle) = reload::Layer::new(filter(options.level.unwrap_or_default()));
    // Libraries speak of their own internals below warnings.
    let own = tracing_subscriber::filter::filter_fn(|metadata| {
        metadata.target().starts_with("cavalcade") || *metadata.level() <= tracing::Level::WARN
    });
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let writer = Lines::start();
    let log = Log { lines: writer.clone(), level: Level(handle) };
    let lines = tracing_subscriber::fmt::layer().with_writer(move || writer.clone()).with_target(false);
    let lines = lines.with_ansi(is_terminal && std::env::var_os("NO_COLOR").is_none());
    use tracing_subscriber::prelude::*;
    let registry = tracing_subscriber::registry().with(level);
    // A second start in one process keeps the first one's form.
    let _ = match options.format.unwrap_or_default() {
        LogFormat::Text => registry.with(lines.with_filter(own)).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true).with_filter(own)).try_init(),
    };
    log
}
