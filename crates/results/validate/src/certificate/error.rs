//! What can be wrong with a certificate.

/// A fault of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// It is not the JSON that is expected.
    #[error("line {line}, column {column}: not a certificate: {problem}")]
    Unreadable {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
        /// The complaint of the reader.
        problem: String,
    },
    /// It says that it is something else.
    #[error("the format is {format:?} version {version}; this reads \"cavalcade-bound\" version 1")]
    Format {
        /// The format named.
        format: String,
        /// The version named.
        version: u32,
    },
    /// The workload does not fit the fabric.
    #[error("the workload has {workload} ports, the fabric {fabric}: give the fabric that the bound is for")]
    Ports {
        /// Ports of the fabric.
        fabric: u32,
        /// Ports of the workload.
        workload: u32,
    },
    /// A number in text that is none.
    #[error("{text:?} is not a whole number of at most 128 bits")]
    NotANumber {
        /// The text.
        text: String,
    },
    /// A link that the fabric lacks.
    #[error("link {link} is named, but the fabric has {links}, from 0 on: is this the right fabric?")]
    NoSuchLink {
        /// The link named.
        link: u32,
        /// Their number.
        links: usize,
    },
    /// A job that the workload lacks, or that the proof may not speak of.
    #[error(
        "job {job} is named, but it is not among the jobs that should be done: is this the right workload?"
    )]
    NoSuchJob {
        /// The job named.
        job: u32,
    },
    /// A case distinction on a job whose case is already settled.
    #[error("job {job} is split on twice, one below the other")]
    SplitTwice {
        /// The job.
        job: u32,
    },
    /// A row refers to a set that is not listed.
    #[error("a row is to be counted without set {set}, but there are {sets}")]
    NoSuchSet {
        /// The set named.
        set: u32,
        /// Their number.
        sets: usize,
    },
    /// An interval that ends before it begins.
    #[error(
        "an interval of link {link} runs from {from_ns} ns to {to_ns} ns: it must not end before it begins"
    )]
    Backwards {
        /// The link.
        link: u32,
        /// Its beginning.
        from_ns: u64,
        /// Its end.
        to_ns: u64,
    },
    /// Steps that do not follow one another.
    #[error("step {step} is at {by_ns} ns, not after the one before it at {before_ns} ns")]
    StepsOutOfOrder {
        /// Its number.
        step: usize,
        /// Its time.
        by_ns: u64,
        /// The time before.
        before_ns: u64,
    },
    /// A proof for equal releases where they differ.
    #[error("the dual holds only where all jobs are released together; jobs 0 and {job} are not")]
    ReleasesDiffer {
        /// The first that differs.
        job: usize,
    },
    /// A proof for equal weights where they differ.
    #[error("counting holds only where all jobs weigh the same; jobs 0 and {job} do not")]
    WeightsDiffer {
        /// The first that differs.
        job: usize,
    },
    /// Prices that charge a job more than its weight.
    #[error("the prices charge job {job} more than its weight")]
    Overcharged {
        /// The job.
        job: usize,
    },
    /// Deadlines belong to tasks.
    #[error("deadlines belong to tasks, but the objective is coflows")]
    DeadlinesOfCoflows,
    /// A sum that is not proven.
    #[error("a sum of {claimed} ns is claimed, but only {proven} ns is proven")]
    LessThanClaimed {
        /// The claim.
        claimed: u128,
        /// The figure that the hints prove.
        proven: u128,
    },
    /// An upper bound that is not proven.
    #[error("at most {at_most} is claimed{}, but only at most {proven} is proven", at(.by_ns))]
    MoreThanClaimed {
        /// The claim.
        at_most: u64,
        /// The figure that the hints prove.
        proven: u64,
        /// By when, where it is about a time.
        by_ns: Option<u64>,
    },
    /// Numbers beyond 128 bits.
    #[error("numbers grow beyond 128 bits: prices or times are far too large")]
    TooLarge,
}

impl CertificateError {
    /// Makes the error that a JSON reader stopped at `error`.
    pub fn unreadable(error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        // The place is said once, at the front.
        let problem = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
        Self::Unreadable { line, column, problem: problem.to_owned() }
    }
}

fn at(by_ns: &Option<u64>) -> String {
    by_ns.map_or(String::new(), |by_ns| format!(" by {by_ns} ns"))
}
