//! Reading an [`Assertion`] from text. One pass, left to right; every error names the column, what
//! stands there and what was expected.

use core::str::FromStr;

use cavalcade_model::Nanos;

use super::{Assertion, Bound, Function, Measure, Quantity, Relation};

/// A text that is no assertion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: found {found}, expected {expected}")]
pub struct AssertionError {
    /// The place, in characters from 1.
    pub column: usize,
    /// The text found there.
    pub found: String,
    /// The expectation, with an example where it helps.
    pub expected: &'static str,
}

const QUANTITY: &str =
    "mean(…), min(…), max(…) or a percentile such as p99(…), or makespan, misses or factor(policy)";
const MEASURE: &str = "cct, tct or slowdown";
const RELATION: &str = "one of < <= > >= ==";
const TIME: &str = "a time with its unit, such as 2s or 150ms (ns, us, ms, s, min, h)";
const NUMBER: &str = "a number without unit, such as 1.5";
const POLICY: &str = "the name of a policy";

impl FromStr for Assertion {
    type Err = AssertionError;

    fn from_str(text: &str) -> Result<Self, AssertionError> {
        let mut reader = Reader { text, at: 0 };
        let policy = reader.prefix()?;
        let quantity = reader.quantity()?;
        let relation = reader.relation()?;
        let bound = reader.bound(quantity.is_time())?;
        Ok(Assertion { policy, quantity, relation, bound })
    }
}

struct Reader<'a> {
    text: &'a str,
    /// Byte offset of what is not yet read.
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn error<T>(&self, expected: &'static str) -> Result<T, AssertionError> {
        let column = self.text[..self.at].chars().count() + 1;
        let word: String = self.rest().chars().take(24).collect();
        let found = if word.trim().is_empty() { "the end".to_owned() } else { format!("`{word}`") };
        Err(AssertionError { column, found, expected })
    }

    /// Reads `token` after space, or says what was expected.
    fn expect(&mut self, token: &str, expected: &'static str) -> Result<(), AssertionError> {
        self.skip_space();
        if !self.rest().starts_with(token) {
            return self.error(expected);
        }
        self.at += token.len();
        Ok(())
    }

    /// A word of letters, digits and points, perhaps empty; it is not consumed.
    fn word(&mut self) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
        &rest[..end]
    }

    /// The policy before the last colon, where there is one ahead of the relation and outside
    /// `factor(…)`.
    fn prefix(&mut self) -> Result<Option<String>, AssertionError> {
        if self.word() == "factor" {
            return Ok(None);
        }
        let rest = self.rest();
        let left = &rest[..rest.find(['<', '>']).or_else(|| rest.find("==")).unwrap_or(rest.len())];
        let Some(colon) = left.rfind(':') else { return Ok(None) };
        let policy = left[..colon].trim();
        if policy.is_empty() {
            return self.error(POLICY);
        }
        self.at += colon + 1;
        Ok(Some(policy.to_owned()))
    }

    fn quantity(&mut self) -> Result<Quantity, AssertionError> {
        let word = self.word();
        let function = match word {
            "makespan" | "misses" => {
                self.at += word.len();
                return Ok(if word == "misses" { Quantity::Misses } else { Quantity::Makespan });
            }
            "factor" => return self.factor(),
            "mean" => Function::Mean,
            "min" => Function::Min,
            "max" => Function::Max,
            _ => match word.strip_prefix('p').map(str::parse) {
                Some(Ok(percent)) => Function::Percentile(percent),
                _ => return self.error(QUANTITY),
            },
        };
        self.at += word.len();
        self.expect("(", "( and then cct, tct or slowdown")?;
        let measure = match self.word() {
            "cct" => Measure::Cct,
            "tct" => Measure::Tct,
            "slowdown" => Measure::Slowdown,
            _ => return self.error(MEASURE),
        };
        self.at += self.word().len();
        self.expect(")", ")")?;
        Ok(Quantity::Statistic { function, measure })
    }

    fn factor(&mut self) -> Result<Quantity, AssertionError> {
        self.at += "factor".len();
        self.expect("(", "( and then the name of a policy")?;
        self.skip_space();
        let Some(end) = self.rest().find(')') else {
            self.at = self.text.len();
            return self.error(")");
        };
        let policy = self.rest()[..end].trim();
        if policy.is_empty() {
            return self.error(POLICY);
        }
        self.at += end + 1;
        Ok(Quantity::Factor { policy: policy.to_owned() })
    }

    fn relation(&mut self) -> Result<Relation, AssertionError> {
        self.skip_space();
        // Longer signs first: `<` begins `<=`.
        let signs = [
            ("<=", Relation::AtMost),
            (">=", Relation::AtLeast),
            ("==", Relation::Equal),
            ("<", Relation::Less),
            (">", Relation::Greater),
        ];
        let Some((sign, relation)) = signs.into_iter().find(|(sign, _)| self.rest().starts_with(sign)) else {
            return self.error(RELATION);
        };
        self.at += sign.len();
        Ok(relation)
    }

    fn bound(&mut self, is_time: bool) -> Result<Bound, AssertionError> {
        self.skip_space();
        let text = self.rest().trim_end();
        if is_time {
            return text.parse::<Nanos>().map(Bound::Time).or_else(|_| self.error(TIME));
        }
        // The standard parser also takes inf, NaN, signs and exponents, which is never meant here.
        let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        match text.parse::<f64>() {
            Ok(number) if plain && number.is_finite() => Ok(Bound::Number(number)),
            _ => self.error(NUMBER),
        }
    }
}
