//! What tells two states apart.
//!
//! The machines show all that they know as text for developers; a state is a hash of that. Counts
//! for people are left out: nothing depends on them.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::hash::{DefaultHasher, Hasher as _};

use cavalcade_protocol::Message;

use super::host::Link;
use super::site::Site;

/// A hash of what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Print(pub(super) u64);

/// What stands before the counts of a machine.
const COUNTS: &str = "counters: ";

thread_local! {
    static SHOWN: RefCell<String> = const { RefCell::new(String::new()) };
}

impl Print {
    pub(super) fn of(shown: &dyn Debug) -> Self {
        let mut hasher = DefaultHasher::new();
        add(&mut hasher, shown);
        Self(hasher.finish())
    }

    /// The state of a site.
    pub(super) fn of_site(site: &Site<'_>) -> Self {
        let mut hasher = DefaultHasher::new();
        let repeats = site.faults > 0;
        for host in &site.hosts {
            add(&mut hasher, &host.agent);
            add(&mut hasher, &host.client);
            add(
                &mut hasher,
                &(host.done, &host.own, &host.flows, host.latest, host.holds_until, host.obeyed),
            );
            host.links.iter().for_each(|link| add_link(&mut hasher, link));
            if repeats {
                host.last_up.iter().for_each(|report| hasher.write(&report.to_bytes()));
                host.last_down.values().for_each(|orders| hasher.write(&orders.to_bytes()));
            }
        }
        site.coordinators.iter().for_each(|coordinator| add(&mut hasher, coordinator));
        add(&mut hasher, &(site.now, site.holder, site.term, site.faults, site.is_thrown, &site.liar));
        add(&mut hasher, &(&site.sent, &site.arrived));
        Self(hasher.finish())
    }
}

fn add(hasher: &mut DefaultHasher, shown: &dyn Debug) {
    SHOWN.with_borrow_mut(|text| {
        text.clear();
        write!(text, "{shown:?}").expect("a string takes all");
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once(COUNTS) {
            hasher.write(before.as_bytes());
            rest = after.split_once('}').map_or("", |(_, rest)| rest);
        }
        hasher.write(rest.as_bytes());
        hasher.write_u8(0);
    });
}

fn add_link(hasher: &mut DefaultHasher, link: &Link) {
    let ends = [link.at_agent, link.at_coordinator, link.is_route].map(u8::from);
    hasher.write(&ends);
    hasher.write_usize(link.coordinator);
    link.up.iter().for_each(|report| add_message(hasher, report));
    hasher.write_u8(1);
    link.down.iter().for_each(|orders| add_message(hasher, orders));
    hasher.write_u8(2);
}

fn add_message(hasher: &mut DefaultHasher, message: &impl Message) {
    let bytes = message.to_bytes();
    hasher.write_usize(bytes.len());
    hasher.write(&bytes);
}
