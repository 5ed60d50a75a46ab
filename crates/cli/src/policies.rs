//! Policies by name: choosing them, and listing what there is.

use std::fmt::Write as _;

use cavalcade_metrics::PolicyFacts;
use cavalcade_model::Scope;
use cavalcade_policy::{Configured, Paper, PolicyInfo, parse, registry};
use serde_json::{Value, json};

use crate::arguments::{Policies, Selection};
use crate::failure::Failure;
use crate::manifest::PolicyRecord;
use crate::output::print;

/// The baseline where none is named.
const DEFAULT_BASELINE: &str = "fair";

/// Reads one specification.
///
/// # Errors
/// Where a name is unknown (with the nearest one) or a value cannot be used.
pub(crate) fn configured(spec: &str) -> Result<Configured, Failure> {
    parse(spec).map_err(|error| {
        Failure::usage(error.to_string()).help("'cavalcade policies' lists policies and their parameters")
    })
}

/// The policies that are asked for, each once, and the place of the baseline among them.
///
/// # Errors
/// Where a specification is none, or the baseline is not among them.
pub(crate) fn selected(selection: &Selection) -> Result<(Vec<Configured>, usize), Failure> {
    let mut policies: Vec<Configured> = Vec::new();
    let named = || selection.policies.iter().chain(&selection.policy).map(String::as_str);
    let own = registry().iter().filter(|info| info.name == info.base).map(|info| info.name);
    let every = own.filter(|_| named().next().is_none());
    for spec in named().chain(every) {
        let policy = configured(spec)?;
        if place_of(&policies, &policy).is_none() {
            policies.push(policy);
        }
    }
    let baseline = match &selection.baseline {
        Some(spec) => place_of(&policies, &configured(spec)?).ok_or_else(|| {
            let labels: Vec<String> = policies.iter().map(Configured::label).collect();
            Failure::usage(format!("the baseline {spec} is not among the policies"))
                .help(format!("add it with --policy, or choose one of {}", labels.join(", ")))
        })?,
        None => policies.iter().position(|policy| policy.label() == DEFAULT_BASELINE).unwrap_or(0),
    };
    Ok((policies, baseline))
}

/// All policies under their own names, with their defaults, and the place of the baseline among them.
pub(crate) fn all() -> (Vec<Configured>, usize) {
    selected(&Selection::default()).expect("every policy of the registry can be made with its defaults")
}

/// Where `policy`, with the same parameters, stands among `policies`.
pub(crate) fn place_of(policies: &[Configured], policy: &Configured) -> Option<usize> {
    policies.iter().position(|other| other.name() == policy.name() && other.params() == policy.params())
}

/// All that is needed to make the same policy again.
pub(crate) fn record(policy: &Configured) -> PolicyRecord {
    PolicyRecord { spec: policy.spec(), name: policy.name().to_owned(), params: params_json(policy) }
}

fn params_json(policy: &Configured) -> Value {
    policy.params().into_iter().map(|(name, value)| (name.to_owned(), Value::String(value))).collect()
}

/// `cavalcade policies`.
pub(crate) fn list(options: &Policies) -> Result<(), Failure> {
    if options.json {
        let policies: Vec<Value> = registry().iter().map(info_json).collect();
        return print(&format!("{:#}\n", json!({ "schema_version": 2, "policies": policies })));
    }
    let mut text = String::new();
    overview(&mut text).expect("a string takes all text");
    for info in registry() {
        describe(info, &mut text).expect("a string takes all text");
    }
    text.push_str("Use one as --policy NAME:PARAMETER=VALUE,…; capitals do not matter in names.\n");
    print(&text)
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
    writeln!(text)
}

fn describe(info: &PolicyInfo, text: &mut String) -> std::fmt::Result {
    writeln!(text, "{}  {}", info.name, info.title)?;
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
        "settings": info.settings,
        "clairvoyant": info.clairvoyant,
        "scope": scope_name(info.scope),
        "knows": info.knows,
        "cost": info.cost,
        "parameters": parameters,
    })
}

/// Says of `policy` what reports show beside its figures: whether it is told sizes, and its paper.
pub(crate) fn about(policy: &Configured) -> PolicyFacts {
    let named = |paper: Paper| format!("{}, {} {}", paper.system, paper.venue, paper.year);
    let info = policy.info();
    // A variant is not its paper's policy, but it is made after it.
    let relative = || registry().iter().filter(|other| other.base == info.base).find_map(|other| other.paper);
    let paper = info.paper.map(named).or_else(|| relative().map(|paper| format!("after {}", named(paper))));
    PolicyFacts { told_sizes: policy.knows_sizes(), paper: paper.unwrap_or_default() }
}
