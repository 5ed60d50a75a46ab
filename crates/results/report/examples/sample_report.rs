//! Writes the report of a made-up comparison, to look at:
//! `cargo run -p cavalcade-report --example sample_report FILE [RUNS] [COFLOWS]`.

use std::{env, fs, io};

use cavalcade_report::{ReportInfo, TableOptions, html, table};

#[path = "../src/sample.rs"]
mod sample;

fn main() -> io::Result<()> {
    let mut arguments = env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| "sample_report.html".to_owned());
    let mut number = |default: usize| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let mut comparison = sample::comparison(number(5), number(526));
    comparison.bound = Some(sample::bound(&comparison));
    comparison.details = Some(sample::details(&comparison));
    let info = ReportInfo {
        command: "cavalcade compare trace.txt --policies sebf,fair --report report.html".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        trace: "a made-up trace".to_owned(),
        seed: Some(7),
    };
    io::Write::write_all(
        &mut io::stderr(),
        table(&comparison, TableOptions { by_bin: true, ..TableOptions::default() }).as_bytes(),
    )?;
    fs::write(file, html(&comparison, &info))
}
