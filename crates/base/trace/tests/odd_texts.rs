//! Texts as odd as the formats allow, each read as what it means. The fuzz target `read_odd` goes
//! on from here.

mod property;

use property::choices::Choices;
use property::odd::odd_text_holds;

#[test]
fn ten_thousand_odd_texts_are_read_as_what_they_mean() {
    let read = (0..10_000).filter(|&seed| odd_text_holds(&mut Choices::new(seed, &[]))).count();
    assert!(read > 9_500, "{read}");
}
