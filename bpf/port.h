/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the program at a port of the lab and the process that puts it there say to each other. Its grammar is that of enforce.h, and
 * it becomes Rust in the same way.
 */
#ifndef CAVALCADE_PORT_H
#define CAVALCADE_PORT_H

#define CV_CLASSES 8 /* Queues of a port, the highest first. */
#define CV_DSCPS 64 /* Values that a DSCP can have. */

/* What a port is like. */
struct cv_port {
	__u64 rate; /* Bytes of frames that it sends in a second. */
	__u64 burst; /* Bytes that it sends at once after a pause. */
	__u64 mark_at; /* What joins a queue of so many bytes or more is marked. */
	__u64 limit; /* Bytes that a queue holds; what does not fit is dropped by the port itself. */
};

/* What has passed. */
struct cv_passed {
	__u64 markable; /* Packets that may be marked. */
	__u64 marked; /* Packets that were. */
};

#endif
