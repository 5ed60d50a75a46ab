//! Parameters: one table entry for each, next to the typed struct that holds it.

use crate::error::{Kind, SpecError, hint};
use crate::value::Value;

/// One parameter of `P`.
pub struct Parameter<P: 'static> {
    /// Its name in specifications.
    pub name: &'static str,
    /// Its effect, in one line, with its unit where that is not plain.
    pub meaning: &'static str,
    /// The field that holds it.
    pub field: fn(&mut P) -> &mut dyn Value,
}

/// A parameter for people to read about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// Its name in specifications.
    pub name: &'static str,
    /// Its value as text; in a listing, its default.
    pub value: String,
    /// The accepted text.
    pub expected: String,
    /// Its effect, in one line.
    pub meaning: &'static str,
}

/// A setting that cannot be used, found once all are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The parameter to change.
    pub parameter: &'static str,
    /// Accepted values.
    pub expected: String,
    /// True if it was not set and has no default.
    pub is_missing: bool,
}

impl Complaint {
    /// Says that `parameter` should have been as `expected` says.
    pub fn new(parameter: &'static str, expected: impl Into<String>) -> Self {
        Self { parameter, expected: expected.into(), is_missing: false }
    }

    /// Says that `parameter` has no default and was not set.
    pub fn missing(parameter: &'static str, expected: impl Into<String>) -> Self {
        Self { parameter, expected: expected.into(), is_missing: true }
    }

    /// Fails unless `holds`.
    ///
    /// # Errors
    /// Unless `holds`.
    pub fn unless(holds: bool, parameter: &'static str, expected: impl Into<String>) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::new(parameter, expected)) }
    }
}

/// Describes all parameters of a table with their values in `values`.
pub fn describe<P: Clone>(table: &[Parameter<P>], values: &P) -> Vec<ParameterInfo> {
    let mut values = values.clone();
    let info = |parameter: &Parameter<P>| {
        let field = (parameter.field)(&mut values);
        let (value, expected) = (field.write(), field.expected());
        ParameterInfo { name: parameter.name, value, expected, meaning: parameter.meaning }
    };
    table.iter().map(info).collect()
}

/// Sets what `settings` names, as `queues=4,weighted=false`, and then checks the whole. `check` is
/// told which parameters were set explicitly, so that a default can give way to the alternative
/// that was asked for.
///
/// # Errors
/// If a parameter is unknown, given twice or missing, or a value cannot be used.
pub fn configure<P: Clone>(
    (kind, owner): (Kind, &'static str),
    table: &[Parameter<P>],
    values: &mut P,
    settings: &str,
    check: impl FnOnce(&mut P, &[&str]) -> Result<(), Complaint>,
) -> Result<(), SpecError> {
    let mut given: Vec<&'static str> = Vec::new();
    for setting in settings.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
        let no_value = || SpecError::NoValue { kind, owner, setting: setting.to_owned() };
        let (name, value) = setting.split_once('=').ok_or_else(no_value)?;
        let (name, value) = (name.trim(), value.trim());
        let known = table.iter().find(|parameter| parameter.name.eq_ignore_ascii_case(name));
        let parameter = known.ok_or_else(|| {
            let known: Vec<&str> = table.iter().map(|parameter| parameter.name).collect();
            SpecError::UnknownParameter { kind, owner, name: name.to_owned(), hint: hint(name, &known) }
        })?;
        if given.contains(&parameter.name) {
            return Err(SpecError::Repeated { kind, owner, parameter: parameter.name });
        }
        given.push(parameter.name);
        let field = (parameter.field)(values);
        if !field.read(value) {
            let (value, expected) = (value.to_owned(), field.expected());
            return Err(SpecError::BadValue { kind, owner, parameter: parameter.name, value, expected });
        }
    }
    check(values, &given).map_err(|Complaint { parameter, expected, is_missing }| {
        if is_missing {
            return SpecError::Missing { kind, owner, parameter, expected };
        }
        let place = table.iter().find(|known| known.name == parameter);
        let value = place.map_or_else(String::new, |place| (place.field)(values).write());
        SpecError::BadValue { kind, owner, parameter, value, expected }
    })
}

/// Prints a name and settings as a specification: `name:key=value,key=value`, or the bare name if
/// there are no settings.
pub fn print<'a>(name: &str, settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = name.to_owned();
    for (index, (key, value)) in settings.into_iter().enumerate() {
        text.push(if index == 0 { ':' } else { ',' });
        text.push_str(key);
        text.push('=');
        text.push_str(value);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Ring {
        ports: u32,
        fast: bool,
    }

    const TABLE: &[Parameter<Ring>] = &[
        Parameter { name: "ports", meaning: "number of ports", field: |p| &mut p.ports },
        Parameter { name: "fast", meaning: "whether it is fast", field: |p| &mut p.fast },
    ];

    fn read(settings: &str) -> Result<Ring, SpecError> {
        let mut ring = Ring { ports: 1, fast: false };
        let check = |ring: &mut Ring, _: &[&str]| Complaint::unless(ring.ports > 0, "ports", "at least 1");
        configure((Kind::Fabric, "ring"), TABLE, &mut ring, settings, check).map(|()| ring)
    }

    #[test]
    fn what_is_printed_is_read_back() {
        let ring = read("FAST=true, ports=7").unwrap();
        assert_eq!(ring, Ring { ports: 7, fast: true });
        let infos = describe(TABLE, &ring);
        let text = print("ring", infos.iter().map(|info| (info.name, info.value.as_str())));
        assert_eq!(text, "ring:ports=7,fast=true");
        assert_eq!(read(&text["ring:".len()..]), Ok(ring));
        assert_eq!(print("ring", []), "ring");
    }

    #[test]
    fn each_fault_says_what_to_write_instead() {
        let message = |settings: &str| read(settings).unwrap_err().to_string();
        assert_eq!(
            message("ports"),
            "fabric ring: the setting \"ports\" has no value: write it as parameter=value"
        );
        assert_eq!(message("port=3"), "fabric ring has no parameter \"port\": did you mean ports?");
        assert_eq!(message("ports=3,ports=4"), "fabric ring: ports is given twice: leave one of them out");
        assert_eq!(message("ports=0"), "fabric ring: ports=0 cannot be used: expected at least 1");
        assert_eq!(message("fast=1"), "fabric ring: fast=1 cannot be used: expected true or false");
    }
}
