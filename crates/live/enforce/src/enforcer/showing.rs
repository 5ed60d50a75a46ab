//! How the enforcer stands, for other threads.

use cavalcade_protocol::CoflowName;

use super::{Enforcer, Tagged};
use crate::door::Name;
use crate::status::{Status, Stray};

impl Enforcer {
    /// Lets others see how it stands.
    pub(super) fn show(&self) {
        let strays: Vec<Stray> =
            self.coflows.iter().filter_map(|(&number, tagged)| self.stray(number, tagged)).collect();
        self.window.show(Status {
            is_serving: true,
            coflows: self.coflows.len(),
            obedient: self.coflows.values().filter(|tagged| tagged.is_obedient).count(),
            flows: self.counted.len(),
            libraries: self.handovers.libraries.len(),
            releasing: self.releasing.len(),
            unscheduled: strays.iter().fold(self.strayed, |sum, stray| sum.saturating_add(stray.bytes)),
            strays,
            troubles: self.troubles.all(),
        });
    }

    /// What a coflow has sent by other means than TCP, if anything.
    fn stray(&self, number: u32, tagged: &Tagged) -> Option<Stray> {
        let bytes = self.kernel.strayed(number).0;
        (bytes > 0).then(|| Stray { key: tagged.key, task: shown(&tagged.name), bytes })
    }
}

/// The name of a task as it may be printed: users choose these, and a terminal obeys some
/// characters.
fn shown(name: &Name) -> Option<String> {
    match name {
        Name::Task(task) => Some(task.parse::<CoflowName>().ok()?.to_string()),
        Name::Coflow(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_command_a_terminal_is_not_shown() {
        let name = |task: &str| Name::Task(task.to_owned());
        assert_eq!(shown(&name("etl")).as_deref(), Some("etl"));
        assert_eq!(shown(&name("\u{1b}[2Jetl")), None);
        assert_eq!(shown(&Name::Coflow("17.0.18".parse().unwrap())), None);
    }
}
