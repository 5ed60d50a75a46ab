//! Policies by name: choosing them, and listing what there is.

use std::fmt::Write as _;

use cavalcade::spec::{self, Carried};
use cavalcade::{Policy, Transport};
use cavalcade_model::Scope;
use cavalcade_policy::{Configured, Paper, PolicyInfo, parse, registry};
use serde_json::{Value, json};

use crate::arguments::{Policies, Selection};
use crate::failure::Failure;
use crate::output::print;

/// The baseline if none is named.
const DEFAULT_BASELINE: &str = "fair";

/// A policy that runs only where it is named, and the one that stands for it otherwise: literal D-CAS exchanges messages for
/// every pair of a subcoflow and a receiver at each tick, 3·10⁹ on the Facebook trace.
const COSTLY: (&str, &str) = ("dcas", "dcas-quiet");

/// Reads one specification.
///
/// # Errors
/// If a name is unknown (with the nearest one) or a value cannot be used.
pub(crate) fn configured(spec: &str) -> Result<Configured, Failure> {
    parse(spec).map_err(|error| {
        Failure::usage(error.to_string()).help("'cavalcade policies' lists policies and their parameters")
    })
}

/// A policy, and the transport that was named with it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    /// The policy; `None` leaves the order to the transport.
    pub(crate) policy: Option<Policy>,
    /// The transport of `POLICY over TRANSPORT`.
    pub(crate) transport: Option<Transport>,
}

/// Reads `POLICY`, `POLICY over TRANSPORT` or `over TRANSPORT`.
///
/// # Errors
/// If a name is unknown or a value cannot be used.
pub(crate) fn choice(text: &str) -> Result<Choice, Failure> {
    let Carried { policy, transport } = Carried::read(text);
    let policy = policy.map(configured).transpose()?.map(Policy::from);
    let transport = transport.map(cavalcade::transport::parse).transpose();
    let transport = transport.map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Choice { policy, transport: transport.as_ref().map(Transport::from) })
}

/// Reads the policies that are asked for, each once, and finds the place of the baseline among them.
///
/// # Errors
/// If a specification cannot be used, or the baseline is not among them.
pub(crate) fn selected(selection: &Selection) -> Result<(Vec<Choice>, usize), Failure> {
    let mut named = spec::list(&selection.policies.join(","));
    named.extend(selection.policy.iter().cloned());
    if named.is_empty() {
        let own = registry().iter().filter(|info| info.name == info.base).map(|info| info.name);
        named.extend(own.map(|name| if name == COSTLY.0 { COSTLY.1 } else { name }.to_owned()));
    }
    let mut choices: Vec<Choice> = Vec::new();
    for text in named {
        let choice = choice(&text)?;
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    let label = |choice: &Choice| {
        let policy = choice.policy.as_ref().map(Policy::label);
        Carried { policy, transport: choice.transport.as_ref().map(Transport::label) }.to_string()
    };
    let baseline = match &selection.baseline {
        Some(text) => {
            let baseline = choice(text)?;
            choices.iter().position(|choice| *choice == baseline).ok_or_else(|| {
                let labels: Vec<String> = choices.iter().map(label).collect();
                Failure::usage(format!("the baseline {text} is not among the policies"))
                    .help(format!("add it with --policy, or choose one of {}", labels.join(", ")))
            })?
        }
        None => choices.iter().position(|choice| label(choice) == DEFAULT_BASELINE).unwrap_or(0),
    };
    Ok((choices, baseline))
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
    text.push_str("Use one as --policy NAME:PARAMETER=VALUE,…; names are case-insensitive.\n");
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
