#!/usr/bin/env python3
"""Prints the tables of README.md from the runs of measure.sh: summary.py FOLDER"""

import json
import os
import statistics
import sys

FIGURES = {"mean": "mean_s", "p95": "p95_s", "p99": "p99_s"}


def runs_of(*names):
    """The runs in files, by policy and carrier."""
    paths = [os.path.join(sys.argv[1], f"{name}.json") for name in names]
    runs = [run for path in paths for run in json.load(open(path))["runs"]]
    return {(run["name"], run["carrier"]): run for run in runs}


def spread(values):
    low, high = min(values) * 1e3, max(values) * 1e3
    middle = f"{statistics.median(values) * 1e3:,.1f}"
    return f"{middle} ({low:,.1f}–{high:,.1f})" if len(values) > 1 else middle


def signed(text):
    return text.replace("-", "−")


def table(rows):
    print()
    print("| | | packets, ms | fluid | process, live (least–most) | off by | XDP, live | off by | below RCP, live | packets | fluid |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for title, runs, figure in rows:
        def live(name, carrier):
            run = runs.get((name, carrier))
            return run and [repeat[figure] for repeat in run["repeats"]]

        for name in ["tcp", "rcp", "spc"]:
            if (name, "process") not in runs:
                continue
            own, rcp = runs[name, "process"], runs["rcp", "process"]
            predicted = own["packets"][figure]
            cells = [title, name, f"{predicted * 1e3:,.1f}", f"{own['fluid'][figure] * 1e3:,.1f}"]
            for carrier in ["process", "xdp"]:
                times = live(name, carrier)
                off = times and 100 * (statistics.median(times) / predicted - 1)
                cells += [spread(times), signed(f"{off:+.1f} %")] if times else ["–", "–"]
            medians = [statistics.median(live(of, "process")) for of in [name, "rcp"]]
            pairs = [medians, *([run[what][figure] for run in [own, rcp]] for what in ["packets", "fluid"])]
            cells += ["", "", ""] if name == "rcp" else [signed(f"{100 * (1 - one / other):.1f} %") for one, other in pairs]
            print("| " + " | ".join(cells) + " |")


def policies(name, engine, title):
    print()
    print(f"| | fluid, ms | {title} | live (least–most) | off by |")
    print("|---|---|---|---|---|")
    for (policy, _), run in runs_of(name).items():
        predicted = (run[engine] or run["fluid"])["mean_s"]
        times = [repeat["mean_s"] for repeat in run["repeats"]]
        off = signed(f"{100 * (statistics.median(times) / predicted - 1):+.1f} %")
        of_engine = f"{predicted * 1e3:,.1f}" if run[engine] else "–"
        print(f"| {policy} | {run['fluid']['mean_s'] * 1e3:,.1f} | {of_engine} | {spread(times)} | {off} |")


table([(f"n = {n}", runs_of(f"fig07-{n}"), "mean_s") for n in [1, 2, 4, 8]])
table([(title, runs_of("table3-tcp", "table3"), figure) for title, figure in FIGURES.items()])
table([(title, runs_of("table3-50Mbps"), figure) for title, figure in FIGURES.items()])
policies("policies", "with_control", "with Δ")
policies("policies-bridge", "packets", "packets")
