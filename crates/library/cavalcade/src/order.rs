//! `order:FILE`: coflows in the order in which a file lists them, for schedulers that live
//! elsewhere.
//!
//! The file has the name of one coflow a line, the first to be served at the top. Blanks around
//! names, empty lines and lines that begin with `#` are ignored. A coflow may be called by its
//! number instead (the column `coflow` of `coflows.csv`) where no coflow of the trace has a whole
//! number for its name, so that no line ever has two meanings. Coflows that are not listed follow
//! in order of arrival.
//!
//! A manifest keeps the order as numbers, so a replay does not need the file.
//!
//! # Rejected
//! - An error for coflows that are not listed: an order of the few that matter is worth trying, and
//!   their number is reported.

use std::collections::HashMap;

use cavalcade_model::{CoflowId, Discipline, Workload};
use cavalcade_policy::ORDER;
use cavalcade_spec::{Choice as _, nearest};

use crate::error::{Error, Excerpt};
use crate::source::STANDARD_INPUT;

/// How flows share what the order leaves to their coflow, by default: as under Sincronia, whose
/// order can then be brought and gives the same.
const DISCIPLINE: Discipline = Discipline::Greedy;

/// An order, as it was brought.
#[derive(Debug)]
pub(crate) struct Order {
    path: String,
    discipline: Discipline,
    entries: Entries,
}

#[derive(Debug)]
enum Entries {
    /// The content of a file's lines, each with the number of its line.
    Named(Vec<(usize, String)>),
    /// The numbers of coflows, as a manifest keeps them.
    Numbered(Vec<u32>),
}

impl Order {
    /// Reads what stands behind `order:`: a file, and perhaps `,discipline=WORD`.
    ///
    /// # Errors
    /// If a setting is unknown, or the file cannot be read, is no text or has no names.
    pub(crate) fn read(settings: &str) -> Result<Self, Error> {
        let (path, discipline) = parts(settings)?;
        let bytes = std::fs::read(path).map_err(|error| {
            Error::input(format!("cannot read {path}: {error}"))
                .help("name a file with the name of one coflow a line, the first to be served at the top")
        })?;
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
            Error::input(format!("{path}:{line}: expected UTF-8 text")).help("save the file as UTF-8")
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text.lines().map(str::trim).enumerate();
        let entries = lines
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(index, line)| (index + 1, line.to_owned()))
            .collect::<Vec<_>>();
        if entries.is_empty() {
            return Err(Error::input(format!("{path} names no coflow"))
                .help("write the name of one coflow a line, the first to be served at the top"));
        }
        Ok(Self { path: path.to_owned(), discipline, entries: Entries::Named(entries) })
    }

    /// The order that a manifest keeps: `settings` as they were given, and the numbers of coflows.
    ///
    /// # Errors
    /// If a setting is unknown.
    pub(crate) fn kept(settings: &str, coflows: Vec<u32>) -> Result<Self, Error> {
        let (path, discipline) = parts(settings)?;
        Ok(Self { path: path.to_owned(), discipline, entries: Entries::Numbered(coflows) })
    }

    /// The file, as it was named.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn discipline(&self) -> Discipline {
        self.discipline
    }

    pub(crate) fn discipline_word(&self) -> &'static str {
        self.discipline.word()
    }

    /// The shortest text that names it.
    pub(crate) fn label(&self) -> String {
        let setting = if self.discipline == DISCIPLINE {
            String::new()
        } else {
            format!(",discipline={}", self.discipline_word())
        };
        format!("{ORDER}:{}{setting}", self.path)
    }

    /// The coflows of `workload` in this order.
    ///
    /// # Errors
    /// If it names one that the workload does not have, or one twice.
    pub(crate) fn of(&self, workload: &Workload) -> Result<Vec<CoflowId>, Error> {
        match &self.entries {
            Entries::Named(lines) => Names::of(workload).find_all(&self.path, lines),
            Entries::Numbered(coflows) => {
                let mut seen = vec![false; workload.coflow_count()];
                let mut is_new = |&coflow: &u32| {
                    seen.get_mut(coflow as usize).is_some_and(|seen| !std::mem::replace(seen, true))
                };
                match coflows.iter().copied().find(|coflow| !is_new(coflow)) {
                    None => Ok(coflows.iter().map(|&coflow| CoflowId(coflow)).collect()),
                    Some(coflow) => Err(Error::input(format!(
                        "the order has coflow {coflow} twice, or the trace does not have it"
                    ))),
                }
            }
        }
    }
}

/// The file and the discipline of `FILE` or `FILE,discipline=WORD`.
fn parts(settings: &str) -> Result<(&str, Discipline), Error> {
    let (path, word) = match settings.rsplit_once(",discipline=") {
        Some((path, word)) => (path.trim(), Some(word.trim())),
        None => (settings.trim(), None),
    };
    if path.is_empty() || path == STANDARD_INPUT {
        return Err(Error::usage("policy order: no file is named").help(format!("write {ORDER}:FILE")));
    }
    let found = |word| Discipline::WORDS.iter().find(|(known, _)| *known == word).map(|(_, found)| *found);
    let known = || Discipline::WORDS.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
    match word.map(|word| found(word).ok_or(word)) {
        None => Ok((path, DISCIPLINE)),
        Some(Ok(discipline)) => Ok((path, discipline)),
        Some(Err(word)) => Err(Error::usage(format!(
            "policy order: discipline={word} cannot be used: expected one of {}",
            known()
        ))),
    }
}

/// The names of a workload's coflows.
pub(crate) struct Names {
    names: Vec<String>,
    by_name: HashMap<String, Option<CoflowId>>,
    /// Whether a number stands for a coflow: not where it may be a name.
    takes_numbers: bool,
}

impl Names {
    pub(crate) fn of(workload: &Workload) -> Self {
        let names: Vec<String> = workload.coflows().map(|coflow| workload.coflow_name(coflow.id)).collect();
        let mut by_name = HashMap::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let coflow = CoflowId::from_index(index);
            // A stage's name is made of its task's, and another task may be called the same.
            by_name.entry(name.clone()).and_modify(|found| *found = None).or_insert(Some(coflow));
        }
        let takes_numbers = !names.iter().any(|name| name.parse::<u64>().is_ok());
        Self { names, by_name, takes_numbers }
    }

    /// The coflow that `text` is the name or number of.
    ///
    /// # Errors
    /// If no coflow has it, or several have: what is wrong, and the cure.
    pub(crate) fn find(&self, text: &str) -> Result<CoflowId, (String, String)> {
        if let Some(found) = self.by_name.get(text) {
            return found.ok_or_else(|| {
                let cure = match self.takes_numbers {
                    true => "call it by its number, which is in the column coflow of coflows.csv",
                    false => "rename one of them in the trace",
                };
                (format!("several coflows are called {text}"), cure.to_owned())
            });
        }
        let number = text.parse::<u32>().ok().filter(|_| self.takes_numbers);
        if let Some(number) = number.filter(|&number| (number as usize) < self.names.len()) {
            return Ok(CoflowId(number));
        }
        let example = self.names.first().map_or("", String::as_str);
        let cure = match nearest(text, self.names.iter().map(String::as_str)) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => format!("names are those of the trace, such as {example}"),
        };
        Err((format!("the trace has no coflow called {text}"), cure))
    }

    fn find_all(&self, path: &str, lines: &[(usize, String)]) -> Result<Vec<CoflowId>, Error> {
        let mut at = vec![0; self.names.len()];
        let find = |(line, text): &(usize, String)| {
            let fault = |(problem, cure): (String, String)| {
                let excerpt = Excerpt { name: path.to_owned(), text: text.clone(), line: *line, column: 1 };
                Error::input(format!("{path}:{line}: {problem}")).help(cure).at(Some(excerpt))
            };
            let coflow = self.find(text).map_err(fault)?;
            match std::mem::replace(&mut at[coflow.index()], *line) {
                0 => Ok(coflow),
                before => Err(fault((
                    format!("{text} stands in line {before} already"),
                    "leave one of the lines out".to_owned(),
                ))),
            }
        };
        lines.iter().map(find).collect()
    }
}
