//! What the program prints: help, tables, JSON, traces.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use serde_json::Value;
use support::{Place, TRACE, golden};

/// The output of a run that succeeds.
fn output(place: &Place, arguments: &[&str]) -> String {
    let ran = place.run(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    ran.out
}

/// A table without its last column, the wall times: they alone differ between machines, and their width with them.
fn without_wall_times(table: &str) -> String {
    let (rows, rest) = table.split_once("\n\n").unwrap();
    let header = rows.lines().next().unwrap();
    let width = header.strip_suffix("wall").unwrap().trim_end().chars().count();
    let cut = |line: &str| line.chars().take(width).collect::<String>().trim_end().to_owned() + "\n";
    rows.lines().map(cut).collect::<String>() + "\n" + rest
}

/// The commands of one help page: the names below "Commands:".
fn subcommands(help: &str) -> Vec<String> {
    let lines =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
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

/// `docs/commands.md` is the help of every command, so it is never behind the program.
#[test]
fn the_documented_commands_are_those_of_the_program() {
    let mut page = String::from(
        "# Commands\n\nWhat `cavalcade COMMAND --help` prints, for every command. Made by \
         `CAVALCADE_GOLDEN=rewrite cargo test -p cavalcade-cli`; a test checks that it is up to date.\n",
    );
    add_help(&mut page, &Place::new(), &[]);
    golden("../../../../docs/commands.md", &page);
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
    for run in document["runs"].as_array_mut().unwrap() {
        assert!(run["wall_s"].as_f64().unwrap() >= 0.0);
        run["wall_s"] = Value::Null;
    }
    golden("compare.json", &format!("{document:#}\n"));
}

#[test]
fn every_policy_is_compared_where_none_is_named() {
    let place = Place::with_trace();
    let listed: Value = serde_json::from_str(&output(&place, &["policies", "--json"])).unwrap();
    let compared: Value = serde_json::from_str(&output(&place, &["compare", "trace.txt", "--json"])).unwrap();
    let own: Vec<Value> = listed["policies"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|policy| policy["name"] == policy["base"])
        .cloned()
        .map(|mut policy| {
            // Literal D-CAS costs too much to be run without being asked for.
            if policy["name"] == "dcas" {
                policy["name"] = "dcas-quiet".into();
            }
            policy
        })
        .collect();
    let names = |list: &Value| {
        let mut names: Vec<String> =
            list.as_array().unwrap().iter().map(|policy| policy.to_string()).collect();
        names.sort();
        names
    };
    let of = |list: &Value, key: &str| {
        names(&list.as_array().unwrap().iter().map(|entry| entry[key].clone()).collect())
    };
    assert_eq!(of(&own.into(), "name"), of(&compared["runs"], "policy"));
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
