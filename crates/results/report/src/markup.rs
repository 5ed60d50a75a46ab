//! The main table as LaTeX, for papers, and as a fragment of HTML, for notebooks.
//!
//! Both have what the terminal's table has, but for the seconds that a run took: those differ from
//! run to run, and a table of a paper should not. LaTeX needs no package, and its notes are
//! comments, since a paper has its own caption. HTML brings no style but the alignment of figures,
//! so that it takes the notebook's.

use cavalcade_metrics::{Comparison, RunFigures};

use crate::figure::{FigureKind, FigureWidth, figure};
use crate::grid::{Cells, Grid};
use crate::svg::escape;
use crate::table::{footnotes, main_table};

/// The column of seconds that runs took.
const WALL: &str = "wall";

fn grid(comparison: &Comparison) -> Grid {
    let runs: Vec<&RunFigures> =
        comparison.ranking().into_iter().map(|index| &comparison.runs[index]).collect();
    main_table(comparison, &runs).without(WALL)
}

/// The table as a `tabular` of LaTeX.
pub fn latex(comparison: &Comparison) -> String {
    let grid = grid(comparison);
    let kinds: String = grid.kinds().map(|kind| if kind == Cells::Text { 'l' } else { 'r' }).collect();
    let row = |cells: Vec<&str>| {
        let cells: Vec<String> = cells.into_iter().map(in_latex).collect();
        format!("{} \\\\\n", cells.join(" & "))
    };
    let mut out = String::new();
    for note in footnotes(comparison) {
        out.push_str(&format!("% {note}\n"));
    }
    out.push_str(&format!("\\begin{{tabular}}{{{kinds}}}\n\\hline\n"));
    out.push_str(&row(grid.headings().collect()));
    out.push_str("\\hline\n");
    grid.rows().for_each(|cells| out.push_str(&row(cells)));
    out.push_str("\\hline\n\\end{tabular}\n");
    out
}

/// Text that LaTeX shows as it is.
fn in_latex(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', letter]),
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '*' => out.push_str("$^*$"),
            '×' => out.push_str("$\\times$"),
            'µ' | 'μ' => out.push_str("$\\mu$"),
            '–' => out.push_str("--"),
            _ => out.push(letter),
        }
    }
    out
}

/// The table as a fragment of HTML, with the distribution of completion times below it.
pub fn fragment(comparison: &Comparison) -> String {
    let grid = grid(comparison);
    let kinds: Vec<Cells> = grid.kinds().collect();
    let row = |tag: &str, cells: Vec<&str>| {
        let cell = |(cell, kind): (&str, &Cells)| {
            let side = if *kind == Cells::Text { "left" } else { "right" };
            format!("<{tag} style=\"text-align:{side}\">{}</{tag}>", escape(cell))
        };
        let cells: Vec<String> = cells.into_iter().zip(&kinds).map(cell).collect();
        format!("<tr>{}</tr>", cells.concat())
    };
    let head = row("th", grid.headings().collect());
    let body: String = grid.rows().map(|cells| row("td", cells)).collect();
    let notes: String = footnotes(comparison).iter().map(|note| format!("<br>{}", escape(note))).collect();
    let runs: Vec<usize> = (0..comparison.runs.len()).collect();
    let drawn = figure(comparison, FigureKind::Cdf, FigureWidth::Column, &runs).unwrap_or_default();
    format!(
        "<table><thead>{head}</thead><tbody>{body}</tbody></table><small>{}</small><div>{drawn}</div>",
        notes.trim_start_matches("<br>")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_table_for_a_paper_has_a_row_for_each_run_and_nothing_that_latex_reads() {
        let mut comparison = sample::comparison(3, 40);
        comparison.runs[1].label = "a_b:x=1 & 50 %".to_owned();
        let text = latex(&comparison);
        assert!(text.contains("a\\_b:x=1 \\& 50 \\%"), "{text}");
        let rows = text.lines().filter(|line| line.ends_with("\\\\")).count();
        assert_eq!(rows, 4, "{text}");
        assert!(text.contains("\\begin{tabular}{lr") && !text.contains("wall"), "{text}");
    }

    #[test]
    fn a_fragment_shows_names_as_they_are() {
        let mut comparison = sample::comparison(3, 40);
        comparison.runs[1].label = "<script>".to_owned();
        let text = fragment(&comparison);
        assert!(text.contains("&lt;script&gt;") && !text.contains("<script>"), "{text}");
        assert_eq!(text.matches("<tr>").count(), 4);
        assert!(text.contains("<svg"), "{text}");
    }
}
