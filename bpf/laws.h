/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What each congestion control makes of an acknowledgement: the window laws of crates/simulate/transport, in whole numbers.
 *
 * The laws there are the ones that are simulated and explained; these have to give the same windows for the same events, and
 * crates/live/enforce/src/congestion/golden.rs runs both over the same sequences (this side in the kernel). DCTCP and TAFE are
 * the same operations. D2TCP's power and the equations of Karuna's deadline flows are floats there: here they have 28 and
 * 16 bits or more behind the point.
 *
 * Nothing here knows of sockets. Sequence numbers may be of any unit that goes round at 2^32.
 */
#ifndef CAVALCADE_LAWS_H
#define CAVALCADE_LAWS_H

#include "congestion.h"

#define ONE (1u << 20)
#define LARGEST_WINDOW (1u << 20)
#define LARGEST_FLOW (1u << 23)
#define GAIN_DIVISOR 16

static inline_always int is_before(__u32 one, __u32 other)
{
	return (__s32)(one - other) < 0;
}

/* One of `factor`, a fraction of 2^32, rounded down. */
static inline_always __u64 scale(__u64 value, __u64 factor)
{
	return (value >> 32) * factor + ((value & 0xffffffff) * factor >> 32);
}

static inline_always __u32 at_most(__u64 value, __u32 most)
{
	return value < most ? value : most;
}

static inline_always void law_begin(struct cv_law *law, __u32 window, __u32 una)
{
	struct cv_law fresh = {
		.window = window < 1 ? 1 : at_most(window, LARGEST_WINDOW),
		.threshold = LARGEST_WINDOW,
		.alpha = ONE,
		.window_end = una,
		.cut_end = una,
	};

	*law = fresh;
}

/* Additive increase, and slow start below the threshold. */
static inline_always void grow(struct cv_law *law, __u32 acknowledged)
{
	__u32 left = acknowledged, step;

	if (law->window < law->threshold) {
		step = at_most(left, law->threshold - law->window);
		law->window += step;
		left -= step;
	}
	law->credit += left;
	if (law->credit >= law->window) {
		law->credit -= law->window;
		law->window = at_most(law->window + 1, LARGEST_WINDOW);
	}
}

static inline_always void cut_to(struct cv_law *law, __u32 window, __u32 next)
{
	law->window = law->threshold = window < 2 ? 2 : window;
	law->credit = 0;
	law->cut_end = next;
}

/* Counts what was marked. Returns whether a window is over, with its marked share out of 2^20 in `share`. */
static inline_always int count_marks(struct cv_law *law, const struct cv_event *ack, __u32 *share)
{
	*share = 0;
	law->delivered += ack->segments;
	law->marked += ack->marked ? ack->segments : 0;
	if (is_before(ack->una, law->window_end))
		return 0;
	if (law->delivered)
		*share = (__u64)law->marked * ONE / law->delivered;
	law->window_end = ack->next;
	return 1;
}

static inline_always void average(struct cv_law *law, const struct cv_event *ack)
{
	__u32 share;

	if (!count_marks(law, ack, &share))
		return;
	if (law->delivered)
		law->alpha = at_most(law->alpha - law->alpha / GAIN_DIVISOR + share / GAIN_DIVISOR, ONE);
	law->delivered = law->marked = 0;
}

/* e^-x for x below one, both fractions of 2^32: the series, from its twelfth term inwards. */
static inline_always __u64 exponential(__u64 x)
{
	__u64 sum = 1ull << 32;

	for (int term = 12; term > 0; term--)
		sum = (1ull << 32) - (x * sum >> 32) / term;
	return sum;
}

#define LN_2 2977044472ull

/* -ln of alpha out of 2^20, with 28 bits behind the point: alpha is m / 2^n, and ln m = 2 artanh((m - 1) / (m + 1)). */
static inline_always __u64 minus_logarithm(__u32 alpha)
{
	__u64 part, power, sum = 0;
	__u32 halvings = 0;

	for (int bits = 0; bits < 20 && alpha < ONE; bits++) {
		alpha <<= 1;
		halvings++;
	}
	part = ((__u64)(alpha - ONE) << 32) / (alpha + ONE);
	power = part;
	for (int term = 1; term < 24; term += 2) {
		sum += power / term;
		power = scale(scale(power, part), part);
	}
	return (halvings * LN_2 - 2 * sum) >> 4;
}

/* alpha (out of 2^20, not 0) to the power of an urgency with 30 bits behind the point; out of 2^32. */
static inline_always __u64 power_of(__u32 alpha, __u32 urgency)
{
	__u64 exponent = minus_logarithm(alpha) * urgency >> 26;
	__u64 halvings = exponent / LN_2;

	return halvings > 31 ? 0 : exponential(exponent - halvings * LN_2) >> halvings;
}

/* The largest number whose square is not above `value`. */
static inline_always __u32 root(__u64 value)
{
	__u32 found = 0, tried;

	for (int bit = 31; bit >= 0; bit--) {
		tried = found | 1u << bit;
		if ((__u64)tried * tried <= value)
			found = tried;
	}
	return found;
}

#define URGENCY_ONE (1u << 30)
#define LEAST_URGENCY (URGENCY_ONE / 2)
#define MOST_URGENCY (URGENCY_ONE * 2)

/* What remains needs 4/3 of remaining / window round trips; the urgency is that time over the time that is left. */
static inline_always __u32 urgency_of(const struct cv_event *ack, __u32 window)
{
	__u64 needed, left, scaled;

	if (!ack->deadline || !ack->size_known)
		return URGENCY_ONE;
	if (ack->now >= ack->deadline)
		return LEAST_URGENCY;
	/* Below 2^62, which leaves a time of 2^39 ns: nine minutes. */
	needed = 4 * ack->remaining * (ack->round_trip < 1ull << 37 ? ack->round_trip : 1ull << 37);
	left = ack->deadline - ack->now;
	left = 3ull * window * (left < 1ull << 39 ? left : 1ull << 39);
	if (needed >= 2 * left)
		return MOST_URGENCY;
	if (2 * needed <= left)
		return LEAST_URGENCY;
	for (int bit = 0; bit < 32 && (needed | left) >> 32; bit++) {
		needed >>= 1;
		left >>= 1;
	}
	scaled = (needed << 30) / (left ? left : 1);
	return scaled < LEAST_URGENCY ? LEAST_URGENCY : at_most(scaled, MOST_URGENCY);
}

/* Half of the window by the marked share to the power of the urgency. The ends of the range, where it often is, are exact. */
static inline_always __u32 cut_by_urgency(__u32 window, __u32 alpha, __u32 urgency)
{
	if (!alpha)
		return 0;
	if (urgency == URGENCY_ONE || alpha == ONE)
		return (__u64)window * alpha / (2 * ONE);
	if (urgency == MOST_URGENCY)
		return (__u64)alpha * alpha * window >> 41;
	if (urgency == LEAST_URGENCY)
		return root((__u64)window * window * alpha >> 22);
	return window * power_of(alpha, urgency) >> 33;
}

/* By the share that what remains has of the largest flow; fractions of segments add up. */
static inline_always __u32 cut_by_size(struct cv_law *law, const struct cv_event *ack)
{
	__u32 largest = at_most(ack->largest, LARGEST_FLOW);
	__u32 remaining = ack->size_known ? at_most(ack->remaining, largest) : largest;
	__u64 cut = (__u64)law->window * law->alpha * remaining / (largest ? largest : 1) + law->left_over;

	law->left_over = cut % ONE;
	return cut / ONE;
}

static inline_always __u32 cut_of(struct cv_law *law, const struct cv_event *ack, int kind)
{
	if (kind == CV_D2TCP)
		return cut_by_urgency(law->window, law->alpha, urgency_of(ack, law->window));
	if (kind == CV_TAFE)
		return cut_by_size(law, ack);
	return (__u64)law->window * law->alpha / (2 * ONE);
}

static inline_always void law_loss(struct cv_law *law, const struct cv_event *ack)
{
	if (!is_before(ack->una, law->cut_end))
		cut_to(law, law->window / 2, ack->next);
}

static inline_always void law_timeout(struct cv_law *law)
{
	law->threshold = law->window / 2 < 2 ? 2 : law->window / 2;
	law->window = 1;
	law->credit = 0;
	law->recovering = 0;
}

static inline_always void law_acknowledge(struct cv_law *law, const struct cv_event *ack, int kind)
{
	__u32 cut;

	average(law, ack);
	if (is_before(ack->una, law->cut_end) || ack->recovering)
		return;
	if (ack->marked && ack->segments) {
		cut = cut_of(law, ack, kind);
		cut_to(law, cut < law->window ? law->window - cut : 0, ack->next);
	} else if (ack->limited) {
		grow(law, ack->segments);
	}
}

#define SECOND 1000000000ull
#define UNKNOWN (~0ull)
#define MOST_RATIO (1024ull * ONE)

/* Segments over nanoseconds: a rate in segments a second, times 2^16. */
static inline_always __u64 rate_of(__u64 segments, __u64 time)
{
	time = time ? time : 1;
	if (segments < 1 << 17)
		return (segments * SECOND << 16) / time;
	return (segments * SECOND << 10) / time << 6;
}

/* A rate for a part of a second (out of 2^32): segments times 2^20, and back. */
static inline_always __u64 in_time(__u64 rate, __u64 part)
{
	return scale(rate << 4, part);
}

static inline_always __u64 per_time(__u64 segments, __u64 part)
{
	return segments < 1ull << 35 ? (segments << 28) / part : (segments << 20) / part << 8;
}

static inline_always __u64 part_of_second(__u64 time)
{
	__u64 part = ((time < SECOND ? time : SECOND) << 32) / SECOND;

	return part ? part : 1;
}

static inline_always __u64 ratio(__u64 one, __u64 other)
{
	__u64 found = (one < 1ull << 43 ? one << 20 : ~0ull) / (other ? other : 1);

	return found < MOST_RATIO ? found : MOST_RATIO;
}

static inline_always __u64 time_left(const struct cv_event *ack)
{
	return ack->now < ack->deadline ? ack->deadline - ack->now : 0;
}

/* The rate that what remains needs, with the guard before the deadline. */
static inline_always __u64 needed_rate(const struct cv_event *ack)
{
	__u64 left = time_left(ack), needed;

	left = left > ack->guard ? left - ack->guard : 0;
	needed = rate_of(ack->remaining, left > ack->round_trip ? left : ack->round_trip);
	return needed < ack->capacity ? needed : ack->capacity;
}

static inline_always void pursuit_begin(struct cv_pursuit *pursuit, const struct cv_event *ack, __u32 window)
{
	__u64 needed = needed_rate(ack);
	__u64 enough = in_time(needed, part_of_second(ack->round_trip));

	pursuit->window = (__u64)window * ONE;
	pursuit->behind = UNKNOWN;
	pursuit->marked = 0;
	if (enough < pursuit->window) {
		pursuit->window = enough ? enough : 1;
		pursuit->behind = needed;
	}
}

/* Once for each window: the equations of cavalcade's own form, in segments of one round trip. `share` was marked. */
static inline_always void pursue(struct cv_pursuit *pursuit, const struct cv_event *ack, __u32 share)
{
	__u64 part = part_of_second(ack->round_trip), left = time_left(ack), needed = needed_rate(ack);
	__u64 window = pursuit->window, need = in_time(needed, part), capacity = in_time(ack->capacity, part);
	__u64 threshold = ack->threshold ? ack->threshold : 1, push, queue, price, marked, spare, least, most, change, behind;

	behind = pursuit->behind == UNKNOWN ? (need > window ? need - window : 0) : in_time(pursuit->behind, part);
	if (pursuit->behind == UNKNOWN)
		pursuit->behind = per_time(behind, part);
	if (!ack->remaining || left < ack->round_trip || rate_of(ack->remaining, left) > ack->capacity) {
		pursuit->window = ONE;
		return;
	}
	marked = scale(window << 12, share);
	/* What marks have grown by is taken from the link, but never more than seven eighths of it. */
	spare = capacity + pursuit->marked > marked ? capacity + pursuit->marked - marked : 0;
	spare = spare > capacity / 8 ? spare : capacity / 8;
	pursuit->marked = marked;
	push = ratio(behind, window) * ratio(need, window) / ONE;
	push = push < MOST_RATIO ? push : MOST_RATIO;
	queue = ONE + marked / threshold;
	price = ratio(capacity, spare) * ratio(capacity, spare) / ONE;
	least = need / 4 < ONE ? need / 4 : ONE;
	most = capacity + threshold * ONE;
	push /= 2;
	queue = queue * 2 / 5 + price / 10;
	if (push > queue) {
		change = scale(need << 12, push - queue);
		window += change < window ? change : window;
	} else {
		change = scale(need << 12, queue - push);
		window = change < window ? window - change : 0;
	}
	window = window < least ? least : window > most ? most : window;
	pursuit->window = window ? window : 1;
	behind = behind + need > window ? behind + need - window : 0;
	pursuit->behind = per_time(behind < capacity ? behind : capacity, part);
}

/* The window of a flow that is held to its rate, in whole segments; pacing does what it means by less. */
static inline_always void pursuit_acknowledge(struct cv_law *law, struct cv_pursuit *pursuit, const struct cv_event *ack)
{
	__u32 share;

	if (count_marks(law, ack, &share)) {
		law->delivered = law->marked = 0;
		pursue(pursuit, ack, share);
	}
	law->window = at_most((pursuit->window + ONE - 1) / ONE, LARGEST_WINDOW);
}

/* All of a control's answer to an acknowledgement. Returns whether the flow is held to its rate: losses are in what remains of it. */
static inline_always int law_control(struct cv_law *law, struct cv_pursuit *pursuit, const struct cv_event *ack, int kind)
{
	if (kind == CV_MCP && ack->deadline && ack->size_known) {
		if (!pursuit->window)
			pursuit_begin(pursuit, ack, law->window);
		pursuit_acknowledge(law, pursuit, ack);
		return 1;
	}
	law_acknowledge(law, ack, kind);
	if (ack->recovering && !law->recovering)
		law_loss(law, ack);
	law->recovering = ack->recovering;
	return 0;
}

#endif
