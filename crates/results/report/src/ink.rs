//! What a class looks like in a file of its own: attributes with literal colours.
//!
//! On a page, classes go to its style sheet, which knows light and dark. A figure goes through
//! converters, office programs and LaTeX, of which many know no style sheets and almost none custom
//! properties: what they do not know, they draw black or not at all. So a file has no classes.
//! Groups are still opened with them: a colour and a dash ([`Look`]) hold for all that is inside.

use crate::look::{LIGHT, Look};

/// The text of all files, and its font: the first is what paper uses, the last is what
/// [`crate::render`] has with it.
pub(crate) const FONT: &str = "font-family=\"Helvetica Neue, Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif\" font-size=\"12\"";
const TEXT: &str = "#1b1b1a";

/// The attributes of each class; `$` is the colour of the look, `@` the paper.
const CLASSES: [(&str, &str); 25] = [
    ("mid", "text-anchor=\"middle\""),
    ("end", "text-anchor=\"end\""),
    ("title", "font-weight=\"bold\" font-size=\"13\""),
    ("panel", "font-weight=\"bold\""),
    ("grid", "stroke=\"#e4e1d8\""),
    ("row", "stroke=\"#e4e1d8\""),
    ("base", "stroke=\"#8b887f\""),
    ("tick", "stroke=\"#8b887f\""),
    ("one", "stroke=\"#5c5a54\" stroke-dasharray=\"3 3\""),
    ("curve", "fill=\"none\" stroke=\"$\" stroke-linejoin=\"round\""),
    ("whisker", "stroke=\"$\" stroke-width=\"1.4\""),
    ("dot", "fill=\"$\""),
    ("hollow", "fill=\"@\" stroke=\"$\" stroke-width=\"1.6\""),
    ("mark", "fill=\"$\" stroke=\"$\" stroke-width=\"1.5\""),
    ("hollow-mark", "fill=\"@\" stroke=\"$\" stroke-width=\"1.5\""),
    ("paper", "fill=\"none\" stroke=\"$\" stroke-width=\"1.7\""),
    ("waiting", "fill=\"none\" stroke=\"#c06a12\""),
    ("alone", "fill=\"none\" stroke=\"#1b1b1a\""),
    ("cable", "stroke=\"#b9b5aa\""),
    ("own", "stroke=\"#1f6fb4\" stroke-width=\"2\""),
    ("failed", "stroke=\"#c0392b\" stroke-width=\"2\" stroke-dasharray=\"5 3\""),
    ("band", "fill=\"#eceae3\""),
    ("switch", "fill=\"#3b4a5a\""),
    ("host", "fill=\"#8a9aab\""),
    ("hits", "fill=\"none\" stroke=\"none\" pointer-events=\"stroke\""),
];

/// A group that is open.
#[derive(Clone, Copy, Debug)]
struct Group {
    look: Option<Look>,
    /// True for the baseline, whose curve is heavier.
    is_base: bool,
}

/// The paper and the groups that are open.
#[derive(Debug)]
pub(crate) struct Ink {
    paper: &'static str,
    groups: Vec<Group>,
}

impl Ink {
    /// Ink on paper of this colour.
    pub(crate) fn on(paper: &'static str) -> Self {
        Self { paper, groups: Vec::new() }
    }

    /// Begins a group of these classes; returns its attributes.
    pub(crate) fn open(&mut self, classes: &str) -> String {
        let above = self.groups.last().copied().unwrap_or(Group { look: None, is_base: false });
        let is_base = above.is_base || classes.split(' ').any(|class| class == "base");
        self.groups.push(Group { look: Look::read(classes).or(above.look), is_base });
        // Only this one gives a group attributes; all others are looked up by the shapes inside.
        if classes == "hits" { self.attributes(classes) } else { String::new() }
    }

    /// Ends the innermost group.
    pub(crate) fn close(&mut self) {
        self.groups.pop();
    }

    /// The attributes of a shape of these classes, each with a blank before it.
    pub(crate) fn attributes(&self, classes: &str) -> String {
        let group = self.groups.last().copied().unwrap_or(Group { look: None, is_base: false });
        let look = group.look.unwrap_or(Look { color: 0, dash: 0 });
        let mut text = String::new();
        for class in classes.split(' ') {
            let class = if class == "mark" && look.is_hollow() { "hollow-mark" } else { class };
            let Some((_, attributes)) = CLASSES.iter().find(|(known, _)| *known == class) else { continue };
            text.push(' ');
            text.push_str(&attributes.replace('$', LIGHT[usize::from(look.color)]).replace('@', self.paper));
            if class == "curve" {
                let width = if group.is_base { "2.4" } else { "1.6" };
                text.push_str(&format!(" stroke-width=\"{width}\""));
                if let Some(dash) = look.dashes() {
                    text.push_str(&format!(" stroke-dasharray=\"{dash}\""));
                }
            }
        }
        text
    }

    /// The same of text, which has a colour whatever its classes are.
    pub(crate) fn of_text(&self, classes: &str) -> String {
        let color = if classes.split(' ').any(|class| class == "muted") { "#5c5a54" } else { TEXT };
        format!(" fill=\"{color}\"{}", self.attributes(classes))
    }
}
