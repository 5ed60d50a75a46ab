//! Broken texts of experiments are refused with a reason, or are other experiments; none makes the
//! reader panic.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_experiment::Experiment;
use cavalcade_testing::damage;

#[test]
fn no_damage_of_an_experiments_text_makes_its_reader_panic() {
    for name in ["aalo-fig12-queues", "baraat-table4"] {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../experiments");
        let text = std::fs::read(format!("{path}/{name}/experiment.toml")).unwrap();
        damage(&text, |text| {
            let Ok(text) = std::str::from_utf8(text) else { return false };
            Experiment::read(name, text).is_ok_and(|experiment| !experiment.runs().is_empty())
        });
    }
}
