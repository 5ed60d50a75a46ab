//! How the enforcer stands, for other threads.

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
        let task = match &tagged.name {
            Name::Task(task) => Some(task.clone()),
            Name::Coflow(_) => None,
        };
        (bytes > 0).then_some(Stray { key: tagged.key, task, bytes })
    }
}
