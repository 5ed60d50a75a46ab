"""A synthetic day of 1,000 training jobs on the hosts of a list such as Lingjun's topo.csv, as a jobs file.

    python examples/training_day.py topo.csv [seed] > day.toml
    cavalcade train compare day.toml --policies fair,crux

The list names hosts with their switches: a header, then `ip,DSW,PSW,ASW`. Only the hosts and their neighbourhood are from it. Jobs
are drawn: sizes, placements, computation, bytes, arrivals and iterations. Nothing of it is a measured mix, and no figure of it says
what jobs of a real cluster do. Each GPU has one job at most in the whole day. GPUs are given out in order of arrival, so that jobs of
one time share network cards and links between leaves.
"""

from __future__ import annotations

import csv
import random
import sys

GPUS = 8
HOURS = 24
# How many jobs have so many hosts and, on each of them, so many GPUs.
SHAPES = [(340, 2, 1), (310, 2, 2), (270, 2, 4), (50, 4, 4), (22, 4, 8), (8, 8, 8)]
# Hosts in reach of a small job: its own leaf and one next to it.
REACH = 16


def placed(free: list[set[int]], hosts: int, gpus: int, draw: random.Random) -> tuple[list[int], int]:
    """The first hosts near each other on which the same GPUs are free, and the first of these GPUs."""
    for begin in range(len(free)):
        near = range(begin, min(begin + REACH, len(free)))
        firsts = list(range(0, GPUS, gpus))
        draw.shuffle(firsts)
        for first in firsts:
            wanted = set(range(first, first + gpus))
            fit = [host for host in near if wanted <= free[host]]
            if len(fit) >= hosts:
                chosen = sorted(draw.sample(fit, hosts))
                for host in chosen:
                    free[host] -= wanted
                return chosen, first
    sys.exit("the hosts are too few for the jobs")


def main() -> None:
    with open(sys.argv[1], newline="", encoding="utf-8") as listed:
        rows = sorted(csv.DictReader(listed), key=lambda row: (row["DSW"], row["PSW"], row["ASW"]))
    draw = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print(f'[cluster]\nhosts = {len(rows)}\ngpus = {GPUS}\nnics = 4\nnic = "200Gbps"\nscale_up = "2400Gbps"')
    print('leaf_hosts = 8\nspines = 4\noversubscription = "2"\nby_rail = false')
    free = [set(range(GPUS)) for _ in rows]
    shapes = [(hosts, gpus) for count, hosts, gpus in SHAPES for _ in range(count)]
    draw.shuffle(shapes)
    arrivals = sorted(draw.randrange(HOURS * 3600 * 1000) for _ in shapes)
    for number, (arrival, (hosts, gpus)) in enumerate(zip(arrivals, shapes, strict=True)):
        chosen, first = placed(free, hosts, gpus, draw)
        # Seconds of computation in an iteration, and of what it exchanges then at the rate of a network card.
        compute = draw.uniform(6, 40)
        exchange = compute * draw.uniform(0.1, 0.5)
        # From ten minutes to eight hours, short jobs as often as twice as long ones.
        lasts = 600 * 48 ** draw.random()
        kind = draw.choice(["all_reduce", "all_reduce", "all_reduce", "all_to_all"])
        print(f'[[job]]\nname = "job-{number}"\narrival = "{arrival}ms"')
        print(f"iterations = {1 + int(lasts / (compute + exchange))}")
        print(f'hosts = "{",".join(map(str, chosen))}"\ngpus = "{first}-{first + gpus - 1}"')
        print(f'step = [{{ compute = "{compute * 1e3:.0f}ms", collective = "{kind}", bytes = "{exchange * 25e9:.0f}B" }}]')


if __name__ == "__main__":
    main()
