//! What happens where links contradict each other.
//!
//! Each link ranks coflows by itself, so two links may see two flows the other way round, or hold them for equal here and
//! not there (Baraat: a task may be heavy at one link and light at another). Mostly no more than one of the links is short
//! and nobody notices. Where looking at cells does not settle, the flows of a cell that has been looked at too often get one
//! class at all of their links: the first that any of them gives it. So a light task still gets past a heavy one, and
//! nobody is sent back behind a task that its own bottleneck holds for heavy.
//!
//! Classes that agree along paths always settle, and each agreement makes more of them agree; so this ends, and in levels
//! for which everything holds: no link idles while somebody waits for it. An agreement about a flow lasts until one of its
//! links ranks it anew.
//!
//! # Rejected
//! - Deferred acceptance, which lets grants only fall: it ends, but what one hop grants in vain stays idle.
//! - Smaller and smaller steps towards what a look finds: they settle on something between the wishes of the links, but in
//!   thousands of looks where levels have to be right to the last digits.

use super::PathFill;
use super::cell::NOWHERE;

impl PathFill {
    /// Gives each flow of a cell one key at all of its links. Returns whether any flow had different ones.
    pub(super) fn agree(&mut self, cell: u32, now: f64) -> bool {
        let members = self.cells.contents[cell as usize].members.clone();
        let mut any = false;
        for flow in members {
            let cells = self.routes[flow as usize].cells;
            let keys = cells.into_iter().filter(|&cell| cell != NOWHERE && !self.cells.is_cap(cell));
            let mut keys = keys.map(|cell| self.cells.contents[cell as usize].key);
            let first = keys.next().expect("a flow crosses a link");
            let (least, agree) =
                keys.fold((first, true), |(least, agree), key| (least.min(key), agree && key == first));
            if !agree {
                self.change_key(flow, None, least, now);
                self.flows[flow as usize].agreed = true;
                any = true;
            }
        }
        if any && !self.cells.is_cap(cell) && !self.cells.contents[cell as usize].members.is_empty() {
            self.outdate(cell);
        }
        any
    }

    /// Gives a flow again the keys that its accounts have at each link.
    pub(super) fn end_agreement(&mut self, flow: u32, now: f64) {
        self.flows[flow as usize].agreed = false;
        for hop in 0..usize::from(self.flows[flow as usize].hops) {
            let key = self.accounts[self.account_at(flow, hop) as usize].key;
            self.change_key(flow, Some(hop), key, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fill::{Due, Fill, Key};
    use crate::incremental::paths::PathFill;

    #[test]
    fn links_that_chase_each_other_agree_and_fill_up() {
        // Flow i goes first at link i and last at the next one, where the next flow goes first.
        let mut fill = PathFill::new(vec![1.0; 3], true);
        fill.reserve_accounts(6);
        let order = |account: u32| Key { class: 0, order: u64::from(account % 2) };
        let keys: Vec<(u32, Key)> = (0..6).map(|account| (account, order(account))).collect();
        fill.set_account_keys(&keys, 0.0);
        for flow in 0..3 {
            fill.add_along(flow, &[flow, (flow + 1) % 3], &[2 * flow, 2 * flow + 1], 100.0, 0.0);
        }
        fill.refill(0.0);
        let rates: Vec<f64> = (0..3).map(|flow| fill.rate(flow)).collect();
        for link in 0..3 {
            let carried = rates[link] + rates[(link + 2) % 3];
            assert!((carried - 1.0).abs() < 1e-9, "link {link} carries {carried} of 1: {rates:?}");
        }
        let mut due = Due::default();
        fill.take_due(fill.next(), &mut due);
        assert!(!due.finished.is_empty(), "somebody ends");
    }
}
