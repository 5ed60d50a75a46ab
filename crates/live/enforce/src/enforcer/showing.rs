//! How the enforcer stands, for other threads.

use cavalcade_protocol::{CoflowKey, CoflowName};

use super::Enforcer;
use crate::door::Name;
use crate::status::{Status, Stray};

impl Enforcer {
    /// Lets others see how it stands.
    pub(super) fn show(&self) {
        let tagged = self.coflows.iter().map(|(&number, tagged)| (number, tagged.key, &tagged.name));
        // A rule has no coflow before its first connection, and may never have one.
        let begun = |number| self.coflows.contains_key(number);
        let standing = self.standing.iter().filter(|(number, _)| !begun(number));
        let standing = standing.map(|(&number, (_, rule))| (number, None, &rule.request.name));
        let strays = tagged.chain(standing);
        let strays: Vec<Stray> =
            strays.filter_map(|(number, key, name)| self.stray(number, key, name)).collect();
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
    fn stray(&self, number: u32, key: Option<CoflowKey>, name: &Name) -> Option<Stray> {
        let bytes = self.kernel.strayed(number).0;
        (bytes > 0).then(|| Stray { key, task: shown(name), bytes })
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
