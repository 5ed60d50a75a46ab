//! The laws of flow sizes that papers on flows use: two measured distributions, and the bounded
//! Pareto law.

use core::fmt;

use cavalcade_model::MeasuredSizes;
use cavalcade_spec::{Choice, Value};

/// A law of flow sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sizes {
    /// From the smallest to the largest, by the exponent of the tail.
    #[default]
    Pareto,
    /// Web search (DCTCP, SIGCOMM 2010): half of the flows up to 75 KB, mean 1.7 MB.
    WebSearch,
    /// Data mining (VL2, SIGCOMM 2009): half of the flows one packet, mean 7.5 MB, up to 1 GB.
    DataMining,
}

impl Sizes {
    fn measured(self) -> Option<MeasuredSizes> {
        match self {
            Sizes::Pareto => None,
            Sizes::WebSearch => Some(MeasuredSizes::WEB_SEARCH),
            Sizes::DataMining => Some(MeasuredSizes::DATA_MINING),
        }
    }

    /// Of a measured law: the size, in bytes, below which a share of `at` lies.
    pub(super) fn at(self, at: f64) -> Option<f64> {
        Some(self.measured()?.packets_at(at) * MeasuredSizes::PACKET)
    }

    /// Of a measured law: the mean in bytes.
    pub(super) fn mean(self) -> Option<f64> {
        Some(self.measured()?.mean_packets() * MeasuredSizes::PACKET)
    }
}

impl Choice for Sizes {
    const WORDS: &'static [(&'static str, Self)] =
        &[("pareto", Sizes::Pareto), ("websearch", Sizes::WebSearch), ("datamining", Sizes::DataMining)];
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.write())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: f64 = MeasuredSizes::PACKET;

    #[test]
    fn the_means_are_those_of_the_scripts_and_of_draws() {
        for (sizes, packets) in [(Sizes::WebSearch, 1_138.0), (Sizes::DataMining, 5_117.0)] {
            let mean = sizes.mean().unwrap() / PACKET;
            assert!((mean / packets - 1.0).abs() < 0.003, "{sizes}: {mean} packets");
            let draws = 100_000;
            let sum: f64 =
                (0..draws).filter_map(|draw| sizes.at((f64::from(draw) + 0.5) / f64::from(draws))).sum();
            assert!((sum / f64::from(draws) / PACKET / packets - 1.0).abs() < 0.01, "{sizes}");
        }
    }

    /// TAFE §IV-A: web search has more than 95 % of its bytes in 30 % of its flows (the law here
    /// has 94.9), data mining in 4 %, and four flows in five of data mining have less than 10 KB.
    #[test]
    fn most_bytes_are_in_few_flows() {
        let sizes = |law: Sizes| {
            (0..10_000).map(|draw| law.at((f64::from(draw) + 0.5) / 10_000.0).unwrap()).collect::<Vec<f64>>()
        };
        let share_of_largest = |sizes: &[f64], part: f64| {
            let first = ((1.0 - part) * sizes.len() as f64) as usize;
            sizes[first..].iter().sum::<f64>() / sizes.iter().sum::<f64>()
        };
        let (search, mining) = (sizes(Sizes::WebSearch), sizes(Sizes::DataMining));
        let of_search = share_of_largest(&search, 0.3);
        assert!((0.949..0.95).contains(&of_search), "not more than 95 %, and 95 when rounded: {of_search}");
        assert!(share_of_largest(&mining, 0.04) > 0.95, "{}", share_of_largest(&mining, 0.04));
        assert!(mining[8_000] < 10_500.0, "{}", mining[8_000]);
    }

    #[test]
    fn shares_are_those_of_the_points() {
        assert_eq!(Sizes::WebSearch.at(0.0), Some(6.0 * PACKET));
        assert_eq!(Sizes::WebSearch.at(0.1), Some(6.0 * PACKET));
        assert_eq!(Sizes::WebSearch.at(1.0), Some(20_000.0 * PACKET));
        assert!((Sizes::DataMining.at(0.55).unwrap() - 1.5 * PACKET).abs() < 1e-6);
        assert_eq!(Sizes::Pareto.at(0.5), None);
    }
}
