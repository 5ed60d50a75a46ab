//! Text of a drawing as its outlines.
//!
//! A reader, converter or office program has other fonts than this program, or none that a file
//! embeds: with outlines a figure looks the same in all. Each text becomes a group that is named by
//! what it says, so that it can still be found; all else of the drawing stays as it is. Rejected:
//! writing the whole tree of `usvg`, which drops names and tooltips.

use core::fmt::Write as _;

use resvg::usvg::{Color, Group, Node, Paint, Path, tiny_skia_path::PathSegment};

use super::{RenderError, parse};

/// How texts are named while they are looked up; no drawing of ours names anything.
const NAME: &str = "outlined-text-";

/// Renders a drawing as an SVG file that needs no font.
///
/// # Errors
/// If it is no SVG file.
pub fn svg(drawing: &str) -> Result<String, RenderError> {
    let mut pieces = drawing.split("<text");
    let mut named = pieces.next().unwrap_or_default().to_owned();
    let mut outlined = named.clone();
    let texts: Vec<&str> = pieces.collect();
    for (number, text) in texts.iter().enumerate() {
        named.push_str(&format!("<text id=\"{NAME}{number}\"{text}"));
    }
    let tree = parse(&named)?;
    for (number, text) in texts.iter().enumerate() {
        let unended = || RenderError::Svg("a text without an end".to_owned());
        let (text, after) = text.split_once("</text>").ok_or_else(unended)?;
        let (_, says) = text.split_once('>').ok_or_else(unended)?;
        outlined.push_str(&format!("<g aria-label=\"{says}\">"));
        // What has no glyphs is not in the tree.
        if let Some(Node::Text(text)) = tree.node_by_id(&format!("{NAME}{number}")) {
            draw(text.flattened(), &mut outlined);
        }
        outlined.push_str("</g>");
        outlined.push_str(after);
    }
    Ok(outlined)
}

/// Writes the paths of a group, whose own place is that of the text.
fn draw(group: &Group, out: &mut String) {
    for node in group.children() {
        match node {
            Node::Group(inner) => draw(inner, out),
            Node::Path(path) => draw_path(path, out),
            Node::Text(_) | Node::Image(_) => {}
        }
    }
}

fn draw_path(path: &Path, out: &mut String) {
    let Some(fill) = path.fill() else { return };
    let Color { red, green, blue } = match fill.paint() {
        Paint::Color(color) => *color,
        // No drawing of ours has text that is filled otherwise.
        _ => Color::black(),
    };
    out.push_str(&format!("<path fill=\"#{red:02x}{green:02x}{blue:02x}\""));
    if fill.opacity().get() < 1.0 {
        out.push_str(&format!(" fill-opacity=\"{}\"", fill.opacity().get()));
    }
    out.push_str(" stroke=\"none\" d=\"");
    for segment in path.data().segments() {
        let (letter, points) = match segment {
            PathSegment::MoveTo(to) => ('M', vec![to]),
            PathSegment::LineTo(to) => ('L', vec![to]),
            PathSegment::QuadTo(by, to) => ('Q', vec![by, to]),
            PathSegment::CubicTo(by, and, to) => ('C', vec![by, and, to]),
            PathSegment::Close => ('Z', vec![]),
        };
        out.push(letter);
        for (at, point) in points.iter().enumerate() {
            let between = if at > 0 { " " } else { "" };
            // A string takes all that is written.
            let _ = write!(out, "{between}{} {}", hundredths(point.x), hundredths(point.y));
        }
    }
    out.push_str("\"/>");
}

/// A coordinate to a hundredth of a unit, far below what paper shows.
fn hundredths(value: f32) -> f64 {
    (f64::from(value) * 100.0).round() / 100.0 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::png;

    const DRAWING: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"240pt\" height=\"120pt\" viewBox=\"0 0 360 180\" \
                           font-family=\"Helvetica, sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"a &lt; b\">\
                           <title>a &lt; b</title><rect fill=\"#fff\" width=\"360\" height=\"180\"/>\
                           <text x=\"20\" y=\"90\" fill=\"#d55e00\">a &lt; b &amp; c</text>\
                           <g transform=\"translate(80 90) rotate(-90)\"><text text-anchor=\"middle\" x=\"4\" y=\"5\">upright</text></g>\
                           <text x=\"1\" y=\"9\"></text><path d=\"M1 1L9 9\"><title>a tooltip</title></path></svg>\n";

    #[test]
    fn outlines_look_as_the_text_does_and_say_what_it_says() {
        let outlined = svg(DRAWING).unwrap();
        assert!(!outlined.contains("<text") && outlined.contains("<g aria-label=\"a &lt; b &amp; c\"><path"));
        assert!(outlined.contains("aria-label=\"upright\"") && outlined.contains("<title>a tooltip</title>"));
        let [text, outlines] = [DRAWING, &outlined].map(|svg| {
            let png = png(svg).unwrap();
            let picture = resvg::tiny_skia::Pixmap::decode_png(&png).unwrap();
            picture.pixels().iter().map(|pixel| pixel.green()).collect::<Vec<_>>()
        });
        let apart = text.iter().zip(&outlines).filter(|(one, other)| one.abs_diff(**other) > 40).count();
        let ink = text.iter().filter(|green| **green < 128).count();
        assert!(ink > 500 && apart * 50 < ink, "{apart} pixels of {ink} differ");
    }

    #[test]
    fn what_is_no_drawing_is_refused() {
        for text in ["hello", "<svg xmlns=\"http://www.w3.org/2000/svg\"><text x=\"1\">a", "<text"] {
            assert!(matches!(svg(text), Err(RenderError::Svg(_))), "{text}");
        }
    }
}
