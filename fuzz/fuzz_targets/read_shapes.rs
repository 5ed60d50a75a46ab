//! Any bytes, as shapes of task DAGs.

#![no_main]

use cavalcade_trace::generate::Dag;
use cavalcade_trace::shapes::read_shapes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(shapes) = read_shapes(bytes, "input") {
        // Whatever is read can be drawn from, or is refused with a reason.
        let _ = Dag { tasks: 2, ports: 4, width: 2, ..Dag::default() }.generate_from(&shapes, 1);
    }
});
