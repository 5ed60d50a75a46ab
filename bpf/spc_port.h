/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * An output port of the switch in the kernel: who has it, its two virtual queues, its virtual capacity, its tasks and Algorithm 1. The tables
 * `ports` and `tasks` are the program's.
 *
 * A second copy of transport's capacity.rs and spc/port.rs, in the same order and with the same names; tests hold the two together.
 * Tasks are a list by id in an array, so a question walks the tasks before its own once, and again where it makes another task go.
 */
#ifndef CAVALCADE_SPC_PORT_H
#define CAVALCADE_SPC_PORT_H

#define GRAIN 250000ULL
#define FRACTION 8ULL
#define SILENCE 4
#define HOLD 2
#define FULL_PACKET 1500
#define BYTE_NANOS 8000000000ULL
#define MOST_U64 (~0ULL)
/* Tries for a port: some milliseconds. */
#define TRIES (1 << 20)
/* The stack of all functions that wait for each other is small, so some are not to be one. */
#define own_stack __attribute__((noinline))

static inline_always __u64 between(__u64 then, __u64 now)
{
	return now > then ? now - then : 0;
}

static inline_always __u64 less(__u64 a, __u64 b)
{
	return a > b ? a - b : 0;
}

static inline_always __u64 least_of(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/* The product, or the largest number. */
static inline_always __u64 times(__u64 a, __u64 b)
{
	__u64 most = MOST_U64;

	if (!a)
		return 0;
	most /= a;
	/* The compiler would make of this a product of 128 bits, which there is not. */
	asm volatile("" : "+r"(most));
	return b > most ? MOST_U64 : a * b;
}

/* --- A port for one at a time --- */

struct taking {
	__u32 port;
	__u32 taken;
};

static long try_to_take(__u32 number, struct taking *taking)
{
	struct cv_port *port = bpf_map_lookup_elem(&ports, &taking->port);

	if (!port)
		return 1;
	taking->taken = __sync_val_compare_and_swap(&port->held, 0, 1) == 0;
	return taking->taken;
}

static inline_always int take(struct cv_port *port, __u32 number)
{
	struct taking taking = { .port = number };

	if (__sync_val_compare_and_swap(&port->held, 0, 1) == 0)
		return 1;
	bpf_loop(TRIES, try_to_take, &taking, 0);
	return taking.taken;
}

static inline_always void give_back(struct cv_port *port)
{
	__sync_lock_test_and_set(&port->held, 0);
}

/* --- Virtual queues --- */

/*
 * Takes what the link has carried out of both queues: SPC first, but one part in CV_PLAIN_SHARE for the other. What it has not used of the last
 * CV_LATE it may catch up with, as it does in the process: hosts' timers are late, and a burst that makes up for it is no queue.
 */
static inline_always void drain(struct cv_port *port, __u64 now)
{
	__u64 time = between(port->drained_at, now), late = CV_LATE, sum, carried, plain;

	port->drained_at += time;
	if (time >= port->emptied_after) {
		port->fraction = port->spc_queued = port->plain_queued = 0;
		port->drained_at -= least_of(late, port->drained_at);
		return;
	}
	sum = time * port->rate + port->fraction;
	carried = sum / BYTE_NANOS;
	port->fraction = sum % BYTE_NANOS;
	plain = least_of(port->plain_queued, carried / CV_PLAIN_SHARE);
	sum = least_of(port->spc_queued, carried - plain);
	port->spc_queued -= sum;
	carried -= sum;
	plain = least_of(port->plain_queued, carried);
	port->plain_queued -= plain;
	carried -= plain;
	if (port->spc_queued || port->plain_queued || !port->rate)
		return;
	port->fraction = 0;
	port->drained_at -= least_of(least_of(carried * BYTE_NANOS / port->rate, late), port->drained_at);
}

/* --- Virtual capacity: transport's capacity.rs --- */

/* Bytes in some nanoseconds as bits per second, exactly: the product alone would not fit. */
static inline_always __u64 per_second(__u64 bytes, __u64 time)
{
	__u64 rest, part;

	if (!time)
		return 0;
	rest = bytes % time * 8000;
	part = rest % time * 1000000;
	return bytes / time * BYTE_NANOS + rest / time * 1000000 + part / time;
}

static inline_always void adapt(struct cv_port *port, __u64 now, __u64 elapsed, __u64 most)
{
	__u64 used = per_second(port->seen, elapsed);
	__u64 backlog = less(least_of(port->backlog, port->seen), FULL_PACKET);
	__u64 down = per_second(backlog, port->interval) * port->queue_gain, up = 0, value;

	if (used > port->rate)
		down += (used - port->rate) * port->spare_gain;
	else if (now >= port->held_until)
		up = (port->rate - used) * port->spare_gain;
	if (up > down)
		value = port->capacity + (up - down) / 100;
	else
		value = less(port->capacity, (down - up) / 100);
	if (most < port->rate)
		most = port->rate;
	if (value < port->rate / 2)
		value = port->rate / 2;
	port->capacity = least_of(value, most);
}

static inline_always void see(struct cv_port *port, __u64 now, __u64 size)
{
	__u64 elapsed = between(port->since, now), most = 2 * port->rate;

	if (elapsed >= port->interval) {
		most = least_of(times(port->demand, GRAIN), most);
		if (elapsed <= SILENCE * port->interval)
			adapt(port, now, elapsed, most);
		else
			port->capacity = port->rate;
		port->since = now;
		port->seen = 0;
		port->backlog = MOST_U64;
	}
	port->seen += size;
	port->backlog = least_of(port->backlog, port->spc_queued);
}

static inline_always void hold(struct cv_port *port, __u64 now)
{
	port->capacity = port->rate;
	port->held_until = now + HOLD * port->interval;
}

/* --- Tasks: transport's spc/port.rs --- */

static inline_always struct cv_task *task_at(__u64 base, __u64 place)
{
	__u32 index = base + place - 1;

	return place ? bpf_map_lookup_elem(&tasks, &index) : 0;
}

static inline_always void reserve(struct cv_task *task, __u64 now)
{
	__u64 more = times(task->granted, between(task->since, now));

	task->reserved = more > MOST_U64 - task->reserved ? MOST_U64 : task->reserved + more;
	task->since = now;
}

/* A walk along the tasks, and what it finds: numbers only, so that the verifier need not follow pointers. */
struct walk {
	__u64 base;
	__u64 at; /* The place that is next. */
	__u64 last; /* The one before it. */
	__u64 id;
	__u64 heavy;
	/* The class of the next task: demands before it, and its own demand and flows. */
	__u64 before;
	__u64 demand;
	__u64 flows;
};

static inline_always void join(struct walk *walk, const struct cv_task *task)
{
	walk->demand += task->demand;
	walk->flows += task->flows;
}

/* Line 2 of Algorithm 1 for the tasks before one. */
static long to_task(__u32 number, struct walk *walk)
{
	struct cv_task *task = task_at(walk->base, walk->at);

	if (!task || task->id >= walk->id)
		return 1;
	if (task->flows) {
		join(walk, task);
		if (task->reserved <= walk->heavy) {
			walk->before += walk->demand;
			walk->demand = walk->flows = 0;
		}
	}
	walk->last = walk->at;
	walk->at = task->next;
	return 0;
}

/* The rest of its class: tasks behind one that is heavy. */
static long behind_heavy(__u32 number, struct walk *walk)
{
	struct cv_task *task = task_at(walk->base, walk->at);

	if (!task)
		return 1;
	walk->at = task->next;
	if (!task->flows)
		return 0;
	join(walk, task);
	return task->reserved <= walk->heavy;
}

/* The end of epochs. */
struct epoch {
	__u64 base;
	__u64 at;
	__u64 last;
	__u64 first;
	__u64 spare;
	__u64 now;
	__u64 number;
	__u64 is_next; /* 1 where the epoch just counted is the one before. */
	__u64 granted;
	__u64 demand;
	__u64 tasks;
};

static long renew(__u32 number, struct epoch *epoch)
{
	struct cv_task *task = task_at(epoch->base, epoch->at), *last;
	__u64 next;

	if (!task)
		return 1;
	next = task->next;
	reserve(task, epoch->now);
	task->granted = epoch->is_next ? task->granted_rebuilt : 0;
	task->demand = epoch->is_next ? task->demand_rebuilt : 0;
	task->flows = epoch->is_next ? task->flows_rebuilt : 0;
	task->granted_rebuilt = task->demand_rebuilt = task->flows_rebuilt = 0;
	if (task->flows || task->heard + 2 >= epoch->number) {
		epoch->granted += task->granted;
		epoch->demand += task->demand;
		epoch->tasks++;
		epoch->last = epoch->at;
	} else {
		last = task_at(epoch->base, epoch->last);
		if (last)
			last->next = next;
		else
			epoch->first = next;
		task->next = epoch->spare;
		epoch->spare = epoch->at;
	}
	epoch->at = next;
	return 0;
}

/* Ends epochs whose time has come, and returns the parity of the one that is. */
static own_stack __u64 end_epochs(struct cv_port *port, __u64 base, __u64 now)
{
	struct epoch epoch = { .base = base, .at = port->first, .first = port->first, .spare = port->spare, .now = now };
	__u64 ended;

	if (now < port->epoch_end || !port->epoch_length)
		return port->epoch & 1;
	ended = 1 + (now - port->epoch_end) / port->epoch_length;
	port->epoch += ended;
	port->epoch_end += ended * port->epoch_length;
	epoch.number = port->epoch;
	epoch.is_next = ended == 1;
	bpf_loop(port->most, renew, &epoch, 0);
	port->first = epoch.first;
	port->spare = epoch.spare;
	port->granted = epoch.granted;
	port->demand = epoch.demand;
	port->tasks = epoch.tasks;
	return epoch.number & 1;
}

/* The search for the task that has been silent for longest, of several the last one. */
struct search {
	__u64 base;
	__u64 at;
	__u64 last;
	__u64 heard;
	__u64 found;
	__u64 before_found;
};

static long older(__u32 number, struct search *search)
{
	struct cv_task *task = task_at(search->base, search->at);

	if (!task)
		return 1;
	if (task->heard <= search->heard) {
		search->heard = task->heard;
		search->found = search->at;
		search->before_found = search->last;
	}
	search->last = search->at;
	search->at = task->next;
	return 0;
}

/* Forgets it, unless it is recent and before the task that needs its place. */
static own_stack int evict(struct cv_port *port, __u64 base, __u64 id)
{
	struct search search = { .base = base, .at = port->first, .heard = MOST_U64 };
	struct cv_task *task, *last;

	bpf_loop(port->most, older, &search, 0);
	task = task_at(base, search.found);
	if (!task || (task->heard == port->epoch && task->id < id))
		return 0;
	port->granted -= task->granted;
	port->demand -= task->demand;
	port->tasks--;
	last = task_at(base, search.before_found);
	if (last)
		last->next = task->next;
	else
		port->first = task->next;
	task->next = port->spare;
	port->spare = search.found;
	return 1;
}

static inline_always void walk_to(struct walk *walk, struct cv_port *port)
{
	walk->at = port->first;
	walk->last = walk->before = walk->demand = walk->flows = 0;
	bpf_loop(port->most, to_task, walk, 0);
}

/* Finds or makes a task, and the class of what is before it. */
static inline_always struct cv_task *place_of(struct cv_port *port, struct walk *walk, __u64 now)
{
	struct cv_task *task, *last;
	__u64 place;

	walk_to(walk, port);
	task = task_at(walk->base, walk->at);
	if (task && task->id == walk->id)
		return task;
	if (port->tasks >= port->most) {
		if (!evict(port, walk->base, walk->id))
			return 0;
		walk_to(walk, port);
	}
	place = port->spare ? port->spare : port->used + 1;
	task = task_at(walk->base, place);
	if (!task || place > port->most)
		return 0;
	if (port->spare)
		port->spare = task->next;
	else
		port->used = place;
	__builtin_memset(task, 0, sizeof(*task));
	task->id = walk->id;
	task->since = now;
	task->next = walk->at;
	last = task_at(walk->base, walk->last);
	if (last)
		last->next = place;
	else
		port->first = place;
	port->tasks++;
	walk->at = place;
	return task;
}

/* A question of the header, and its answer. */
struct question {
	__u64 id;
	__u64 unit;
	__u64 demand;
	__u64 previous_demand;
	__u64 previous;
	__u64 parity;
	__u64 nominal;
	__u64 actual;
};

/* Returns the units that a flow is counted with. */
static inline_always __u64 within_link(const struct cv_port *port, __u64 units, __u64 unit)
{
	return unit ? least_of(units, port->link / unit) : 0;
}

/* Line 1: takes back what the flow was counted with. */
static inline_always void take_back(struct cv_port *port, struct cv_task *task, const struct question *question)
{
	__u64 rate = within_link(port, question->previous, question->unit) * question->unit;
	__u64 demand = within_link(port, question->previous_demand, question->unit) * question->unit;
	__u64 granted, demanded;

	if (!question->previous_demand)
		return;
	granted = least_of(task->granted, rate);
	demanded = least_of(task->demand, demand);
	task->granted -= granted;
	task->demand -= demanded;
	task->flows = less(task->flows, 1);
	port->granted -= granted;
	port->demand -= demanded;
	if (question->parity != (port->epoch & 1))
		return;
	task->granted_rebuilt = less(task->granted_rebuilt, rate);
	task->demand_rebuilt = less(task->demand_rebuilt, demand);
	task->flows_rebuilt = less(task->flows_rebuilt, 1);
}

/* Lines 3 to 10. */
static inline_always void grant(struct cv_port *port, const struct walk *class, struct question *question)
{
	__u64 step = question->unit * FRACTION;
	__u64 capacity = port->capacity / (GRAIN / FRACTION);
	__u64 available = less(capacity, class->before * FRACTION);
	__u64 share = less(available, class->demand * FRACTION);
	__u64 most, exact, carried;

	if (!step)
		return;
	most = least_of(question->demand, less(capacity, port->granted * FRACTION) / step);
	if (share > question->demand * step) {
		question->nominal = question->demand;
		question->actual = most;
		return;
	}
	exact = available / (class->flows + 1);
	if (!exact)
		return;
	carried = exact + port->carry;
	question->actual = least_of(carried / step, most);
	port->carry = least_of(carried - question->actual * step, step);
	question->nominal = least_of(exact / step, question->demand);
}

/* Answers a question, and returns the parity of the epoch. */
static own_stack __u64 answer(struct cv_port *port, __u32 number, __u64 now, struct question *question)
{
	struct walk walk = { .base = number * port->most, .id = question->id, .heavy = port->heavy };
	__u64 parity = end_epochs(port, walk.base, now);
	struct cv_task *task;

	task = place_of(port, &walk, now);
	if (!task)
		return parity;
	reserve(task, now);
	task->heard = port->epoch;
	take_back(port, task, question);
	if (!question->demand != !question->previous_demand)
		hold(port, now);
	if (!question->demand)
		return parity;
	question->demand = within_link(port, question->demand, question->unit);
	join(&walk, task);
	if (task->reserved > walk.heavy) {
		walk.at = task->next;
		bpf_loop(port->most, behind_heavy, &walk, 0);
	}
	grant(port, &walk, question);
	task->granted += question->actual * question->unit;
	task->granted_rebuilt += question->actual * question->unit;
	task->demand += question->demand * question->unit;
	task->demand_rebuilt += question->demand * question->unit;
	task->flows++;
	task->flows_rebuilt++;
	port->granted += question->actual * question->unit;
	port->demand += question->demand * question->unit;
	return parity;
}

#endif
