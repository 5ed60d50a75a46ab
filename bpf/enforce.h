/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the programs in the kernel and the process that drives them say to each other.
 *
 * Both sides read this file: clang includes it, and crates/live/enforce/build.rs makes Rust of it. Therefore its grammar is
 * small: a constant is "#define CV_NAME number"; a struct has one field a line, all of one type, and no padding; what
 * stands in the comment behind a field or a constant is its documentation on both sides.
 */
#ifndef CAVALCADE_ENFORCE_H
#define CAVALCADE_ENFORCE_H

#define CV_OPEN 0 /* Gate: new data passes. */
#define CV_OFF 1 /* Gate: new data is refused, but for the trickle. */
#define CV_PLAIN 2 /* Gate: all passes, and connections have their own congestion control. What the host sorts by itself, it sorts. */
#define CV_TURNS 10 /* A connection whose flow's trickle went to others for so many times as long as that takes sends a segment all the same. */
#define CV_LEAST_SHARE 3000 /* Bytes per second that a connection is held to at least: two segments of it are a second apart then. */
#define CV_UNLIMITED 0xffffffff /* Rate: none is asked for. */
#define CV_CLASSES 32 /* The most classes of a host that sorts messages by itself. */
#define CV_KEEP 0xffffffff /* TOS or priority: the application's own stays. */
#define CV_GROUPS 4096 /* The most control groups that stand for coflows. */
#define CV_FLOWS 65536 /* The most flows that are counted at once, and that have orders. */
#define CV_EVERYBODY 0xffffffff /* The user in whose name the flows of all users are counted. */
#define CV_NOBODY 0xffffffff /* Coflow of connections that have none: they are neither counted nor limited. */
#define CV_RELEASE 2115937773 /* The TCP_KEEPIDLE that a client library sets on a connection that it handed over, once its flow is over. */
#define CV_LISTENING 0 /* Peer of orders that hold for every peer without orders of its own. */

/* A flow as the kernel knows one: all connections of a coflow to one peer. */
struct cv_flow {
	__u32 coflow; /* The enforcer's number of the coflow. */
	__u32 peer_0; /* The peer's address as IPv6, in network order; IPv4 is mapped. */
	__u32 peer_1; /* Second word of it. */
	__u32 peer_2; /* Third word of it. */
	__u32 peer_3; /* Fourth word of it. */
};

/* What is known of a coflow. */
struct cv_coflow {
	__u64 serial; /* Its serial, or 0 until that is known. */
	__u64 owner; /* The user in whose share of the table its flows are. */
};

/* How a flow is to be sent. */
struct cv_order {
	__u32 generation; /* Differs from that of every other order, and is never 0. */
	__u32 gate; /* CV_OPEN, CV_OFF or CV_PLAIN. */
	__u32 rate; /* Bytes per second, or CV_UNLIMITED. */
	__u32 tos; /* The byte that has the DSCP in its upper six bits, or CV_KEEP. */
	__u32 priority; /* SO_PRIORITY, or CV_KEEP. */
	__u32 class; /* The class of these two, or CV_KEEP. */
};

/* How this host sorts messages by itself. */
struct cv_demotion {
	__u32 is_on; /* Other than 0: it does. */
	__u32 first; /* The class in which messages begin; above it are flows with deadlines. */
	__u32 last; /* The class below all thresholds; at most CV_CLASSES - 1. */
	__u32 by_size; /* Other than 0: messages of known size stand where that says. */
	__u32 least_patience; /* A connection lifts its message after so many time-outs in a row at least, */
	__u32 most_patience; /* and so many at most. */
};

/* A class of messages that this host sorts by itself. */
struct cv_class {
	__u64 end; /* Bytes at which a message goes to the next class. */
	__u64 tos; /* As in cv_order. */
	__u64 priority; /* As in cv_order. */
};

/* What a flow has done. */
struct cv_count {
	__u64 sent; /* Bytes of payload, each once, also where a queue of this host dropped them and TCP offers them again. */
	__u64 messages; /* Messages: bytes after a connection was done and idle for so long begin one. */
	__u64 refused; /* Packets that the gate refused. */
	__u64 waiting; /* Whether data waits at the gate: what was refused last has not passed since. */
	__u64 sockets; /* Connections that are open. */
	__u64 unsent; /* Connections whose application has written more than has passed. */
	__u64 resumed_at; /* When data passed that had waited at the gate, by the kernel's monotonic clock. */
	__u64 marks; /* How often a connection has needed a TOS that no program may set. */
	__u64 passed_at; /* When data of any of its connections last passed, by the kernel's monotonic clock. */
};

/* What holds for all. */
struct cv_settings {
	__u64 alive_at; /* When the enforcer was last alive, by the kernel's monotonic clock, in nanoseconds. */
	__u64 silence; /* After so many nanoseconds without a sign of life all limits are lifted. */
	__u64 trickle; /* A gate that is off passes one segment of its flow in so many nanoseconds, and one of each connection in CV_TURNS times as many. */
	__u64 idle; /* After so many idle nanoseconds the next byte of a connection that is done begins a message. */
	__u64 is_lifted; /* Other than 0: nothing is limited. */
	__u64 vouches; /* Other than 0: connections say their coflow to the other end, and are told of to the enforcer. */
	__u64 control_0; /* The name of the congestion control for connections of coflows, in two words; 0 leaves their own. */
	__u64 control_1; /* Second word of it. */
	__u64 above; /* The kernel's number of the group at which the programs are attached. */
	__u64 takes_ports; /* Other than 0: a walk gives connections from before to the rules for their ports. */
	__u64 answers; /* Other than 0: what listeners accept with marks gets the control too, even if it belongs to no coflow. */
};

/* A connection from outside, as its own host knows it. */
struct cv_pair {
	__u32 ports; /* The other end's port in the upper half, the own one in the lower. */
	__u32 peer_0; /* The other end's address as in cv_flow. */
	__u32 peer_1; /* Second word of it. */
	__u32 peer_2; /* Third word of it. */
	__u32 peer_3; /* Fourth word of it. */
};

/* What is known of the coflow of a connection from outside. */
struct cv_claim {
	__u32 serial_low; /* The coflow's serial, as the other end's SYN said; 0 where it said nothing. */
	__u32 serial_high; /* Its upper half. */
	__u32 coflow; /* The enforcer's number, once the enforcer there has vouched for it; 0 until then. */
};

/* A connection of a tagged socket that has just been made. */
struct cv_made {
	__u32 coflow; /* The enforcer's number of the coflow. */
	__u32 ports; /* As in cv_pair. */
	__u32 peer_0; /* As in cv_pair. */
	__u32 peer_1; /* Second word of it. */
	__u32 peer_2; /* Third word of it. */
	__u32 peer_3; /* Fourth word of it. */
	__u32 local_0; /* The own address in the same form. */
	__u32 local_1; /* Second word of it. */
	__u32 local_2; /* Third word of it. */
	__u32 local_3; /* Fourth word of it. */
};

/* What a socket carries with it; those that it accepts begin with a copy. */
struct cv_socket {
	__u64 coflow; /* The enforcer's number of the coflow; 0 where the other end has named one and nothing vouches for it yet. */
	__u64 peer_high; /* Two words of the peer's address. */
	__u64 peer_low; /* The other two. */
	__u64 applied; /* Generation of the order whose rate and class are set; 0 if the application's own are. */
	__u64 share; /* The part of its flow's rate that is set: with it the connections with data to send have all of that rate. */
	__u64 own_rate; /* The application's own rate, */
	__u64 own_tos; /* its TOS */
	__u64 own_priority; /* and its priority, which come back when the limits are lifted. */
	__u64 passed_at; /* When data last passed. */
	__u64 refused_at; /* When data was first refused since; 0 if none was. */
	__u64 is_counted; /* Whether the flow's count of sockets includes it. */
	__u64 reached; /* The sequence number behind the last byte that was counted, with a bit above its 32; 0 if none was. */
	__u64 ports; /* As in cv_pair, where it has no coflow yet but may get one. */
	__u64 control; /* First word of the congestion control's name that was set; 0 if the application's own is. */
	__u64 own_control_0; /* The name of the application's own control, */
	__u64 own_control_1; /* which comes back when the limits are lifted. */
	__u64 class; /* The class, plus one, that is set because this host sorts messages; 0 if none is. */
	__u64 message; /* Bytes of the message that were sent since it began, or was lifted to the top. */
	__u64 is_unsent; /* Whether the application had written more than has passed when a packet was last seen. */
	__u64 patience; /* The time-outs in a row after which it is lifted; 0 until they are drawn. */
	__u64 lifts; /* How often it was lifted. */
	__u64 mark; /* The TOS, plus one, that the enforcer is to set, as no program may; 0 while none is needed. */
	__u64 mark_priority; /* The priority that belongs to it: to set a TOS changes that. */
	__u64 has_queue; /* Of a listener: whether connections may wait at it that were made before it was tagged. */
	__u64 is_handed; /* Whether a client library has handed the connection over, which may release it. */
};

#endif
