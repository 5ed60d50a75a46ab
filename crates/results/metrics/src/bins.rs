//! The four kinds of coflow by length and width (Varys §2.3, Aalo §7.1 and Table 3).
//!
//! A mean over all coflows hides who pays for it; by bin one sees whether short, narrow coflows
//! gain at the cost of long, wide ones. The papers' thresholds are the defaults: short where the
//! longest flow is under 5 MB, narrow up to 50 flows.

use core::fmt;

use cavalcade_model::{Bytes, CoflowRef};

/// One of the four kinds, in the order of the papers' tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bin {
    /// Short and narrow.
    ShortNarrow,
    /// Long and narrow.
    LongNarrow,
    /// Short and wide.
    ShortWide,
    /// Long and wide.
    LongWide,
}

impl Bin {
    /// All four, in order; a bin's position here is [`Bin::index`].
    pub const ALL: [Bin; 4] = [Bin::ShortNarrow, Bin::LongNarrow, Bin::ShortWide, Bin::LongWide];

    /// Returns it as an index into an array of four.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The papers' abbreviation: SN, LN, SW, LW.
    pub const fn code(self) -> &'static str {
        match self {
            Bin::ShortNarrow => "SN",
            Bin::LongNarrow => "LN",
            Bin::ShortWide => "SW",
            Bin::LongWide => "LW",
        }
    }

    /// In words: "short, narrow".
    pub const fn name(self) -> &'static str {
        match self {
            Bin::ShortNarrow => "short, narrow",
            Bin::LongNarrow => "long, narrow",
            Bin::ShortWide => "short, wide",
            Bin::LongWide => "long, wide",
        }
    }
}

impl fmt::Display for Bin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code())
    }
}

/// The limits between short and long, narrow and wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinThresholds {
    /// A coflow is short where its largest flow has fewer bytes.
    pub short_below: Bytes,
    /// A coflow is narrow where it has at most so many flows.
    pub narrow_up_to: usize,
}

impl Default for BinThresholds {
    fn default() -> Self {
        Self { short_below: Bytes(5_000_000), narrow_up_to: 50 }
    }
}

impl BinThresholds {
    /// The bin of a coflow.
    pub fn bin_of(&self, coflow: &CoflowRef<'_>) -> Bin {
        match (coflow.length() < self.short_below, coflow.width() <= self.narrow_up_to) {
            (true, true) => Bin::ShortNarrow,
            (false, true) => Bin::LongNarrow,
            (true, false) => Bin::ShortWide,
            (false, false) => Bin::LongWide,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::{CoflowId, Flow, Instant, Nanos, PortId, WorkloadBuilder};

    fn bin(width: usize, size: u64) -> Bin {
        let flow = Flow { src: PortId(0), dst: PortId(0), size: Bytes(size), wave: Nanos::ZERO };
        let mut builder = WorkloadBuilder::new(1);
        builder.coflow("c", Instant::ZERO, vec![flow; width]);
        let workload = builder.build().unwrap();
        BinThresholds::default().bin_of(&workload.coflow(CoflowId(0)))
    }

    #[test]
    fn the_thresholds_fall_as_the_papers_word_them() {
        assert_eq!(bin(50, 4_999_999), Bin::ShortNarrow, "at most 50 flows, less than 5 MB");
        assert_eq!(bin(50, 5_000_000), Bin::LongNarrow);
        assert_eq!(bin(51, 4_999_999), Bin::ShortWide);
        assert_eq!(bin(51, 5_000_000), Bin::LongWide);
    }

    #[test]
    fn indices_follow_the_list() {
        assert!(Bin::ALL.iter().enumerate().all(|(index, bin)| bin.index() == index));
    }
}
