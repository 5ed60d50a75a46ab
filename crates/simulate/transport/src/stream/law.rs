//! The law of a stream: SPC's, or that of RCP, with which Baraat was compared.
//!
//! Both are the laws of the simulator. RCP's header is a rate alone; over a stream it stands where
//! SPC's has its feedback ([`SpcHeader::with_rate`]), so that packets of both have one form and one
//! size.

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos};

use crate::paced::{Answer, RateLaw};
use crate::rcp::Rate;
use crate::spc::SpcHeader;
use crate::{rcp, spc};

/// A law that packets of streams carry.
#[derive(Clone, Debug)]
pub(crate) enum StreamLaw {
    Spc(spc::Law),
    /// With the header that asks for nothing.
    Rcp(rcp::Law, SpcHeader),
}

impl RateLaw for StreamLaw {
    type Extra = SpcHeader;

    fn rate(&self, now: Instant) -> BitsPerSec {
        match self {
            Self::Spc(law) => law.rate(now),
            Self::Rcp(law, _) => law.rate(now),
        }
    }

    fn holds(&self) -> bool {
        match self {
            Self::Spc(law) => law.holds(),
            Self::Rcp(law, _) => law.holds(),
        }
    }

    fn ask(&mut self, now: Instant, unsent: Bytes, round_trip: Nanos) -> SpcHeader {
        match self {
            Self::Spc(law) => law.ask(now, unsent, round_trip),
            Self::Rcp(law, plain) => plain.with_rate(law.ask(now, unsent, round_trip).rate),
        }
    }

    fn plain(&self, now: Instant, unsent: Bytes) -> SpcHeader {
        match self {
            Self::Spc(law) => law.plain(now, unsent),
            Self::Rcp(law, plain) => plain.with_rate(law.plain(now, unsent).rate),
        }
    }

    fn leave(&mut self, now: Instant) -> SpcHeader {
        match self {
            Self::Spc(law) => law.leave(now),
            Self::Rcp(law, plain) => plain.with_rate(law.leave(now).rate),
        }
    }

    fn answer(&mut self, now: Instant, answer: &SpcHeader) -> Answer {
        match self {
            Self::Spc(law) => law.answer(now, answer),
            // An acknowledgement that answers nothing, as one that only tells of room, has no rate.
            Self::Rcp(..) if answer.rate() == BitsPerSec::ZERO => Answer::Stale,
            Self::Rcp(law, _) => law.answer(now, &Rate { rate: answer.rate() }),
        }
    }
}
