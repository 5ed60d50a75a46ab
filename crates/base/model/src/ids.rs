//! Dense identifiers. Each counts from zero within one workload or fabric and indexes arrays; names
//! that people gave (the ids in a trace) are kept beside them as text and never decide anything.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns it as an index into an array.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// From an array index.
            ///
            /// # Panics
            /// If `index` does not fit 32 bits.
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("an index fits 32 bits"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id! {
    /// A machine port of the fabric (a host, or a rack in rack-level traces): one ingress and one
    /// egress.
    PortId, "p"
}
id! {
    /// A link of the fabric. On the big switch, port `p` of `n` sends on link `p` and receives on
    /// link `n + p`.
    LinkId, "l"
}
id! {
    /// A task, in order of arrival (ties in the order of the trace): Baraat's task-id of a single
    /// counter (§4.1).
    TaskId, "t"
}
id! {
    /// A coflow. Ordered first by task, then by stage, so that comparing ids compares Aalo's
    /// external.internal CoflowIds (Pseudocode 2).
    CoflowId, "c"
}
id! {
    /// A flow; the flows of a coflow are numbered consecutively.
    FlowId, "f"
}
id! {
    /// A stage within its task.
    StageIndex, "s"
}

/// A recurring job: tasks of one job are runs of the same program on new data, so that one run's
/// behaviour predicts something of the next. The number means nothing but that; it is not dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);
