//! Policies by name: choosing them, and listing what there is.

use std::fmt::Write as _;
use std::sync::LazyLock;

use cavalcade::spec::{self, Carried};
use cavalcade::{Policy, Scenario, Transport};
use cavalcade_model::{Scope, Workload};
use cavalcade_policy::{Configured, Paper, PolicyInfo, parse, registry};
use serde_json::{Value, json};

use crate::arguments::{Policies, Selection};
use crate::failure::{Failure, Kind};
use crate::output::{print, tell};

/// The baseline if none is named.
const DEFAULT_BASELINE: &str = "fair";

/// The word for what is compared where no policy is named: fair sharing, each paper's policy under its name, and our best.
pub(crate) const DEFAULT: &str = "default";
/// The word for every name of the registry.
pub(crate) const ALL: &str = "all";

/// The best of ours that is not told sizes.
const OURS: &str = "learn";

/// Policies of the default set that run only over small traces, and what stands for them over others. Baraat keeps account of
/// each task at every link; literal D-CAS exchanges messages for every pair of a subcoflow and a receiver at each tick, 3·10⁹ on
/// the Facebook trace.
const COSTLY: [(&str, Option<&str>); 2] = [("baraat", None), ("dcas", Some("dcas-quiet"))];

/// The most flows of a trace on which those take seconds: Baraat 2 s with 29,000 and 13 s with 60,000 on 50 ports.
const SMALL: usize = 40_000;

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

/// A policy, the transport that was named with it, and how it came to be chosen.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The policy; `None` leaves the order to the transport.
    pub(crate) policy: Option<Policy>,
    /// The transport of `POLICY over TRANSPORT`.
    pub(crate) transport: Option<Transport>,
    /// How it came to be chosen.
    pub(crate) asked: Asked,
}

/// How a policy came to be chosen.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    /// By its name.
    ByName,
    /// As one of a set.
    InSet,
    /// As one of a set, if the trace is small; over another the policy given stands for it, where there is one.
    IfSmall(Option<Policy>),
}

impl Choice {
    /// Whether both are the same policy over the same transport.
    fn is(&self, other: &Self) -> bool {
        (&self.policy, &self.transport) == (&other.policy, &other.transport)
    }

    /// Whether it was asked for by name, so that it is an error if it cannot run.
    pub(crate) fn is_named(&self) -> bool {
        matches!(self.asked, Asked::ByName)
    }
}

/// Whether costly policies are run over a workload unasked.
pub(crate) fn is_small(workload: &Workload) -> bool {
    workload.flows().len() <= SMALL
}

/// Reads `POLICY`, `POLICY over TRANSPORT` or `over TRANSPORT`.
///
/// # Errors
/// If a name is unknown or a value cannot be used.
pub(crate) fn choice(text: &str) -> Result<Choice, Failure> {
    let Carried { policy, transport } = Carried::read(text);
    let policy = policy.map(Policy::named).transpose().map_err(|failure| match failure.cure() {
        None if failure.code() == Kind::Usage as u8 => failure.help(LISTED),
        _ => failure,
    })?;
    let transport = transport.map(cavalcade::transport::parse).transpose();
    let transport = transport.map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Choice { policy, transport: transport.as_ref().map(Transport::from), asked: Asked::ByName })
}

/// Reads the policies that are asked for, each once, and finds the place of the baseline among them.
///
/// # Errors
/// If a specification cannot be used, or the baseline is not among them.
pub(crate) fn selected(selection: &Selection) -> Result<(Vec<Choice>, usize), Failure> {
    let mut named = spec::list(&selection.policies.join(","));
    named.extend(selection.policy.iter().cloned());
    if named.is_empty() {
        named.push(DEFAULT.to_owned());
    }
    let mut choices: Vec<Choice> = Vec::new();
    for text in named {
        for choice in expanded(&text)? {
            match choices.iter_mut().find(|known| known.is(&choice)) {
                Some(known) if choice.is_named() => known.asked = Asked::ByName,
                Some(_) => {}
                None => choices.push(choice),
            }
        }
    }
    let label = |choice: &Choice| {
        let policy = choice.policy.as_ref().map(Policy::label);
        Carried { policy, transport: choice.transport.as_ref().map(Transport::label) }.to_string()
    };
    let baseline = match &selection.baseline {
        Some(text) => {
            let baseline = choice(text)?;
            choices.iter().position(|choice| choice.is(&baseline)).ok_or_else(|| {
                let labels: Vec<String> = choices.iter().map(label).collect();
                Failure::usage(format!("the baseline {text} is not among the policies"))
                    .help(format!("add it with --policy, or choose one of {}", labels.join(", ")))
            })?
        }
        None => choices.iter().position(|choice| label(choice) == DEFAULT_BASELINE).unwrap_or(0),
    };
    if selection.baseline.is_some() {
        choices[baseline].asked = Asked::ByName;
    }
    Ok((choices, baseline))
}

/// The policies that a word of the command line means: those of a set, or one.
///
/// # Errors
/// If it is neither a set nor a policy.
fn expanded(text: &str) -> Result<Vec<Choice>, Failure> {
    let word = text.trim();
    if word.eq_ignore_ascii_case(ALL) {
        return registry()
            .iter()
            .map(|info| Ok(Choice { asked: Asked::InSet, ..choice(info.name)? }))
            .collect();
    }
    if word.eq_ignore_ascii_case(DEFAULT) {
        return default_names().map(of_default_set).collect();
    }
    Ok(vec![choice(text)?])
}

/// The names of the default set: fair sharing, the papers' in alphabetical order, ours.
fn default_names() -> impl Iterator<Item = &'static str> {
    let mut papers: Vec<&str> =
        registry().iter().filter(|info| info.paper.is_some()).map(|info| info.name).collect();
    papers.sort_unstable();
    [DEFAULT_BASELINE].into_iter().chain(papers).chain([OURS])
}

fn of_default_set(name: &str) -> Result<Choice, Failure> {
    let costly = COSTLY.iter().find(|(costly, _)| *costly == name);
    let asked = match costly {
        None => Asked::InSet,
        Some((_, instead)) => Asked::IfSmall(instead.map(configured).transpose()?.map(Policy::from)),
    };
    Ok(Choice { asked, ..choice(name)? })
}

/// Words that `--policies` takes: sets, names, and what policies stand for.
pub(crate) fn words() -> impl Iterator<Item = &'static str> {
    static OTHERS: LazyLock<Vec<String>> = LazyLock::new(|| {
        registry().iter().filter_map(|info| info.stands_for).map(str::to_ascii_lowercase).collect()
    });
    let names = registry().iter().map(|info| info.name);
    [DEFAULT, ALL].into_iter().chain(OTHERS.iter().map(String::as_str)).chain(names)
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
