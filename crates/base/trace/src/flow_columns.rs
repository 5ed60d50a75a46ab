//! The columns of a table of flows, found by their names: `src`, `dst`, `bytes`, `start_…` and
//! perhaps `coflow`.
//!
//! [`crate::csv_list`] lists the names. A text with separators and a table in memory are looked at
//! in the same way.

/// What a column says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Src,
    Dst,
    Bytes,
    Start,
    Coflow,
}

/// What may stand behind the name of a column of hosts.
const KINDS_OF_HOST: [&str; 5] = ["_host", "_node", "_ip", "_addr", "_address"];
/// The units of starts, with their nanoseconds.
const UNITS: [(&str, u64); 6] = [
    ("_ns", 1),
    ("_us", 1_000),
    ("_ms", 1_000_000),
    ("_s", 1_000_000_000),
    ("_sec", 1_000_000_000),
    ("_seconds", 1_000_000_000),
];

impl Role {
    /// What messages call it.
    fn name(self) -> &'static str {
        match self {
            Role::Src => "src",
            Role::Dst => "dst",
            Role::Bytes => "bytes",
            Role::Start => "start_ns, start_us, start_ms or start_s",
            Role::Coflow => "coflow",
        }
    }

    /// How far a column of that name is from having this role's own name: 0 if it has.
    pub(crate) fn rank(self, name: &str) -> Option<u8> {
        let is_host = matches!(self, Role::Src | Role::Dst);
        let kind = KINDS_OF_HOST.iter().find(|kind| is_host && name.ends_with(**kind));
        let (own, others): (&str, &[&str]) = match self {
            Role::Src => ("src", &["source", "from", "sender"]),
            Role::Dst => ("dst", &["dest", "destination", "to", "receiver"]),
            Role::Bytes => ("bytes", &["size", "size_bytes", "flow_size", "flow_bytes", "octets"]),
            Role::Start => ("start", &["start_time", "arrival", "arrival_time", "time", "timestamp", "ts"]),
            Role::Coflow => ("coflow", &["coflow_id", "coflow_name"]),
        };
        let bare = match self {
            Role::Start => unit(name)?.0,
            _ => &name[..name.len() - kind.map_or(0, |kind| kind.len())],
        };
        let other = if bare == own { 0 } else { others.contains(&bare).then_some(2)? };
        Some(other + u8::from(kind.is_some()))
    }
}

/// The name of a column of starts without its unit, and the nanoseconds of that.
fn unit(name: &str) -> Option<(&str, u64)> {
    UNITS.iter().find_map(|&(unit, nanos)| Some((name.strip_suffix(unit)?, nanos)))
}

/// Names of columns as they are compared: in small letters, with `_` for whatever stands between
/// words.
pub(crate) fn normal_names<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let normal = |name: &str| {
        let mut normal = String::new();
        let mut small_before = false;
        for letter in name.chars() {
            let breaks = !letter.is_alphanumeric() || (letter.is_uppercase() && small_before);
            if breaks && !normal.is_empty() && !normal.ends_with('_') {
                normal.push('_');
            }
            if letter.is_alphanumeric() {
                normal.extend(letter.to_lowercase());
            }
            small_before = letter.is_alphanumeric() && !letter.is_uppercase();
        }
        normal.trim_end_matches('_').to_owned()
    };
    names.map(normal).collect()
}

/// The places of the columns of a table of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Number of columns.
    pub all: usize,
    /// The host that sends.
    pub src: usize,
    /// The host that receives.
    pub dst: usize,
    /// The size.
    pub bytes: usize,
    /// The start.
    pub start: usize,
    /// Nanoseconds of the unit of `start`, by the end of its name; 1 where that says none.
    pub unit: u64,
    /// The coflow, if there is such a column.
    pub coflow: Option<usize>,
}

/// Columns that a caller has named, each to be looked for as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chosen<'a> {
    /// The host that sends.
    pub src: Option<&'a str>,
    /// The host that receives.
    pub dst: Option<&'a str>,
    /// The size.
    pub bytes: Option<&'a str>,
    /// The start. It needs no unit in its name.
    pub start: Option<&'a str>,
    /// The coflow.
    pub coflow: Option<&'a str>,
}

impl Columns {
    /// Finds the columns of a header by their names.
    ///
    /// # Errors
    /// If one is missing or there twice, in words.
    pub fn find(given: &[&str]) -> Result<Self, String> {
        Self::find_with(given, Chosen::default())
    }

    /// [`Columns::find`], with columns that were named.
    ///
    /// # Errors
    /// If one is missing or there twice, in words.
    pub fn find_with(given: &[&str], chosen: Chosen<'_>) -> Result<Self, String> {
        let names = normal_names(given.iter().copied());
        let named = |name: &str| {
            let mut places = given.iter().enumerate().filter(|(_, known)| **known == name);
            match (places.next(), places.next()) {
                (Some((place, _)), None) => Ok(place),
                (Some(_), Some(_)) => Err(format!("the table has two columns {name:?}")),
                (None, _) => Err(format!("the table has no column {name:?}, only {}", given.join(", "))),
            }
        };
        let find = |role: Role, chosen: Option<&str>| {
            if let Some(name) = chosen {
                return named(name).map(Some);
            }
            let ranked =
                || names.iter().enumerate().filter_map(|(place, name)| Some((role.rank(name)?, place)));
            let Some((best, place)) = ranked().min() else { return Ok(None) };
            match ranked().find(|&(rank, other)| rank == best && other != place) {
                Some((_, other)) => Err(format!(
                    "the header has two columns {}, {:?} and {:?}",
                    role.name(),
                    given[place],
                    given[other]
                )),
                None => Ok(Some(place)),
            }
        };
        let need = |role: Role, chosen: Option<&str>| {
            find(role, chosen)?.ok_or_else(|| format!("the header has no column {}", role.name()))
        };
        let start = need(Role::Start, chosen.start)?;
        Ok(Self {
            all: names.len(),
            src: need(Role::Src, chosen.src)?,
            dst: need(Role::Dst, chosen.dst)?,
            bytes: need(Role::Bytes, chosen.bytes)?,
            start,
            unit: unit(&names[start]).map_or(1, |(_, nanos)| nanos),
            coflow: find(Role::Coflow, chosen.coflow)?,
        })
    }
}

/// Whether the name of a column of starts says a unit.
pub fn names_unit(name: &str) -> bool {
    normal_names(std::iter::once(name)).iter().any(|name| unit(name).is_some())
}
