/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The options of a connection: its rate, its class, and what the application had set of them.
 */
#ifndef CAVALCADE_OPTIONS_H
#define CAVALCADE_OPTIONS_H

#include "steer.h"

#define CONTROL_NAME 16
#define DSCP_BITS 0xfc

/* Whether a connection goes over IPv4 although its socket is made for both families. The kernel lets no program set the TOS of such a
 * one, or read it by an option; the enforcer sets it, by a descriptor. */
static inline_always int is_mapped(int is_v6, const struct cv_socket *socket)
{
	return is_v6 && !socket->peer_high && (__u32)socket->peer_low == to_network_32(0x0000ffffu);
}

/* Has the enforcer set the TOS of such a connection. */
static inline_always void ask_for_mark(struct cv_socket *socket, __u32 tos, __u32 priority)
{
	struct cv_flow flow = flow_of(socket);
	struct cv_count *count;

	socket->mark_priority = priority;
	if (tos == (socket->mark ? socket->mark - 1 : socket->own_tos))
		return;
	socket->mark = (__u64)tos + 1;
	count = bpf_map_lookup_elem(&counts, &flow);
	if (count)
		__sync_fetch_and_add(&count->marks, 1);
}

/* A TOS goes where the family has it. IP_TOS also changes the priority, which is therefore set after it. */
static inline_always void set_class(void *sk, int is_v6, __u32 tos, __u32 priority)
{
	if (tos != CV_KEEP)
		bpf_setsockopt(sk, is_v6 ? SOL_IPV6 : SOL_IP, is_v6 ? IPV6_TCLASS : IP_TOS, &tos, sizeof(tos));
	if (priority != CV_KEEP)
		bpf_setsockopt(sk, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority));
}

/*
 * The rate that a connection is held to, and its priority. Before Linux 6.1 bpf_getsockopt knows neither, and says 0; so they are read
 * where they stand. Programs over options may not do that, and pass no `tcp`.
 */
static inline_always __u32 rate_of(void *sk, const struct tcp_sock *tcp)
{
	unsigned long all_of_it;
	__u32 rate = 0;

	if (tcp) {
		all_of_it = tcp->inet_conn.icsk_inet.sk.sk_max_pacing_rate;
		return all_of_it < CV_UNLIMITED ? all_of_it : CV_UNLIMITED;
	}
	bpf_getsockopt(sk, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
	return rate;
}

static inline_always __u32 priority_of(void *sk, const struct tcp_sock *tcp)
{
	__u32 priority = 0;

	if (tcp)
		return tcp->inet_conn.icsk_inet.sk.sk_priority;
	bpf_getsockopt(sk, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority));
	return priority;
}

static inline_always void remember_own(void *sk, const struct tcp_sock *tcp, int is_v6, struct cv_socket *socket)
{
	__u32 tos = socket->own_tos;

	if (!is_mapped(is_v6, socket))
		bpf_getsockopt(sk, is_v6 ? SOL_IPV6 : SOL_IP, is_v6 ? IPV6_TCLASS : IP_TOS, &tos, sizeof(tos));
	/* Once the enforcer has been asked, what is there may be its mark. */
	else if (tcp && !socket->mark)
		tos = tcp->inet_conn.icsk_inet.tos & DSCP_BITS;
	socket->own_rate = rate_of(sk, tcp);
	socket->own_tos = tos;
	socket->own_priority = priority_of(sk, tcp);
}

/*
 * BBR sends at the rate at which it has seen bytes arrive, and looks for more by a quarter at a time: after a rise of the limit it
 * takes dozens of bursts at the old rate. A rise by more than a quarter has it begin anew instead, at what the new limit allows.
 */
static inline_always void begin_anew(void *sk, __u32 before, __u32 rate)
{
	char name[CONTROL_NAME] = {}, other[] = "reno";

	if (rate <= before || rate - before <= before / 4)
		return;
	if (bpf_getsockopt(sk, SOL_TCP, TCP_CONGESTION, name, sizeof(name)) || name[0] != 'b' || name[1] != 'b' ||
	    name[2] != 'r' || name[3])
		return;
	bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, other, sizeof(other));
	bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
}

static inline_always void set_rate(void *sk, const struct tcp_sock *tcp, __u32 rate)
{
	__u32 before = rate_of(sk, tcp);

	bpf_setsockopt(sk, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
	begin_anew(sk, before, rate);
}

#endif
