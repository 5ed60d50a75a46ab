//! Every development task.

fn main() {}
