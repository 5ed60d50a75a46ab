/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Connections take a congestion control on, and give it back.
 *
 * The controls need marks, and marks have to be agreed on with the SYN. A socket that connects therefore takes its control
 * on before it sends one: the control's own flag then asks for ECN, whatever net.ipv4.tcp_ecn says. A SYN that asks in this
 * way is refused by ordinary listeners, since it could be marked itself; the enforcer of the other end has its listeners accept.
 * Where the other end agrees to nothing, the application's own control comes back: packets that could be marked and are not
 * answered for would only hide the queue.
 */
#ifndef CAVALCADE_STEER_H
#define CAVALCADE_STEER_H

#include "flow.h"

#define AGREED_ON_ECN 1
#define AGREED_ON_ACCURATE_ECN 16

/* The kernel's structures, as far as they are used: places are those of the running kernel (CO-RE). */
struct kernfs_node {
	__u64 id;
} __attribute__((preserve_access_index));

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} __attribute__((preserve_access_index));

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
} __attribute__((preserve_access_index));

struct sock_cgroup_data {
	struct cgroup *cgroup;
} __attribute__((preserve_access_index));

struct sock {
	__u32 sk_priority;
	__u32 sk_max_ack_backlog;
	unsigned long sk_max_pacing_rate;
	struct sock_cgroup_data sk_cgrp_data;
} __attribute__((preserve_access_index));

struct inet_sock {
	struct sock sk;
	__u8 tos;
} __attribute__((preserve_access_index));

struct request_sock {
	struct request_sock *dl_next;
	struct sock *sk;
} __attribute__((preserve_access_index));

struct request_sock_queue {
	struct request_sock *rskq_accept_head;
} __attribute__((preserve_access_index));

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	struct request_sock_queue icsk_accept_queue;
} __attribute__((preserve_access_index));

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u8 ecn_flags;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 write_seq;
} __attribute__((preserve_access_index));

struct in6_addr {
	union {
		__u32 u6_addr32[4];
	} in6_u;
} __attribute__((preserve_access_index));

struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
	__u32 skc_daddr;
	__u16 skc_dport;
	__u16 skc_num;
	struct in6_addr skc_v6_daddr;
} __attribute__((preserve_access_index));

struct bpf_iter_meta {
	__u64 session_id;
} __attribute__((preserve_access_index));

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
} __attribute__((preserve_access_index));

static inline_always int has_marks(const struct tcp_sock *tcp)
{
	return tcp && tcp->ecn_flags & (AGREED_ON_ECN | AGREED_ON_ACCURATE_ECN);
}

/* Sets the control with this name in two words, or the application's own where the first is 0. */
static inline_always void steer(void *sk, struct cv_socket *socket, __u64 name_0, __u64 name_1)
{
	__u64 name[2] = { name_0, name_1 };

	if (socket->control == name_0)
		return;
	if (!socket->control) {
		__u64 own[2] = {};

		bpf_getsockopt(sk, SOL_TCP, TCP_CONGESTION, own, sizeof(own));
		socket->own_control_0 = own[0];
		socket->own_control_1 = own[1];
	}
	if (!name_0) {
		name[0] = socket->own_control_0;
		name[1] = socket->own_control_1;
	}
	/* One that is refused is not asked for again. */
	socket->control = name_0;
	bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
}

#endif
