//! Policies by name: choosing them, and listing what there is.

use std::fmt::Write as _;

use cavalcade_metrics::PolicyFacts;
use cavalcade_model::{PolicyFactory, Scope};
use cavalcade_policy::{Configured, PolicyInfo, parse, registry};
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

/// `policy` as a live coordinator runs it. Staleness is the system's own there: a policy that would wait for multiples of a
/// `sync` of its own does not do so besides, unless that was asked for.
pub(crate) fn live(policy: &Configured) -> Configured {
    let label = policy.label();
    if policy.terms().scope != Scope::Fabric || label.contains("sync=") {
        return policy.clone();
    }
    let separator = if label.contains(':') { ',' } else { ':' };
    parse(&format!("{label}{separator}sync=0ms")).unwrap_or_else(|_| policy.clone())
}

/// The policies that are asked for, each once, and the place of the baseline among them.
///
/// # Errors
/// Where a specification is none, or the baseline is not among them.
pub(crate) fn selected(selection: &Selection) -> Result<(Vec<Configured>, usize), Failure> {
    let mut policies: Vec<Configured> = Vec::new();
    let named = || selection.policies.iter().chain(&selection.policy).map(String::as_str);
    let every = registry().iter().map(|info| info.name).filter(|_| named().next().is_none());
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

/// The origin of a policy, and what it is told.
pub(crate) fn about(policy: &Configured) -> PolicyFacts {
    let source = policy.info().source;
    let paper = source.split([';', '§']).next().unwrap_or_default().trim().to_owned();
    PolicyFacts { told_sizes: policy.knows_sizes(), paper }
}

/// All policies with their defaults, and the place of the baseline among them.
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
        return print(&format!("{:#}\n", json!({ "schema_version": 1, "policies": policies })));
    }
    let mut text = String::new();
    for info in registry() {
        describe(info, &mut text).expect("a string takes all text");
    }
    text.push_str("Use one as --policy NAME:PARAMETER=VALUE,…\n");
    print(&text)
}

fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Fabric => "fabric",
        Scope::Host => "host",
        Scope::Link => "link",
    }
}

fn describe(info: &PolicyInfo, text: &mut String) -> std::fmt::Result {
    let sizes = if info.clairvoyant { "told sizes" } else { "not told sizes" };
    writeln!(text, "{}  {}", info.name, info.title)?;
    writeln!(text, "    source  {}", info.source)?;
    writeln!(text, "    knows   {} ({sizes}; scope: {})", info.knows, scope_name(info.scope))?;
    writeln!(text, "    cost    {}", info.cost)?;
    let settings = info.parameters.iter().map(|p| p.name.len() + 1 + p.value.len());
    let presets = info.presets.iter().map(|preset| preset.name.len());
    let column = settings.chain(presets).max().unwrap_or(0);
    for parameter in &info.parameters {
        let setting = format!("{}={}", parameter.name, parameter.value);
        writeln!(text, "    {setting:column$}  {} ({})", parameter.meaning, parameter.expected)?;
    }
    for preset in info.presets {
        writeln!(text, "    {:column$}  {} (preset: {})", preset.name, preset.meaning, preset.settings)?;
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
    let presets: Vec<Value> = info
        .presets
        .iter()
        .map(|preset| json!({ "name": preset.name, "settings": preset.settings, "meaning": preset.meaning }))
        .collect();
    json!({
        "name": info.name,
        "title": info.title,
        "source": info.source,
        "clairvoyant": info.clairvoyant,
        "scope": scope_name(info.scope),
        "knows": info.knows,
        "cost": info.cost,
        "parameters": parameters,
        "presets": presets,
    })
}
