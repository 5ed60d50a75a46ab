//! What has to hold for the reading of any bytes: the functions that both the fuzz targets in
//! `fuzz/` and the tests here call.

#![allow(dead_code, reason = "each test file and fuzz target uses its own part")]

use std::io::{BufRead, Cursor};

use cavalcade_training::{Groups, OpWork, Options, Program, WorkloadFile, read};

/// The groups of ranks that stand beside a trace of nodes.
pub(crate) const GROUPS: (&str, &[u8]) = ("n.json", br#"{"1": [0, 2], "2": [], "0": [9], "3": [1, 3]}"#);

/// What the two forms of Chakra's JSON begin with.
pub(crate) const CHAKRA_JSON: [&str; 2] = ["{\"workload_graph\": ", "{\"version\": \"0.0.4\"}"];

/// Reads `content` as the file `name`, with `others` beside it. This must not panic, whatever it
/// is: it gives an error that names a file, or the same program each time, in which all is what a
/// program promises. Returns whether it was read.
///
/// # Panics
/// If that does not hold.
pub(crate) fn reading_holds(name: &str, content: &[u8], others: &[(&str, &[u8])], options: &Options) -> bool {
    let all = [&[(name, content)][..], others].concat();
    let file = |&(name, content): &(&str, &[u8])| {
        let content: Box<dyn BufRead> = Box::new(Cursor::new(content.to_vec()));
        WorkloadFile { name: name.to_owned(), content }
    };
    let files = || all.iter().map(file).collect();
    let found = read(files(), options);
    assert!(found == read(files(), options), "another reading gives another result");
    match found {
        Ok(found) => {
            assert!(!found.notes.is_empty(), "a reader says what is exact");
            holds(&found.program);
            true
        }
        Err(error) => {
            let said = error.to_string();
            let names_a_file = all.iter().any(|(name, _)| said.contains(name));
            assert!(names_a_file || said.contains("the workload"), "a message without a file: {said}");
            false
        }
    }
}

/// The same with each set of options that means something for any format. How many ranks there are
/// is said, so that a few bytes do not stand for millions of operations.
///
/// # Panics
/// If it does not hold.
pub(crate) fn reading_holds_for_all_options(name: &str, content: &[u8], others: &[(&str, &[u8])]) {
    for ranks in [1, 4] {
        let plain = Options { ranks: Some(ranks), ..Options::default() };
        let for_all = Options { one_for_all: true, ..plain };
        let by_name = Options { groups: Groups::ByName, overlap: true, ..plain };
        for said in [plain, for_all, by_name] {
            reading_holds(name, content, others, &said);
        }
    }
}

/// Operations stand behind those that they wait for, and name ranks and groups that there are.
fn holds(program: &Program) {
    for (index, op) in program.ops().iter().enumerate() {
        assert!(op.after.is_sorted_by(|a, b| a < b), "operation {index} waits for one twice");
        assert!(
            op.after.iter().all(|before| before.index() < index),
            "operation {index} is not behind another"
        );
        if let OpWork::Collective(collective) = &op.work {
            let members = program.group(collective.group).members.len();
            assert!((collective.root as usize) < members);
            assert!(collective.splits.as_ref().is_none_or(|parts| parts.len() == members * members));
        }
    }
    let all = program.groups().iter().flat_map(|group| &group.members);
    assert!(all.into_iter().all(|&rank| rank < program.ranks()), "a group has a rank that there is not");
    assert_eq!(program.computation().len(), program.ranks() as usize);
}
