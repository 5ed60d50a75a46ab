//! Tables of text that fit a terminal.
//!
//! Columns stand in the order of their worth: the name, then what a reader came for. Where a
//! terminal is narrower than the table, columns are left out from the right until the rest fits,
//! and a line below names them and says how to see them. So no name is broken and no row wraps,
//! however narrow the terminal or large the figures. The name and one figure always stay: where
//! even these two do not fit side by side, the name stands on a line of its own above its figures.
//!
//! Whether there is a terminal, how wide it is and whether colour is wanted (`NO_COLOR`) is the
//! caller's to know ([`Fit`]). Colour goes over whole lines after layout, so it cannot disturb the
//! alignment.
//!
//! Rejected: a library of tables, of which all but padding would be off (they squeeze columns until
//! words break). To order columns by meaning and leave them out by a second order of their worth.
//! Readers then have to find out which are missing in the middle.

use std::ops::Range;

use textwrap::core::display_width;

/// The room for text, and whether it may be coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// Columns of the terminal; `None` where there is no limit, as in a pipe.
    pub width: Option<u16>,
    /// True if escape sequences for bold and dim text may be used.
    pub color: bool,
}

impl Fit {
    /// Bold and dim, where there is colour.
    fn paints(self) -> (Paint, Paint) {
        if self.color { (BOLD, DIM) } else { (PLAIN, PLAIN) }
    }
}

/// A table: a column of names, and columns of what is said of each, in the order of their worth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    columns: Vec<GridColumn>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct GridColumn {
    heading: String,
    cells: Vec<String>,
    kind: Cells,
}

/// The kind of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cells {
    /// Begin at the left edge.
    Text,
    /// End at the right edge.
    Figures,
}

impl GridColumn {
    /// A name from outside may hold anything: a line break in it would be one in the table.
    fn new(heading: impl Into<String>, cells: impl IntoIterator<Item = String>, kind: Cells) -> Self {
        let line = |cell: String| match cell.contains(char::is_control) {
            true => cell.replace(char::is_control, "\u{fffd}"),
            false => cell,
        };
        Self { heading: line(heading.into()), cells: cells.into_iter().map(line).collect(), kind }
    }

    fn width(&self) -> usize {
        self.cells.iter().chain([&self.heading]).map(|cell| display_width(cell)).max().unwrap_or(0)
    }

    /// Adds a cell, `width` columns wide.
    fn pad(&self, line: &mut String, cell: &str, width: usize) {
        let blanks = " ".repeat(width - display_width(cell));
        match self.kind {
            Cells::Text => line.extend([cell, &blanks]),
            Cells::Figures => line.extend([&blanks, cell]),
        }
    }
}

/// Columns between two columns.
const GAP: usize = 2;

/// The look of a cell that has nothing to show.
pub(crate) const NOTHING: &str = "–";

impl Grid {
    /// Adds a column of text, which begins at its left edge.
    #[must_use]
    pub fn text(mut self, heading: impl Into<String>, cells: impl IntoIterator<Item = String>) -> Self {
        self.columns.push(GridColumn::new(heading, cells, Cells::Text));
        self
    }

    /// Adds a column of figures, which end at its right edge.
    #[must_use]
    pub fn figures(mut self, heading: impl Into<String>, cells: impl IntoIterator<Item = String>) -> Self {
        self.columns.push(GridColumn::new(heading, cells, Cells::Figures));
        self
    }

    /// Makes a table of rows, each with a cell for each of `columns`.
    ///
    /// # Panics
    /// If a row has fewer cells.
    pub fn of_rows(columns: &[(&str, Cells)], rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        let mut cells: Vec<Vec<String>> = vec![Vec::new(); columns.len()];
        for row in rows {
            assert!(row.len() >= columns.len(), "a row has a cell for each column: {row:?}");
            cells.iter_mut().zip(row).for_each(|(column, cell)| column.push(cell));
        }
        let columns = columns.iter().zip(cells);
        Self {
            columns: columns.map(|(&(heading, kind), cells)| GridColumn::new(heading, cells, kind)).collect(),
        }
    }

    /// Returns the headings.
    pub(crate) fn headings(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.heading.as_str())
    }

    /// Returns the kind of each column.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Cells> {
        self.columns.iter().map(|column| column.kind)
    }

    /// The same without the column of that heading.
    pub(crate) fn without(mut self, heading: &str) -> Self {
        self.columns.retain(|column| column.heading != heading);
        self
    }

    /// Returns the cells of each row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Vec<&str>> {
        let rows = self.columns.iter().map(|column| column.cells.len()).min().unwrap_or(0);
        (0..rows).map(|row| self.columns.iter().map(|column| column.cells[row].as_str()).collect())
    }

    /// The table as text that fits; a line below it names the columns that are left out.
    pub fn show(&self, fit: Fit) -> String {
        let widths: Vec<usize> = self.columns.iter().map(GridColumn::width).collect();
        let room = fit.width.map_or(usize::MAX, usize::from);
        let mut out = String::new();
        let shown = match shown(&widths, room) {
            Shown::Beside(columns) => {
                let Lines { header, rule, rows } = self.laid_out(0..columns, &widths);
                let (bold, dim) = fit.paints();
                push(&mut out, &header, bold);
                push(&mut out, &rule, dim);
                rows.iter().for_each(|row| push(&mut out, row, PLAIN));
                columns
            }
            Shown::Below(columns) => {
                self.show_below(&mut out, columns, &widths, fit);
                columns
            }
        };
        let hidden: Vec<&str> = self.columns[shown..].iter().map(|column| column.heading.as_str()).collect();
        if !hidden.is_empty() {
            let columns = crate::figures::counted(hidden.len(), "column");
            let text = format!("{columns} left out: {}. --wide or a pipe shows all.", hidden.join(", "));
            note(&mut out, &text, fit);
        }
        out
    }

    /// Each name on a line of its own, with the figures of `columns` columns below it.
    fn show_below(&self, out: &mut String, columns: usize, widths: &[usize], fit: Fit) {
        let [names, ..] = &self.columns[..] else { return };
        let Lines { header, rule, rows } = self.laid_out(1..columns, widths);
        let indent = |line: &str| format!("{}{line}", " ".repeat(GAP));
        let (bold, dim) = fit.paints();
        push(out, &names.heading, bold);
        push(out, &indent(&header), bold);
        push(out, &indent(&rule), dim);
        for (name, row) in names.cells.iter().zip(&rows) {
            push(out, name, PLAIN);
            push(out, &indent(row), PLAIN);
        }
    }

    /// Lays out some of the columns as wide as they are: finding that looks at all cells, so it is
    /// done once.
    fn laid_out(&self, columns: Range<usize>, widths: &[usize]) -> Lines {
        let (shown, widths) = (&self.columns[columns.clone()], &widths[columns.clone()]);
        let line = |cells: &[&str]| {
            let mut line = String::new();
            for (index, ((column, cell), width)) in shown.iter().zip(cells).zip(widths).enumerate() {
                line.push_str(&" ".repeat(if index == 0 { 0 } else { GAP }));
                column.pad(&mut line, cell, *width);
            }
            line
        };
        let header = line(&shown.iter().map(|column| column.heading.as_str()).collect::<Vec<_>>());
        Lines {
            rule: "─".repeat(display_width(&header)),
            rows: self.rows().map(|row| line(&row[columns.clone()])).collect(),
            header,
        }
    }
}

/// A table that is laid out.
struct Lines {
    header: String,
    /// The line below the header.
    rule: String,
    rows: Vec<String>,
}

/// How a table fits: so many of its columns, counted from the left, with the names among them.
#[derive(Debug, PartialEq, Eq)]
enum Shown {
    /// Figures stand beside names.
    Beside(usize),
    /// Figures stand below names.
    Below(usize),
}

/// The most columns of these widths that fit into `room`.
fn shown(widths: &[usize], room: usize) -> Shown {
    let most = |widths: &[usize], room: usize| {
        let ends = widths.iter().scan(0, |end, width| {
            *end += width + if *end > 0 { GAP } else { 0 };
            Some(*end)
        });
        ends.take_while(|end| *end <= room).count()
    };
    let beside = most(widths, room);
    if beside >= 2 || beside == widths.len() {
        return Shown::Beside(beside);
    }
    match widths {
        [] | [_] => Shown::Beside(widths.len()),
        [_, figures @ ..] => Shown::Below(1 + most(figures, room.saturating_sub(GAP)).max(1)),
    }
}

/// Escape sequences around a line.
type Paint = (&'static str, &'static str);
const PLAIN: Paint = ("", "");
const BOLD: Paint = ("\u{1b}[1m", "\u{1b}[0m");
const DIM: Paint = ("\u{1b}[2m", "\u{1b}[0m");

/// Adds each line of a text.
fn push(out: &mut String, text: &str, (before, after): Paint) {
    for line in text.lines() {
        out.push_str(before);
        out.push_str(line.trim_end());
        out.push_str(after);
        out.push('\n');
    }
}

/// Adds a note in dim letters, broken between words where it is longer than a line.
pub(crate) fn note(out: &mut String, text: &str, fit: Fit) {
    push(out, &wrapped(text, fit.width), fit.paints().1);
}

/// Breaks a text between words into lines of at most `width` columns. Each of its own lines keeps
/// its indentation, and continues two columns further in.
pub fn wrapped(text: &str, width: Option<u16>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let line = |line: &str| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let further = format!("{indent}  ");
        let options = textwrap::Options::new(usize::from(width).max(20))
            .break_words(false)
            .word_splitter(textwrap::WordSplitter::NoHyphenation)
            .subsequent_indent(if indent.is_empty() { "" } else { &further });
        textwrap::fill(line, options)
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grid() -> Grid {
        let own = |cells: [&str; 3]| cells.map(str::to_owned);
        Grid::default()
            .text(
                "policy",
                own(["fair", "dclas:queues=20,factor=2,first_threshold=1MB", "rebuild the table"]),
            )
            .figures("mean CCT", own(["1.25 s", "0.98 s", "1764150002.25 s"]))
            .figures("vs fair", own(["1.00×", "1.28×", "0.01×"]))
            .figures("p95", own(["4 s", "3 s", "2 s"]))
    }

    fn at(width: u16) -> String {
        grid().show(Fit { width: Some(width), color: false })
    }

    #[test]
    fn without_a_limit_all_columns_stand_as_wide_as_they_are() {
        let all = grid().show(Fit::default());
        assert_eq!(all, at(200));
        let rows: Vec<&str> = all.lines().collect();
        assert_eq!(rows.len(), 5, "{all}");
        assert!(rows[0].starts_with("policy ") && rows[0].ends_with("   mean CCT  vs fair  p95"), "{all}");
        assert!(
            rows[4].starts_with("rebuild the table ") && rows[4].ends_with("  1764150002.25 s    0.01×  2 s")
        );
    }

    #[test]
    fn columns_are_left_out_from_the_right_and_named() {
        let header = |text: &str| text.lines().next().unwrap().to_owned();
        // The names take 44 columns, then 17 and 9 and 5 with the gaps.
        let text = at(74);
        assert!(header(&text).ends_with("  vs fair"), "{text}");
        assert!(text.ends_with("\n1 column left out: p95. --wide or a pipe shows all.\n"), "{text}");
        let text = at(69);
        assert!(header(&text).ends_with("  mean CCT"), "{text}");
        assert!(
            text.ends_with("\n2 columns left out: vs fair, p95. --wide or a pipe shows all.\n"),
            "{text}"
        );
        assert!(!at(75).contains("left out") && !at(70).contains("vs fair, p95"));
    }

    #[test]
    fn a_name_that_leaves_no_room_for_a_figure_stands_above_it() {
        let text = at(50);
        let expected = "\
policy
         mean CCT  vs fair  p95
  ─────────────────────────────
fair
           1.25 s    1.00×  4 s
dclas:queues=20,factor=2,first_threshold=1MB
           0.98 s    1.28×  3 s
rebuild the table
  1764150002.25 s    0.01×  2 s
";
        assert_eq!(text, expected);
        assert!(at(20).contains("\n  1764150002.25 s\n"), "the first figure is never left out");
    }

    #[test]
    fn the_widths_of_letters_are_those_of_a_terminal() {
        let own = |cells: [&str; 2]| cells.map(str::to_owned);
        let grid = Grid::default().text("name", own(["表", "ab"])).figures("n", own(["1", "22"]));
        let text = grid.show(Fit::default());
        assert!(text.contains("\n表     1\n") && text.contains("\nab    22\n"), "{text}");
    }

    #[test]
    fn colour_changes_nothing_but_escape_sequences() {
        for width in [Some(40), Some(62), None] {
            let mut colored = grid().show(Fit { width, color: true });
            assert!(colored.contains(BOLD.0));
            for sequence in [BOLD.0, BOLD.1, DIM.0] {
                colored = colored.replace(sequence, "");
            }
            assert_eq!(colored, grid().show(Fit { width, color: false }));
        }
    }

    #[test]
    fn text_is_broken_between_words_and_keeps_its_indentation() {
        assert_eq!(wrapped("a note of some words", None), "a note of some words");
        assert_eq!(
            wrapped("a note of some words that goes on", Some(20)),
            "a note of some words\nthat goes on"
        );
        assert_eq!(wrapped("    one two three four five", Some(20)), "    one two three\n      four five");
    }

    proptest! {
        #[test]
        fn no_row_is_wider_than_the_terminal_and_no_name_is_broken(
            names in prop::collection::vec("[a-z:=,]{1,24}", 1..6),
            figures in prop::collection::vec("[0-9]{1,12} s", 5),
            columns in 1usize..9,
            width in 30u16..140,
        ) {
            let mut grid = Grid::default().text("policy", names.clone());
            for column in 0..columns {
                let cells = (0..names.len()).map(|row| figures[(row + column) % figures.len()].clone());
                grid = grid.figures(format!("figure {column}"), cells);
            }
            let text = grid.show(Fit { width: Some(width), color: false });
            for line in text.lines() {
                prop_assert!(line.chars().count() <= usize::from(width), "{}", text);
            }
            for name in &names {
                prop_assert!(text.lines().any(|line| line.starts_with(name.as_str())), "{}", text);
            }
        }
    }
}
