//! The legend of a figure: entries side by side in rows that fit its width.
//!
//! Legends stand above what they explain and are wider than tall; an entry that would be cut off
//! begins a new row.

use crate::look::Look;
use crate::svg::{Svg, px, shortened_apart, text_width};

/// The height of a row.
const STEP: f64 = 21.0;
const MARK: f64 = 34.0;
const SPACE: f64 = 14.0;
/// Letters of a name that are shown.
const MOST_LETTERS: usize = 40;

/// An entry: its name and its mark.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub(crate) name: String,
    /// The name as it is shown.
    text: String,
    pub(crate) look: Look,
    pub(crate) mark: Mark,
}

/// The mark before a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A line without points.
    Line,
    /// A line with a point on it.
    Joined,
    /// A point.
    Dot,
    /// An interval, upright.
    Whisker,
    /// An interval that lies.
    Lying,
    /// A paper's value.
    Paper,
}

impl Key {
    /// Series, each by its name, told apart also where names are long.
    pub(crate) fn all(series: &[(&str, Look, Mark)]) -> Vec<Self> {
        let names: Vec<&str> = series.iter().map(|&(name, ..)| name).collect();
        let texts = shortened_apart(&names, MOST_LETTERS).into_iter();
        let key = |(&(name, look, mark), text): (&(&str, Look, Mark), String)| {
            let name = name.to_owned();
            Self { name, text, look, mark }
        };
        series.iter().zip(texts).map(key).collect()
    }

    /// A mark that means the same in all figures.
    pub(crate) fn of(mark: Mark, text: &str) -> Self {
        let look = Look { color: 0, dash: 0 };
        Self { name: String::new(), text: text.to_owned(), look, mark }
    }

    fn width(&self) -> f64 {
        MARK + text_width(&self.text) + SPACE
    }

    fn draw(&self, svg: &mut Svg, (x, y): (f64, f64)) {
        svg.open(&format!("{} key", self.look.classes()));
        let (at, middle) = (x + 13.0, y - 4.0);
        if matches!(self.mark, Mark::Line | Mark::Joined) {
            svg.path("curve", &format!("M{} {}h26", px(x), px(middle)));
        }
        match self.mark {
            Mark::Line => {}
            Mark::Joined | Mark::Dot => marker(svg, self.look, (at, middle), 3.4),
            Mark::Whisker => svg.line("whisker", (at, middle - 7.0), (at, middle + 7.0)),
            Mark::Lying => svg.line("whisker", (at - 10.0, middle), (at + 10.0, middle)),
            Mark::Paper => diamond(svg, (at, middle)),
        }
        svg.text("", (x + MARK, y), &self.text);
        svg.close();
    }
}

/// The height of a legend of that width.
pub(crate) fn height(keys: &[Key], width: f64) -> f64 {
    STEP * placed(keys, width).last().map_or(0.0, |&(_, row)| row as f64 + 1.0)
}

/// Draws it with its upper left corner at a place.
pub(crate) fn draw(svg: &mut Svg, keys: &[Key], (left, top): (f64, f64), width: f64) {
    for (key, (x, row)) in keys.iter().zip(placed(keys, width)) {
        key.draw(svg, (left + x, top + 14.0 + STEP * row as f64));
    }
}

/// For each entry its distance from the left and its row: as many to a row as there is room for.
fn placed(keys: &[Key], width: f64) -> Vec<(f64, usize)> {
    let (mut x, mut row) = (0.0, 0);
    let place = |key: &Key| {
        if x > 0.0 && x + key.width() - SPACE > width {
            (x, row) = (0.0, row + 1);
        }
        let place = (x, row);
        x += key.width();
        place
    };
    keys.iter().map(place).collect()
}

/// Draws a dot in the form of its look: disc, square or triangle; every second is hollow.
pub(crate) fn marker(svg: &mut Svg, look: Look, (x, y): (f64, f64), radius: f64) {
    match look.dash {
        0 | 1 => svg.circle("mark", (x, y), radius),
        2 | 3 => svg.rect("mark", (x - radius, y - radius), (2.0 * radius, 2.0 * radius)),
        _ => {
            let half = 1.3 * radius;
            let (top, bottom) = (px(y - half), px(y + radius));
            svg.path("mark", &format!("M{} {top}L{} {bottom}H{}Z", px(x), px(x + half), px(x - half)));
        }
    }
}

/// A hollow diamond: what a paper says.
pub(crate) fn diamond(svg: &mut Svg, (x, y): (f64, f64)) {
    let corner = |dx: f64, dy: f64| format!("{} {}", px(x + dx), px(y + dy));
    let corners = [corner(0.0, -5.0), corner(5.0, 0.0), corner(0.0, 5.0), corner(-5.0, 0.0)];
    svg.path("paper", &format!("M{}Z", corners.join("L")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_begins_a_new_row_before_it_is_cut_off() {
        let look = Look { color: 1, dash: 0 };
        let names: Vec<String> = (0..9).map(|n| format!("a policy with settings {n}")).collect();
        let series: Vec<_> = names.iter().map(|name| (name.as_str(), look, Mark::Dot)).collect();
        let keys = Key::all(&series);
        let places = placed(&keys, 612.0);
        assert!(places.last().unwrap().1 >= 2);
        for (key, (x, _)) in keys.iter().zip(&places) {
            assert!(x + key.width() - SPACE <= 612.0);
        }
        assert_eq!(height(&keys, 612.0), STEP * (places.last().unwrap().1 as f64 + 1.0));
    }
}
