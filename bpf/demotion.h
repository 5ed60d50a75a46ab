/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * A host sorts messages by itself: the rule of crates/base/model/src/demotion.rs, over connections.
 *
 * The gate counts what a message has sent; before a packet gets its headers `connections` looks in which class that is, so that the
 * very packet which reaches a threshold is in the next one. A time-out of TCP is told of before the packet is sent again, which
 * then goes in the class to which the message was lifted.
 */
#ifndef CAVALCADE_DEMOTION_H
#define CAVALCADE_DEMOTION_H

#include "flow.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cv_demotion);
} demotion SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CV_CLASSES);
	__type(key, __u32);
	__type(value, struct cv_class);
} classes SEC(".maps");

/* The rule; NULL where this host does not sort. */
static inline_always struct cv_demotion *read_demotion(void)
{
	__u32 zero = 0;
	struct cv_demotion *rule = bpf_map_lookup_elem(&demotion, &zero);

	return rule && rule->is_on ? rule : 0;
}

/* Whether bytes that follow begin a message; `is_done` if all that was sent before has been acknowledged. */
static inline_always int begins_message(const struct cv_socket *socket, int is_done, __u64 now, __u64 idle)
{
	return is_done && !socket->is_unsent && now - socket->passed_at > idle;
}

/* The class in which so many bytes are: the first that ends behind them. */
static inline_always __u32 class_behind(const struct cv_demotion *rule, __u64 bytes)
{
	__u32 class = rule->first;

	for (int steps = 0; steps < CV_CLASSES && class < rule->last; steps++) {
		struct cv_class *at = bpf_map_lookup_elem(&classes, &class);

		if (!at || at->end > bytes)
			break;
		class++;
	}
	return class;
}

/* The class of a message that has sent so much; `size` in all, or 0 where that is not known. */
static inline_always __u32 class_of_message(const struct cv_demotion *rule, const struct cv_socket *socket, __u64 sent,
					    __u64 size)
{
	__u32 class;

	if (!rule->by_size || !size)
		return class_behind(rule, sent);
	/* A size may be as large as the threshold. */
	class = class_behind(rule, size - 1) - rule->first;
	return rule->first + (class > socket->lifts ? class - socket->lifts : 0);
}

/* Lifts the message after the last of so many time-outs in a row. */
static inline_always void time_out(const struct cv_demotion *rule, struct cv_socket *socket, __u32 in_a_row)
{
	if (!socket->patience)
		socket->patience = rule->least_patience +
				   bpf_get_prandom_u32() % (rule->most_patience - rule->least_patience + 1);
	if (!socket->patience || in_a_row % socket->patience)
		return;
	socket->message = 0;
	socket->lifts++;
}

#endif
