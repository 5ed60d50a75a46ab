//! `docs/outputs.md`: every table and every key that the program writes. Columns come from the
//! definitions that write them, and the keys of JSON are held against what commands print.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cavalcade::columns::Column;
use cavalcade::outputs::{Table, tables};
use cavalcade::training::{JobTable, Jobs, compare_jobs};
use cavalcade::{Engine, Policy, Progress};
use serde_json::Value;
use support::{Place, golden};

/// Keys of `compare --json` and `simulate --json`. `[]` stands for each entry of a list, `*` for
/// names that depend on the run.
const COMPARISON: &[(&str, &str)] = &[
    ("schema_version", "version of these keys: 2"),
    ("cavalcade", "version of the program"),
    ("conditions.trace", "trace, as it was named"),
    ("conditions.fabric", "fabric as text; null for one big switch"),
    ("conditions.rate_bps", "capacity of a port, unless the fabric says otherwise"),
    ("conditions.seed", "seed of everything random"),
    ("conditions.offline", "whether all tasks were submitted at time zero"),
    ("trace.tasks", "number of tasks"),
    ("trace.coflows", "number of coflows"),
    ("trace.ports", "number of ports"),
    ("trace.bytes", "bytes of all flows"),
    ("rate_bps", "rate of the slowest link of the fabric"),
    (
        "runs",
        "a run for each policy, best first: by mean TCT where some task is more than one coflow, else by mean CCT",
    ),
    ("runs[].policy", "name of the policy, or of the schedule"),
    ("runs[].params.*", "each parameter, as text; `schedule` names the file of one that was made elsewhere"),
    (
        "runs[].told_sizes",
        "whether the policy knows sizes when flows arrive; `null` for a schedule, whose maker alone knows",
    ),
    ("runs[].paper", "paper of the policy; empty where there is none"),
    (
        "runs[].tct.*",
        "task completion times: mean_s, p50_s, p95_s, p99_s, max_s; where some task is more than one coflow",
    ),
    ("runs[].task_slowdown.*", "TCT over the task alone: mean, p95; where `tct` is"),
    ("runs[].cct.*", "coflow completion times: mean_s, p50_s, p95_s, p99_s, max_s"),
    ("runs[].slowdown.*", "CCT over the coflow alone: mean, p95"),
    ("runs[].makespan_s", "from the first arrival to the end of the last task"),
    ("runs[].deadlines.tasks", "tasks that have a deadline; where there are any, or packets"),
    ("runs[].deadlines.missed", "those that missed it"),
    ("runs[].gap", "excess of the mean over `bound.mean_s`, as a share of it; where there is a bound"),
    ("runs[].engine", "`control` or `packet`; absent on the fluid engine"),
    ("runs[].period_s", "control engine: time between rounds"),
    ("runs[].messages", "control engine: messages between machines"),
    ("runs[].transport", "packet engine: transport"),
    ("runs[].transport_params.*", "packet engine: its parameters"),
    (
        "runs[].fct.to_100KB",
        "packet engine: completion times of flows up to 100 KB (keys as of `cct`); null where there are none",
    ),
    ("runs[].fct.to_10MB", "packet engine: of those up to 10 MB"),
    ("runs[].fct.above_10MB", "packet engine: of larger ones"),
    ("runs[].queues.dropped", "packet engine: packets dropped at switches"),
    ("runs[].queues.marked", "packet engine: packets marked"),
    ("runs[].queues.lost", "packet engine: packets lost on links that failed"),
    (
        "runs[].queues.occupancy.*",
        "packet engine: bytes that wait for a link, over time: p50_bytes, p95_bytes, p99_bytes, max_bytes",
    ),
    ("runs[].queues.utilisation.*", "packet engine: share of capacity that links carried: mean, max"),
    (
        "runs[].queues.fullest",
        "packet engine: the fullest ports, with the same figures: port, packets, dropped, marked, lost, occupancy, utilisation",
    ),
    (
        "runs[].negotiation.*",
        "with --in-band: datagrams between policies' instances: datagrams, statements, payload_bytes, arrived, left_out, lost, link_bytes, link_share, mean_delay_s, max_delay_s",
    ),
    ("runs[].tasks", "tasks: name, start_s, end_s, tct_s, alone_s, slowdown, deadline_met; where `tct` is"),
    ("bound.method", "how the bound was found; with --bound"),
    ("bound.budget", "what was spent on it"),
    ("bound.mean_s", "mean that no schedule can be below"),
    ("bound.misses", "deadlines that every schedule misses"),
    (
        "savings.*",
        "of an imported log: recorded and simulated times of its queries, and what each policy saves",
    ),
    (
        "wall_s",
        "seconds that each run took on this machine, in the order of `runs`; all else is the same in every run",
    ),
];

/// Keys of the other commands.
const OTHERS: &[(&str, &[(&str, &str)])] = &[
    (
        "validate RUN --json",
        &[
            ("schema_version", "version of these keys: 1"),
            ("valid", "true; false, with other keys, if it is not valid: exit code 4"),
            ("segments", "number of segments"),
            ("peak_load", "largest load of a link, as a share of its capacity"),
            ("work_conservation", "whether it was checked that no capacity is idle while a flow waits"),
        ],
    ),
    (
        "validate --schedule FILE --json",
        &[
            ("schema_version", "version of these keys: 1"),
            ("valid", "true; false, with other keys, if it is not valid: exit code 4"),
            ("segments", "number of segments"),
            ("peak_load", "largest load of a link, as a share of its capacity"),
            ("work_conservation", "false: it is not checked"),
            ("figures.*", "keys of a run of `compare --json`"),
        ],
    ),
    (
        "validate --json of what is not valid",
        &[
            ("schema_version", "version of these keys: 1"),
            ("valid", "false, with exit code 4"),
            ("violations[].kind", "what kind: bytes, overload, before_release and others"),
            ("violations[].message", "the same for people"),
            ("violations[].file", "file that has the lines"),
            ("violations[].lines", "lines to look at, from 1; the first five"),
            ("violations[].lines_in_all", "their number"),
            (
                "violations[].flows.*",
                "flows, of an overload the first eight: flow (its number), coflow, src, dst",
            ),
            ("violations[].coflow", "name of the coflow, if it is about one"),
            ("violations[].task", "name of the task, if it is about one"),
            ("violations[].link", "link, if it is about one"),
            ("violations[].from_ns", "when it begins, from the first arrival on"),
            ("violations[].to_ns", "when it ends"),
            ("more", "number of violations that are not listed"),
        ],
    ),
    (
        "replay RUN --json",
        &[
            ("schema_version", "version of these keys: 1"),
            ("same", "true; what differs is an error with exit code 4"),
            ("results.*", "SHA-256 of each file"),
        ],
    ),
];

/// All paths of keys in a document.
fn paths(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                found.insert(path.clone());
                paths(value, &path, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| paths(value, &format!("{at}[]"), found)),
        _ => {}
    }
}

/// Whether a key is what an entry speaks of: it, what is inside a list or object that it speaks of
/// as a whole, or what holds it.
fn is_described(path: &str, keys: &[(&str, &str)]) -> bool {
    keys.iter().any(|(key, _)| {
        let stem = key.strip_suffix(".*").unwrap_or(key);
        let inside = path.strip_prefix(stem).is_some_and(|rest| {
            let whole = key.ends_with(".*") || ["tasks", "fullest"].iter().any(|list| stem.ends_with(list));
            let is_part = whole || stem.contains(".fct.");
            rest.is_empty() || (is_part && rest.starts_with(['.', '[']))
        });
        inside || stem.strip_prefix(path).is_some_and(|rest| rest.starts_with(['.', '[']))
    })
}

fn is_written(key: &str, found: &BTreeSet<String>) -> bool {
    let stem = key.strip_suffix(".*").unwrap_or(key);
    found.iter().any(|path| path == stem)
}

fn printed(place: &Place, arguments: &[&str]) -> Value {
    printed_with(place, arguments, 0)
}

fn printed_with(place: &Place, arguments: &[&str], code: i32) -> Value {
    let ran = place.run(arguments);
    assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

const TASKS: &str = "{\"cavalcade_trace\":1,\"ports\":2}\n{\"name\":\"query\",\"arrival_ns\":0,\"deadline_ns\":3500000,\"stages\":[{\"flows\":[[0,1,125000]]},{\"flows\":[[0,1,125000]],\"starts_after\":[0]}]}\n";

#[test]
fn every_key_of_a_comparison_is_described_and_every_description_is_of_a_key() {
    let place = Place::with_trace();
    place.write("tasks.jsonl", TASKS);
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/spark-eventlog.json");
    let mut found = BTreeSet::new();
    for arguments in [
        &["trace.txt", "--policies", "fair,dclas", "--bound", "50"][..],
        &["tasks.jsonl", "--policies", "fair", "--engine", "fluid,control"],
        &["tasks.jsonl", "--policies", "dcas", "--engine", "packet", "--in-band"],
        &["tasks.jsonl", "--policies", "fair", "--fabric", "leafspine:leaves=1,spines=1,hosts=2"],
        &[log, "--policies", "fair"],
    ] {
        let document = printed(&place, &[&["compare"], arguments, &["--json"]].concat());
        paths(&document, "", &mut found);
    }
    for path in &found {
        assert!(is_described(path, COMPARISON), "{path} is not described");
    }
    for (key, _) in COMPARISON {
        assert!(is_written(key, &found), "nothing writes {key}");
    }
    let simulated = printed(&place, &["simulate", "trace.txt", "--policy", "fair", "--json"]);
    let mut found = BTreeSet::new();
    paths(&simulated, "", &mut found);
    assert!(found.iter().all(|path| is_described(path, COMPARISON)), "{found:?}");
}

#[test]
fn every_key_of_other_commands_is_described_and_every_description_is_of_a_key() {
    let place = Place::with_trace();
    let simulate = ["simulate", "trace.txt", "--policy", "fair", "--out", "run", "--dump-schedule"];
    assert_eq!(place.run(&simulate).code, 0);
    let schedule = ["validate", "--schedule", "run/schedule.csv", "--trace", "trace.txt", "--json"];
    let slower = [&schedule[..], &["--rate", "500Mbps"]].concat();
    for ((command, keys), (arguments, code)) in OTHERS.iter().zip([
        (&["validate", "run", "--json"][..], 0),
        (&schedule, 0),
        (&slower, 4),
        (&["replay", "run", "--json"], 0),
    ]) {
        let mut found = BTreeSet::new();
        paths(&printed_with(&place, arguments, code), "", &mut found);
        for path in &found {
            assert!(is_described(path, keys), "{command}: {path} is not described");
        }
        for (key, _) in *keys {
            assert!(is_written(key, &found), "{command}: nothing writes {key}");
        }
    }
}

#[test]
fn the_files_have_the_columns_that_are_described() {
    let place = Place::new();
    place.write("trace.csv", "src,dst,bytes,start_s,coflow\nweb,db,1000000,0,a\ndb,web,500000,0,b\n");
    let compare = ["compare", "trace.csv", "--policies", "fair", "--out", "out", "--dump-schedule"];
    assert_eq!(place.run(&compare).code, 0);
    for table in tables().unwrap() {
        let at = if table.of_comparison { "out" } else { "out/runs/fair" };
        let text = String::from_utf8(place.read(&format!("{at}/{}.csv", table.name))).unwrap();
        let described: Vec<&str> = table.columns.iter().map(Column::name).collect();
        assert_eq!(text.lines().next().unwrap(), described.join(","), "{}", table.name);
    }
}

fn add_keys(page: &mut String, keys: &[(&str, &str)]) {
    *page += "| key | meaning |\n|---|---|\n";
    for (key, meaning) in keys {
        writeln!(page, "| `{key}` | {meaning} |").unwrap();
    }
}

/// Adds a table: its name, what writes it, and what its rows are.
fn add_table(page: &mut String, (name, of, rows): (&str, &str, &str), columns: &[Column]) {
    write!(page, "\n## {name} of `{of}`\n\n`{name}.csv` and `{name}.parquet`: {rows}.\n\n").unwrap();
    *page += "| column | type | unit | meaning |\n|---|---|---|---|\n";
    for column in columns {
        let (kind, optional) = column.kind();
        let optional = if optional { ", may be empty" } else { "" };
        let (name, meaning) = (column.name(), column.meaning());
        assert!(!meaning.is_empty(), "{name} is not described");
        writeln!(page, "| `{name}` | {kind}{optional} | {} | {meaning} |", unit(name)).unwrap();
    }
}

/// The unit of a column, which the end of its name says.
fn unit(name: &str) -> &'static str {
    match name.rsplit('_').next() {
        Some("ns") => "ns",
        Some("s") => "s",
        Some("bytes") => "bytes",
        _ => "",
    }
}

#[test]
fn the_page_of_outputs_is_that_of_the_program() {
    let mut page = String::from(
        "# Outputs\n\nAll tables and keys that Cavalcade writes. Made by `CAVALCADE_GOLDEN=rewrite cargo test -p cavalcade-cli`; \
         tests check that it is up to date.\n\n\
         `cavalcade simulate --out DIR` writes a folder of one run. `cavalcade compare --out DIR` writes tables of all runs, and in \
         `DIR/runs` such a folder for each, which `cavalcade replay` and `validate` take. Every folder of a run has a \
         `manifest.json`: the trace by its SHA-256, all conditions and parameters, and the SHA-256 of every other file.\n\n\
         Tables are CSV (RFC 4180, with a header) and Parquet with the same columns. Times are whole nanoseconds, in the time of \
         the trace; ratios are written with the fewest digits that read back as the same number. The same input and seed give the \
         same bytes on every machine, but for `wall_s`.\n\n\
         `schema_version` is the version of a document's or folder's layout. It grows when a key or file goes, or comes to mean \
         something else. New keys and columns do not change it: a program that reads them should ignore what it does not know.\n",
    );
    for Table { name, rows, of_comparison, columns } in tables().unwrap() {
        let of = if of_comparison { "compare --out" } else { "simulate --out" };
        add_table(&mut page, (name, of, rows), &columns);
    }
    let place = Place::new();
    place.write(
        "jobs.toml",
        "[cluster]\nhosts = 2\ngpus = 1\nnic = \"8Gbps\"\n[[job]]\nname = \"a\"\nstep = [{ compute = \"1ms\" }]\n",
    );
    let jobs = Jobs::read(&place.path("jobs.toml")).unwrap();
    let policies = [Policy::named("fair").unwrap()];
    let compared = compare_jobs(jobs, &policies, &[Engine::Fluid], false, &Progress::default()).unwrap();
    for JobTable { name, rows, columns } in compared.tables() {
        add_table(&mut page, (name, "train compare --out", rows), &columns);
    }
    page += "\n## schedule of `simulate --out`\n\n`schedule.csv`, with `--dump-schedule`: a row for each piece of time in which a flow \
             is sent at one rate, between two lines that begin with `#`, the last of which counts them. [formats.md](formats.md#schedules-made-elsewhere) \
             says how to write one elsewhere.\n\n| column | type | unit | meaning |\n|---|---|---|---|\n\
             | `flow` | int64 | | number of the flow |\n| `from_ns` | decimal | ns | start, in the time of the trace |\n\
             | `to_ns` | decimal | ns | end, in the time of the trace |\n| `rate_bps` | decimal | bit/s | rate |\n\n\
             ## `compare --json` and `simulate --json`\n\n";
    add_keys(&mut page, COMPARISON);
    for (command, keys) in OTHERS {
        write!(page, "\n## `{command}`\n\n").unwrap();
        add_keys(&mut page, keys);
    }
    golden("../../../../../docs/outputs.md", &page);
}
