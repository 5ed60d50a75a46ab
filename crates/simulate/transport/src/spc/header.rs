//! The header of SPC: 26 bytes, the fields of Baraat §4.4 in their order.
//!
//! | bytes | field |
//! |---|---|
//! | 0–3 | task-id, big endian |
//! | 4 | scale |
//! | 5–16 | feedback: nominal and actual rate (NR, AR) of up to six ports |
//! | 17–22 | the ARs that these ports gave before: what the sender returns |
//! | 23 | how many ports have answered |
//! | 24, 25 | demand now, and the demand that is returned |
//!
//! A rate is one byte, in units of [`GRAIN`] · 2^scale. The paper's unit is 1 MB/s (128 for 1
//! Gbps), here scale 5; a flow's scale follows from its link, so that this has a hundred units or
//! more: 125 at 1 Gbps, 156 at 10 Gbps (scale 8), 80 at 20 Mbps (scale 0). With the paper's unit
//! alone a link of 20 Mbps would have three rates.
//!
//! # Where the paper leaves bits
//! A scale needs four bits (15 reaches 2 Tbps) and a port's number three. The other nine carry what
//! the paper is silent on and a network that loses headers needs:
//!
//! | byte | bits | |
//! |---|---|---|
//! | 4 | 0–3 | scale |
//! | 4 | 4–5 | the question's number, so that a late answer is told from the one that is awaited |
//! | 4 | 6 | whether this header asks at all: data between two questions carries it unset |
//! | 4, 23 | 7; 3–7 | for each port, the parity of the epoch in which it counted the flow (see the switch) |
//! | 23 | 0–2 | how many ports have answered |

use cavalcade_model::BitsPerSec;

/// Bytes of a header.
pub const BYTES: usize = 26;
/// Number of ports that can answer (Baraat §4.4).
pub const PORTS: usize = 6;

const SCALE: u8 = 0b1111;
const ROUND: u8 = 0b11_0000;
const ASKS: u8 = 1 << 6;
const HOP: u8 = 0b111;

/// An SPC header; it lies in memory as on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpcHeader {
    task: [u8; 4],
    scale: u8,
    feedback: [[u8; 2]; PORTS],
    previous: [u8; PORTS],
    hop: u8,
    /// Rate that the sender could use, in units.
    pub demand: u8,
    /// The demand that was counted before and is returned; zero where there is none.
    pub previous_demand: u8,
}

const _: () = assert!(size_of::<SpcHeader>() == BYTES, "the header is what goes over the wire");

/// The unit of rates at scale 0.
pub const GRAIN: BitsPerSec = BitsPerSec(250_000);
/// Number of units that a link has at least, where a finer scale exists.
const STEPS: u64 = 100;

/// Returns the scale of flows whose link has the rate `line`.
pub fn scale_for(line: BitsPerSec) -> u8 {
    let grains = line.get() / GRAIN.get();
    (1..=SCALE).rev().find(|&scale| grains >> scale >= STEPS).unwrap_or(0)
}

impl SpcHeader {
    /// A header that asks for nothing.
    pub fn new(task: u32, scale: u8) -> Self {
        assert!(scale <= SCALE, "a scale has four bits");
        Self { task: task.to_be_bytes(), scale, ..Self::default() }
    }

    /// Returns it as a question, the `round`-th modulo 4: ports return `previous` and grant again.
    #[must_use]
    pub fn asking(self, round: u8, demand: u8, returned: &Returned) -> Self {
        let mut header = self;
        header.scale = self.scale | ASKS | (round << 4 & ROUND);
        header.previous = returned.rates;
        (header.demand, header.previous_demand) = (demand, returned.demand);
        for hop in 0..PORTS {
            header.set_parity(hop, returned.parities & 1 << hop != 0);
        }
        header
    }

    /// The task; smaller ones are earlier.
    pub fn task(&self) -> u32 {
        u32::from_be_bytes(self.task)
    }

    /// Returns the unit of rates, in [`GRAIN`]s.
    pub fn unit(&self) -> u64 {
        1 << (self.scale & SCALE)
    }

    /// The question's number modulo 4.
    pub fn round(&self) -> u8 {
        (self.scale & ROUND) >> 4
    }

    /// Returns whether it asks.
    pub fn asks(&self) -> bool {
        self.scale & ASKS != 0
    }

    /// Returns the number of ports that have answered.
    pub fn hop(&self) -> usize {
        usize::from(self.hop & HOP)
    }

    /// Returns the amount returned to the next port and the parity of the epoch in which that port
    /// counted it.
    pub fn returned_here(&self) -> (u8, bool) {
        (self.previous[self.hop()], self.parity(self.hop()))
    }

    /// The next port's answer.
    pub fn answer(&mut self, nominal: u8, actual: u8, parity: bool) {
        let hop = self.hop();
        self.feedback[hop] = [nominal, actual];
        self.set_parity(hop, parity);
        self.hop += 1;
    }

    /// The least nominal and the least actual rate of all answers; `None` where no port answered.
    pub fn least(&self) -> Option<(u8, u8)> {
        let answers = &self.feedback[..self.hop().min(PORTS)];
        let nominal = answers.iter().map(|answer| answer[0]).min()?;
        Some((nominal, answers.iter().map(|answer| answer[1]).min()?))
    }

    /// Returns the grants of this header that its sender has to return later.
    pub fn returned(&self) -> Returned {
        let mut rates = [0; PORTS];
        let hops = self.hop().min(PORTS);
        for (rate, answer) in rates.iter_mut().zip(&self.feedback[..hops]) {
            *rate = answer[1];
        }
        let parities = (0..hops).fold(0, |all, hop| all | u8::from(self.parity(hop)) << hop);
        Returned { rates, parities, demand: self.demand }
    }

    fn parity_bit(&mut self, hop: usize) -> (&mut u8, u8) {
        if hop == 0 { (&mut self.scale, 1 << 7) } else { (&mut self.hop, 1 << (2 + hop)) }
    }

    fn parity(mut self, hop: usize) -> bool {
        let (byte, bit) = self.parity_bit(hop);
        *byte & bit != 0
    }

    fn set_parity(&mut self, hop: usize, parity: bool) {
        let (byte, bit) = self.parity_bit(hop);
        *byte = if parity { *byte | bit } else { *byte & !bit };
    }

    /// The same with a rate of RCP's in place of the feedback (`stream::frame::Rates`).
    #[must_use]
    pub fn with_rate(self, rate: BitsPerSec) -> Self {
        let mut header = self;
        header.feedback.as_flattened_mut()[..8].copy_from_slice(&rate.get().to_be_bytes());
        header
    }

    /// Returns that rate.
    pub fn rate(&self) -> BitsPerSec {
        BitsPerSec(self.feedback[..4].iter().flatten().fold(0, |rate, &byte| rate << 8 | u64::from(byte)))
    }

    /// Encodes it as on the wire.
    pub fn to_bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&self.task);
        bytes[4] = self.scale;
        bytes[5..17].copy_from_slice(self.feedback.as_flattened());
        bytes[17..23].copy_from_slice(&self.previous);
        (bytes[23], bytes[24], bytes[25]) = (self.hop, self.demand, self.previous_demand);
        bytes
    }

    /// From the wire; `None` where more ports are said to have answered than there is room for.
    pub fn from_bytes(bytes: &[u8; BYTES]) -> Option<Self> {
        let mut header = Self::default();
        header.task.copy_from_slice(&bytes[..4]);
        header.scale = bytes[4];
        header.feedback.as_flattened_mut().copy_from_slice(&bytes[5..17]);
        header.previous.copy_from_slice(&bytes[17..23]);
        (header.hop, header.demand, header.previous_demand) = (bytes[23], bytes[24], bytes[25]);
        (header.hop() <= PORTS).then_some(header)
    }
}

/// Grants that a sender returns with its next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// The AR of each port.
    pub rates: [u8; PORTS],
    /// Bit `i`: the parity of port `i`'s epoch.
    pub parities: u8,
    /// The demand with which they were asked for.
    pub demand: u8,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_of_all_links_fit_a_byte() {
        let scale_of = |mbps: u64| scale_for(BitsPerSec(mbps * 1_000_000));
        assert_eq!((scale_of(20), scale_of(100), scale_of(1_000), scale_of(10_000)), (0, 2, 5, 8));
        for mbps in [25, 50, 100, 1_000, 2_500, 10_000, 25_000, 40_000, 100_000, 400_000, 800_000] {
            let units = (mbps * 4u64).div_ceil(1 << scale_of(mbps));
            assert!((STEPS..=255).contains(&units), "{mbps} Mbps are {units} units");
        }
    }

    /// Baraat §4.4 has 26 bytes for at most six switches.
    #[test]
    fn the_header_takes_26_bytes_and_holds_the_answers_of_six_ports() {
        let mut header = SpcHeader::new(7, scale_for(BitsPerSec(1_000_000_000)));
        for port in 0..6u8 {
            header.answer(100 - port, 50 - port, port % 2 == 1);
        }
        let wire = header.to_bytes();
        assert_eq!((wire.len(), header.hop()), (26, 6));
        let read = SpcHeader::from_bytes(&wire).map(|read| (read.task(), read.least()));
        assert_eq!(read, Some((7, Some((95, 45)))), "the least of six answers");
    }

    /// Baraat §4.4 codes a rate in one byte, of which 1 Gbps is 128. In the paper's unit, a byte in
    /// a microsecond (8 Mbps), it is 125.
    #[test]
    fn a_gigabit_is_125_bytes_in_a_microsecond() {
        let line = BitsPerSec(1_000_000_000);
        let unit = BitsPerSec(GRAIN.get() << scale_for(line));
        assert_eq!((unit, line.get() / unit.get()), (BitsPerSec(8_000_000), 125));
    }

    proptest! {
        #[test]
        fn the_wire_gives_back_what_it_was_given(bytes in any::<[u8; BYTES]>()) {
            match SpcHeader::from_bytes(&bytes) {
                Some(header) => prop_assert_eq!(header.to_bytes(), bytes),
                None => prop_assert_eq!(bytes[23] & HOP, 7),
            }
        }

        #[test]
        fn what_ports_answer_is_what_is_returned_to_them(
            answers in prop::collection::vec(any::<(u8, u8, bool)>(), 0..=PORTS),
            task in any::<u32>(), scale in 0u8..16, round in any::<u8>(), demand in any::<u8>(),
        ) {
            let mut header = SpcHeader::new(task, scale).asking(round, demand, &Returned::default());
            for &(nominal, actual, parity) in &answers {
                header.answer(nominal, actual, parity);
            }
            prop_assert_eq!((header.task(), header.unit(), header.round()), (task, 1 << scale, round & 3));
            let least = answers.iter().map(|a| a.0).min().zip(answers.iter().map(|a| a.1).min());
            prop_assert_eq!(header.least(), least);
            let mut again = SpcHeader::new(task, scale).asking(round, 1, &header.returned());
            prop_assert_eq!(again.previous_demand, demand);
            for &(nominal, actual, parity) in &answers {
                prop_assert_eq!(again.returned_here(), (actual, parity));
                again.answer(nominal, actual, parity);
            }
            prop_assert!(again.asks());
        }
    }
}
