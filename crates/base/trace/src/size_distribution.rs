//! Distributions of flow sizes, as papers publish them: lines of a size and the share of flows that
//! are no larger.
//!
//! ```text
//! size_bytes,cdf
//! 1000,0.5
//! 30000,1
//! ```
//!
//! The header may be missing, and lines that begin with `#` are comments. Fields are separated and
//! quoted as in [`crate::csv_list`]. Both columns rise, and the last share is 1. Between two lines
//! the share grows in a straight line.

use cavalcade_model::Bytes;

use crate::Limits;
use crate::decimal::Decimal;
use crate::error::{Fault, TraceError, TraceErrorKind};
use crate::table::{Row, SEPARATORS, Table};

const LINE: &str = "lines of size_bytes,cdf, both rising, the last with 1";
/// The largest size: far beyond any flow, and a whole number in floating point.
const LARGEST: u64 = 1_000_000_000_000_000;

/// A distribution of flow sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeDistribution {
    /// Sizes with the share of flows that are no larger, both rising.
    points: Vec<(u64, f64)>,
}

impl SizeDistribution {
    /// The size below which a share of `at` lies; at least one byte.
    pub fn quantile(&self, at: f64) -> Bytes {
        let points = &self.points;
        let upper = points.partition_point(|&(_, share)| share < at).min(points.len() - 1);
        let (low, below) = if upper == 0 { points[0] } else { points[upper - 1] };
        let (high, above) = points[upper];
        let part = if above > below { ((at - below) / (above - below)).clamp(0.0, 1.0) } else { 1.0 };
        Bytes((low + ((high - low) as f64 * part) as u64).max(1))
    }
}

/// Reads a distribution from the bytes of a file, which may be compressed.
///
/// # Errors
/// The first thing found wrong, and where.
pub fn read_size_distribution(bytes: &[u8], source_name: &str) -> Result<SizeDistribution, TraceError> {
    crate::read_text(bytes, source_name, &Limits::default(), parse)
}

fn parse(text: &str) -> Result<SizeDistribution, Fault> {
    let begin = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut table = Table::new(text, begin, separator(&text[begin..])).with_comments();
    let mut points: Vec<(u64, f64)> = Vec::new();
    let mut is_first = true;
    while let Some(row) = table.next_row()? {
        let fault = |problem: String| {
            Fault::of_line(row.span.clone(), TraceErrorKind::Schema { problem, expected: LINE })
        };
        let shown = row.fields().collect::<Vec<_>>().join(", ");
        let is_header = core::mem::take(&mut is_first) && is_header(&row);
        if is_header {
            continue;
        }
        let point =
            point(&row).ok_or_else(|| fault(format!("{shown:?} is not a size and a share from 0 to 1")))?;
        if points.last().is_some_and(|last| point.0 < last.0 || point.1 < last.1) {
            return Err(fault(format!("{shown:?} is below the line before")));
        }
        points.push(point);
    }
    let problem = match points.last() {
        Some(&(size, share)) if share > 1.0 - 1e-9 && size >= 1 => return Ok(SizeDistribution { points }),
        Some(_) => "the last share is not 1",
        None => "there is no line with a size and a share",
    };
    let kind = TraceErrorKind::Schema { problem: problem.to_owned(), expected: LINE };
    Err(Fault::of_line(text.trim_end().len()..text.len(), kind))
}

/// The separator of the first line that has any.
fn separator(text: &str) -> u8 {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let has_one = |line: &str| SEPARATORS.into_iter().find(|&separator| line.contains(char::from(separator)));
    lines.filter_map(has_one).next().unwrap_or(SEPARATORS[0])
}

fn is_header(row: &Row<'_>) -> bool {
    row.len() == 2 && row.fields().all(|field| Decimal::parse(field).is_none() && !field.is_empty())
}

fn point(row: &Row<'_>) -> Option<(u64, f64)> {
    let [size, share] = [0, 1].map(|place| Decimal::parse(row.field(place)));
    let size = size?.times_over(1, 1).filter(|&size| size <= LARGEST)?;
    share?;
    let share = row.field(1).parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share))?;
    (row.len() == 2).then_some((size, share))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SizeDistribution, String> {
        read_size_distribution(text.as_bytes(), "sizes.csv").map_err(|error| error.to_string())
    }

    #[test]
    fn a_distribution_is_read_with_its_jumps() {
        let sizes = read("size_bytes,cdf\n0,0\n1000,0.5\n2000,0.5\n4000,1\n").unwrap();
        let at = |share| sizes.quantile(share).get();
        assert_eq!((at(0.0), at(0.25), at(0.5), at(0.75), at(1.0)), (1, 500, 1_000, 3_000, 4_000));
    }

    #[test]
    fn blanks_marks_and_separators_change_nothing() {
        let plain = read("100,0.5\n1000,1\n").unwrap();
        for text in [
            "\u{feff}size_bytes,cdf\n100,0.5\n1000,1\n",
            "size_bytes, cdf\r\n100, 0.5\r\n\r\n 1000 , 1\r\n",
            "# sizes\nsize;share\n100;0.5\n# more\n1e3;1.0",
            "\"100\"\t\"0.5\"\n\"1000\"\t\"1\"\n",
        ] {
            assert_eq!(read(text).unwrap(), plain, "{text}");
        }
    }

    #[test]
    fn what_is_none_is_told_with_its_line() {
        for (text, part) in [
            ("size_bytes,cdf\n1,0.5\n2,x\n", "sizes.csv:3: \"2, x\" is not a size and a share from 0 to 1"),
            ("1,0.5\n2,0.4\n", "sizes.csv:2: \"2, 0.4\" is below the line before"),
            ("1,0.5\n", "sizes.csv:1: the last share is not 1: expected lines of size_bytes,cdf"),
            ("", "there is no line with a size"),
            ("1,1.5\n", "is not a size and a share from 0 to 1"),
            ("1,0.5,7\n", "\"1, 0.5, 7\" is not a size"),
            ("inf,1\n", "\"inf, 1\" is not a size"),
            ("a,b\nc,d\n", "sizes.csv:2: \"c, d\" is not a size"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
