/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Connections that were there before what tags them: a walk over all sockets finds them, and gives them their coflow.
 *
 * A walk also sees sockets that no other program meets, because they were made in a group beside the one at which the programs are
 * attached. Nothing would tell of their end, so they stay plain TCP.
 */
#ifndef CAVALCADE_LATE_H
#define CAVALCADE_LATE_H

#include "steer.h"
#include "tables.h"

#define DEEPEST_GROUP 16
#define LONGEST_QUEUE 1024

/* What waits to be accepted at a listener that has just been tagged. */
struct waiting {
	__u64 coflow;
	__u64 walk; /* The walk that has found it: later the address may be another socket's. */
};

/* By the address of the socket: a walk comes to listeners first, and then to what waits there. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, LONGEST_QUEUE * 4);
	__type(key, __u64);
	__type(value, struct waiting);
} queued SEC(".maps");

/* Whether the programs meet a socket: its group is the one at which they are attached, or below it. */
static inline_always int is_met(const struct tcp_sock *tcp)
{
	const struct cgroup *group = tcp->inet_conn.icsk_inet.sk.sk_cgrp_data.cgroup;
	struct cv_settings *all = read_settings();

	for (int depth = 0; all && group && depth <= DEEPEST_GROUP; depth++) {
		const struct cgroup_subsys_state *above = group->self.parent;

		if (group->kn->id == all->above)
			return 1;
		group = above ? above->cgroup : 0;
	}
	return 0;
}

/* What a connection carries that belongs to no coflow yet. */
static inline_always struct cv_socket without_coflow(const struct sock_common *common)
{
	struct cv_socket fresh = {};

	fresh.ports = (__u32)from_network_16(common->skc_dport) << 16 | common->skc_num;
	if (common->skc_family == AF_INET6) {
		fresh.peer_high = (__u64)common->skc_v6_daddr.in6_u.u6_addr32[1] << 32 |
				  common->skc_v6_daddr.in6_u.u6_addr32[0];
		fresh.peer_low = (__u64)common->skc_v6_daddr.in6_u.u6_addr32[3] << 32 |
				 common->skc_v6_daddr.in6_u.u6_addr32[2];
	} else {
		fresh.peer_low = (__u64)common->skc_daddr << 32 | to_network_32(0x0000ffffu);
	}
	return fresh;
}

/*
 * The coflow of a rule for the port to which a connection was made, or at which it was accepted; 0 where there is none, or other rules,
 * which go before, have still to be followed. What was accepted began as a copy of its listener, and has its backlog.
 */
static inline_always __u32 coflow_of_port(const struct sock_common *common, const struct tcp_sock *tcp)
{
	__u32 port = from_network_16(common->skc_dport);
	struct cv_settings *all = read_settings();
	__u32 *coflow;

	if (common->skc_state == TCP_LISTEN || !all || !all->takes_ports)
		return 0;
	if (tcp->inet_conn.icsk_inet.sk.sk_max_ack_backlog)
		port = common->skc_num;
	coflow = bpf_map_lookup_elem(&ports, &port);
	return coflow ? *coflow : 0;
}

/* Notes what has connected to a listener before that was tagged, and waits to be accepted. A walk holds the listener's lock, so nothing
 * is accepted meanwhile. */
static inline_always void note_queue(const struct tcp_sock *tcp, struct cv_socket *socket, __u64 walk)
{
	const struct request_sock *request = tcp->inet_conn.icsk_accept_queue.rskq_accept_head;
	struct waiting found = { socket->coflow, walk };

	for (int place = 0; request && place < LONGEST_QUEUE; place++) {
		__u64 address = (__u64)request->sk;

		bpf_map_update_elem(&queued, &address, &found, BPF_ANY);
		request = request->dl_next;
	}
	socket->has_queue = 0;
}

/* The coflow of the listener at which a connection waits to be accepted; 0 where it waits at none that this walk has noted. */
static inline_always __u32 coflow_of_queue(const struct sock_common *common, __u64 walk)
{
	__u64 address = (__u64)common;
	struct waiting *found = bpf_map_lookup_elem(&queued, &address);

	return found && found->walk == walk ? found->coflow : 0;
}

#endif
