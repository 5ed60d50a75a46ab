//! `tafe`: tasks sink through priority queues with what they have sent, and long flows are cut more
//! than short ones (Zhang et al., "Towards Shorter Task Completion Time in Datacenter Networks",
//! 2015).
//!
//! # Tasks (§IV-A, Algorithm 1)
//! The size of a task is unknown, but a task that has sent much is not small. Every task begins in
//! the highest queue. A port adds up the bytes of each task that passes. Once they exceed Υᵢ the
//! task belongs into the next queue: the port puts its packets there, and marks those that came
//! with a higher class; the receiver echoes the mark, and the sender lowers its flow's class by
//! one, which the other switches on the path then see. So small tasks overtake large ones without
//! anyone having told sizes.
//!
//! Since a host's own link is a port as well, a flow that begins when its task is large already
//! sinks with its first packet: this is what PIAS, which counts each flow by itself, misses
//! (§IV-A1).
//!
//! # Flows (§IV-B, equations 1 to 5)
//! `p = α·S_c/S_max`, with α as in DCTCP, `S_c` what the flow still has to send and `S_max` the
//! size of the largest flow; on congestion `W ← W·(1 − p)`, else `W + 1`. There is no half in p:
//! the longest flow among marks alone is cut to the floor of two segments. Cuts of less than a
//! segment add up until they are one, or flows much shorter than `S_max` would never be cut. Slow
//! start, loss and timers are those of DCTCP.
//!
//! # What the paper leaves open
//! - It marks demotion and congestion with the same ECN bit. Then a demotion would also cut
//!   windows, and tell nothing of a queue; here they are two bits.
//! - `S_c` is what remains of the flow (the paper's words), not of the task.
//! - Neither Υ, `S_max` nor g is given. The defaults divide the flows of the web-search workload
//!   and bound their sizes.
//!
//! # Where it helps
//! To let a task sink with what it has sent is right where much sent means much to come: many small
//! tasks and few large ones. Where sizes are even from 1 to 100 KB a task that has sent much is
//! nearly done, and the mean is above that of tasks in order of arrival: simulated in
//! `sim-packet/tests/windows.rs`, against claim T5. The tail is longer in both cases. The window
//! law by itself has no such limit.
//!
//! # State in switches
//! One counter for each task, none for flows. The end of a task is not announced, so a task that
//! has been silent for `forget_after` is dropped, once there are twice as many counters as were
//! left the last time: constant work for each packet in the long run, besides the search.

use std::collections::BTreeMap;

use cavalcade_model::{Bytes, Instant, Nanos};
use cavalcade_spec::{Complaint, Parameter, Value};

use crate::contract::{FlowSetup, PortLogic, PortSetup, Receiver, Sender, SwitchNeeds, Transport};
use crate::dctcp::{self, Dctcp, ONE, dctcp_parameters};
use crate::packet::Header;
use crate::registry::Definition;
use crate::scoreboard::Reliability;
use crate::window::{Ack, WindowLaw, WindowReceiver, WindowSender};

/// The parameters of TAFE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tafe {
    /// Parameters shared with DCTCP.
    pub dctcp: Dctcp,
    /// Υ: the bytes of a task above which it sinks by a queue.
    pub thresholds: Thresholds,
    /// `S_max`: the size of the largest flow.
    pub largest: Bytes,
    /// A port forgets a task that has sent nothing for so long.
    pub forget_after: Nanos,
}

impl Default for Tafe {
    /// Three thresholds a decade apart; the largest flow of the web-search workload (29.2 MB).
    fn default() -> Self {
        Self {
            dctcp: Dctcp::default(),
            thresholds: Thresholds(vec![Bytes(100_000), Bytes(1_000_000), Bytes(10_000_000)]),
            largest: Bytes(30_000_000),
            forget_after: Nanos(1_000_000_000),
        }
    }
}

impl Tafe {
    /// The law of a flow that starts ([`Dctcp::law`]).
    pub fn law(&self, setup: &FlowSetup) -> Law {
        let largest = self.largest.get().div_ceil(u64::from(setup.payload));
        Law { window: dctcp::Law::new(&self.dctcp), largest, left_over: 0 }
    }
}

/// Amounts in ascending order, as text with `/` between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thresholds(pub Vec<Bytes>);

impl Thresholds {
    /// Counts the thresholds that `bytes` exceed.
    fn passed(&self, bytes: u64) -> u8 {
        self.0.iter().take_while(|threshold| bytes > threshold.get()).count() as u8
    }
}

/// The most queues that switches have.
const MOST_QUEUES: usize = 8;

impl Value for Thresholds {
    fn read(&mut self, text: &str) -> bool {
        let read: Result<Vec<Bytes>, _> = text.split('/').map(str::parse).collect();
        let fits =
            |list: &Vec<Bytes>| list.len() < MOST_QUEUES && list.windows(2).all(|pair| pair[0] < pair[1]);
        read.ok().filter(fits).map(|list| self.0 = list).is_some()
    }

    fn write(&self) -> String {
        let list: Vec<String> = self.0.iter().map(Bytes::to_string).collect();
        list.join("/")
    }

    fn expected(&self) -> String {
        "one to seven ascending sizes such as 100KB/1MB/10MB".to_owned()
    }
}

/// Tag of TAFE's packets and their acknowledgements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// The task.
    pub task: u32,
    /// The class that the sender gave the packet.
    pub class: u8,
    /// A port found the task to belong below that class.
    pub passed: bool,
}

/// The window of one flow.
#[derive(Clone, Debug)]
pub struct Law {
    window: dctcp::Law,
    /// `S_max` in segments.
    largest: u64,
    /// Remainder of earlier cuts: a fraction of a segment, in parts of [`ONE`].
    left_over: u32,
}

impl WindowLaw for Law {
    const ECN: bool = true;

    fn window(&self) -> u32 {
        self.window.window()
    }

    fn on_ack(&mut self, ack: &Ack) {
        let remaining = u64::from(ack.end - ack.una).min(self.largest);
        let (largest, left_over) = (u128::from(self.largest), &mut self.left_over);
        self.window.acknowledge(ack, |window, alpha| {
            let cut = u128::from(window) * u128::from(alpha) * u128::from(remaining) / largest;
            let cut = cut as u64 + u64::from(*left_over);
            *left_over = (cut % u64::from(ONE)) as u32;
            (cut / u64::from(ONE)) as u32
        });
    }

    fn on_loss(&mut self, ack: &Ack) {
        self.window.on_loss(ack);
    }

    fn on_timeout(&mut self, now: Instant) {
        self.window.on_timeout(now);
    }
}

/// The sending end: a window, and the class that its flow has sunk to.
#[derive(Clone, Debug)]
pub struct TafeSender {
    window: WindowSender<Law>,
    tag: Tag,
    lowest: u8,
}

impl Sender<Tag> for TafeSender {
    fn handle_packet(&mut self, now: Instant, header: &Header, tag: &Tag) {
        // All packets of a window may be marked for the same reason: those of the class before say
        // nothing new.
        if tag.passed && tag.class == self.tag.class {
            self.tag.class = self.lowest.min(self.tag.class + 1);
        }
        Sender::<()>::handle_packet(&mut self.window, now, header, &());
    }

    fn handle_timeout(&mut self, now: Instant) {
        Sender::<()>::handle_timeout(&mut self.window, now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Header, Tag)> {
        let (header, ()) = self.window.poll_transmit(now)?;
        Some((header, self.tag))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Sender::<()>::poll_timeout(&self.window)
    }

    fn sent(&self) -> Bytes {
        Sender::<()>::sent(&self.window)
    }

    fn is_done(&self) -> bool {
        Sender::<()>::is_done(&self.window)
    }

    fn class(&self) -> u8 {
        self.tag.class
    }
}

/// The receiving end: acknowledgements that echo marks.
#[derive(Clone, Debug)]
pub struct TafeReceiver {
    window: WindowReceiver,
    /// The last mark that no answer has taken along.
    echo: Tag,
}

impl Receiver<Tag> for TafeReceiver {
    fn handle_packet(&mut self, now: Instant, header: &Header, tag: &Tag) {
        if tag.passed {
            self.echo = *tag;
        }
        Receiver::<()>::handle_packet(&mut self.window, now, header, &());
    }

    fn handle_timeout(&mut self, now: Instant) {
        Receiver::<()>::handle_timeout(&mut self.window, now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Header, Tag)> {
        let (header, ()) = self.window.poll_transmit(now)?;
        Some((header, std::mem::take(&mut self.echo)))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Receiver::<()>::poll_timeout(&self.window)
    }

    fn received(&self) -> Bytes {
        Receiver::<()>::received(&self.window)
    }

    fn is_complete(&self) -> bool {
        Receiver::<()>::is_complete(&self.window)
    }
}

/// Count of a task at a port.
#[derive(Clone, Copy, Debug)]
struct Counter {
    /// Bytes on the wire; a segment that is sent again counts again.
    bytes: u64,
    last: Instant,
}

/// The counters of one port.
#[derive(Clone, Debug)]
pub struct TaskCounters {
    thresholds: Thresholds,
    forget_after: Nanos,
    tasks: BTreeMap<u32, Counter>,
    /// So many counters make it look for those to forget.
    sweep_at: usize,
}

/// Fewer counters than this are not worth a search.
const FEW: usize = 64;

impl TaskCounters {
    fn new(settings: &Tafe) -> Self {
        let (thresholds, forget_after) = (settings.thresholds.clone(), settings.forget_after);
        Self { thresholds, forget_after, tasks: BTreeMap::new(), sweep_at: FEW }
    }

    /// Returns the number of tasks counted.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns whether it counts none.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    fn forget(&mut self, now: Instant) {
        let silence = self.forget_after;
        self.tasks.retain(|_, counter| now.since(counter.last) <= silence);
        self.sweep_at = FEW.max(2 * self.tasks.len());
    }
}

impl PortLogic<Tag> for TaskCounters {
    fn arrive(&mut self, now: Instant, _: Bytes, header: &mut Header, tag: &mut Tag) {
        let counter = self.tasks.entry(tag.task).or_insert(Counter { bytes: 0, last: now });
        header.class = header.class.max(self.thresholds.passed(counter.bytes));
        counter.bytes += u64::from(header.size);
        counter.last = now;
        tag.passed |= self.thresholds.passed(counter.bytes) > tag.class;
        if self.tasks.len() >= self.sweep_at {
            self.forget(now);
        }
    }
}

impl Transport for Tafe {
    type Extra = Tag;
    type Sender = TafeSender;
    type Receiver = TafeReceiver;
    type PortLogic = TaskCounters;

    fn sender(&self, setup: &FlowSetup) -> Self::Sender {
        let window = WindowSender::new(setup, self.law(setup), Reliability::tcp(self.dctcp.minimum_rto));
        let tag = Tag { task: setup.task.0, ..Tag::default() };
        TafeSender { window, tag, lowest: self.classes() - 1 }
    }

    fn receiver(&self, setup: &FlowSetup) -> Self::Receiver {
        TafeReceiver { window: self.dctcp.receiver(setup), echo: Tag::default() }
    }

    fn port_logic(&self, _: &PortSetup) -> Self::PortLogic {
        TaskCounters::new(self)
    }

    fn needs(&self) -> SwitchNeeds {
        self.dctcp.needs()
    }

    fn classes(&self) -> u8 {
        self.thresholds.0.len() as u8 + 1
    }
}

impl Definition for Tafe {
    const NAME: &'static str = "tafe";
    const TITLE: &'static str =
        "TAFE: tasks sink with what they sent, and long flows are cut more than short ones";
    const SOURCE: &'static str = "Zhang et al., 2015, §IV";
    const PARAMETERS: &'static [Parameter<Self>] = dctcp_parameters!(dctcp;
        Parameter {
            name: "thresholds",
            meaning: "the bytes of a task above which it sinks by a queue",
            field: |p| &mut p.thresholds,
        },
        Parameter {
            name: "largest",
            meaning: "S_max: the size of the largest flow",
            field: |p| &mut p.largest,
        },
        Parameter {
            name: "forget_after",
            meaning: "a port forgets a task that has sent nothing for so long",
            field: |p| &mut p.forget_after,
        },
    );

    fn check(&self) -> Result<(), Complaint> {
        if self.largest == Bytes::ZERO {
            return Err(Complaint::new("largest", "at least 1B".to_owned()));
        }
        self.dctcp.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window after one mark, for a flow with `remaining` of the 400 segments of the largest.
    fn after_a_mark(window: u32, alpha: u32, remaining: u32) -> u32 {
        let mut law = marked_often(window, alpha);
        law.on_ack(&mark(20, remaining));
        law.window()
    }

    fn marked_often(window: u32, alpha: u32) -> Law {
        let mut law = dctcp::Law::new(&Dctcp { initial_window: window, ..Dctcp::default() });
        law.observe(alpha, 1_000_000);
        Law { window: law, largest: 400, left_over: 0 }
    }

    /// A mark in a window of its own, with `remaining` segments to go.
    fn mark(una: u32, remaining: u32) -> Ack {
        Ack {
            now: Instant::ZERO,
            segments: 1,
            marked: true,
            una,
            next: una + 1,
            end: una + remaining,
            recovering: false,
            limited: true,
            round_trip: Nanos(100_000),
        }
    }

    #[test]
    fn a_cut_is_alpha_by_what_remains_of_the_largest() {
        assert_eq!(after_a_mark(40, ONE / 2, 100), 35, "p = ½ · ¼: 5 of 40");
        assert_eq!(after_a_mark(40, ONE / 2, 400), 20, "the largest is cut by all of α");
        assert_eq!(after_a_mark(40, ONE / 2, 9_000), 20, "and nothing by more");
        assert_eq!(after_a_mark(40, ONE, 400), 2, "down to the floor");
    }

    #[test]
    fn cuts_of_less_than_a_segment_add_up() {
        let mut law = marked_often(40, ONE / 2);
        // p = ½ · 4/400: a fifth of a segment.
        let windows: Vec<u32> = (0..5)
            .map(|number| {
                law.on_ack(&mark(20 + number, 4));
                law.window()
            })
            .collect();
        assert_eq!(windows[..4], [40; 4]);
        assert!(windows[4] >= 39);
        law.on_ack(&mark(30, 4));
        assert_eq!(law.window(), 39, "α's rounding may take one mark more");
    }

    /// Equation 6: the more congestion, the further apart are the windows of two flows.
    #[test]
    fn congestion_sets_flows_of_different_size_apart() {
        let apart = |alpha| after_a_mark(1_000, alpha, 100) - after_a_mark(1_000, alpha, 400);
        assert_eq!(apart(ONE / 8), 125 - 31);
        assert_eq!(apart(ONE / 4), 250 - 62);
        assert_eq!(apart(ONE / 2), 500 - 125);
    }

    fn settings() -> Tafe {
        Tafe { thresholds: Thresholds(vec![Bytes(3_000), Bytes(6_000)]), ..Tafe::default() }
    }

    fn pass(port: &mut TaskCounters, now: u64, task: u32, class: u8) -> (u8, bool) {
        let mut header = Header { class, size: 1_500, ..Header::default() };
        let mut tag = Tag { task, class, passed: false };
        port.arrive(Instant(now), Bytes::ZERO, &mut header, &mut tag);
        (header.class, tag.passed)
    }

    #[test]
    fn a_port_marks_what_has_passed_a_threshold_and_puts_it_into_the_next_queue() {
        let mut port = TaskCounters::new(&settings());
        assert_eq!(pass(&mut port, 0, 7, 0), (0, false));
        assert_eq!(pass(&mut port, 0, 7, 0), (0, false), "3,000 bytes are not more than 3,000");
        assert_eq!(pass(&mut port, 0, 7, 0), (0, true), "4,500 are; the packet came before that was known");
        assert_eq!(pass(&mut port, 0, 7, 0), (1, true), "the sender does not know it yet");
        assert_eq!(pass(&mut port, 0, 7, 1), (1, true), "7,500 are past the second");
        assert_eq!(pass(&mut port, 0, 7, 2), (2, false), "and below that there is nothing");
        assert_eq!(pass(&mut port, 0, 8, 0), (0, false), "another task is counted by itself");
        assert_eq!(pass(&mut port, 0, 8, 1), (1, false), "what another port has lowered stays there");
    }

    #[test]
    fn a_port_forgets_the_silent_and_keeps_the_others() {
        let mut port = TaskCounters::new(&Tafe { forget_after: Nanos(100), ..settings() });
        for task in 0..10_000 {
            let now = u64::from(task);
            pass(&mut port, now, task, 0);
            pass(&mut port, now, 1_000_000, 0);
        }
        assert!(port.len() < 4 * 101, "{}", port.len());
        assert_eq!(pass(&mut port, 10_000, 1_000_000, 0), (2, true), "what speaks is not forgotten");
    }

    #[test]
    fn a_sender_sinks_by_one_class_for_each_mark_of_its_class() {
        let setup = FlowSetup {
            flow: 0,
            size: Bytes(146_000),
            start: Instant::ZERO,
            deadline: None,
            task: cavalcade_model::TaskId(4),
            task_size: Bytes(146_000),
            line_rate: cavalcade_model::BitsPerSec(10_000_000_000),
            base_rtt: Nanos(10_000),
            payload: 1_460,
            overhead: 40,
        };
        let (mut sender, mut receiver) = (settings().sender(&setup), settings().receiver(&setup));
        let mut round = |passed: bool| {
            let (header, tag) = sender.poll_transmit(Instant::ZERO).unwrap();
            assert_eq!((Sender::class(&sender), tag.task), (tag.class, 4));
            receiver.handle_packet(Instant::ZERO, &header, &Tag { passed, ..tag });
            let (answer, echo) = receiver.poll_transmit(Instant::ZERO).unwrap();
            sender.handle_packet(Instant::ZERO, &answer, &echo);
            // The same mark once more, as the rest of a window would bring it.
            sender.handle_packet(Instant::ZERO, &answer, &echo);
            tag.class
        };
        assert_eq!([false, true, false, true, true, true].map(&mut round), [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn thresholds_are_ascending_and_have_queues() {
        for bad in ["1MB/100KB", "1MB/1MB", "", "1B/2B/3B/4B/5B/6B/7B/8B"] {
            let message = crate::parse(&format!("tafe:thresholds={bad}")).unwrap_err().to_string();
            assert!(message.contains("one to seven ascending sizes"), "{message}");
        }
        assert!(crate::parse("tafe:thresholds=1B/2B/3B/4B/5B/6B/7B").is_ok());
    }
}
