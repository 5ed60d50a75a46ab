//! Odd but legal texts of each format, and what has to hold of them: each is read as what its
//! writer meant, whatever blanks, quotes, line ends, orders of fields and ways to write a number it
//! chose.
//!
//! The writers here share no code with those of the crate. What a text means is made by itself
//! beside it.

use cavalcade_model::{
    Bytes, Coflow, CoflowId, Compute, Flow, Instant, Nanos, PortId, Stage, StageIndex, Task, TaskClass, Work,
    Workload, WorkloadBuilder,
};
use cavalcade_trace::{Format, ReadOptions, Reading, read_files};
use serde_json::{Value, json};

use super::choices::Choices;

/// Writes one odd text and checks that it is read as what it means. False if what was drawn is no
/// workload.
///
/// # Panics
/// If it is not.
pub(crate) fn odd_text_holds(choices: &mut Choices<'_>) -> bool {
    match choices.below(6) {
        0 => flow_list(choices),
        1 => csv(choices),
        2 => coflow_benchmark(choices),
        3 => sincronia(choices),
        4 => native(choices),
        _ => return spark(choices),
    }
    true
}

/// Reads `text`, which has to be recognised as `format`; a workload also survives being written and
/// read.
fn check(text: &str, format: Format, meant: &Workload) {
    let reading = read_as(text, format);
    assert!(reading.workload == *meant, "{text:?}\nis read as\n{:?}\nand means\n{meant:?}", reading.workload);
    super::reading_holds(text.as_bytes(), None);
}

fn read_as(text: &str, format: Format) -> Reading {
    let file = cavalcade_trace::File { name: "odd", bytes: text.as_bytes() };
    let reading = read_files(&[file], &ReadOptions::default());
    let reading = reading.unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert_eq!(reading.format, format, "{text:?}");
    reading
}

/// Ways to separate words, and to end lines.
const BLANKS: [&str; 4] = [" ", "\t", "   ", " \t "];
const ENDS: [&str; 3] = ["\n", "\r\n", "\n\n"];

/// Names without blanks; some look like something else.
const WORDS: [&str; 14] =
    ["a", "b7", "1", "2", "3", "flow-1", "flow-2", "é", "日本", "{", "x,src,dst", "\"q\"", "a;b", "1e3"];
/// Names with anything in them.
const NAMES: [&str; 14] = [
    "a",
    "job 1, stage 2",
    "\"",
    "a \"b\" c",
    ";",
    "1",
    "2",
    "flow-2",
    "tab\there",
    "two\nlines",
    "é",
    "日本",
    "{",
    "#x",
];

fn bytes(choices: &mut Choices<'_>) -> u64 {
    let number = choices.number();
    match choices.below(4) {
        0 => 1,
        1 => 1 + number % 1000,
        2 => 1 << (number % 57),
        _ => 1 + number % (1 << 50),
    }
}

/// Times from zero, from 1970, or near the end of time; with ties and gaps.
struct Clock {
    now: u64,
}

impl Clock {
    fn new(choices: &mut Choices<'_>) -> Self {
        let now =
            choices.pick(&[0, 0, 1, 494_319_000_000_000, 1_700_000_000_000_000_001, (1 << 62) - (1 << 55)]);
        Self { now }
    }

    fn next(&mut self, choices: &mut Choices<'_>) -> u64 {
        self.now +=
            choices.pick(&[0, 0, 1, 100, 1_000_000, 1_500_000_000, 86_400_000_000_000, 600_000_000_000_000]);
        self.now
    }
}

/// A line of a flow list or a CSV.
#[derive(Clone, Debug)]
struct Row {
    src: usize,
    dst: usize,
    bytes: u64,
    start: u64,
    coflow: Option<String>,
    /// What it is called where it has no coflow.
    id: String,
}

fn rows(choices: &mut Choices<'_>, hosts: usize, names: &[&str]) -> Vec<Row> {
    let mut clock = Clock::new(choices);
    let count = 1 + choices.below(6);
    let mut rows: Vec<Row> = (0..count)
        .map(|_| Row {
            src: choices.below(hosts),
            dst: choices.below(hosts),
            bytes: bytes(choices),
            start: clock.next(choices),
            coflow: (!choices.one_in(4)).then(|| choices.pick(names).to_owned()),
            id: String::new(),
        })
        .collect();
    choices.shuffle(&mut rows);
    rows
}

/// What rows mean, with hosts as ports, which have these names.
fn meaning(rows: &[Row], port: &dyn Fn(usize) -> u32, ports: u32, names: Vec<String>) -> Workload {
    let given: Vec<&str> = rows.iter().filter_map(|row| row.coflow.as_deref()).collect();
    let ids: Vec<&str> = rows.iter().filter(|row| row.coflow.is_none()).map(|row| row.id.as_str()).collect();
    let mut taken: Vec<String> = given.iter().chain(&ids).map(|name| (*name).to_owned()).collect();
    let mut coflows: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows {
        let name = match &row.coflow {
            Some(name) => name.clone(),
            None if !given.contains(&row.id.as_str()) => row.id.clone(),
            None => {
                let others = (2..).map(|count| format!("flow-{}-{count}", row.id));
                let mut others = std::iter::once(format!("flow-{}", row.id)).chain(others);
                let name = others.find(|name| !taken.contains(name)).expect("one is free");
                taken.push(name.clone());
                name
            }
        };
        match coflows.iter_mut().find(|(known, _)| *known == name) {
            Some((_, flows)) => flows.push(row),
            None => coflows.push((name, vec![row])),
        }
    }
    let mut builder = WorkloadBuilder::new(ports);
    builder.port_names(names);
    for (name, rows) in coflows {
        let arrival = rows.iter().map(|row| row.start).min().expect("a coflow has flows");
        let flow = |row: &&Row| Flow {
            src: PortId(port(row.src)),
            dst: PortId(port(row.dst)),
            size: Bytes(row.bytes),
            wave: Nanos(row.start - arrival),
        };
        builder.coflow(name, Instant(arrival), rows.iter().map(flow).collect());
    }
    builder.build().expect("a legal workload")
}

fn flow_list(choices: &mut Choices<'_>) {
    let mut rows = rows(choices, 5, &WORDS);
    let mut ids: Vec<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
    choices.shuffle(&mut ids);
    // The first word of the first line that is no comment tells the format.
    ids.retain(|id| id != "{" && !id.contains("src"));
    for (row, id) in rows.iter_mut().zip(ids) {
        row.id = id;
    }
    let mut text = choices.pick(&["", "\u{feff}", "\n", "# a comment\r\n"]).to_owned();
    for row in &rows {
        let blank = |choices: &mut Choices<'_>| choices.pick(&BLANKS);
        text += choices.pick(&["", "", " ", "# and more\n", "\t#\n"]);
        let zeros = choices.pick(&["", "", "0", "000"]);
        for word in
            [row.id.clone(), row.src.to_string(), format!("{zeros}{}", row.dst), row.bytes.to_string()]
        {
            text += &word;
            text += blank(choices);
        }
        text += &row.start.to_string();
        if let Some(coflow) = &row.coflow {
            text += blank(choices);
            text += coflow;
        }
        text += choices.pick(&["", "", " ", " # a remark", "\t"]);
        text += choices.pick(&ENDS);
    }
    let ports = rows.iter().map(|row| row.src.max(row.dst)).max().expect("a row") as u32 + 1;
    check(&text, Format::FLOW_LIST, &meaning(&rows, &|host| host as u32, ports, Vec::new()));
}

/// A whole number of nanoseconds in a unit of so many, in one of the ways to write that.
fn decimal(choices: &mut Choices<'_>, value: u64, places: usize) -> String {
    let digits = format!("{value:0>width$}", width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    let bare = fraction.trim_end_matches('0');
    match choices.below(5) {
        0 if places > 0 => format!("{whole}.{fraction}"),
        1 => format!("{whole}.{bare}0"),
        2 => format!("{value}e-{places}"),
        3 if bare.is_empty() => format!("+{whole}"),
        _ if bare.is_empty() => whole.to_owned(),
        _ => format!("{whole}.{bare}"),
    }
}

fn csv(choices: &mut Choices<'_>) {
    let are_numbers = choices.one_in(3);
    let hosts: Vec<String> = if are_numbers {
        let step = 1 + choices.below(700);
        (0..5).map(|host| (host * step).to_string()).collect()
    } else {
        ["web-1", "10.0.0.7", "3232235777", "rack 3, \"left\"", "日本"].map(str::to_owned).to_vec()
    };
    let names: Vec<&str> = NAMES.to_vec();
    let mut rows = rows(choices, hosts.len(), &names);
    for (number, row) in (1..).zip(&mut rows) {
        row.id = number.to_string();
    }
    // Two hosts of names that are numbers would be ports.
    if !are_numbers && !rows.iter().any(|row| row.src != 2 || row.dst != 2) {
        rows[0].src = 0;
    }
    let separator = choices.pick(&[",", ";", "\t"]);
    let (unit, places) = choices.pick(&[("ns", 0), ("us", 3), ("ms", 6), ("s", 9)]);
    let start = choices.pick(&["start", "arrival", "Time", "TIMESTAMP"]);
    let mut columns = vec![
        choices.pick(&["src", "SRC", "source", "From", "src_ip", "srcHost"]).to_owned(),
        choices.pick(&["dst", "Dst", "destination", "to", "dst ip", "receiver"]).to_owned(),
        choices.pick(&["bytes", "Size (bytes)", "size"]).to_owned(),
        choices.pick(&[format!("{start}_{unit}"), format!("{start} [{unit}]")]),
        choices.pick(&["coflow", "Coflow ID"]).to_owned(),
    ];
    for extra in 0..choices.below(3) {
        columns
            .push(format!("{}{extra}", choices.pick(&["rack", "source of truth", "to do, \"x\"", "start"])));
    }
    let mut order: Vec<usize> = (0..columns.len()).collect();
    choices.shuffle(&mut order);
    let field = |choices: &mut Choices<'_>, text: &str| {
        let needs = text.contains([',', ';', '\t', '"', '\n', '\r']);
        if needs || choices.one_in(4) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            let blank = if separator == "\t" { "" } else { choices.pick(&["", "", " "]) };
            format!("{blank}{text}{blank}")
        }
    };
    let end = choices.pick(&["\n", "\r\n"]);
    let mut lines = vec![columns.clone()];
    for row in &rows {
        let start = decimal(choices, row.start, places);
        let bytes =
            choices.pick(&[row.bytes.to_string(), format!("{}.0", row.bytes), format!("+{}e0", row.bytes)]);
        let coflow = row.coflow.clone().unwrap_or_default();
        let mut fields = vec![hosts[row.src].clone(), hosts[row.dst].clone(), bytes, start, coflow];
        fields.resize_with(columns.len(), || choices.pick(&["", "7", "x, y", "\"\""]).to_owned());
        lines.push(fields);
    }
    let mut text = choices.pick(&["", "\u{feff}", "# exported\n", "\n\n"]).to_owned();
    for line in &lines {
        let fields: Vec<String> = order.iter().map(|&place| field(choices, &line[place])).collect();
        text += &fields.join(separator);
        text += end;
        if choices.one_in(6) {
            text += choices.pick(&[end, &format!("{}{end}", separator.repeat(columns.len() - 1))]);
        }
    }
    if choices.one_in(3) {
        text.truncate(text.trim_end_matches(['\r', '\n']).len());
    }
    let mut seen: Vec<usize> = Vec::new();
    for host in rows.iter().flat_map(|row| [row.src, row.dst]) {
        if !seen.contains(&host) {
            seen.push(host);
        }
    }
    let by_name = |host: usize| seen.iter().position(|&known| known == host).expect("a host of a row") as u32;
    let by_number = |host: usize| hosts[host].parse().expect("a number");
    let port: &dyn Fn(usize) -> u32 = if are_numbers { &by_number } else { &by_name };
    let ports = seen.iter().map(|&host| port(host)).max().expect("a row") + 1;
    let named: &[usize] = if are_numbers { &[] } else { &seen };
    let names = named.iter().map(|&host| hosts[host].clone()).collect();
    check(&text, Format::CSV, &meaning(&rows, port, ports, names));
}

/// A number of bytes as MB of 2²⁰, exactly.
fn megabytes(choices: &mut Choices<'_>, bytes: u64) -> String {
    let digits = format!("{:0>21}", u128::from(bytes) * 5u128.pow(20));
    let (whole, fraction) = digits.split_at(digits.len() - 20);
    let bare = fraction.trim_end_matches('0');
    match choices.below(3) {
        0 if bare.is_empty() => whole.to_owned(),
        1 => format!("{}{bare}E-{}", whole.trim_start_matches('0'), bare.len()),
        _ => format!("{whole}.{bare}0"),
    }
}

/// The lines of a text with a header, in any way to break and fill them.
fn with_header(choices: &mut Choices<'_>, lines: &[Vec<String>]) -> String {
    let mut text = choices.pick(&["", "\u{feff}", "\n"]).to_owned();
    for line in lines {
        text += choices.pick(&["", "", " "]);
        for (place, word) in line.iter().enumerate() {
            if place > 0 {
                text += choices.pick(&BLANKS);
            }
            text += word;
        }
        text += choices.pick(&ENDS);
    }
    text
}

/// Coflows for the formats with a header: name and arrival.
fn arrivals(choices: &mut Choices<'_>) -> Vec<(String, u64)> {
    let mut clock = Clock::new(choices);
    let mut names: Vec<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
    choices.shuffle(&mut names);
    let count = 1 + choices.below(4);
    let mut arrivals: Vec<_> =
        names.into_iter().take(count).map(|name| (name, clock.next(choices))).collect();
    choices.shuffle(&mut arrivals);
    arrivals
}

fn coflow_benchmark(choices: &mut Choices<'_>) {
    let ports = 2 + choices.below(5) as u32;
    let coflows = arrivals(choices);
    let mut lines = vec![vec![ports.to_string(), coflows.len().to_string()]];
    let mut builder = WorkloadBuilder::new(ports);
    for (name, arrival) in coflows {
        let port = |choices: &mut Choices<'_>| choices.below(ports as usize) as u32;
        let mappers: Vec<u32> = (0..=choices.below(3)).map(|_| port(choices)).collect();
        let mut line = vec![name.clone(), decimal(choices, arrival, 6).trim_start_matches('+').to_owned()];
        line.push(mappers.len().to_string());
        line.extend(mappers.iter().map(u32::to_string));
        let reducers: Vec<(u32, u64)> =
            (0..=choices.below(3)).map(|_| (port(choices), 1 + bytes(choices) % (1 << 52))).collect();
        line.push(reducers.len().to_string());
        let mut flows = Vec::new();
        for (dst, each) in reducers {
            line.push(format!("{dst}:{}", megabytes(choices, each * mappers.len() as u64)));
            flows.extend(mappers.iter().map(|&src| Flow {
                src: PortId(src),
                dst: PortId(dst),
                size: Bytes(each),
                wave: Nanos::ZERO,
            }));
        }
        builder.coflow(name, Instant(arrival), flows);
        lines.push(line);
    }
    let text = with_header(choices, &lines);
    check(&text, Format::COFLOW_BENCHMARK, &builder.build().expect("a legal workload"));
}

fn sincronia(choices: &mut Choices<'_>) {
    let ports = 2 + choices.below(5) as u32;
    let coflows = arrivals(choices);
    let mut lines = vec![vec![ports.to_string(), coflows.len().to_string()]];
    let mut builder = WorkloadBuilder::new(ports);
    for (name, arrival) in coflows {
        let port = |choices: &mut Choices<'_>| PortId(choices.below(ports as usize) as u32);
        let count = 1 + choices.below(4);
        let mut line = vec![name.clone(), decimal(choices, arrival, 6).trim_start_matches('+').to_owned()];
        line.extend([count, choices.below(9), choices.below(9)].map(|count| count.to_string()));
        let mut flows = Vec::new();
        for _ in 0..count {
            let (src, dst, size) = (port(choices), port(choices), Bytes(bytes(choices)));
            line.extend([src.to_string(), dst.to_string(), megabytes(choices, size.0)]);
            flows.push(Flow { src, dst, size, wave: Nanos::ZERO });
        }
        builder.coflow(name, Instant(arrival), flows);
        lines.push(line);
    }
    // A name with a colon in the line behind the header would pass for a reducer's; none has one.
    let text = with_header(choices, &lines);
    check(&text, Format::SINCRONIA, &builder.build().expect("a legal workload"));
}

/// A JSON text with fields in any order, blanks of `blanks` anywhere, and letters escaped or not.
fn written(choices: &mut Choices<'_>, value: &Value, blanks: &[&str]) -> String {
    let blank = |choices: &mut Choices<'_>| if choices.one_in(3) { choices.pick(blanks) } else { "" };
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            choices.shuffle(&mut fields);
            let mut parts = Vec::new();
            for (name, value) in fields {
                let (name, value) = (text(choices, name), written(choices, value, blanks));
                let [a, b, c, d] = [(); 4].map(|()| blank(choices));
                parts.push(format!("{a}{name}{b}:{c}{value}{d}"));
            }
            format!("{{{}}}", parts.join(","))
        }
        Value::Array(list) => {
            let mut parts = Vec::new();
            for value in list {
                let [a, b] = [(); 2].map(|()| blank(choices));
                parts.push(format!("{a}{}{b}", written(choices, value, blanks)));
            }
            format!("[{}]", parts.join(","))
        }
        Value::String(letters) => text(choices, letters),
        other => other.to_string(),
    }
}

fn text(choices: &mut Choices<'_>, letters: &str) -> String {
    let mut text = "\"".to_owned();
    for letter in letters.chars() {
        let plain = !matches!(letter, '"' | '\\') && !letter.is_control();
        if plain && !choices.one_in(6) {
            text.push(letter);
        } else {
            letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text += &format!("\\u{unit:04x}"));
        }
    }
    text + "\""
}

/// Blanks that JSON allows; the first two also inside a line.
const JSON_BLANKS: [&str; 4] = [" ", "\t", "\n", "\r\n    "];

fn native(choices: &mut Choices<'_>) {
    let ports = 3;
    let mut clock = Clock::new(choices);
    let mut names: Vec<&str> = NAMES.to_vec();
    choices.shuffle(&mut names);
    let count = 1 + choices.below(4);
    let mut values = vec![json!({"cavalcade_trace": 1, "ports": ports, "tasks": count})];
    let mut builder = WorkloadBuilder::new(ports);
    for name in names.into_iter().take(count) {
        let arrival = clock.next(choices);
        let (stages, parts, transfers) = stages(choices, ports as usize);
        let mut value = json!({"name": name, "arrival_ns": arrival, "stages": parts});
        let mut task = Task { name: name.to_owned(), stages, ..Task::of_coflow(name, Instant(arrival)) };
        if choices.one_in(3) {
            (value["deadline_ns"], task.deadline) = (json!(7), Some(Nanos(7)));
        }
        if choices.one_in(3) {
            (value["class"], task.class) = (json!("background"), TaskClass::Background);
        }
        if choices.one_in(3) {
            (value["weight"], task.weight) = (json!(3), 3);
        }
        values.push(value);
        builder.push(task, transfers);
    }
    let mut text = choices.pick(&["", "\u{feff}", "\r\n"]).to_owned();
    for value in &values {
        text += &written(choices, value, &JSON_BLANKS);
        text += choices.pick(&["\n", "\r\n", "", "\n\n"]);
    }
    check(&text, Format::NATIVE, &builder.build().expect("a legal workload"));
}

/// Stages of a task, in the model and in JSON, and its coflows.
fn stages(choices: &mut Choices<'_>, ports: usize) -> (Vec<Stage>, Vec<Value>, Vec<Coflow>) {
    let (mut stages, mut parts, mut transfers) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..=choices.below(3) {
        let on: Vec<u32> = (0..index as u32).filter(|_| choices.one_in(2)).collect();
        let mut part = json!({"starts_after": on});
        let work = if choices.one_in(3) {
            let nanos = choices.pick(&[0, 1, 1_000_000_007]);
            part["compute_ns"] = json!(nanos);
            Work::Compute(Compute::lasting(Nanos(nanos)))
        } else {
            let flow = |choices: &mut Choices<'_>| Flow {
                src: PortId(choices.below(ports) as u32),
                dst: PortId(choices.below(ports) as u32),
                size: Bytes(bytes(choices)),
                wave: Nanos(choices.pick(&[0, 0, 5])),
            };
            let flows: Vec<Flow> = (0..=choices.below(2)).map(|_| flow(choices)).collect();
            let entry = |flow: &Flow| match flow.wave.0 {
                0 => json!([flow.src.0, flow.dst.0, flow.size.0]),
                wave => json!([flow.src.0, flow.dst.0, flow.size.0, wave]),
            };
            part["flows"] = flows.iter().map(entry).collect();
            transfers.push(Coflow { flows });
            Work::Transfer(CoflowId::default())
        };
        let starts_after = on.into_iter().map(StageIndex).collect();
        stages.push(Stage { starts_after, finishes_after: Vec::new(), work });
        parts.push(part);
    }
    (stages, parts, transfers)
}

/// Events of applications with jobs of two stages, at `zero_ms` and later.
fn events(choices: &mut Choices<'_>, zero_ms: u64) -> Vec<Value> {
    let mut events = Vec::new();
    for application in 0..=choices.below(2) {
        events.push(json!({"Event": "SparkListenerLogStart", "Spark Version": choices.pick(&["2.4.8", "3.5.1", "4.0.0"])}));
        events.push(json!({"Event": "SparkListenerApplicationStart", "App ID": format!("app-{application}"), "Timestamp": zero_ms}));
        let mut now = zero_ms;
        for job in 0..=choices.below(2) as u32 {
            now += choices.pick(&[0, 7, 86_400_000]);
            let (map, reduce) = (2 * job, 2 * job + 1);
            let infos =
                json!([{"Stage ID": map, "Parent IDs": []}, {"Stage ID": reduce, "Parent IDs": [map]}]);
            events.push(json!({"Event": "SparkListenerJobStart", "Job ID": job, "Submission Time": now, "Stage Infos": infos}));
            for (stage, key) in [(map, "written"), (reduce, "read")] {
                for index in 0..=choices.below(2) {
                    let (host, amount) = (choices.pick(&["h1", "h2", "h3"]), bytes(choices) % (1 << 50));
                    let read = if key == "read" { amount } else { 0 };
                    let finish = now + choices.pick(&[0, 3, 1000]);
                    events.push(json!({
                        "Event": "SparkListenerTaskEnd", "Stage ID": stage, "Stage Attempt ID": 0,
                        "Task End Reason": {"Reason": "Success"},
                        "Task Info": {"Index": index, "Launch Time": now, "Executor ID": host, "Host": host, "Finish Time": finish},
                        "Task Metrics": {
                            "Shuffle Read Metrics": {"Remote Bytes Read": read, "Local Bytes Read": 5, "Fetch Wait Time": 0},
                            "Shuffle Write Metrics": {"Shuffle Bytes Written": amount - read},
                        },
                    }));
                }
                now += 1000;
            }
            events.push(json!({"Event": "SparkListenerJobEnd", "Job ID": job}));
        }
        events.push(json!({"Event": "SparkListenerApplicationEnd", "Timestamp": now}));
    }
    events
}

/// Adds fields and events of which nothing is known, and odd values where they do not matter.
fn made_odd(choices: &mut Choices<'_>, events: &mut Vec<Value>) {
    for event in events.iter_mut() {
        if choices.one_in(2) {
            event["A Field: of, later \"versions\""] =
                json!({"nested": [1, {"Event": "no event"}], "text": "{\"Event\":"});
        }
        for path in ["/Task Info/Index", "/Task Metrics/Shuffle Read Metrics/Fetch Wait Time"] {
            if let Some(value) = event.pointer_mut(path)
                && choices.one_in(4)
            {
                *value = choices.pick(&[json!(-1), json!(null), json!("many"), json!(1e300)]);
            }
        }
    }
    let manager = json!({"Event": "SparkListenerBlockManagerAdded", "Block Manager ID": {"Host": "h9"}, "Timestamp": 1});
    for _ in 0..choices.below(3) {
        let at = choices.below(events.len() + 1);
        events.insert(at, manager.clone());
    }
}

fn spark(choices: &mut Choices<'_>) -> bool {
    let seed = choices.number();
    let later = choices.pick(&[0, 1, 1_700_000_000_000, 2_000_000_000_000]);
    let of = |zero_ms| events(&mut Choices::new(seed, &[]), zero_ms);
    let plain: String = of(0).iter().map(|event| format!("{event}\n")).collect();
    let file = cavalcade_trace::File { name: "odd", bytes: plain.as_bytes() };
    // Some applications shuffle nothing from host to host, and are no workload.
    let Ok(plain) = read_files(&[file], &ReadOptions::default()) else { return false };
    let mut odd = of(later);
    made_odd(choices, &mut odd);
    let blanks = &JSON_BLANKS[..2];
    let mut text = choices.pick(&["", "\u{feff}", "\n"]).to_owned();
    for event in &odd {
        text += &if choices.one_in(5) {
            serde_json::to_string_pretty(event).expect("JSON")
        } else {
            written(choices, event, blanks)
        };
        text += choices.pick(&["\n", "\r\n", "\n\n"]);
    }
    let reading = read_as(&text, Format::SPARK);
    // Time zero is the first task that is kept, so a shift of all times changes nothing.
    assert!(reading.workload == plain.workload, "{text:?}\nis read as\n{:?}", reading.workload);
    assert_eq!((&reading.shuffles, &reading.queries), (&plain.shuffles, &plain.queries), "{text:?}");
    super::reading_holds(text.as_bytes(), None);
    true
}
