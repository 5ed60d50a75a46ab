//! Policies by name: choosing them, and listing what there is.

use std::fmt::Write as _;
use std::sync::LazyLock;

use cavalcade::spec;
use cavalcade::{Asked, Choice, Policy, Scenario};
use cavalcade_model::Scope;
use cavalcade_policy::{Configured, Paper, PolicyInfo, parse, registry};
use cavalcade_report::wrapped;
use serde_json::{Value, json};

use crate::arguments::{Policies, Selection};
use crate::failure::Failure;
use crate::output::{print, tell};
use crate::terminal;

/// Reads one specification.
///
/// # Errors
/// If a name is unknown (with the nearest one) or a value cannot be used.
pub(crate) fn configured(spec: &str) -> Result<Configured, Failure> {
    parse(spec).map_err(|error| Failure::usage(error.to_string()).help(LISTED))
}

/// The cure of a policy that cannot be used.
const LISTED: &str = "'cavalcade policies' lists policies and their parameters";

/// Notes how many coflows the orders of files leave out, once for each order that does.
///
/// # Errors
/// If one is not an order of the scenarios' coflows.
pub(crate) fn note_unlisted(scenarios: &[Scenario]) -> Result<(), Failure> {
    let mut seen: Vec<&Policy> = Vec::new();
    for scenario in scenarios {
        let workload = scenario.workload();
        let Some(policy) = scenario.policy().filter(|policy| !seen.contains(policy)) else { continue };
        seen.push(policy);
        let left = policy.listed(workload)?.map_or(0, |listed| workload.coflow_count() - listed.len());
        if left > 0 {
            tell(&format!(
                "{}: {left} of {} coflows are not in it; they follow in order of arrival.",
                policy.label(),
                workload.coflow_count()
            ));
        }
    }
    Ok(())
}

/// Reads the policies that are asked for, each once, and finds the place of the baseline among
/// them.
///
/// # Errors
/// If a specification cannot be used, or the baseline is not among them.
pub(crate) fn selected(selection: &Selection) -> Result<(Vec<Choice>, usize), Failure> {
    let mut named = spec::list(&selection.policies.join(","));
    named.extend(selection.policy.iter().cloned());
    if named.is_empty() && !selection.policies.is_empty() {
        return Err(Failure::usage("--policies names no policy").help(LISTED));
    }
    if named.is_empty() {
        named.push(Choice::DEFAULT.to_owned());
    }
    let mut choices: Vec<Choice> = Vec::new();
    for text in named {
        for choice in Choice::of_word(&text)? {
            match choices.iter_mut().find(|known| known.is(&choice)) {
                Some(known) if choice.is_named() => known.asked = Asked::ByName,
                Some(_) => {}
                None => choices.push(choice),
            }
        }
    }
    let baseline = match &selection.baseline {
        Some(text) => {
            let baseline = Choice::named(text)?;
            choices.iter().position(|choice| choice.is(&baseline)).ok_or_else(|| {
                let labels: Vec<String> = choices.iter().map(Choice::label).collect();
                Failure::usage(format!("the baseline {text} is not among the policies"))
                    .help(format!("add it with --policy, or choose one of {}", labels.join(", ")))
            })?
        }
        None => choices.iter().position(|choice| choice.label() == Choice::BASELINE).unwrap_or(0),
    };
    if selection.baseline.is_some() {
        choices[baseline].asked = Asked::ByName;
    }
    Ok((choices, baseline))
}

/// Words that `--policies` takes: sets, names, and what policies stand for.
pub(crate) fn words() -> impl Iterator<Item = &'static str> {
    static OTHERS: LazyLock<Vec<String>> = LazyLock::new(|| {
        registry().iter().filter_map(|info| info.stands_for).map(str::to_ascii_lowercase).collect()
    });
    let names = registry().iter().map(|info| info.name);
    [Choice::DEFAULT, Choice::ALL].into_iter().chain(OTHERS.iter().map(String::as_str)).chain(names)
}

/// `cavalcade policies`.
///
/// # Errors
/// If there is no policy of the name that is asked for.
pub(crate) fn list(options: &Policies) -> Result<(), Failure> {
    let one = options.name.as_deref().map(configured).transpose()?.map(|policy| policy.info());
    if options.json {
        let policies: Vec<Value> = match one {
            Some(info) => vec![info_json(info)],
            None => registry().iter().map(info_json).collect(),
        };
        return print(&format!("{:#}\n", json!({ "schema_version": 2, "policies": policies })));
    }
    let mut text = String::new();
    match one {
        Some(info) => describe(info, &mut text).expect("a string takes all text"),
        None => {
            overview(&mut text).expect("a string takes all text");
            for info in registry() {
                describe(info, &mut text).expect("a string takes all text");
            }
        }
    }
    text.push_str("Use one as --policy NAME:PARAMETER=VALUE,…; names are case-insensitive.\n");
    print(&wrapped(&text, terminal::fit(false).width))
}

fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Fabric => "fabric",
        Scope::Host => "host",
        Scope::Link => "link",
    }
}

fn sizes(info: &PolicyInfo) -> &'static str {
    if info.clairvoyant { "told sizes" } else { "not told sizes" }
}

/// Writes one line for each name: those of papers first, by year.
fn overview(text: &mut String) -> std::fmt::Result {
    let mut papers: Vec<(u16, &PolicyInfo, &Paper)> = registry()
        .iter()
        .filter_map(|info| info.paper.as_ref().map(|paper| (paper.year, info, paper)))
        .collect();
    papers.sort_by_key(|&(year, info, _)| (year, info.name));
    writeln!(text, "Policies of papers, under their own names, with the papers' parameters:")?;
    for (year, info, paper) in papers {
        let published = format!("{} {year}", paper.venue);
        let follows = paper.follows.words();
        writeln!(text, "  {:12} {published:24} {:16} {follows}", info.name, sizes(info))?;
    }
    writeln!(text, "\nGeneric orders, and variants of ours:")?;
    for info in registry().iter().filter(|info| info.paper.is_none()) {
        writeln!(text, "  {:12} {:24} {:16} {}", info.name, scope_name(info.scope), sizes(info), info.title)?;
    }
    writeln!(
        text,
        "\nAn order of your own: order:FILE, with the name of one coflow a line, the first to be served at the top;\n\
         coflows that are not in it follow in order of arrival. order:FILE,discipline=maxmin or madd shares the rest\n\
         among a coflow's flows in another way than greedy."
    )?;
    writeln!(text)
}

fn describe(info: &PolicyInfo, text: &mut String) -> std::fmt::Result {
    writeln!(text, "{}  {}", info.name, info.title)?;
    if let Some(other) = info.stands_for {
        writeln!(text, "    stands for {other}, and can be named {}", other.to_ascii_lowercase())?;
    }
    if let Some(paper) = &info.paper {
        let follows = paper.follows.words();
        writeln!(text, "    paper   {}, {} {}, {follows}", paper.system, paper.venue, paper.year)?;
        if let Some(transport) = paper.transport {
            let orders = if transport.orders { ", which orders them itself" } else { "" };
            writeln!(text, "    packets over its transport {}{orders}", transport.name)?;
        }
    }
    writeln!(text, "    source  {}", info.source)?;
    writeln!(text, "    knows   {} ({}; scope: {})", info.knows, sizes(info), scope_name(info.scope))?;
    writeln!(text, "    cost    {}", info.cost)?;
    if info.name != info.base {
        let colon = if info.settings.is_empty() { "" } else { ":" };
        writeln!(text, "    same as {}{colon}{}", info.base, info.settings)?;
    }
    let settings = info.parameters.iter().map(|p| p.name.len() + 1 + p.value.len());
    let column = settings.max().unwrap_or(0);
    for parameter in &info.parameters {
        let setting = format!("{}={}", parameter.name, parameter.value);
        writeln!(text, "    {setting:column$}  {} ({})", parameter.meaning, parameter.expected)?;
    }
    writeln!(text)
}

fn info_json(info: &PolicyInfo) -> Value {
    let parameters: Vec<Value> = info
        .parameters
        .iter()
        .map(|parameter| {
            json!({
                "name": parameter.name,
                "default": parameter.value,
                "expected": parameter.expected,
                "meaning": parameter.meaning,
            })
        })
        .collect();
    let paper = info.paper.map(|paper| {
        json!({
            "system": paper.system,
            "venue": paper.venue,
            "year": paper.year,
            "follows": paper.follows.words(),
            "transport": paper.transport.map(|transport| transport.name),
        })
    });
    json!({
        "name": info.name,
        "title": info.title,
        "source": info.source,
        "paper": paper,
        "base": info.base,
        "stands_for": info.stands_for,
        "settings": info.settings,
        "clairvoyant": info.clairvoyant,
        "scope": scope_name(info.scope),
        "knows": info.knows,
        "cost": info.cost,
        "parameters": parameters,
    })
}
