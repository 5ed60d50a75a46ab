//! What a port with explicit rates gives away: the capacity of its link, corrected by what is seen
//! of it.
//!
//! A port that gives away exactly its link's rate is wrong twice. A flow that another link holds
//! back leaves its share unused; and whatever queue came about while rates changed stays for ever.
//! So ports give away a *virtual capacity* (Baraat §4.3.2, footnote 5; RCP, Dukkipati's thesis §3):
//! each interval it moves by a part of what the link had to spare, or was given too much, and down
//! by what would empty the queue. The form is RCP's control equation (docs/protocols.md §5.1) with
//! the share of a flow left out of it: who gets what is the transport's.
//!
//! # The interval
//! A loop that moves again before its last move was heard swings. RCP's flows hear with their own
//! packets only: N flows that share a link have all heard after a packet of each, which is longer
//! than a round trip where there are many. So an interval is a round trip, 32 packets, or as many
//! packets as the transport says that hearing takes, whichever is longest. Without the last, 40,
//! 80, 160 and 640 of RCP's flows at 1 Gbps and 29 µs took 3, 11, 22 and 28 % longer than a fluid;
//! with it 3, 3, 4 and 6 %.
//!
//! # Invariants
//! - From half of the link's rate to what the port allows as the most.
//! - It rises only after two intervals in which no flow came or went ([`VirtualCapacity::hold`]): a
//!   flow's first round trip leaves a link unused because it has not begun, not because it cannot
//!   use it. Each change sets it back to the link's rate, from above and from below, so that shares
//!   are exact at once; it falls at any time. (Were it left below, it could only fall while flows
//!   come and go: half the link was lost where tasks of forty small flows met.)
//! - Nothing has a timer: intervals end at the first packet after their time, and a longer silence
//!   starts over.
//!
//! Integers only. Cost: constant for each packet.

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos};

/// Gains of the virtual capacity, in hundredths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gains {
    /// Share of the link's spare rate, for each interval (RCP's a; 10 to 40 in its authors'
    /// scripts).
    pub spare: u32,
    /// Of the queue, taken as a rate over an interval (RCP's b; 10 to 100 there).
    pub queue: u32,
}

/// An interval after so many of them without a packet says nothing.
const SILENCE: u64 = 4;
/// Intervals after a change for which it does not rise.
const HOLD: u64 = 2;
/// The least interval, in full packets: over fewer, where packets happen to fall decides what is
/// measured.
const LEAST_PACKETS: u64 = 32;
/// A full packet: a queue of less is the packet that is just being sent.
const PACKET: u64 = 1_500;

/// The virtual capacity of one link.
#[derive(Clone, Debug)]
pub struct VirtualCapacity {
    link: u64,
    value: u64,
    /// The least interval, and that which has begun.
    least: u64,
    interval: u64,
    gains: Gains,
    since: Instant,
    held_until: Instant,
    bytes: u64,
    /// The least queue of the interval: what bursts make comes and goes within it.
    backlog: u64,
}

impl VirtualCapacity {
    /// For a link of `rate`; it moves at most once in each `round_trip` of those that it serves and
    /// in the time of 32 packets.
    pub fn new(rate: BitsPerSec, round_trip: Nanos, gains: Gains) -> Self {
        let least = round_trip.get().max(time_of(LEAST_PACKETS, rate.get())).max(1);
        Self {
            link: rate.get(),
            value: rate.get(),
            least,
            interval: least,
            gains,
            since: Instant::ZERO,
            held_until: Instant::ZERO,
            bytes: 0,
            backlog: u64::MAX,
        }
    }

    /// Returns the rate to hand out.
    pub fn rate(&self) -> BitsPerSec {
        BitsPerSec(self.value)
    }

    /// Returns the least interval.
    pub fn interval(&self) -> Nanos {
        Nanos(self.least)
    }

    /// Returns the gains.
    pub fn gains(&self) -> Gains {
        self.gains
    }

    /// Someone came or went: back to the link's rate, and no rise until their rates are seen.
    pub fn hold(&mut self, now: Instant) {
        self.value = self.link;
        self.held_until = now + Nanos(HOLD * self.interval);
    }

    /// A packet of `size` bytes joins the queue, which holds `backlog` before it; there may be at
    /// most `most` to give away. After `hearing` packets every flow that hears with its own packets
    /// has heard. Returns whether an interval ended.
    pub fn arrive(
        &mut self,
        now: Instant,
        size: u16,
        backlog: Bytes,
        most: BitsPerSec,
        hearing: usize,
    ) -> bool {
        self.interval = self.least.max(time_of(hearing as u64, self.link));
        let elapsed = now.since(self.since).get();
        let ended = elapsed >= self.interval;
        if ended {
            if elapsed <= SILENCE * self.interval {
                self.adapt(now, elapsed, most.get());
            } else {
                self.value = self.link;
            }
            (self.since, self.bytes, self.backlog) = (now, 0, u64::MAX);
        }
        self.bytes += u64::from(size);
        self.backlog = self.backlog.min(backlog.get());
        ended
    }

    fn adapt(&mut self, now: Instant, elapsed: u64, most: u64) {
        let per_second = |bytes: u64, time: u64| i128::from(bytes) * 8_000_000_000 / i128::from(time);
        let spare = i128::from(self.link) - per_second(self.bytes, elapsed);
        let spare = if now < self.held_until { spare.min(0) } else { spare };
        let backlog = self.backlog.min(self.bytes).saturating_sub(PACKET);
        let queue = per_second(backlog, self.interval);
        let change = spare * i128::from(self.gains.spare) - queue * i128::from(self.gains.queue);
        let value = i128::from(self.value) + change / 100;
        let (least, most) = (i128::from(self.link / 2), i128::from(most.max(self.link)));
        self.value = value.clamp(least, most) as u64;
    }
}

/// Returns the time of so many full packets on a link, in nanoseconds.
fn time_of(packets: u64, link: u64) -> u64 {
    packets * PACKET * 8_000_000_000 / link.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: BitsPerSec = BitsPerSec(1_000_000_000);
    const MOST: BitsPerSec = BitsPerSec(3_000_000_000);

    fn fresh() -> VirtualCapacity {
        VirtualCapacity::new(LINK, Nanos(480_000), Gains { spare: 40, queue: 100 })
    }

    /// A packet of 1,500 bytes, which is 12 µs, each `gap`, behind `backlog`.
    fn drive(capacity: &mut VirtualCapacity, from: u64, packets: u64, gap: u64, backlog: u64) -> u64 {
        for packet in 0..packets {
            capacity.arrive(Instant(from + packet * gap), 1_500, Bytes(backlog), MOST, 0);
        }
        from + packets * gap
    }

    #[test]
    fn a_link_that_is_just_full_is_left_as_it_is() {
        let mut capacity = fresh();
        drive(&mut capacity, 0, 1_000, 12_000, 1_499);
        assert_eq!(capacity.rate(), LINK);
    }

    #[test]
    fn what_is_to_spare_is_given_away_up_to_the_most() {
        let mut capacity = fresh();
        let now = drive(&mut capacity, 0, 100, 24_000, 0);
        assert!(capacity.rate() > LINK && capacity.rate() < MOST, "{}", capacity.rate());
        drive(&mut capacity, now, 1_000, 24_000, 0);
        assert_eq!(capacity.rate(), MOST);
    }

    #[test]
    fn a_queue_takes_it_below_the_link_but_not_below_half() {
        let mut capacity = fresh();
        let now = drive(&mut capacity, 0, 50, 12_000, 6_000);
        assert!(capacity.rate() < LINK && capacity.rate() > BitsPerSec(LINK.get() / 2));
        drive(&mut capacity, now, 1_000, 12_000, 30_000);
        assert_eq!(capacity.rate(), BitsPerSec(LINK.get() / 2));
    }

    #[test]
    fn a_change_sets_it_back_and_holds_it_for_two_intervals() {
        let mut capacity = fresh();
        let now = drive(&mut capacity, 0, 200, 24_000, 0);
        assert!(capacity.rate() > LINK);
        capacity.hold(Instant(now));
        assert_eq!(capacity.rate(), LINK);
        let now = drive(&mut capacity, now, 40, 24_000, 0);
        assert_eq!(capacity.rate(), LINK);
        drive(&mut capacity, now, 40, 24_000, 0);
        assert!(capacity.rate() > LINK);
    }

    #[test]
    fn a_change_sets_it_back_from_below_as_well() {
        let mut capacity = fresh();
        let now = drive(&mut capacity, 0, 200, 12_000, 30_000);
        assert!(capacity.rate() < LINK);
        capacity.hold(Instant(now));
        assert_eq!(capacity.rate(), LINK);
    }

    #[test]
    fn it_waits_until_every_flow_has_heard() {
        let moves = |hearing| {
            let mut capacity = fresh();
            let mut moves = 0;
            for packet in 0..801 {
                let before = capacity.rate();
                capacity.arrive(Instant(packet * 12_000), 1_500, Bytes(3_000), MOST, hearing);
                moves += u64::from(capacity.rate() != before);
            }
            moves
        };
        assert_eq!([moves(0), moves(40), moves(80), moves(200)], [20, 20, 10, 4]);
    }

    #[test]
    fn silence_starts_anew() {
        let mut capacity = fresh();
        let now = drive(&mut capacity, 0, 200, 24_000, 0);
        capacity.arrive(Instant(now + 3_000_000), 1_500, Bytes::ZERO, MOST, 0);
        assert_eq!(capacity.rate(), LINK);
    }
}
