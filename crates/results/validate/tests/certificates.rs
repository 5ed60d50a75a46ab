//! Certificates by hand: what holds is derived, and what does not is refused with its reason.

use cavalcade_model::{BitsPerSec, Bytes, Fabric, Flow, Instant, Nanos, PortId, Workload, WorkloadBuilder};
use cavalcade_validate::certificate::{Certificate, CertificateError, Verified, check};

const SECOND: u128 = 1_000_000_000;

/// Three coflows from port 0 to port 1 of 1, 2 and 3 bytes, a byte a second, all there at zero.
fn one_link() -> (Workload, Fabric) {
    let mut builder = WorkloadBuilder::new(2);
    for size in 1..=3 {
        let flow = Flow { src: PortId(0), dst: PortId(1), size: Bytes(size), wave: Nanos::ZERO };
        builder.coflow(size.to_string(), Instant::ZERO, vec![flow]);
    }
    let fabric = Fabric::big_switch(2, BitsPerSec(8)).expect("two ports at eight bits a second");
    (builder.build().expect("three tasks"), fabric)
}

fn checked(claim: &str) -> Result<Verified, CertificateError> {
    let (workload, fabric) = one_link();
    let text = format!(
        r#"{{"format":"cavalcade-bound","version":1,"objective":"coflows","offline":false,"weighted":false,"claim":{claim}}}"#
    );
    check(&workload, &fabric, &Certificate::read(text.as_bytes())?)
}

fn sum(nanos: u128, proof: &str) -> Result<Verified, CertificateError> {
    checked(&format!(r#"{{"kind":"sum","nanos":"{nanos}","proof":{proof}}}"#))
}

/// By four seconds, one of the three must be missing: four of six fit.
fn completions(at_most: u64, because: &str) -> Result<Verified, CertificateError> {
    let step = format!(r#"{{"by_ns":4000000000,"at_most":{at_most},"because":{because}}}"#);
    sum(0, &format!(r#"{{"method":"completions","steps":[{step}]}}"#))
}

fn prices(row: &str) -> String {
    format!(r#"{{"prices":{{"without":[[],[2]],"rows":[{row}]}}}}"#)
}

#[test]
fn isolation_adds_up_what_each_takes_alone() {
    let proof = r#"{"method":"isolation"}"#;
    assert_eq!(sum(6 * SECOND, proof), Ok(Verified::Sum { nanos: 6 * SECOND, weight: 3 }));
    let short = CertificateError::LessThanClaimed { claimed: 7 * SECOND, proven: 6 * SECOND };
    assert_eq!(sum(7 * SECOND, proof), Err(short));
}

#[test]
fn a_single_link_serves_the_shortest_first() {
    let nanos = (1 + 3 + 6) * SECOND;
    assert_eq!(sum(nanos, r#"{"method":"single-link","link":0}"#), Ok(Verified::Sum { nanos, weight: 3 }));
    // No flow uses the ingress of port 1.
    let isolation = Ok(Verified::Sum { nanos: 6 * SECOND, weight: 3 });
    assert_eq!(sum(0, r#"{"method":"single-link","link":1}"#), isolation);
    let missing = CertificateError::NoSuchLink { link: 4, links: 4 };
    assert_eq!(sum(0, r#"{"method":"single-link","link":4}"#), Err(missing));
}

#[test]
fn prices_that_overcharge_are_refused() {
    // The longest last, at a third of a weight for each of its seconds: (36 + 14) / 2 / 3 for that
    // alone.
    let price = (1u128 << 64) / 3_000_000_000;
    let proof = |price: u128| format!(r#"{{"method":"primal-dual","prices":[[0,2,"{price}"]]}}"#);
    let Ok(Verified::Sum { nanos, .. }) = sum(8 * SECOND, &proof(price)) else { panic!("the dual holds") };
    assert!(nanos < 25 * SECOND / 3 + 1);
    assert_eq!(sum(0, &proof(price + 1)), Err(CertificateError::Overcharged { job: 2 }));
}

#[test]
fn a_price_shows_that_one_must_be_dropped() {
    // Two seconds too many: jobs of two and three count for all of it, that of one for half.
    let one = 1u64 << 32;
    assert!(completions(2, &prices(&format!("[0,0,4000000000,0,{one}]"))).is_ok());
    let refused = CertificateError::MoreThanClaimed { at_most: 1, proven: 2, by_ns: Some(4_000_000_000) };
    assert_eq!(completions(1, &prices(&format!("[0,0,4000000000,0,{one}]"))), Err(refused));
    let nothing = CertificateError::MoreThanClaimed { at_most: 2, proven: 3, by_ns: Some(4_000_000_000) };
    assert_eq!(completions(2, "null"), Err(nothing.clone()));
    // Counted without the longest nothing is too much.
    assert_eq!(completions(2, &prices(&format!("[0,0,4000000000,1,{one}]"))), Err(nothing));
}

#[test]
fn cases_are_told_apart_once_and_only_of_jobs_in_play() {
    let one = 1u64 << 32;
    let row = prices(&format!("[0,0,4000000000,0,{one}]"));
    let split =
        |job: u32, kept: &str| format!(r#"{{"split":{{"job":{job},"kept":{kept},"dropped":{row}}}}}"#);
    assert!(completions(2, &split(0, &row)).is_ok());
    assert_eq!(completions(2, &split(0, &split(0, &row))), Err(CertificateError::SplitTwice { job: 0 }));
    assert_eq!(completions(2, &split(3, &row)), Err(CertificateError::NoSuchJob { job: 3 }));
}

#[test]
fn rows_that_name_what_there_is_not_are_refused() {
    let set = CertificateError::NoSuchSet { set: 2, sets: 2 };
    assert_eq!(completions(3, &prices("[0,0,1,2,1]")), Err(set));
    let backwards = CertificateError::Backwards { link: 0, from_ns: 2, to_ns: 1 };
    assert_eq!(completions(3, &prices("[0,2,1,0,1]")), Err(backwards));
    assert_eq!(
        completions(3, &prices("[9,0,1,0,1]")),
        Err(CertificateError::NoSuchLink { link: 9, links: 4 })
    );
}

#[test]
fn steps_must_follow_one_another() {
    let steps = r#"{"method":"completions","steps":[{"by_ns":5,"at_most":3},{"by_ns":5,"at_most":3}]}"#;
    assert_eq!(sum(0, steps), Err(CertificateError::StepsOutOfOrder { step: 1, by_ns: 5, before_ns: 5 }));
}

#[test]
fn another_version_or_no_json_is_said_so() {
    let other = br#"{"format":"cavalcade-bound","version":2,"new":1}"#;
    let expected = CertificateError::Format { format: "cavalcade-bound".to_owned(), version: 2 };
    assert_eq!(Certificate::read(other), Err(expected));
    assert!(matches!(Certificate::read(b"{"), Err(CertificateError::Unreadable { line: 1, .. })));
    let deadlines = checked(r#"{"kind":"deadlines","at_most":0,"because":null}"#);
    assert_eq!(deadlines, Err(CertificateError::DeadlinesOfCoflows));
}
