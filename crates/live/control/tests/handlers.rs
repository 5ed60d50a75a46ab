//! The machines against those who mean ill.

mod hostile;

use proptest::prelude::*;

proptest! {
    #[test]
    fn nobody_can_be_brought_to_a_panic_by_what_others_say(script in prop::collection::vec(any::<u8>(), 0..600)) {
        hostile::nothing_breaks(&script);
    }

    #[test]
    fn whole_loops_hold_whatever_becomes_of_messages_and_whoever_speaks_in_between(script in prop::collection::vec(any::<u8>(), 0..1_200)) {
        hostile::loops_hold(&script);
    }
}
