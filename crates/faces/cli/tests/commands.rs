//! What the program prints: help, tables, JSON, traces.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use support::{Place, TRACE, golden};

/// The output of a run that succeeds.
fn output(place: &Place, arguments: &[&str]) -> String {
    let ran = place.run(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    ran.out
}

/// A table without its last column, the wall times: they alone differ between machines, and their
/// width with them.
fn without_wall_times(table: &str) -> String {
    let (rows, rest) = table.split_once("\n\n").unwrap();
    let header = rows.lines().next().unwrap();
    let width = header.strip_suffix("wall").unwrap().trim_end().chars().count();
    let cut = |line: &str| line.chars().take(width).collect::<String>().trim_end().to_owned() + "\n";
    rows.lines().map(cut).collect::<String>() + "\n" + rest
}

/// The commands of one help page: the names in the lists between usage and options.
fn subcommands(help: &str) -> Vec<String> {
    let lists =
        help.lines().skip_while(|line| !line.starts_with("Usage:")).take_while(|line| *line != "Options:");
    let names = lists.filter_map(|line| line.strip_prefix("  ")).filter(|line| line.contains("  "));
    let names = names.filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Adds the help of a command and of all below it to a page in Markdown.
fn add_help(page: &mut String, place: &Place, command: &[&str]) {
    let help = output(place, &[command, &["--help"][..]].concat());
    let name = [&["cavalcade"][..], command].concat().join(" ");
    let level = "#".repeat(2 + command.len().saturating_sub(1));
    *page += &format!("\n{level} {name}\n\n```text\n{}\n```\n", help.trim_end());
    for below in subcommands(&help) {
        add_help(page, place, &[command, &[below.as_str()][..]].concat());
    }
}

#[test]
fn help_has_no_template_left_in_it() {
    let ran = Place::new().run(&["--help"]);
    assert!(ran.out.contains("\nOptions:\n") && ran.out.contains("--version"), "{}", ran.out);
    assert!(!ran.out.contains('{'), "{}", ran.out);
}

#[test]
fn times_of_day_count_from_the_first_arrival_and_that_is_said() {
    let place = Place::new();
    for (start, noted) in [("1764150000.5", true), ("0", false)] {
        place.write("q.csv", format!("src,dst,bytes,start_s\n0,1,5000,{start}\n"));
        let ran = place.run(&["compare", "q.csv", "--policies", "fair"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let note = format!("time zero is the first arrival, at {start} s of this file");
        assert_eq!(ran.err.contains(&note), noted, "{}", ran.err);
    }
}

#[test]
fn an_empty_list_of_policies_is_refused() {
    let ran = Place::with_trace().run(&["compare", "trace.txt", "--policies", ""]);
    assert!(ran.code == 2 && ran.err.contains("names no policy"), "{} {}", ran.code, ran.err);
}

/// `docs/commands.md` is the help of every command, so it is never behind the program.
#[test]
fn the_documented_commands_are_those_of_the_program() {
    let mut page = String::from(
        "# Commands\n\nWhat `cavalcade COMMAND --help` prints, for every command. Made by \
         `CAVALCADE_GOLDEN=rewrite cargo test -p cavalcade-cli`; a test checks that it is up to date.\n",
    );
    add_help(&mut page, &Place::new(), &[]);
    golden("../../../../../docs/commands.md", &page);
}

#[test]
fn the_table_is_sorted_best_first() {
    let place = Place::with_trace();
    let table = output(&place, &["compare", "trace.txt", "--policies", "fair,fifo,sebf", "--by-bin"]);
    golden("compare.txt", &without_wall_times(&table));
}

#[test]
fn json_has_exactly_the_promised_keys() {
    let place = Place::with_trace();
    let text = output(&place, &["compare", "trace.txt", "--policies", "fair,sebf", "--json"]);
    let mut document: Value = serde_json::from_str(&text).unwrap();
    let wall = document["wall_s"].as_array_mut().unwrap();
    assert!(wall.len() == 2 && wall.iter().all(|seconds| seconds.as_f64().unwrap() >= 0.0));
    document["wall_s"] = Value::Null;
    golden("compare.json", &format!("{document:#}\n"));
}

#[test]
fn the_json_of_two_runs_differs_in_nothing_but_wall_times() {
    let place = Place::with_trace();
    let document = || {
        let text = output(&place, &["compare", "trace.txt", "--json", "--bound", "50"]);
        text.split_once(",\"wall_s\":[").expect("wall times stand last").0.to_owned()
    };
    assert_eq!(document(), document());
}

/// The names of all runs of a comparison, and what was said beside it.
fn compared(place: &Place, arguments: &[&str]) -> (Vec<String>, String) {
    let ran = place.run(&[&["compare"], arguments, &["--json"]].concat());
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    let runs = document["runs"].as_array().unwrap().iter();
    let mut names: Vec<String> = runs.map(|run| run["policy"].as_str().unwrap().to_owned()).collect();
    names.sort();
    (names, ran.err)
}

/// The names that `cavalcade policies` lists, those of papers or all.
fn listed(place: &Place, of_papers: bool) -> Vec<String> {
    let listed: Value = serde_json::from_str(&output(place, &["policies", "--json"])).unwrap();
    let policies = listed["policies"].as_array().unwrap().iter();
    let mut names: Vec<String> = policies
        .filter(|policy| !of_papers || !policy["paper"].is_null())
        .map(|policy| policy["name"].as_str().unwrap().to_owned())
        // Those of training jobs are in sets where tasks declare iterations.
        .filter(|name| !["cassini", "mltcp"].contains(&name.as_str()))
        .collect();
    names.sort();
    names
}

#[test]
fn where_no_policy_is_named_fair_sharing_every_paper_and_our_best_are_compared() {
    let place = Place::with_trace();
    let mut expected = listed(&place, true);
    assert!(
        ["aalo", "baraat", "dcas", "karuna", "tafe", "varys"]
            .iter()
            .all(|name| expected.contains(&(*name).to_owned()))
    );
    expected.extend(["fair", "learn"].map(str::to_owned));
    expected.sort();
    assert_eq!(compared(&place, &["trace.txt"]).0, expected);
    assert_eq!(compared(&place, &["trace.txt", "--policies", "Default"]).0, expected);
    expected.push("sebf".to_owned());
    expected.sort();
    assert_eq!(compared(&place, &["trace.txt", "--policies", "default,sebf,aalo"]).0, expected);
}

#[test]
fn all_is_every_name() {
    let place = Place::with_trace();
    assert_eq!(compared(&place, &["trace.txt", "--policies", "all"]).0, listed(&place, false));
}

/// A coflow of 205 × 200 flows.
fn large_trace() -> String {
    let sources: Vec<String> = (0..205).map(|port| port.to_string()).collect();
    let receivers: Vec<String> = (0..200).map(|port| format!("{port}:205")).collect();
    format!("205 1\n1 0 205 {} 200 {}\n", sources.join(" "), receivers.join(" "))
}

#[test]
fn over_a_large_trace_costly_policies_are_left_out_unless_they_are_named_and_a_message_says_so() {
    let place = Place::new();
    place.write("large.txt", large_trace());
    let (names, said) = compared(&place, &["large.txt"]);
    let has = |name: &str| names.iter().any(|one| one == name);
    assert!(has("baraat") && !has("dcas") && has("dcas-quiet") && has("aalo"), "{names:?}");
    let note = "Left out because of their cost on a trace of this size: dcas, for which dcas-quiet stands. \
                To run them as well: --policies default,dcas\n";
    assert!(said.contains(note), "{said}");
    let (names, said) = compared(&place, &["large.txt", "--policies", "fair,dcas-quiet"]);
    assert!(names == ["dcas-quiet", "fair"] && !said.contains("Left out"), "{said}");
}

#[test]
fn tcp_is_a_name_of_fair_sharing_and_is_shown_behind_it() {
    let place = Place::with_trace();
    assert_eq!(
        compared(&place, &["trace.txt", "--policies", "TCP,fifo", "--baseline", "tcp"]).0,
        ["fair", "fifo"]
    );
    let table = output(&place, &["compare", "trace.txt", "--policies", "tcp,fifo"]);
    assert!(table.contains("\nfair (TCP)  ") && table.contains("fair stands for TCP"), "{table}");
    let weaker = output(&place, &["compare", "trace.txt", "--policies", "fair:conserving=false"]);
    assert!(!weaker.contains("TCP"), "{weaker}");
    let report = place.run(&["compare", "trace.txt", "--policies", "tcp,fifo", "--report", "r.html"]);
    assert_eq!(report.code, 0, "{}", report.err);
    assert!(String::from_utf8(place.read("r.html")).unwrap().contains("fair (TCP)"));
}

#[test]
fn policies_shows_the_one_that_is_named() {
    let place = Place::new();
    let text = output(&place, &["policies", "Aalo"]);
    assert!(text.starts_with("aalo  ") && text.contains("first_threshold="), "{text}");
    assert!(!text.contains("sincronia") && text.lines().count() < 25, "{text}");
    let one: Value = serde_json::from_str(&output(&place, &["policies", "tcp", "--json"])).unwrap();
    let names: Vec<&str> =
        one["policies"].as_array().unwrap().iter().map(|policy| policy["name"].as_str().unwrap()).collect();
    assert_eq!((names, one["policies"][0]["stands_for"].as_str()), (vec!["fair"], Some("TCP")));
    let ran = place.run(&["policies", "alo"]);
    assert!(ran.code == 2 && ran.out.is_empty() && ran.err.contains("aalo"), "{}", ran.err);
}

#[test]
fn a_shell_completes_the_names_of_policies() {
    let script = output(&Place::new(), &["completions", "bash"]);
    let offered = script.split_once("--policies)").unwrap().1.split_once(";;").unwrap().0;
    for name in ["default", "all", "tcp", "aalo", "varys", "sebf"] {
        assert!(offered.split([' ', '"']).any(|word| word == name), "{name} in {offered}");
    }
}

/// Two tasks on two ports: one of a shuffle, a second of computation and another shuffle, with a
/// deadline that sharing misses; and one of a single transfer. Each transfer of 125 MB takes a
/// second at 1 Gbps.
const TASKS: &str = r#"{"cavalcade_trace":1,"ports":2}
{"name":"query","arrival_ns":5000000000,"deadline_ns":3500000000,"stages":[{"flows":[[0,1,125000000]]},{"compute_ns":1000000000,"starts_after":[0]},{"flows":[[0,1,125000000]],"starts_after":[1]}]}
{"name":"copy","arrival_ns":5000000000,"stages":[{"flows":[[0,1,125000000]]}]}
"#;

#[test]
fn where_tasks_have_stages_the_table_ranks_by_task_and_shows_both_times() {
    let place = Place::new();
    place.write("tasks.jsonl", TASKS);
    let table = output(&place, &["compare", "tasks.jsonl", "--policies", "fair,fifo"]);
    golden("compare_tasks.txt", &without_wall_times(&table));
}

#[test]
fn json_csv_and_parquet_have_the_same_tasks() {
    let place = Place::new();
    place.write("tasks.jsonl", TASKS);
    let ran = place.run(&["compare", "tasks.jsonl", "--policies", "fair,fifo", "--json", "--out", "out"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    // Fair: query and copy share until 2 s, then it computes, and sends alone from 3 to 4 s. Fifo:
    // 1, then 1 and 1 s.
    let fifo = &document["runs"][0];
    assert_eq!(
        (&fifo["policy"], &fifo["tct"]["mean_s"], &fifo["cct"]["max_s"]),
        (&"fifo".into(), &2.5.into(), &2.0.into())
    );
    assert_eq!(fifo["deadlines"], serde_json::json!({ "tasks": 1, "missed": 0 }));
    let fair = &document["runs"][1];
    assert_eq!(fair["deadlines"]["missed"], 1);
    assert_eq!(
        fair["tasks"][0],
        serde_json::json!({
            "name": "query", "start_s": 5.0, "end_s": 9.0, "tct_s": 4.0, "alone_s": 3.0,
            "slowdown": 4.0 / 3.0, "deadline_met": false,
        })
    );
    let csv = String::from_utf8(place.read("out/tasks.csv")).unwrap();
    let expected = "\
run,task,arrival_ns,finish_ns,tct_ns,alone_ns,slowdown,deadline_ns,deadline_met,weight,class,name
fair,0,5000000000,9000000000,4000000000,3000000000,1.3333333333333333,3500000000,false,1,online,query
fair,1,5000000000,7000000000,2000000000,1000000000,2,,,1,online,copy
fifo,0,5000000000,8000000000,3000000000,3000000000,1,3500000000,true,1,online,query
fifo,1,5000000000,7000000000,2000000000,1000000000,2,,,1,online,copy
";
    assert_eq!(csv, expected);
    let files = support::names(&place.path("out"));
    assert!(["tasks.csv", "tasks.parquet"].iter().all(|name| files.contains(&(*name).to_owned())));
    let ran = place.run(&["simulate", "tasks.jsonl", "--policy", "fair", "--out", "run"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let of_run = String::from_utf8(place.read("run/tasks.csv")).unwrap();
    let of_comparison: Vec<&str> = csv.lines().filter_map(|line| line.strip_prefix("fair,")).collect();
    assert_eq!(of_run.lines().skip(1).collect::<Vec<_>>(), of_comparison);
}

#[test]
fn under_no_policy_a_task_is_faster_than_alone() {
    let place = Place::new();
    let queries = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/queries.jsonl");
    let text = output(&place, &["compare", queries, "--policies", "all", "--json"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    for run in document["runs"].as_array().unwrap() {
        let tasks = run["tasks"].as_array().unwrap();
        assert_eq!(tasks.len(), 12);
        for task in tasks {
            assert!(task["slowdown"].as_f64().unwrap() >= 1.0, "{}: {task}", run["policy"]);
            assert!(task["tct_s"].as_f64() >= task["alone_s"].as_f64());
        }
    }
}

#[test]
fn completions_go_into_an_empty_folder_that_is_there_whatever_it_is_called() {
    let place = Place::new();
    let compare = ["compare", "-", "--policies", "fair", "--no-bound", "--out", "."];
    assert_eq!(place.run_with_input(&compare, TRACE).code, 0);
    let files = place.names();
    assert!(files.contains(&"coflows.csv".to_owned()) && !files.iter().any(|name| name.starts_with('.')));
    // Once more it is not empty, which is found before anything is run or printed.
    let ran = place.run_with_input(&compare, TRACE);
    assert!(ran.code == 1 && ran.out.is_empty() && ran.err.contains("not empty"), "{}", ran.err);
    assert_eq!(place.names(), files);
}

#[test]
fn one_policy_may_be_given_with_several_settings() {
    let place = Place::with_trace();
    let arguments = ["compare", "trace.txt", "--json", "--policy", "dclas", "--policy", "dclas:queues=2"];
    let document: Value = serde_json::from_str(&output(&place, &arguments)).unwrap();
    let queues: Vec<&Value> =
        document["runs"].as_array().unwrap().iter().map(|run| &run["params"]["queues"]).collect();
    assert_eq!(queues.len(), 2);
    assert_ne!(queues[0], queues[1]);
}

#[test]
fn the_same_policy_twice_is_run_once() {
    let place = Place::with_trace();
    let arguments = ["compare", "trace.txt", "--json", "--policies", "fair,stf,fair", "--policy", "stf"];
    let document: Value = serde_json::from_str(&output(&place, &arguments)).unwrap();
    assert_eq!(document["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn offline_submits_everything_at_once() {
    let place = Place::with_trace();
    let makespan = |extra: &[&str]| {
        let arguments = [&["compare", "trace.txt", "--policies", "fifo", "--json"], extra].concat();
        let document: Value = serde_json::from_str(&output(&place, &arguments)).unwrap();
        document["runs"][0]["makespan_s"].as_f64().unwrap()
    };
    assert!(makespan(&["--offline"]) <= makespan(&[]));
}

#[test]
fn standard_input_and_compressed_files_are_read() {
    let place = Place::new();
    let ran = place.run_with_input(&["trace", "info", "-", "--json"], TRACE);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let facts: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&facts["coflows"], &facts["flows"]), (&Value::from(3), &Value::from(5)));
}

#[test]
fn policies_are_listed_with_source_and_parameters() {
    let place = Place::new();
    let text = output(&place, &["policies"]);
    let listed: Value = serde_json::from_str(&output(&place, &["policies", "--json"])).unwrap();
    for policy in listed["policies"].as_array().unwrap() {
        for key in ["name", "source", "knows"] {
            let value = policy[key].as_str().unwrap();
            assert!(!value.is_empty() && text.contains(value), "{key}: {value}");
        }
        for parameter in policy["parameters"].as_array().unwrap() {
            let setting =
                format!("{}={}", parameter["name"].as_str().unwrap(), parameter["default"].as_str().unwrap());
            assert!(text.contains(&setting), "{setting}");
        }
    }
}

#[test]
fn a_trace_is_described() {
    let place = Place::with_trace();
    golden("trace_info.txt", &output(&place, &["trace", "info", "trace.txt"]));
}

#[test]
fn a_trace_comes_through_every_format_that_can_carry_it() {
    let place = Place::with_trace();
    for format in ["coflow-benchmark", "sincronia", "native"] {
        output(&place, &["trace", "convert", "trace.txt", "--to", format, "--out", format]);
        let info = |file: &str| {
            let text = output(&place, &["trace", "info", file, "--json"]);
            let mut facts: Value = serde_json::from_str(&text).unwrap();
            facts["format"] = Value::Null;
            facts
        };
        assert_eq!(info(format), info("trace.txt"), "{format}");
    }
}

#[test]
fn a_generated_trace_is_the_same_for_the_same_seed_and_another_for_another() {
    let place = Place::new();
    let make =
        |seed: &str| output(&place, &["trace", "generate", "facebook:coflows=20,ports=10", "--seed", seed]);
    assert_eq!(make("7"), make("7"));
    assert_ne!(make("7"), make("8"));
}

#[test]
fn a_report_is_one_file_that_needs_no_other() {
    let place = Place::with_trace();
    output(&place, &["compare", "trace.txt", "--policies", "fair,sebf", "--report", "report.html"]);
    assert_eq!(place.names(), ["report.html", "trace.txt"]);
    let page = String::from_utf8(place.read("report.html")).unwrap();
    assert!(page.to_ascii_lowercase().starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    for outside in ["src=\"http", "href=\"http", "@import", "url(http"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn completions_are_made_for_every_shell_and_man_pages_for_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(output(&place, &["completions", shell]).contains("cavalcade"), "{shell}");
    }
    output(&place, &["man", "pages"]);
    let pages = support::names(&place.path("pages"));
    assert!(pages.contains(&"cavalcade.1".to_owned()), "{pages:?}");
    assert!(pages.contains(&"cavalcade-trace-convert.1".to_owned()), "{pages:?}");
}

/// The tables of the configuration file, each with the command whose flags set the same.
const TABLES: [(&str, &str); 5] = [
    ("site", "coordinator"),
    ("coordinator", "coordinator"),
    ("agent", "agent"),
    ("enforce", "enforce"),
    ("log", "coordinator"),
];

/// The keys of a table, as the program lists them to someone who names none of them.
fn keys(place: &Place, table: &str) -> Vec<String> {
    place.write("site.toml", format!("[{table}]\n{} = 0\n", "x".repeat(40)));
    let ran = place.run(&["coordinator", "--config", "site.toml"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    let listed = ran.err.split("unknown field").nth(1).expect("it lists the keys");
    listed.split('`').skip(1).step_by(2).skip(1).map(str::to_owned).collect()
}

/// The flags of a command, as keys are spelt, each with what the help says of it.
fn flags(place: &Place, command: &str) -> BTreeMap<String, String> {
    let help = output(place, &[command, "--help"]);
    let options = help.split("\n      --").skip(1).map(|option| {
        let (head, said) = option.split_once('\n').expect("each has a help");
        let said = said.split("\n\n").next().unwrap_or_default();
        let name = head.split(' ').next().unwrap_or_default().replace('-', "_");
        (name, said.split_whitespace().collect::<Vec<_>>().join(" "))
    });
    options.collect()
}

/// The flag that sets the same as a key.
fn flag_of<'a>(table: &str, key: &'a str) -> &'a str {
    match (table, key) {
        ("agent", "coordinators") => "coordinator",
        ("log", "format") => "log_format",
        ("log", "level") => "log_level",
        _ => key,
    }
}

#[test]
fn each_option_of_the_live_system_is_a_flag_and_a_key_of_the_file_except_those_named_here() {
    let place = Place::new();
    let of_table = |table: &str| -> BTreeSet<String> {
        keys(&place, table).iter().map(|key| flag_of(table, key).to_owned()).collect()
    };
    let compare = |command: &str, tables: &[&str], only_flags: &[&str], only_keys: &[&str]| {
        let flags: BTreeSet<String> = flags(&place, command).into_keys().collect();
        let keys: BTreeSet<String> = tables.iter().flat_map(|table| of_table(table)).collect();
        assert_eq!(flags.difference(&keys).collect::<Vec<_>>(), only_flags, "only flags of {command}");
        assert_eq!(keys.difference(&flags).collect::<Vec<_>>(), only_keys, "only keys of {command}");
    };
    compare("coordinator", &["site", "coordinator", "log"], &["config"], &[]);
    let counters = ["config", "task_counter", "task_counter_file"];
    compare("agent", &["site", "agent", "log"], &counters, &["plain_outside"]);
    let elsewhere = ["certificates", "config", "group", "hosts", "socket"];
    compare("enforce", &["enforce"], &elsewhere, &[]);
    let of_file: BTreeSet<String> = TABLES.iter().flat_map(|(table, _)| of_table(table)).collect();
    let of_up = flags(&place, "up").into_keys();
    let of_up = of_up.filter(|flag| !of_file.contains(flag) && !counters.contains(&flag.as_str()));
    assert_eq!(of_up.collect::<Vec<_>>(), ["agent_metrics"]);
}

/// Adds a setting to a page, below what is said of it.
fn add_setting(page: &mut String, said: &str, setting: &str) {
    let mut line = String::from("#");
    for word in said.split_whitespace() {
        if line.len() + 1 + word.len() > 100 {
            *page += &format!("{line}\n");
            line.truncate(1);
        }
        line += &format!(" {word}");
    }
    *page += &format!("{line}\n{setting}\n");
}

/// `docs/cavalcade.toml` has every key, set or left out; values, their order and what stands at
/// some distance from them are not made here.
#[test]
fn the_sample_of_a_configuration_file_says_of_each_option_what_its_flag_says() {
    let place = Place::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/cavalcade.toml");
    let sample = std::fs::read_to_string(path).expect("it is there");
    let (mut page, mut above): (String, Vec<&str>) = Default::default();
    let (mut table, mut missing, mut said): (&str, Vec<String>, BTreeMap<String, String>) =
        Default::default();
    for line in sample.lines().chain([""]) {
        let setting = line.strip_prefix("# ").unwrap_or(line).split_once(" = ").map(|(key, _)| key);
        if let Some(at) = missing.iter().position(|key| Some(key.as_str()) == setting) {
            // What is no flag is described here alone.
            let here = above.drain(..).map(|line| &line[1..]).collect::<String>();
            add_setting(&mut page, said.get(flag_of(table, &missing.remove(at))).unwrap_or(&here), line);
        } else if line.starts_with('#') {
            above.push(line);
        } else {
            for key in std::mem::take(&mut missing) {
                let said = said.get(flag_of(table, &key)).map_or("", String::as_str);
                add_setting(&mut page, said, &format!("# {key} = \"give an example\""));
            }
            above.drain(..).chain([line]).for_each(|line| page += &format!("{line}\n"));
        }
        if let Some((name, command)) = TABLES.iter().find(|(table, _)| line == format!("[{table}]")) {
            (table, missing, said) = (name, keys(&place, name), flags(&place, command));
        }
    }
    golden("../../../../../docs/cavalcade.toml", &format!("{}\n", page.trim_end()));
}
