//! What can be wrong with a fabric, or with a fabric for a workload.

/// Reason that a fabric cannot be built or cannot carry a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// A shape with parameters that make no fabric.
    #[error("a {shape} cannot have such {parameter}: expected {expected}")]
    Shape {
        /// The shape.
        shape: &'static str,
        /// The parameter to change.
        parameter: &'static str,
        /// Accepted values.
        expected: String,
    },
    /// More links than can be numbered.
    #[error("a fabric has at most {most} links: this one would have more")]
    TooLarge {
        /// Limit.
        most: u32,
    },
    /// An oversubscription of zero, or text that is no number.
    #[error(
        "an oversubscription of {given:?}: expected a number above 0 with at most 3 decimals, as 2 or 2.5"
    )]
    BadOversubscription {
        /// Value given.
        given: String,
    },
    /// A link that could never carry a byte.
    #[error("{link} has a capacity of zero: nothing could ever cross it; give it a rate above 0bps")]
    ZeroCapacity {
        /// "ingress of port 3" or "rack 2 to pod 0".
        link: String,
    },
    /// The two lists of capacities differ in length.
    #[error("{ingress} ingress but {egress} egress capacities: give one of each for every port")]
    Unpaired {
        /// Number of ingress capacities given.
        ingress: usize,
        /// Number of egress capacities given.
        egress: usize,
    },
    /// A name that no link has.
    #[error(
        "there is no link {name:?}: names are such as {example:?}; 'cavalcade fabric info --links' lists them"
    )]
    NoSuchLink {
        /// The name given.
        name: String,
        /// The name of some link.
        example: String,
    },
    /// Fewer ports than a workload refers to.
    #[error("the workload needs {needed} ports, the fabric has {ports}: give it more hosts")]
    TooFewPorts {
        /// The ports that the workload refers to.
        needed: u32,
        /// The ports of the fabric.
        ports: u32,
    },
    /// Two ports that failed links cut off from each other, and something to send between them.
    #[error("task {task}: there is no path from {src} to {dst}: every one has a failed link")]
    NoPath {
        /// The task that has something to send there.
        task: String,
        /// The name of the port that sends.
        src: String,
        /// The name of the port that receives.
        dst: String,
    },
}
