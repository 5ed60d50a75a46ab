//! What waits in each priority class: a point for each policy and class, on a logarithmic axis,
//! since the lowest class has nearly all bytes.

use super::{FigureError, FigureWidth, panel_figure};
use crate::chart::{Better, ChartPanel, ChartPoint, ChartSeries, Horizontal, Stroke, Unit, Vertical};

/// The most classes that have a place of their own; the rest share one more.
const MOST: usize = 9;

/// What waits under one policy.
#[derive(Clone, Copy, Debug)]
pub struct ClassSide<'a> {
    /// Its name.
    pub name: &'a str,
    /// The policy, which its colour goes by.
    pub policy: &'a str,
    /// The mean number of bytes in each class that are not sent yet.
    pub bytes: &'a [f64],
}

/// The figure of what waits in each class, as an SVG file. A class in which nothing ever waits has
/// no point.
///
/// # Errors
/// If nothing waits anywhere.
pub fn class_figure(sides: &[ClassSide<'_>], width: FigureWidth) -> Result<String, FigureError> {
    let last = |side: &ClassSide<'_>| side.bytes.iter().rposition(|&bytes| bytes > 0.0);
    let last = sides.iter().filter_map(last).max().ok_or(FigureError::NoCoflows)?;
    let mut names: Vec<String> = (0..=last.min(MOST)).map(|class| class.to_string()).collect();
    if last > MOST {
        names[MOST] = format!("{MOST} to {last}");
    }
    let panel = ChartPanel {
        title: String::new(),
        horizontal: Horizontal::Cases { name: "class, 0 goes first".to_owned(), names },
        vertical: Vertical {
            name: "mean bytes waiting (log scale)".to_owned(),
            unit: Unit::Bytes,
            better: Better::Neither,
            from_zero: false,
        },
        series: sides.iter().map(series).collect(),
    };
    Ok(panel_figure(&panel, "Mean bytes waiting by class and policy", width))
}

fn series(side: &ClassSide<'_>) -> ChartSeries {
    let own = side.bytes.iter().take(MOST).copied();
    let rest = side.bytes.iter().skip(MOST).sum();
    let values = own.chain([rest]).enumerate().filter(|&(_, value)| value > 0.0);
    let point = |(class, value)| ChartPoint { at: class as f64, value, low: value, high: value };
    ChartSeries {
        name: side.name.to_owned(),
        policy: side.policy.to_owned(),
        points: values.map(point).collect(),
        paper: Vec::new(),
        stroke: Stroke::Joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_in_which_anything_waits_has_a_point_and_the_lowest_share_one() {
        let many: Vec<f64> = (0..14).map(|class| f64::from(class) * 1e6).collect();
        let sides = [
            ClassSide { name: "aalo", policy: "dclas", bytes: &[1e3, 0.0, 5e9] },
            ClassSide { name: "pias", policy: "pias", bytes: &many },
        ];
        let drawn = class_figure(&sides, FigureWidth::Page).unwrap();
        // Two of aalo; of pias none in class 0, eight, and one of all the others; one each in the
        // legend.
        assert_eq!(drawn.matches("<circle").count(), 2 + 8 + 1 + 2);
        for part in ["9 to 13", "class, 0 goes first", " GB</text>", " KB</text>"] {
            assert!(drawn.contains(part), "{part}");
        }
        assert!(!drawn.contains("is better"));
        assert_eq!(class_figure(&[], FigureWidth::Page), Err(FigureError::NoCoflows));
    }
}
