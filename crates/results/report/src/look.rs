//! One colour for each policy, the same in every figure of every page.
//!
//! A reader who has learnt that Aalo is orange in one figure must not meet it in green in the next.
//! So colours go by the name of the policy, from a fixed table, and never by rank or by order of
//! appearance. Eleven colours do not suffice for all policies and transports, so a look is a colour
//! and a dash; those that are compared most often have a colour to themselves. Runs of one policy
//! with several settings share its colour and take the next free dash, which is also a form of
//! dots.
//!
//! Every colour has a contrast of at least 3 to the page, light and dark (WCAG 2.1, 1.4.11); they
//! are Okabe and Ito's hues, darkened where these are too light for white paper. The rules of the
//! classes `c0` to `c10` and `d0` to `d5` are made here for every style sheet.

/// Colours in the table below.
const COLORS: u8 = 11;
/// Ways to dash a line, each with a form of dots ([`crate::legend::marker`]).
const DASHES: [&str; 6] = ["none", "7 3", "2 2.5", "8 3 2 3", "14 3", "1 3"];

/// The colours on light paper.
pub(crate) const LIGHT: [&str; COLORS as usize] = [
    "#1b1b1a", "#0072b2", "#d55e00", "#00855f", "#a8508b", "#9a6a00", "#0b8a9c", "#7d2336", "#7d7a72",
    "#6a51c9", "#d81b60",
];
/// The colours on a dark page.
pub(crate) const DARK: [&str; COLORS as usize] = [
    "#e8e5dd", "#3d97d6", "#e8743b", "#1fb88a", "#d98fb8", "#e6ab2e", "#3fc1d3", "#d9667c", "#a09d94",
    "#a593f5", "#ff6f9f",
];

/// Colour and dash of each policy and transport.
const TABLE: [(&str, u8, u8); 34] = [
    ("fair", 0, 0),
    ("sebf", 1, 0),
    ("varys", 1, 0),
    ("dclas", 2, 0),
    ("aalo", 2, 0),
    ("fifo_lm", 3, 0),
    ("baraat", 3, 0),
    ("dcas", 4, 0),
    ("las", 5, 0),
    ("pias", 6, 0),
    ("karuna", 7, 0),
    ("fifo", 8, 0),
    ("sff", 9, 0),
    ("learn", 10, 0),
    ("stf", 1, 1),
    ("saath", 2, 1),
    ("spc", 3, 1),
    ("philae", 4, 1),
    ("tafe", 5, 1),
    ("dcoflow", 6, 1),
    ("edf", 7, 1),
    ("crux", 8, 1),
    ("cassini", 10, 1),
    ("mltcp", 10, 2),
    ("sincronia", 9, 1),
    ("dctcp", 0, 1),
    ("rcp", 0, 2),
    ("reno", 0, 3),
    ("bound", 1, 2),
    ("d2tcp", 2, 2),
    ("d3", 4, 2),
    ("pfabric", 9, 2),
    ("mcp", 7, 2),
    ("pdq", 6, 2),
];

/// A colour and a dash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// From 0 to 10.
    pub(crate) color: u8,
    /// From 0 to 5: the line's dash and the form of its dots.
    pub(crate) dash: u8,
}

impl Look {
    /// The look of a policy or transport by its name alone.
    fn of(name: &str) -> Self {
        match TABLE.iter().find(|(known, ..)| *known == name) {
            Some(&(_, color, dash)) => Self { color, dash },
            // A policy that is newer than the table: by its name too, so that it stays the same.
            None => {
                let sum = name.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
                Self { color: 1 + (sum % u32::from(COLORS - 1)) as u8, dash: 3 }
            }
        }
    }

    /// Its classes, as `c2 d0`.
    pub(crate) fn classes(self) -> String {
        format!("c{} d{}", self.color, self.dash)
    }

    /// The look that classes name, if they do.
    pub(crate) fn read(classes: &str) -> Option<Self> {
        let mut words = classes.split(' ');
        let color = words.next()?.strip_prefix('c')?.parse().ok().filter(|color| *color < COLORS)?;
        let dash = words.next()?.strip_prefix('d')?.parse().ok().filter(|dash| *dash < DASHES.len() as u8)?;
        Some(Self { color, dash })
    }

    /// The dashes of its line, if it has any.
    pub(crate) fn dashes(self) -> Option<&'static str> {
        (self.dash > 0).then(|| DASHES[usize::from(self.dash)])
    }

    /// Checks whether its dots are hollow: every second form is.
    pub(crate) fn is_hollow(self) -> bool {
        self.dash % 2 == 1
    }
}

/// The looks of all series of one figure by the name of their policy; no two are equal as long as
/// dashes last.
pub(crate) fn looks<S: AsRef<str>>(policies: &[S]) -> Vec<Look> {
    let mut given: Vec<Look> = Vec::with_capacity(policies.len());
    for policy in policies {
        let first = Look::of(policy.as_ref());
        let dashes = DASHES.len() as u8;
        let mut turns = (0..dashes).map(|turn| Look { dash: (first.dash + turn) % dashes, ..first });
        let free = turns.find(|look| !given.contains(look));
        given.push(free.unwrap_or(first));
    }
    given
}

/// The declarations `--c0: …; --c1: …` of a style sheet.
pub(crate) fn declarations(colors: &[&str]) -> String {
    colors.iter().enumerate().map(|(index, color)| format!("--c{index}:{color};")).collect()
}

/// Writes the rules that give the classes `c0` to `c10` their colour and `d1` to `d5` their dash.
pub(crate) fn classes() -> String {
    let colors = (0..COLORS).map(|index| format!(".c{index}{{--c:var(--c{index})}}"));
    let dashes = DASHES.iter().enumerate().skip(1);
    let dashes = dashes.map(|(index, dash)| format!(".d{index} .curve{{stroke-dasharray:{dash}}}"));
    colors.chain(dashes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance by WCAG 2.1.
    fn luminance(color: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.039_28 { value / 12.92 } else { libm::pow((value + 0.055) / 1.055, 2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_colour_stands_out_from_its_paper() {
        assert!(LIGHT.iter().all(|color| contrast(color, "#fffefb") >= 3.0));
        assert!(DARK.iter().all(|color| contrast(color, "#151514") >= 3.0));
    }

    #[test]
    fn a_policy_looks_the_same_whatever_stands_beside_it() {
        let (alone, beside) = (looks(&["dclas"]), looks(&["fair", "sebf", "dclas"]));
        assert_eq!(alone[0], beside[2]);
        assert_eq!(looks(&["quite new"]), looks(&["quite new"]));
    }

    #[test]
    fn settings_of_one_policy_share_its_colour_and_differ_in_dash() {
        let looks = looks(&["dclas", "dclas", "dclas", "saath", "dclas", "dclas"]);
        assert!(looks.iter().all(|look| look.color == 2));
        for (index, look) in looks.iter().enumerate() {
            assert!(!looks[..index].contains(look), "{looks:?}");
        }
    }

    #[test]
    fn no_two_of_the_table_look_alike_but_names_of_one_policy() {
        for (index, (name, color, dash)) in TABLE.iter().enumerate() {
            for (other, ..) in TABLE[..index].iter().filter(|(_, c, d)| (c, d) == (color, dash)) {
                let same = [("sebf", "varys"), ("dclas", "aalo"), ("fifo_lm", "baraat")];
                assert!(same.contains(&(other, name)), "{other} and {name}");
            }
        }
    }
}
