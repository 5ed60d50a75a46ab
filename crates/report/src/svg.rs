//! Writing SVG and HTML: the only place that escapes text and prints coordinates.

/// A drawing, written front to back.
pub(crate) struct Svg {
    open: String,
    body: String,
}

impl Svg {
    /// A drawing of that size in its own pixels, scaled to the width that it is given; `label` is for those who cannot see it.
    pub(crate) fn new(width: f64, height: f64, label: &str) -> Self {
        let (w, h, label) = (px(width), px(height), escape(label));
        let open = format!("<svg viewBox=\"0 0 {w} {h}\" role=\"img\" aria-label=\"{label}\">");
        Self { open, body: String::new() }
    }

    /// A drawing that is a file of its own, shown at `size` (lengths with their unit), with the `style` element that its
    /// classes need.
    pub(crate) fn file(
        size: (String, String),
        (width, height): (f64, f64),
        label: &str,
        style: &str,
    ) -> Self {
        let (w, h, label) = (px(width), px(height), escape(label));
        let open = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {w} {h}\" role=\"img\" \
             aria-label=\"{label}\"><title>{label}</title>",
            size.0, size.1
        );
        Self { open, body: style.to_owned() }
    }

    /// The drawing with a class of its own.
    pub(crate) fn class(mut self, class: &str) -> Self {
        self.open.truncate(self.open.len() - 1);
        self.open.push_str(&format!(" class=\"{class}\">"));
        self
    }

    /// An invisible path that says `text` when the pointer rests on it.
    pub(crate) fn hit(&mut self, commands: &str, text: &str) {
        self.body.push_str(&format!("<path d=\"{commands}\"><title>{}</title></path>", escape(text)));
    }

    /// Begins a group with these attributes, as in `class="axis"`; there may be none.
    pub(crate) fn open(&mut self, attributes: &str) {
        self.body.push_str(format!("<g {attributes}").trim_end());
        self.body.push('>');
    }

    /// Ends the innermost group.
    pub(crate) fn close(&mut self) {
        self.body.push_str("</g>");
    }

    /// A straight line.
    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(px);
        self.body
            .push_str(&format!("<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"));
    }

    /// Text whose class says how it is anchored.
    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let (x, y, text) = (px(x), px(y), escape(text));
        self.body.push_str(&format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>"));
    }

    /// A path of drawing commands.
    pub(crate) fn path(&mut self, class: &str, commands: &str) {
        self.body.push_str(&format!("<path class=\"{class}\" d=\"{commands}\"/>"));
    }

    /// A disc.
    pub(crate) fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        let (x, y, r) = (px(x), px(y), px(radius));
        self.body.push_str(&format!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{r}\"/>"));
    }

    /// A rectangle.
    pub(crate) fn rect(&mut self, attributes: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let [x, y, w, h] = [x, y, width, height].map(px);
        self.body.push_str(&format!("<rect {attributes} x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"/>"));
    }

    /// A picture from a `data:` address, stretched to the rectangle.
    pub(crate) fn image(&mut self, address: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let [x, y, w, h] = [x, y, width, height].map(px);
        self.body.push_str(&format!(
            "<image x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" preserveAspectRatio=\"none\" href=\"{address}\"/>"
        ));
    }

    /// Adds the text that is shown when the pointer rests on the innermost group.
    pub(crate) fn tooltip(&mut self, text: &str) {
        self.body.push_str(&format!("<title>{}</title>", escape(text)));
    }

    /// The element.
    pub(crate) fn finish(self) -> String {
        format!("{}{}</svg>\n", self.open, self.body)
    }
}

/// A coordinate to a tenth of a pixel, in as few characters as it takes.
///
/// # Panics
/// If it is not finite: that would be an empty chart in a paper.
pub(crate) fn px(value: f64) -> String {
    assert!(value.is_finite(), "a coordinate is {value}");
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// About how wide `text` is at a font size of 12: a little more than it is in the widest of the fonts asked for, so that
/// nothing that is placed by it is cut off.
pub(crate) fn text_width(text: &str) -> f64 {
    let width = |character: char| match character {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' => 4.0,
        'f' | 'r' | 't' | '(' | ')' | '-' | '/' => 5.2,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '—' => 11.8,
        c if c.is_uppercase() => 8.8,
        _ => 7.7,
    };
    text.chars().map(width).sum()
}

/// Text as the content of an element or a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Neither XML nor a terminal that shows the source wants control characters.
            c if c.is_control() && c != '\n' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The first `most` characters, with an ellipsis where there are more.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_finite() {
        assert_eq!([1.0, 1.25, -0.04, 12.96].map(px), ["1", "1.2", "0", "13"]);
        assert!(std::panic::catch_unwind(|| px(f64::NAN)).is_err());
    }

    #[test]
    fn text_cannot_end_what_it_stands_in() {
        assert_eq!(escape("<a href=\"x\">&'\u{1b}"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\u{fffd}");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("abcd", 4), "abcd");
    }
}
