/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the congestion controls are told, and what they keep. Its grammar is that of enforce.h, and it becomes Rust in the same
 * way.
 */
#ifndef CAVALCADE_CONGESTION_H
#define CAVALCADE_CONGESTION_H

#define CV_DCTCP 0 /* Cut by the marked share. */
#define CV_D2TCP 1 /* By the share to the power of the urgency. */
#define CV_TAFE 2 /* By the share and by what remains. */
#define CV_MCP 3 /* Deadline flows by the rate that they need, others as DCTCP. */

/* What a flow is to reach. */
struct cv_goal {
	__u64 deadline; /* When it is to be done, by the kernel's monotonic clock in nanoseconds; 0 where there is none. */
	__u64 size; /* Bytes of payload that it has in all; 0 where that is not known. */
};

/* What the laws are told of the network. */
struct cv_network {
	__u64 line_rate; /* Payload that the host's link carries, in bytes a second. */
	__u64 marking; /* Bytes of a queue at which switches begin to mark: K. */
	__u64 largest; /* Bytes of the largest flow: TAFE's S_max. */
};

/* An acknowledgement as a law sees it. */
struct cv_event {
	__u64 now; /* The time in nanoseconds. */
	__u64 deadline; /* As in cv_goal. */
	__u64 round_trip; /* The smoothed round trip in nanoseconds. */
	__u64 capacity; /* Segments that the host's link carries in a second, times 2^16. */
	__u64 threshold; /* Segments of a queue at which switches begin to mark. */
	__u64 guard; /* Nanoseconds before its deadline at which a flow that is held to its rate aims to be done. */
	__u64 largest; /* Segments of the largest flow. */
	__u64 remaining; /* Segments that have not arrived; below 2^23. */
	__u64 size_known; /* Whether that is known. */
	__u64 segments; /* Segments whose arrival became known. */
	__u64 marked; /* Whether they were marked on the way. */
	__u64 una; /* All before this sequence number has arrived. */
	__u64 next; /* All before this one has been sent. */
	__u64 recovering; /* Whether losses are being repaired. */
	__u64 limited; /* Whether the window was what held the sender back. */
};

/* What a law keeps of a connection. */
struct cv_law {
	__u32 window; /* Segments that may be on the way. */
	__u32 threshold; /* Below it the window grows by what is acknowledged. */
	__u32 credit; /* Acknowledged segments that have not yet made it grow. */
	__u32 alpha; /* The running marked share, out of 2^20. */
	__u32 delivered; /* Segments since the last estimate, */
	__u32 marked; /* and those that were marked. */
	__u32 window_end; /* The next estimate is due when this has arrived. */
	__u32 cut_end; /* No second cut before this has arrived. */
	__u32 left_over; /* What cuts have left, out of 2^20. */
	__u32 recovering; /* Whether losses were being repaired at the last acknowledgement. */
};

/* What is kept of a flow that is held to the rate that its deadline needs. */
struct cv_pursuit {
	__u64 window; /* Segments that may be on the way, times 2^20; 0 before it begins. */
	__u64 behind; /* How far the flow is behind: segments a second, times 2^16; all ones before the first estimate. */
	__u64 marked; /* Segments of the last window that were marked, times 2^20. */
};

#endif
