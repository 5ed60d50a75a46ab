//! A recorded iteration beside simulated ones, and where the difference comes from.

use cavalcade_model::Instant;
use cavalcade_training::{Host, JobFigures, Measured};

/// Where the time of an iteration goes, in seconds; a mean over ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Parts {
    pub(super) iteration: f64,
    /// Computation, and the host's time where that counts as such.
    pub(super) own: f64,
    /// Communication while nothing is computed, and waiting for others.
    pub(super) communication: f64,
    /// Neither.
    pub(super) rest: f64,
}

impl Parts {
    /// As it was recorded.
    pub(super) fn measured(measured: &Measured, host: Host) -> Self {
        let [iteration, computing, exposed, late] =
            [measured.iteration, measured.computing, measured.exposed, measured.host]
                .map(|span| span.as_secs_f64());
        let (own, rest) = match host {
            Host::Kept => (computing + late, 0.0),
            Host::LeftOut => (computing, late),
        };
        Self { iteration, own, communication: exposed, rest }
    }

    /// As it was simulated, for a job that arrived then.
    pub(super) fn simulated(job: &JobFigures, arrival: Instant) -> Self {
        let count = job.iterations.len().max(1) as f64;
        let each = job.end.since(arrival).as_secs_f64() / count;
        let shares = &job.shares;
        let communication = shares.exposed.values().sum::<f64>() + shares.waiting;
        Self {
            iteration: each,
            own: each * shares.computing,
            communication: each * communication,
            rest: each * shares.idle,
        }
    }

    /// What is added to the other to come to this.
    pub(super) fn less(&self, other: &Self) -> Self {
        Self {
            iteration: self.iteration - other.iteration,
            own: self.own - other.own,
            communication: self.communication - other.communication,
            rest: self.rest - other.rest,
        }
    }
}
