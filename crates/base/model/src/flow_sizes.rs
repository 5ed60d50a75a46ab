//! The two measured laws of flow sizes that papers on flows use.
//!
//! Numbers are packets of 1,460 bytes, as the scripts of pFabric's and PIAS' authors have them
//! (PIAS-NS2, `CDF_dctcp.tcl`, `CDF_vl2.tcl`; docs/protocols.md §2.2). The papers themselves show
//! curves without numbers; other tables of the same curves differ by up to a third in the mean
//! (`../shared/data/cdf`).

/// A measured law: points (full packets, the share of flows that have at most so many) between
/// which the share grows in a straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredSizes(&'static [(f64, f64)]);

impl MeasuredSizes {
    /// Web search (DCTCP, SIGCOMM 2010): half of the flows up to 75 KB, mean 1.7 MB.
    pub const WEB_SEARCH: Self = Self(&[
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
    ]);

    /// Data mining (VL2, SIGCOMM 2009): half of the flows one packet, mean 7.5 MB, up to 1 GB.
    pub const DATA_MINING: Self = Self(&[
        (1.0, 0.0),
        (1.0, 0.5),
        (2.0, 0.6),
        (3.0, 0.7),
        (7.0, 0.8),
        (267.0, 0.9),
        (2_107.0, 0.95),
        (66_667.0, 0.99),
        (666_667.0, 1.0),
    ]);

    /// The bytes of a full packet.
    pub const PACKET: f64 = 1_460.0;

    /// The size, in packets, below which a `share` of the flows lies.
    pub fn packets_at(self, share: f64) -> f64 {
        let points = self.0;
        let upper = points.partition_point(|&(_, below)| below < share).clamp(1, points.len() - 1);
        let ((low, below), (high, above)) = (points[upper - 1], points[upper]);
        let part = if above > below { ((share - below) / (above - below)).clamp(0.0, 1.0) } else { 1.0 };
        low + (high - low) * part
    }

    /// The mean size in packets.
    pub fn mean_packets(self) -> f64 {
        let parts = self.0.windows(2);
        parts.map(|pair| (pair[0].0 + pair[1].0) / 2.0 * (pair[1].1 - pair[0].1)).sum()
    }
}
