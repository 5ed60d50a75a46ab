//! `cavalcade fabric`: what a line of text or a file builds, in words and as a picture.

pub(crate) mod argument;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cavalcade_model::{BitsPerSec, LinkId, Nanos, Node};
use cavalcade_report::fabric_picture;
use serde_json::{Value, json};

use crate::arguments::{Fabric, FabricInfo, FabricPlot};
use crate::failure::Failure;
use crate::output::print;
use crate::report::{picture_file, write_picture};

/// The rate of ports where the text does not say.
const RATE: BitsPerSec = BitsPerSec(1_000_000_000);

/// Runs the command.
///
/// # Errors
/// If there can be no such fabric.
pub(crate) fn run(command: &Fabric) -> Result<(), Failure> {
    match command {
        Fabric::Info(options) => info(options),
        Fabric::Plot(options) => plot(options),
    }
}

fn plot(options: &FabricPlot) -> Result<(), Failure> {
    let file = picture_file(&options.out)?;
    let fabric = options.fabric.build(RATE)?;
    let text = options.fabric.to_string();
    // What is out of the ordinary is named below the picture.
    let (title, _) = text.split_once(';').unwrap_or((&text, ""));
    write_picture(file, &options.out, &fabric_picture(title, &fabric))
}

fn link_json(fabric: &cavalcade_model::Fabric, link: LinkId) -> Value {
    json!({
        "name": fabric.link_name(link),
        "rate_bps": fabric.capacity(link).get(),
        "delay_ns": fabric.delay(link).get(),
        "failed": fabric.has_failed(link),
    })
}

fn info(options: &FabricInfo) -> Result<(), Failure> {
    let fabric = options.fabric.build(RATE)?;
    if options.json {
        let links: Vec<_> = fabric.links().map(|link| link_json(&fabric, link)).collect();
        return print(&format!(
            "{:#}\n",
            json!({
                "schema_version": 1,
                "fabric": options.fabric.to_string(),
                "hosts": fabric.ports(),
                "links": links,
            })
        ));
    }
    let mut text = format!("{}\n{} hosts, {} links\n", options.fabric, fabric.ports(), fabric.link_count());
    if options.links {
        for link in fabric.links() {
            let (name, capacity) = (fabric.link_name(link), fabric.capacity(link));
            let delay = match fabric.delay(link) {
                Nanos::ZERO => String::new(),
                delay => format!("  {delay}"),
            };
            let failed = if fabric.has_failed(link) { "  failed" } else { "" };
            let _ = writeln!(text, "{name:<36}{capacity}{delay}{failed}");
        }
        return print(&text);
    }
    let mut kinds: BTreeMap<(usize, &str, &str, BitsPerSec), usize> = BTreeMap::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for link in fabric.links() {
        let [from, to] = fabric.ends(link).map(Node::plural);
        let rank = seen.iter().position(|kind| *kind == (from, to)).unwrap_or_else(|| {
            seen.push((from, to));
            seen.len() - 1
        });
        *kinds.entry((rank, from, to, fabric.capacity(link))).or_default() += 1;
    }
    for ((_, from, to, capacity), links) in kinds {
        let _ = writeln!(text, "{:<44}{links:>8} links of {capacity}", format!("{from} to {to}"));
    }
    let failed = fabric.links().filter(|&link| fabric.has_failed(link)).count();
    if failed > 0 {
        let _ = writeln!(text, "{:<44}{failed:>8} links", "of which failed");
    }
    print(&text)
}
