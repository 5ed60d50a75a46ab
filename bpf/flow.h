/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What sockets carry with them, and to which flow they belong by that. */
#ifndef CAVALCADE_FLOW_H
#define CAVALCADE_FLOW_H

#include "kernel.h"
#include "enforce.h"
#include "congestion.h"

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct cv_socket);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CV_FLOWS);
	__type(key, struct cv_flow);
	__type(value, struct cv_count);
} counts SEC(".maps");

/* What congestion controls go by, for each flow and for all. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CV_FLOWS);
	__type(key, struct cv_flow);
	__type(value, struct cv_goal);
} goals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cv_network);
} network SEC(".maps");

static inline_always struct cv_flow flow_of(const struct cv_socket *socket)
{
	struct cv_flow flow = {
		.coflow = socket->coflow,
		.peer_0 = socket->peer_high,
		.peer_1 = socket->peer_high >> 32,
		.peer_2 = socket->peer_low,
		.peer_3 = socket->peer_low >> 32,
	};

	return flow;
}

/* Makes it the flow to every peer without one of its own. */
static inline_always void to_all_peers(struct cv_flow *flow)
{
	flow->peer_0 = flow->peer_1 = flow->peer_2 = flow->peer_3 = CV_LISTENING;
}

#endif
