//! The laws of flow sizes that papers on flows use: two measured distributions, and the bounded Pareto law.
//!
//! Measured ones are given by points between which the share grows in a straight line. Numbers are packets of 1,460 bytes, as
//! the scripts of pFabric's and PIAS' authors have them (PIAS-NS2, `CDF_dctcp.tcl`, `CDF_vl2.tcl`; protocols.md §2.2). The
//! papers themselves show curves without numbers; other tables of the same curves differ by up to a third in the mean
//! (`../shared/data/cdf`).

use core::fmt;

use super::parameters::Value;

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

/// Full packets, and the share of flows that have at most so many.
type Points = &'static [(f64, f64)];

const PACKET: f64 = 1_460.0;

const WEB_SEARCH: Points = &[
    (6.0, 0.0),
    (6.0, 0.15),
    (13.0, 0.2),
    (19.0, 0.3),
    (33.0, 0.4),
    (53.0, 0.53),
    (133.0, 0.6),
    (667.0, 0.7),
    (1_333.0, 0.8),
    (3_333.0, 0.9),
    (6_667.0, 0.97),
    (20_000.0, 1.0),
];

const DATA_MINING: Points = &[
    (1.0, 0.0),
    (1.0, 0.5),
    (2.0, 0.6),
    (3.0, 0.7),
    (7.0, 0.8),
    (267.0, 0.9),
    (2_107.0, 0.95),
    (66_667.0, 0.99),
    (666_667.0, 1.0),
];

impl Sizes {
    fn points(self) -> Option<Points> {
        match self {
            Sizes::Pareto => None,
            Sizes::WebSearch => Some(WEB_SEARCH),
            Sizes::DataMining => Some(DATA_MINING),
        }
    }

    /// Of a measured law: the size, in bytes, below which a share of `at` lies.
    pub(super) fn at(self, at: f64) -> Option<f64> {
        let points = self.points()?;
        let upper = points.partition_point(|&(_, share)| share < at).clamp(1, points.len() - 1);
        let ((low, below), (high, above)) = (points[upper - 1], points[upper]);
        let part = if above > below { ((at - below) / (above - below)).clamp(0.0, 1.0) } else { 1.0 };
        Some((low + (high - low) * part) * PACKET)
    }

    /// Of a measured law: the mean in bytes.
    pub(super) fn mean(self) -> Option<f64> {
        let parts = self.points()?.windows(2);
        Some(parts.map(|pair| (pair[0].0 + pair[1].0) / 2.0 * (pair[1].1 - pair[0].1)).sum::<f64>() * PACKET)
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sizes::Pareto => "pareto",
            Sizes::WebSearch => "websearch",
            Sizes::DataMining => "datamining",
        })
    }
}

impl Value for Sizes {
    fn read(text: &str) -> Result<Self, String> {
        let all = [Sizes::Pareto, Sizes::WebSearch, Sizes::DataMining];
        let found = all.into_iter().find(|sizes| sizes.to_string() == text);
        found.ok_or_else(|| "pareto, websearch or datamining".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn shares_are_those_of_the_points() {
        assert_eq!(Sizes::WebSearch.at(0.0), Some(6.0 * PACKET));
        assert_eq!(Sizes::WebSearch.at(0.1), Some(6.0 * PACKET));
        assert_eq!(Sizes::WebSearch.at(1.0), Some(20_000.0 * PACKET));
        assert!((Sizes::DataMining.at(0.55).unwrap() - 1.5 * PACKET).abs() < 1e-6);
        assert_eq!(Sizes::Pareto.at(0.5), None);
    }
}
