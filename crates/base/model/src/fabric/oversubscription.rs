//! Oversubscription: how much more could come in below a switch than fits out above.

use core::fmt;
use core::str::FromStr;

use cavalcade_spec::Value;

use super::FabricError;
use crate::BitsPerSec;

/// Ratio of capacity below to capacity above, in thousandths: 2:1 is 2000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversubscription(u64);

impl Default for Oversubscription {
    fn default() -> Self {
        Self::NONE
    }
}

impl Value for Oversubscription {
    fn read(&mut self, text: &str) -> bool {
        text.parse().map(|value| *self = value).is_ok()
    }
    fn write(&self) -> String {
        self.to_string()
    }
    fn expected(&self) -> String {
        "a number above 0 with at most 3 decimals, such as 2 or 2.5".to_owned()
    }
}

impl Oversubscription {
    /// No oversubscription: as much out as in.
    pub const NONE: Self = Self(1000);

    /// Divides `rate` by the ratio, rounded down.
    pub fn applied(self, rate: u128) -> BitsPerSec {
        BitsPerSec(u64::try_from(rate * 1000 / u128::from(self.0)).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Oversubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1000, self.0 % 1000);
        if part == 0 {
            write!(f, "{whole}")
        } else {
            write!(f, "{whole}.{}", format!("{part:03}").trim_end_matches('0'))
        }
    }
}

impl FromStr for Oversubscription {
    type Err = FabricError;

    fn from_str(text: &str) -> Result<Self, FabricError> {
        let error = || FabricError::BadOversubscription { given: text.to_owned() };
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(part) || part.len() > 3 {
            return Err(error());
        }
        let number = |text: &str| text.parse::<u64>().map_err(|_| error());
        let thousandths = number(&format!("{part:0<3}"))?;
        let all = number(whole)?.checked_mul(1000).and_then(|whole| whole.checked_add(thousandths));
        all.filter(|&all| all > 0).map(Self).ok_or_else(error)
    }
}
