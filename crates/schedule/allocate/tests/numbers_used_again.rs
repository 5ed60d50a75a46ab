//! Where the numbers of flows and accounts are used again, equals still go in the order in which
//! they came.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_allocate::{Allocator, Due, Load, select};
use cavalcade_model::{BitsPerSec, Discipline, Fabric, Scope, Terms};

/// The rates of an older coflow, which has number 1, and of a newer one that is given number 0 when
/// its first owner has ended, or number 2 where numbers of accounts are not used again.
fn rates(discipline: Discipline, allocator: Allocator) -> [f64; 2] {
    let fabric = Fabric::big_switch(2, BitsPerSec(8_000_000_000)).unwrap();
    let terms = Terms::strict(Scope::Fabric, discipline);
    let (mut fill, _) = select(&terms, &fabric, Load { flows: 2, is_wide: false }, allocator);
    fill.reserve_accounts(3);
    fill.add(0, &[0, 2], &[0], 10.0, 0.0);
    fill.refill(0.0);
    let mut due = Due::default();
    fill.take_due(fill.next(), &mut due);
    assert_eq!(due.finished, [0]);
    let newer = if fill.forget_account(0) { 0 } else { 2 };
    fill.add(1, &[0, 2], &[1], 100.0, 10.0);
    fill.add(0, &[0, 2], &[newer], 100.0, 10.0);
    fill.refill(10.0);
    [fill.rate(1), fill.rate(0)]
}

#[test]
fn of_equal_coflows_the_older_goes_first() {
    for discipline in [Discipline::Madd, Discipline::Greedy, Discipline::InTurn] {
        for allocator in [Allocator::Incremental, Allocator::Reference] {
            assert_eq!(rates(discipline, allocator), [1.0, 0.0], "{discipline:?}, {allocator:?}");
        }
    }
}
