//! What each discipline serves and drops, packet by packet.

use cavalcade_transport::Header;

use super::*;

struct Bench {
    pool: Pool<()>,
    queue: Queue,
    shared: SharedBuffer,
}

impl Bench {
    fn new(discipline: Discipline, buffer: Buffer, marking: Option<Marking>) -> Self {
        let queue = Queue::new(&QueueConfig { discipline, buffer, marking });
        Self { pool: Pool::new(), queue, shared: SharedBuffer::default() }
    }

    fn push(&mut self, header: Header) -> (Joined, Vec<u32>) {
        let id = self.pool.add(header, ());
        let mut dropped = Vec::new();
        let shared = matches!(self.queue.buffer, Buffer::Shared { .. }).then_some(&mut self.shared);
        let joined = self.queue.push(&mut self.pool, id, 0, shared, &mut dropped);
        (joined, dropped.iter().map(|&id| self.pool[id].header.segment).collect())
    }

    fn drain(&mut self) -> Vec<u32> {
        let mut served = Vec::new();
        loop {
            let shared = matches!(self.queue.buffer, Buffer::Shared { .. }).then_some(&mut self.shared);
            let Some(id) = self.queue.pop(&mut self.pool, shared) else { return served };
            served.push(self.pool[id].header.segment);
        }
    }
}

fn packet(segment: u32, class: u8) -> Header {
    Header { segment, class, size: 1_000, flags: Flags::ECN_CAPABLE, ..Header::default() }
}

const ROOMY: Buffer = Buffer::PerPort(Bytes(1_000_000));
const WAITS: Joined = Joined::Waits { marked: false };

#[test]
fn drop_tail_serves_in_order_and_drops_what_finds_no_room() {
    let mut bench = Bench::new(Discipline::DropTail, Buffer::PerPort(Bytes(3_000)), None);
    (0..3).for_each(|segment| assert_eq!(bench.push(packet(segment, 0)).0, WAITS));
    assert_eq!(bench.push(packet(3, 0)), (Joined::Dropped, vec![3]));
    assert_eq!(bench.drain(), [0, 1, 2]);
}

#[test]
fn strict_priority_serves_higher_classes_first_and_beyond_the_last_share_it() {
    let mut bench = Bench::new(Discipline::Strict { queues: 2 }, ROOMY, None);
    for (segment, class) in [(0, 1), (1, 9), (2, 0), (3, 1), (4, 0)] {
        bench.push(packet(segment, class));
    }
    assert_eq!(bench.drain(), [2, 4, 0, 1, 3]);
}

#[test]
fn weighted_queues_share_by_weight_while_both_wait() {
    let mut bench = Bench::new(Discipline::Weighted { weights: vec![3, 1] }, ROOMY, None);
    (0..120).for_each(|segment| drop(bench.push(packet(segment, (segment % 2) as u8))));
    let served = bench.drain();
    let high = served[..40].iter().filter(|&&segment| segment % 2 == 0).count();
    assert!((28..=32).contains(&high), "three of four: {high} of 40");
    assert_eq!(served.len(), 120);
    let odd: Vec<u32> = served.iter().copied().filter(|segment| segment % 2 == 1).collect();
    assert!(odd.is_sorted(), "a class stays in order");
}

#[test]
fn pfabric_sends_the_earliest_packet_of_the_most_urgent_flow() {
    let mut bench = Bench::new(Discipline::ShortestFirst, ROOMY, None);
    for (segment, flow, remaining) in [(0, 1, 9), (1, 2, 5), (2, 1, 3), (3, 2, 4)] {
        bench.push(Header { flow, remaining, ..packet(segment, 0) });
    }
    // Packet 2 has the least remaining; packet 0 is the earliest of its flow.
    assert_eq!(bench.drain(), [0, 2, 1, 3]);
}

#[test]
fn pfabric_drops_the_least_urgent_and_the_latest_among_equals() {
    let mut bench = Bench::new(Discipline::ShortestFirst, Buffer::PerPort(Bytes(3_000)), None);
    for (segment, flow, remaining) in [(0, 1, 9), (1, 2, 9), (2, 3, 1)] {
        bench.push(Header { flow, remaining, ..packet(segment, 0) });
    }
    assert_eq!(bench.push(Header { flow: 4, remaining: 2, ..packet(3, 0) }), (Joined::Dropped, vec![1]));
    assert_eq!(bench.push(Header { flow: 5, remaining: 10, ..packet(4, 0) }), (Joined::Dropped, vec![4]));
    assert_eq!(bench.drain(), [2, 3, 0]);
}

#[test]
fn a_policys_class_and_order_come_before_what_remains() {
    let mut bench = Bench::new(Discipline::ShortestFirst, ROOMY, None);
    for (segment, class, order, remaining) in [(0, 1, 0, 1), (1, 0, 7, 1), (2, 0, 3, 50)] {
        bench.push(Header { flow: segment, order, remaining, ..packet(segment, class) });
    }
    assert_eq!(bench.drain(), [2, 1, 0]);
}

#[test]
fn marks_are_set_per_queue_or_per_port() {
    let marked = |measured, class: u8| {
        let marking = Some(Marking { at: Bytes(3_000), measured });
        let mut bench = Bench::new(Discipline::Strict { queues: 2 }, ROOMY, marking);
        (0..3).for_each(|segment| assert_eq!(bench.push(packet(segment, 1)).0, WAITS));
        bench.push(packet(3, class)).0
    };
    assert_eq!(marked(Measured::Queue, 1), Joined::Waits { marked: true });
    assert_eq!(marked(Measured::Queue, 0), WAITS);
    assert_eq!(marked(Measured::Port, 0), Joined::Waits { marked: true });
}

#[test]
fn what_is_not_capable_of_marks_is_never_marked() {
    let marking = Some(Marking { at: Bytes(1), measured: Measured::Queue });
    let mut bench = Bench::new(Discipline::DropTail, ROOMY, marking);
    bench.push(packet(0, 0));
    assert_eq!(bench.push(Header { flags: Flags::NONE, ..packet(1, 0) }).0, WAITS);
}

#[test]
fn a_dynamic_threshold_leaves_a_share_free() {
    let buffer = Buffer::Shared { total: Bytes(9_000), alpha: Alpha { numerator: 1, denominator: 2 } };
    let mut bench = Bench::new(Discipline::DropTail, buffer, None);
    let joined = (0..9).filter(|&segment| bench.push(packet(segment, 0)).0 != Joined::Dropped).count();
    // At equilibrium a queue holds α/(1+α) of the buffer: a third.
    assert_eq!(joined, 3);
    assert_eq!(bench.shared.used, 3_000);
    bench.drain();
    assert_eq!(bench.shared.used, 0);
}

#[test]
fn queues_that_cannot_work_are_refused_before_a_run() {
    let good = QueueConfig {
        discipline: Discipline::DropTail,
        buffer: Buffer::PerPort(Bytes(9_000)),
        marking: None,
    };
    assert_eq!(good.check(1_500), Ok(()));
    let none = QueueConfig { buffer: Buffer::PerPort(Bytes(0)), ..good.clone() };
    assert_eq!(none.check(1_500), Err(QueueError::NoRoom { buffer: Bytes(0), packet: 1_500 }));
    let marking = Some(Marking { at: Bytes(9_000), measured: Measured::Port });
    let late = QueueConfig { marking, ..good.clone() };
    assert!(matches!(late.check(1_500), Err(QueueError::MarksTooLate { .. })));
    for discipline in [
        Discipline::Strict { queues: 9 },
        Discipline::Strict { queues: 0 },
        Discipline::Weighted { weights: vec![1, 0] },
    ] {
        assert!(matches!(
            QueueConfig { discipline, ..good.clone() }.check(1_500),
            Err(QueueError::Queues { .. })
        ));
    }
    let alpha = Alpha { numerator: 0, denominator: 1 };
    let empty = QueueConfig { buffer: Buffer::Shared { total: Bytes(9_000), alpha }, ..good };
    assert_eq!(empty.check(1_500), Err(QueueError::Alpha));
}
