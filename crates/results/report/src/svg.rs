//! Writing SVG and HTML: the only place that escapes text and prints coordinates.

use crate::ink::{FONT, Ink};

/// A drawing, written front to back. What is drawn has classes, which are left to the style sheet
/// of a page; a drawing that is a file of its own has attributes in their place ([`Ink`]).
pub(crate) struct Svg {
    open: String,
    body: String,
    ink: Option<Ink>,
}

impl Svg {
    /// A drawing of that size in its own pixels, scaled to the width that it is given; `label` is
    /// for those who cannot see it.
    pub(crate) fn new(width: f64, height: f64, label: &str) -> Self {
        let (w, h, label) = (px(width), px(height), escape(label));
        let open = format!("<svg viewBox=\"0 0 {w} {h}\" role=\"img\" aria-label=\"{label}\">");
        Self { open, body: String::new(), ink: None }
    }

    /// A drawing that is a file of its own on `paper` of a colour, shown at `size` (lengths with
    /// their unit).
    pub(crate) fn file(
        size: (String, String),
        (width, height): (f64, f64),
        label: &str,
        paper: &'static str,
    ) -> Self {
        let (w, h, label) = (px(width), px(height), escape(label));
        let open = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {w} {h}\" role=\"img\" \
             aria-label=\"{label}\" {FONT}><title>{label}</title>",
            size.0, size.1
        );
        let mut svg = Self { open, body: String::new(), ink: Some(Ink::on(paper)) };
        svg.shade(&format!("fill=\"{paper}\""), (0.0, 0.0), (width, height));
        svg
    }

    /// The drawing with a class of its own.
    pub(crate) fn class(mut self, class: &str) -> Self {
        self.open.truncate(self.open.len() - 1);
        self.open.push_str(&format!(" class=\"{class}\">"));
        self
    }

    /// An invisible path that says `text` when the pointer rests on it, and on a page names the
    /// coflow that it is of, if it is of one.
    pub(crate) fn hit(&mut self, commands: &str, text: &str, coflow: Option<usize>) {
        let coflow = coflow.filter(|_| self.ink.is_none());
        let number = coflow.map_or_else(String::new, |coflow| format!(" data-coflow=\"{coflow}\""));
        self.body.push_str(&format!("<path{number} d=\"{commands}\"><title>{}</title></path>", escape(text)));
    }

    /// Begins a group of these classes; there may be none.
    pub(crate) fn open(&mut self, classes: &str) {
        self.open_with(classes, "");
    }

    /// Begins a group of these classes with attributes besides, as in `transform="…"`.
    pub(crate) fn open_with(&mut self, classes: &str, attributes: &str) {
        let own = match &mut self.ink {
            Some(ink) => ink.open(classes),
            None => class(classes),
        };
        let blank = if attributes.is_empty() { "" } else { " " };
        self.body.push_str(&format!("<g{own}{blank}{attributes}>"));
    }

    /// Begins the group of a run of these classes, which a page can show and hide.
    pub(crate) fn open_run(&mut self, run: usize, classes: &str) {
        let number = if self.ink.is_some() { String::new() } else { format!("data-run=\"{run}\"") };
        self.open_with(classes, &number);
    }

    /// Ends the innermost group.
    pub(crate) fn close(&mut self) {
        if let Some(ink) = &mut self.ink {
            ink.close();
        }
        self.body.push_str("</g>");
    }

    /// What a shape of these classes looks like.
    fn look(&self, classes: &str) -> String {
        match &self.ink {
            Some(ink) => ink.attributes(classes),
            None => class(classes),
        }
    }

    /// A straight line.
    pub(crate) fn line(&mut self, classes: &str, from: (f64, f64), to: (f64, f64)) {
        let look = self.look(classes);
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(px);
        self.body.push_str(&format!("<line{look} x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"));
    }

    /// Text whose classes say how it is anchored.
    pub(crate) fn text(&mut self, classes: &str, (x, y): (f64, f64), text: &str) {
        let look = match &self.ink {
            Some(ink) => ink.of_text(classes),
            None => class(classes),
        };
        let (x, y, text) = (px(x), px(y), escape(text));
        self.body.push_str(&format!("<text{look} x=\"{x}\" y=\"{y}\">{text}</text>"));
    }

    /// A path of drawing commands.
    pub(crate) fn path(&mut self, classes: &str, commands: &str) {
        let look = self.look(classes);
        self.body.push_str(&format!("<path{look} d=\"{commands}\"/>"));
    }

    /// A disc.
    pub(crate) fn circle(&mut self, classes: &str, (x, y): (f64, f64), radius: f64) {
        let look = self.look(classes);
        let (x, y, r) = (px(x), px(y), px(radius));
        self.body.push_str(&format!("<circle{look} cx=\"{x}\" cy=\"{y}\" r=\"{r}\"/>"));
    }

    /// A rectangle.
    pub(crate) fn rect(&mut self, classes: &str, from: (f64, f64), size: (f64, f64)) {
        let look = self.look(classes);
        self.rect_with(&look, from, size);
    }

    /// A rectangle with attributes of its own, as in `fill="#fff"`.
    pub(crate) fn shade(&mut self, attributes: &str, from: (f64, f64), size: (f64, f64)) {
        self.rect_with(&format!(" {attributes}"), from, size);
    }

    fn rect_with(&mut self, look: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let [x, y, w, h] = [x, y, width, height].map(px);
        self.body.push_str(&format!("<rect{look} x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"/>"));
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

fn class(classes: &str) -> String {
    if classes.is_empty() { String::new() } else { format!(" class=\"{classes}\"") }
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

/// About how wide `text` is at a font size of 12: a little more than it is in the widest of the
/// fonts asked for, so that nothing that is placed by it is cut off.
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

/// The same of several texts, of which those that differ still do: where two would look alike, what
/// they have in common is left out in their middle, up to the setting in which they differ.
pub(crate) fn shortened_apart(texts: &[&str], most: usize) -> Vec<String> {
    let plain: Vec<String> = texts.iter().map(|text| shortened(text, most)).collect();
    let apart = |(index, text): (usize, &&str)| {
        let alike = |&other: &usize| plain[other] == plain[index] && texts[other] != *text;
        let common = (0..texts.len()).filter(alike).map(|other| {
            text.chars().zip(texts[other].chars()).take_while(|(one, other)| one == other).count()
        });
        let Some(common) = common.min() else { return plain[index].clone() };
        let letters: Vec<char> = text.chars().collect();
        let begins = letters[..common].iter().rposition(|letter| matches!(letter, ',' | ':' | ' '));
        let tail: String = letters[begins.map_or(0, |at| at + 1)..].iter().collect();
        let head = (most - 1).saturating_sub(tail.chars().count());
        let head: String = letters[..head].iter().collect();
        shortened(&format!("{head}…{tail}"), most)
    };
    texts.iter().enumerate().map(apart).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_late_are_told_apart() {
        let of = |mb: u32| format!("dclas:queues=20,factor=2,first_threshold={mb}MB");
        let (one, two) = (of(1), of(2));
        let texts = ["fair", &one, &two, &one];
        let short = shortened_apart(&texts, 40);
        assert_eq!(short[..2], ["fair", "dclas:queues=20,fact…first_threshold=1MB"]);
        assert!(short[1] != short[2] && short[1] == short[3]);
        for most in [4, 15, 24] {
            let short = shortened_apart(&texts, most);
            assert!(short.iter().all(|text| text.chars().count() <= most), "{short:?}");
        }
        assert_eq!(shortened_apart(&texts, 24)[2], "dcla…first_threshold=2MB");
    }

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
