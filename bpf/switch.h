/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the switch in the kernel and the process that holds it say to each other; the grammar is that of enforce.h.
 */
#ifndef CAVALCADE_SWITCH_H
#define CAVALCADE_SWITCH_H

#define CV_MOST_PORTS 64 /* Ports of a switch. */
#define CV_MOST_TASKS 4194304 /* Tasks of all ports together. */
#define CV_LATE 1000000 /* Nanoseconds that a link may catch up with. */
#define CV_PLAIN_SHARE 16 /* Plain traffic has one part in so many of a link, where it wants it. */

/* An output port: what it is told, its share of the state of Algorithm 1, its two virtual queues, its counts. */
struct cv_port {
	__u64 held; /* 1 while a program has the port: one at a time. */
	__u64 interface; /* The interface's number. */
	__u64 mtu; /* The largest IP packet of its link. */
	__u64 rate; /* The link's rate in bits per second. */
	__u64 buffer; /* The most bytes that a class may have waiting. */
	__u64 emptied_after; /* Nanoseconds after which the link has carried whatever there was. */
	__u64 spare_gain; /* Gain of the spare rate, in hundredths. */
	__u64 queue_gain; /* Gain of the queue, in hundredths. */
	__u64 interval; /* Nanoseconds between two moves of the virtual capacity. */
	__u64 heavy; /* Grains times nanoseconds above which a task is heavy. */
	__u64 epoch_length; /* Nanoseconds of an epoch. */
	__u64 link; /* The most that a flow is counted with, in grains. */
	__u64 most; /* The most tasks. */
	__u64 capacity; /* The virtual capacity in bits per second. */
	__u64 since; /* Begin of its interval. */
	__u64 held_until; /* Until then it does not rise. */
	__u64 seen; /* Bytes of the interval. */
	__u64 backlog; /* The least queue of the interval. */
	__u64 epoch; /* The number of the epoch. */
	__u64 epoch_end; /* Its end. */
	__u64 granted; /* Sum of grants, in grains. */
	__u64 demand; /* Sum of demands, in grains. */
	__u64 carry; /* What rounding has taken from the last grant. */
	__u64 first; /* Place of the first task, or 0. */
	__u64 spare; /* First of the places that were given back, or 0. */
	__u64 used; /* Places that have been given out at some time. */
	__u64 tasks; /* Tasks. */
	__u64 drained_at; /* Time up to which the virtual queues have been emptied. */
	__u64 fraction; /* Bits times nanoseconds that are less than a byte. */
	__u64 spc_queued; /* Virtual queue of SPC, in bytes. */
	__u64 plain_queued; /* Virtual queue of all else. */
	__u64 relayed; /* Bytes that the process has sent, as far as they have been queued. */
	__u64 questions; /* Questions answered. */
	__u64 spc_packets; /* Packets of SPC sent. */
	__u64 spc_bytes; /* Their bytes. */
	__u64 spc_dropped; /* Packets of SPC without room. */
	__u64 spc_longest; /* The longest queue of SPC. */
	__u64 plain_packets; /* Other packets sent. */
	__u64 plain_bytes; /* Their bytes. */
	__u64 plain_dropped; /* Other packets without room. */
	__u64 plain_longest; /* The longest queue of other packets. */
	__u64 busy; /* Packets that were lost since the port was not to be had. */
};

/* A task at a port; see transport's spc/port.rs. */
struct cv_task {
	__u64 id; /* The task-id. */
	__u64 granted; /* Grants of its flows, in grains. */
	__u64 demand; /* Their demands. */
	__u64 flows; /* Their number. */
	__u64 granted_rebuilt; /* The same, of this epoch alone. */
	__u64 demand_rebuilt; /* The same, of this epoch alone. */
	__u64 flows_rebuilt; /* The same, of this epoch alone. */
	__u64 reserved; /* Grains times nanoseconds granted up to since. */
	__u64 since; /* The time up to which that is known. */
	__u64 heard; /* The epoch in which it last asked. */
	__u64 next; /* Place of the next task by id, or of the next free place; 0 for none. */
};

/* Where an address is. */
struct cv_place {
	__u64 port; /* The port. */
	__u64 heard; /* Time at which it was last heard, or 0 where it was said. */
	__u64 era; /* The era in which it was learned. */
};

/* What the switch is told, and its counts for each processor. */
struct cv_state {
	__u64 forwards; /* 1 once it forwards. */
	__u64 era; /* What was learned in another one is forgotten. */
	__u64 now; /* The time, where tests run the switch as a function. */
};

/* Counts of one processor. */
struct cv_counts {
	__u64 received; /* Frames that came in and were forwarded or dropped here. */
	__u64 malformed; /* SPC packets with a header that cannot be. */
	__u64 too_large; /* Frames that are too large for their link. */
	__u64 filtered; /* Frames that stay on the link that they came by. */
	__u64 finished; /* Checksums that the kernel had left to a device. */
};

#endif
