//! Bytes for people: three digits in decimal units. What is read back is written exactly, by
//! [`Bytes`] itself.

use core::fmt;

use crate::Bytes;

const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];

/// Bytes to three digits: `950 MB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounded(Bytes);

impl Bytes {
    /// Formats them to three digits in decimal units, as `950 MB`.
    pub const fn rounded(self) -> Rounded {
        Rounded(self)
    }
}

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0.as_f64();
        let mut unit = "B";
        for larger in UNITS {
            // 999.5 would be shown as 1000.
            if value < 999.5 {
                break;
            }
            value /= 1000.0;
            unit = larger;
        }
        let decimals = if unit == "B" || value >= 99.95 { 0 } else { 1 };
        write!(f, "{value:.decimals$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn amounts_have_three_digits_at_most() {
        let shown = [0, 999, 1000, 9_960, 99_960, 999_499, 999_500, 37_306_000_000_000]
            .map(|bytes| Bytes(bytes).rounded().to_string());
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "10.0 kB", "100 kB", "999 kB", "1.0 MB", "37.3 TB"]);
    }
}
