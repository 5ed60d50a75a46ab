//! Between a client library and the agent of its host, over a Unix socket.
//!
//! The client says what it transfers, and how far it is; the agent says how fast. Everything that
//! the agent needs is said again after a new connection, so an agent that has crashed knows all of
//! it once its clients are back (the client is where the truth is): [`ClientMessage::Join`] and
//! [`ClientMessage::Open`] carry what has been sent already.

use cavalcade_model::{Bytes, Nanos, PortId, TaskClass};
use core::net::SocketAddr;

use super::bytes::{fields, variants};
use super::coordination::Directive;
use super::names::{CoflowKey, CoflowName, Facts};

fields! {
    /// The two ends of a connection.
    #[derive(Copy)]
    Endpoints ("the ends of a connection") {
        /// The sending end.
        local: SocketAddr,
        /// The receiving end: its address says which port of the fabric that is.
        remote: SocketAddr,
    }
}

variants! {
    /// A message of a client.
    ClientMessage ("a client's message") {
        /// The first message of a connection.
        0 => Hello {
            /// The client's [`PROTOCOL`](crate::PROTOCOL).
            protocol: u16,
            /// A number that the client keeps for its life: a connection with the same one is the
            /// same client again, and what it said before is void.
            client: u64,
        },
        /// Asks for a new coflow.
        1 => Register {
            /// Comes back in the answer.
            request: u32,
            /// Coflows that it starts after.
            parents: Vec<CoflowKey>,
            /// Time from now to the deadline of its task.
            deadline: Option<Nanos>,
            /// Its bytes, if they are known.
            size: Option<Bytes>,
            /// Class of its task.
            class: TaskClass,
            /// Its task's weight, at least 1.
            weight: u32,
            /// The application's name for it.
            name: Option<CoflowName>,
        },
        /// Says that flows of a coflow will come from here that was registered elsewhere, or before
        /// the agent started.
        2 => Join {
            /// The coflow.
            coflow: CoflowKey,
            /// The facts known here: all of them where it was registered by this client.
            facts: Option<Facts>,
            /// Bytes of all flows of this client that are over.
            sent: Bytes,
        },
        /// Says that a coflow is over: no further flows will come from this client.
        3 => Unregister {
            /// The coflow.
            coflow: CoflowKey,
        },
        /// A connection now carries a flow.
        4 => Open {
            /// The client's number for the flow, never used again on this connection.
            flow: u32,
            /// Its coflow.
            coflow: CoflowKey,
            /// Its endpoints.
            ends: Endpoints,
            /// Its bytes, if they are known.
            size: Option<Bytes>,
            /// Bytes sent already.
            sent: Bytes,
        },
        /// The progress of a flow.
        5 => Sent {
            /// The flow.
            flow: u32,
            /// Bytes sent in all: saying it twice does no harm.
            sent: Bytes,
            /// True if the application has nothing to send at present.
            idle: bool,
        },
        /// A flow is over.
        6 => Close {
            /// The flow.
            flow: u32,
            /// Bytes sent in all.
            sent: Bytes,
        },
        /// Lets another user take part in a coflow of the client's user.
        7 => Grant {
            /// The coflow.
            coflow: CoflowKey,
            /// The user, by the number that hosts have for it.
            user: u32,
        },
    }
}

variants! {
    /// A message of an agent to a client.
    AgentMessage ("an agent's message") {
        /// The answer to a hello.
        0 => Welcome {
            /// The agent's [`PROTOCOL`](crate::PROTOCOL).
            protocol: u16,
            /// The port of the fabric that the agent stands at.
            port: PortId,
            /// Time between reports of progress.
            period: Nanos,
            /// Time that orders hold after the last message from the agent; then flows go on as
            /// plain TCP.
            lease: Nanos,
        },
        /// A coflow was registered.
        1 => Registered {
            /// The request that this answers.
            request: u32,
            /// Its key.
            coflow: CoflowKey,
            /// Its facts, to be said again to an agent that does not know them.
            facts: Facts,
        },
        /// A flow's directive from now on.
        2 => Direct {
            /// The flow.
            flow: u32,
            /// The directive.
            directive: Directive,
        },
        /// The agent is there: what it said holds for another lease.
        3 => Alive {},
        /// Something was refused; nothing has changed.
        4 => Refused {
            /// The refused subject.
            subject: Subject,
            /// Why.
            refusal: Refusal,
        },
    }
}

variants! {
    /// The subject of an agent's refusal.
    #[derive(Copy)]
    Subject ("the subject of a refusal") {
        /// The connection: it is about to be closed.
        0 => Connection {},
        /// A registration.
        1 => Request {
            /// Its number.
            request: u32,
        },
        /// A part in a coflow.
        2 => Coflow {
            /// The coflow.
            coflow: CoflowKey,
        },
        /// A flow: it goes as plain TCP.
        3 => Flow {
            /// The client's number of it.
            flow: u32,
        },
    }
}

variants! {
    /// Something that a user may have only so much of on a host.
    #[derive(Copy, PartialOrd, Ord)]
    Limit ("a limit") {
        /// Connections of clients.
        0 => Connections {},
        /// Coflows in which clients take part, counted once for each client.
        1 => Coflows {},
        /// Open flows.
        2 => Flows {},
        /// Messages in a second.
        3 => Messages {},
        /// Bytes that wait in the agent, from clients and for them.
        4 => Bytes {},
    }
}

impl Limit {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Connections {}, Self::Coflows {}, Self::Flows {}, Self::Messages {}, Self::Bytes {}];

    /// Its name, as in the agent's setting.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connections {} => "connections",
            Self::Coflows {} => "coflows",
            Self::Flows {} => "flows",
            Self::Messages {} => "messages",
            Self::Bytes {} => "bytes",
        }
    }
}

variants! {
    /// Why an agent refuses.
    #[derive(Copy)]
    Refusal ("a refusal") {
        /// The versions differ.
        0 => Protocol {
            /// The agent's version.
            ours: u16,
        },
        /// The coflow belongs to another user, who has not granted it.
        1 => NotYours {},
        /// There is a flow of that number already.
        2 => BadFlow {},
        /// The client has said something before its hello, or said hello twice.
        3 => OutOfTurn {},
        /// The user's clients have as much as the agent lets a user have.
        4 => TooMany {
            /// The limited quantity.
            of: Limit,
            /// The limit.
            limit: u32,
        },
    }
}

impl Refusal {
    /// One word for it: `protocol`, `not_yours`, `bad_flow`, `out_of_turn`, or the name of the
    /// limit.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Protocol { .. } => "protocol",
            Self::NotYours {} => "not_yours",
            Self::BadFlow {} => "bad_flow",
            Self::OutOfTurn {} => "out_of_turn",
            Self::TooMany { of, .. } => of.name(),
        }
    }
}

impl core::fmt::Display for Subject {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Connection {} => f.write_str("the connection"),
            Self::Request { request } => write!(f, "registration {request}"),
            Self::Coflow { coflow } => write!(f, "coflow {coflow}"),
            Self::Flow { flow } => write!(f, "flow {flow}"),
        }
    }
}

/// The reason with who set the limit and how to raise it, for people.
impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Protocol { ours } => {
                write!(f, "the agent speaks version {ours} of the protocol: install the same release on both")
            }
            Self::NotYours {} => {
                f.write_str("it belongs to another user, who may grant it, or is older than it can be")
            }
            Self::BadFlow {} => f.write_str("there is a flow of that number already"),
            Self::OutOfTurn {} => f.write_str("it was said before the hello, or the hello came twice"),
            Self::TooMany { of, limit } => {
                let name = of.name();
                write!(f, "one user may have {limit} {name} on this host")?;
                f.write_str(if *of == (Limit::Messages {}) { " a second" } else { "" })?;
                write!(f, ": the agent's operator set that, and --user-budget {name}=NUMBER raises it")
            }
        }
    }
}
