//! What an application may say of its coflows and flows: the bounds, the same in the libraries of
//! all languages.
//!
//! A library checks an argument before it stores anything: what is stored is said again to every
//! new agent, so one wrong argument would take all of a session's coflows off it.

use cavalcade_model::{Bytes, Nanos};

use crate::Registration;

/// An argument that is none: what it was, and what it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// More bytes than every language and every file format of the project can say.
    #[error(
        "a size of {} bytes: expected 0 to {}, or none where it is not known",
        .0.0,
        Invalid::MOST_BYTES
    )]
    Size(Bytes),
    /// A deadline that is too far.
    #[error("a deadline of {} s from now: expected 0 to {} s, or none", seconds(*.0), Invalid::LONGEST.0 / 1_000_000_000)]
    Deadline(Nanos),
    /// A weight of nothing.
    #[error("a weight of {0}: expected 1 to {max}", max = u32::MAX)]
    Weight(u32),
    /// More parents than fit a message.
    #[error("{0} parents: expected at most {most}", most = Invalid::MOST_PARENTS)]
    Parents(usize),
    /// The number that means no user.
    #[error("user {0}: expected 0 to {most}", most = u32::MAX - 1)]
    User(u32),
}

impl Invalid {
    /// The most bytes of a flow or coflow.
    pub const MOST_BYTES: u64 = i64::MAX as u64;
    /// The longest time to a deadline: a hundred years.
    pub const LONGEST: Nanos = Nanos::from_secs(3_155_760_000);
    /// The most parents: an agent takes messages of up to 64 KiB.
    pub const MOST_PARENTS: usize = 1_000;

    /// Checks the size of a flow or coflow.
    ///
    /// # Errors
    /// If it is too large.
    pub fn check_size(size: Option<Bytes>) -> Result<(), Self> {
        size.filter(|size| size.0 > Self::MOST_BYTES).map_or(Ok(()), |size| Err(Self::Size(size)))
    }

    /// Checks the number of a user.
    ///
    /// # Errors
    /// If it is the one that means no user.
    pub fn check_user(user: u32) -> Result<(), Self> {
        if user == u32::MAX { Err(Self::User(user)) } else { Ok(()) }
    }
}

impl Registration {
    /// Checks all that is said of a coflow.
    ///
    /// # Errors
    /// The first argument that is none.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.parents.len() > Invalid::MOST_PARENTS {
            return Err(Invalid::Parents(self.parents.len()));
        }
        if let Some(deadline) = self.deadline.filter(|deadline| *deadline > Invalid::LONGEST) {
            return Err(Invalid::Deadline(deadline));
        }
        if self.weight == 0 {
            return Err(Invalid::Weight(self.weight));
        }
        Invalid::check_size(self.size)
    }
}

/// A time in seconds, with as many places as it needs.
fn seconds(time: Nanos) -> String {
    let (whole, part) = (time.0 / 1_000_000_000, time.0 % 1_000_000_000);
    format!("{whole}.{part:09}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CoflowKey;

    fn refusal(registration: &Registration) -> String {
        registration.check().unwrap_err().to_string()
    }

    #[test]
    fn what_is_beyond_the_bounds_is_refused_with_what_may_be_and_the_bounds_themselves_are_taken() {
        let all = Registration::default();
        let most = Registration {
            parents: vec![CoflowKey { task: u64::MAX, stage: u16::MAX, serial: u64::MAX }; 1_000],
            deadline: Some(Invalid::LONGEST),
            size: Some(Bytes(i64::MAX as u64)),
            weight: u32::MAX,
            ..all.clone()
        };
        assert_eq!(most.check(), Ok(()));
        let size = Registration { size: Some(Bytes(1 << 63)), ..all.clone() };
        assert_eq!(
            refusal(&size),
            "a size of 9223372036854775808 bytes: expected 0 to 9223372036854775807, or none where it is not known"
        );
        let deadline = Registration { deadline: Some(Nanos(3_155_760_000_500_000_000)), ..all.clone() };
        let text = "a deadline of 3155760000.5 s from now: expected 0 to 3155760000 s, or none";
        assert_eq!(refusal(&deadline), text);
        let weight = Registration { weight: 0, ..all.clone() };
        assert_eq!(refusal(&weight), "a weight of 0: expected 1 to 4294967295");
        let parents = Registration { parents: vec![most.parents[0]; 1_001], ..all };
        assert_eq!(refusal(&parents), "1001 parents: expected at most 1000");
        let user = Invalid::check_user(u32::MAX).unwrap_err().to_string();
        assert_eq!(user, "user 4294967295: expected 0 to 4294967294");
    }

    #[test]
    fn the_longest_registration_is_no_longer_than_an_agent_takes() {
        let parents = vec![CoflowKey { task: u64::MAX, stage: u16::MAX, serial: u64::MAX - 1 }; 1_000];
        let (deadline, size) = (Some(Invalid::LONGEST), Some(Bytes(Invalid::MOST_BYTES)));
        let name = Some("s".repeat(39).parse().unwrap());
        let registration =
            Registration { parents, deadline, size, weight: u32::MAX, name, ..Registration::default() };
        assert_eq!(registration.check(), Ok(()));
        let mut client = crate::Client::new(7);
        client.handle_connected();
        let welcome = crate::AgentMessage::Welcome {
            protocol: crate::PROTOCOL,
            port: cavalcade_model::PortId(0),
            period: Nanos::from_millis(10),
            lease: Nanos::from_millis(500),
        };
        client.handle_message(cavalcade_model::Instant(1), welcome);
        client.register(cavalcade_model::Instant(1), registration);
        let longest = std::iter::from_fn(|| client.poll_message()).map(|message| {
            let mut bytes = Vec::new();
            crate::frame(&message, &mut bytes).unwrap();
            bytes.len()
        });
        assert!(longest.max().unwrap() <= 64 << 10);
    }
}
