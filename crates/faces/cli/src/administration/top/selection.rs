//! The coflows that are listed: filtered, in order, with one selected that stays selected wherever
//! it moves.

use std::cmp::Reverse;
use std::ops::Range;

use cavalcade_runtime::administration::proto::Coflow;

/// The order of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// The order in which coflows go.
    #[default]
    Turn,
    Rate,
    Sent,
    Age,
    Off,
}

impl Order {
    /// The next one, after the last the first.
    fn next(self) -> Self {
        match self {
            Self::Turn => Self::Rate,
            Self::Rate => Self::Sent,
            Self::Sent => Self::Age,
            Self::Age => Self::Off,
            Self::Off => Self::Turn,
        }
    }

    /// The name of the column.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Rate => "rate",
            Self::Sent => "sent",
            Self::Age => "age",
            Self::Off => "off",
        }
    }

    /// The figure of which the largest comes first; all are the same for an order that is kept.
    fn figure(self, coflow: &Coflow, rate: Option<f64>) -> u64 {
        match self {
            Self::Turn => 0,
            Self::Rate => rate.unwrap_or(0.0) as u64,
            Self::Sent => coflow.sent_bytes,
            Self::Age => coflow.age_ns.unwrap_or(0),
            Self::Off => coflow.off.into(),
        }
    }
}

/// The list of coflows and its selected row.
#[derive(Default)]
pub(super) struct Selection {
    pub(super) order: Order,
    pub(super) is_reversed: bool,
    pub(super) filter: String,
    /// Places of the coflows that pass the filter, in order.
    rows: Vec<usize>,
    /// The key of the coflow that a key has selected; none: whichever is in the row.
    selected: Option<String>,
    row: usize,
    /// The rows on the screen.
    window: Range<usize>,
}

impl Selection {
    /// Makes the list again: after a look, or where order or filter have changed.
    pub(super) fn arrange(&mut self, coflows: &[Coflow], rates: &[Option<f64>]) {
        let filter = self.filter.to_lowercase();
        let passes = |coflow: &Coflow| {
            let name = coflow.name.as_deref().unwrap_or_default();
            coflow.id.starts_with(&filter) || name.to_lowercase().contains(&filter)
        };
        self.rows = (0..coflows.len()).filter(|&place| passes(&coflows[place])).collect();
        let order = self.order;
        self.rows.sort_by_key(|&place| Reverse(order.figure(&coflows[place], rates[place])));
        if self.is_reversed {
            self.rows.reverse();
        }
        let is_selected = |&place: &usize| self.selected.as_ref() == Some(&coflows[place].coflow);
        match self.rows.iter().position(is_selected) {
            Some(row) => self.row = row,
            None => self.selected = None,
        }
        self.row = self.row.min(self.rows.len().saturating_sub(1));
    }

    pub(super) fn next_order(&mut self) {
        self.order = self.order.next();
    }

    /// Selects the coflow so many rows further down.
    pub(super) fn step(&mut self, rows: isize, coflows: &[Coflow]) {
        self.row = self.row.saturating_add_signed(rows).min(self.rows.len().saturating_sub(1));
        self.selected = self.current().map(|place| coflows[place].coflow.clone());
    }

    /// The place of the selected coflow.
    pub(super) fn current(&self) -> Option<usize> {
        self.rows.get(self.row).copied()
    }

    /// The rows that the screen had room for last.
    pub(super) fn page(&self) -> isize {
        self.window.len().max(1).cast_signed()
    }

    /// Scrolls as little as shows the selected row in a window of `height`; returns the places in
    /// it.
    pub(super) fn scroll(&mut self, height: usize) -> &[usize] {
        let height = height.max(1);
        let first = self.window.start.clamp((self.row + 1).saturating_sub(height), self.row);
        let first = first.min(self.rows.len().saturating_sub(height));
        self.window = first..(first + height).min(self.rows.len());
        &self.rows[self.window.clone()]
    }

    /// The selected row, counted from the first one on the screen.
    pub(super) fn row_on_screen(&self) -> usize {
        self.row - self.window.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coflows(keys: &[&str]) -> Vec<Coflow> {
        let coflow = |key: &&str| Coflow { coflow: (*key).to_owned(), ..Coflow::default() };
        keys.iter().map(coflow).collect()
    }

    #[test]
    fn a_selected_coflow_stays_selected_and_when_it_is_over_its_row_does() {
        let mut selection = Selection::default();
        let look = |selection: &mut Selection, keys: &[&str]| {
            selection.arrange(&coflows(keys), &vec![None; keys.len()]);
            selection.current()
        };
        assert_eq!(look(&mut selection, &["a", "b", "c", "d"]), Some(0));
        selection.step(2, &coflows(&["a", "b", "c", "d"]));
        assert_eq!(look(&mut selection, &["c", "a", "b", "d"]), Some(0));
        assert_eq!(look(&mut selection, &["a", "b", "c", "d"]), Some(2));
        assert_eq!(look(&mut selection, &["a", "b", "d"]), Some(2));
        assert_eq!(look(&mut selection, &["a"]), Some(0));
        assert_eq!(look(&mut selection, &[]), None);
    }

    #[test]
    fn the_window_follows_the_selected_row_and_has_no_blank_end() {
        let mut selection = Selection::default();
        let all = coflows(&["a"; 10]);
        selection.arrange(&all, &[None; 10]);
        assert_eq!(selection.scroll(4), [0, 1, 2, 3]);
        selection.step(5, &all);
        assert_eq!(selection.row, 5);
        assert_eq!(selection.scroll(4), [2, 3, 4, 5]);
        selection.step(-1, &all);
        assert_eq!(selection.scroll(4), [2, 3, 4, 5]);
        selection.step(isize::MAX, &all);
        assert_eq!(selection.scroll(4), [6, 7, 8, 9]);
        assert_eq!(selection.scroll(8), [2, 3, 4, 5, 6, 7, 8, 9]);
        selection.arrange(&all[..1], &[None]);
        assert_eq!(selection.scroll(8), [0]);
        assert_eq!(selection.scroll(0), [0], "a screen without room");
    }
}
