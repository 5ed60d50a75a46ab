#!/usr/bin/env python3
"""Runs the same flows in Cavalcade's packet engine and in ns-3, and compares their completion times (docs/peers.md).

    apt-get install g++ pkg-config libns3-dev libgsl-dev
    cargo build --release
    python3 docs/peers/compare.py [SCENARIO ...]

Without a scenario, all of them are run, which takes ns-3 most of an hour. Each table row is also the program that made it:
nothing is kept but what is printed.
"""
import csv
import math
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CAVALCADE = HERE.parents[1] / "target/release/cavalcade"
PAYLOAD = 1460
# PPP's two bytes of ns-3 are in the headers of both.
WIRE = ["--mtu", "1502B", "--headers", "42B", "--rate", "10Gbps"]
# The first start: ns-3's queues take a packet at time 0 for one after a long pause.
START = 1_000_000
LEAF_SPINE = ("leafspine:9,4,16", "leafspine:leaves=9,spines=4,hosts=16")


def alone():
    """Flows of 1 to 10,000 packets, each between two hosts of its own."""
    sizes = [1, 2, 10, 11, 20, 50, 100, 200, 1000, 10_000]
    return [(2 * n, 2 * n + 1, packets, 0) for n, packets in enumerate(sizes)]


def permutation(packets):
    """Each of 32 hosts sends to the next, 1 µs apart."""
    return [(host, (host + 1) % 32, packets, 1000 * host) for host in range(32)]


def web_search(seed, flows=2000, load=0.6, hosts=144):
    """Poisson flows of the web-search sizes between random hosts, with Python's own random numbers."""
    cdf = [(6, 0), (6, .15), (13, .2), (19, .3), (33, .4), (53, .53), (133, .6), (667, .7), (1333, .8), (3333, .9),
           (6667, .97), (20000, 1)]
    steps = list(zip(cdf, cdf[1:]))
    mean = sum((high[0] + low[0]) / 2 * (high[1] - low[1]) for low, high in steps)
    draw, time, list_ = random.Random(seed), 0, []
    for _ in range(flows):
        time += draw.expovariate(load * hosts * 10e9 / (8 * 1500 * mean))
        src, dst, share = draw.randrange(hosts), draw.randrange(hosts - 1), draw.random()
        low, high = next(step for step in steps if share <= step[1][1])
        packets = low[0] + (high[0] - low[0]) * (share - low[1]) / (high[1] - low[1])
        list_.append((src, dst + (dst >= src), max(1, int(packets + .5)), int(time * 1e9)))
    return list_


def mix(value):
    """SplitMix64's output function, as in crates/base/model/src/random.rs."""
    value = (value + 0x9E3779B97F4A7C15) % 2**64
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    return value ^ value >> 31


def spine_of(src, dst):
    """The spine that Cavalcade's ECMP picks, as in crates/base/model/src/fabric/route.rs."""
    return max(range(4), key=lambda spine: mix(mix(src << 32 | dst) ^ spine))


def other_spine(src, dst):
    """A placement that has nothing to do with Cavalcade's."""
    return dst % 4


def star(hosts):
    return (f"star:{hosts}", f"bigswitch:ports={hosts}")


def none(_src, _dst):
    return 0


# Name: (networks, flows, placement in ns-3, what else ns-3 is told).
SCENARIOS = {
    "alone": (star(20), alone(), none, []),
    "into one": (star(32), [(n, 31, 500, 1000 * n) for n in range(31)], none, []),
    "out of one": (star(10), [(0, n + 1, 500, 1000 * n) for n in range(8)], none, []),
    "out of one, in turns": (star(10), [(0, n + 1, 500, 1000 * n) for n in range(8)], none, ["in-turns"]),
    "perm32": (star(32), permutation(34_247), none, []),
    "perm32, in turns": (star(32), permutation(34_247), none, ["in-turns"]),
    "one switch": (star(144), web_search(7), none, []),
    "ls144": (LEAF_SPINE, web_search(7), spine_of, []),
    "ls144, other spines": (LEAF_SPINE, web_search(7), other_spine, []),
    "ls144, in turns": (LEAF_SPINE, web_search(7), spine_of, ["in-turns"]),
    "ls144, in turns, seed 8": (LEAF_SPINE, web_search(8), spine_of, ["in-turns"]),
}


def run_cavalcade(fabric, flows, folder):
    """Returns the completion time of each flow in nanoseconds."""
    trace = folder / "flows.txt"
    trace.write_text("".join(f"{n} {s} {d} {p * PAYLOAD} {START + t}\n" for n, (s, d, p, t) in enumerate(flows)))
    command = [CAVALCADE, "simulate", trace, "--format", "flows", "--policy", "fair", "--engine", "packet"]
    command += ["--transport", "dctcp", "--fabric", fabric, *WIRE, "--out", folder / "run"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(folder / "run/coflows.csv") as rows:
        return {int(row["name"]): int(row["cct_ns"]) for row in csv.DictReader(rows)}


def run_ns3(program, fabric, flows, place, told, folder):
    """Returns the same, from the end of the handshake, which Cavalcade's DCTCP has not."""
    trace = folder / "placed.txt"
    lines = (f"{n} {s} {d} {p * PAYLOAD} {START + t} {place(s, d)}\n" for n, (s, d, p, t) in enumerate(flows))
    trace.write_text("".join(lines))
    out = subprocess.run([program, fabric, trace, *told], check=True, capture_output=True, text=True).stdout
    lines = (map(int, line.split()) for line in out.splitlines())
    return {flow: completed - established for flow, established, completed in lines}


def row(name, ours, ns3):
    """A line of the table: means, and the geometric mean of the flows' ratios."""
    assert ours.keys() == ns3.keys(), f"{name}: {len(ns3)} of {len(ours)} flows ended in ns-3"
    means = [sum(times.values()) / len(times) / 1e6 for times in (ours, ns3)]
    tails = [sorted(times.values())[int(len(times) * .95)] / 1e6 for times in (ours, ns3)]
    each = math.exp(sum(math.log(ns3[flow] / ours[flow]) for flow in ours) / len(ours))
    return (f"| {name} | {means[0]:.3f} | {means[1]:.3f} | {means[1] / means[0] - 1:+.1%} | "
            f"{tails[0]:.2f} | {tails[1]:.2f} | {each - 1:+.1%} |")


def main():
    names = sys.argv[1:] or list(SCENARIOS)
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        sys.exit(f"no scenario {', '.join(unknown)}: there are {'; '.join(SCENARIOS)}")
    if not CAVALCADE.exists():
        sys.exit(f"no {CAVALCADE}: build it with cargo build --release")
    modules = [f"ns3-{module}" for module in ("core", "internet", "network", "point-to-point", "traffic-control")]
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", *modules], check=True, capture_output=True, text=True)
        program = place / "ns3"
        subprocess.run(["g++", "-std=c++17", "-O2", HERE / "ns3.cc", "-o", program, *flags.stdout.split()], check=True)
        print("| scenario | ours, mean ms | ns-3 | difference | ours, p95 ms | ns-3 | flow by flow |\n|---|---|---|---|---|---|---|")
        for number, name in enumerate(names):
            folder = place / str(number)
            folder.mkdir()
            (peer, fabric), flows, placement, told = SCENARIOS[name]
            ours = run_cavalcade(fabric, flows, folder)
            print(row(name, ours, run_ns3(program, peer, flows, placement, told, folder)), flush=True)


main()
