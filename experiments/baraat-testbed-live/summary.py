#!/usr/bin/env python3
"""Prints the tables of README.md from the runs of measure.sh: summary.py FOLDER"""

import glob
import json
import statistics
import sys


def of(pattern):
    return [json.load(open(path)) for path in sorted(glob.glob(f"{sys.argv[1]}/{pattern}.json"))]


def times(runs, name, what, figure="mean_s", carrier="process"):
    same = [run for document in runs for run in document["runs"] if run["name"] == name]
    return [run[what][figure] for run in same if run.get("carrier", "process") == carrier]


def spread(values, scale=1e3, digits=1):
    middle = statistics.median(values) * scale
    return f"{middle:,.{digits}f} ({min(values) * scale:,.{digits}f}–{max(values) * scale:,.{digits}f})"


def percent(ratio):
    return f"{100 * (ratio - 1):+.1f} %".replace("-", "−")


def share(ratio):
    return f"{100 * (1 - ratio):.1f} %".replace("-", "−")


def main():
    print("| n | | live ms, median of ten (least–most) | packets | off by | fluid | below RCP, live | packets | fluid |")
    print("|---|---|---|---|---|---|---|---|---|")
    for n in [1, 2, 4, 8]:
        runs = of(f"fig07-{n}-*")
        rcp = {what: statistics.median(times(runs, "rcp", what)) for what in ["measured", "packets", "fluid"]}
        for name in ["tcp", "rcp", "spc"]:
            live, packets, fluid = (times(runs, name, what) for what in ["measured", "packets", "fluid"])
            below = [share(statistics.median(times(runs, name, what)) / rcp[what]) for what in rcp]
            below = ["", "", ""] if name == "rcp" else below
            cells = [str(n), name, spread(live), f"{packets[0] * 1e3:,.1f}", percent(statistics.median(live) / packets[0])]
            print("| " + " | ".join(cells + [f"{fluid[0] * 1e3:,.1f}"] + below) + " |")
    for rate in ["50Mbps", "20Mbps"]:
        table3(of(f"table3-{rate}-*"))
    carriers()


def carriers():
    print()
    print("| | | packets | process, live ms (least–most) | off by | XDP, live ms (least–most) | off by |")
    print("|---|---|---|---|---|---|---|")
    rows = [(f"n = {n}", f"carriers-fig07-{n}-*", "mean_s") for n in [1, 2, 4, 8]]
    rows += [(f"Table 3, {figure[:-2]}", "carriers-table3-20Mbps-*", figure) for figure in ["mean_s", "p95_s", "p99_s"]]
    for title, pattern, figure in rows:
        runs = of(pattern)
        for name in ["tcp", "rcp", "spc"]:
            predicted = times(runs, name, "packets", figure)
            if not predicted:
                continue
            cells = [title, name, f"{predicted[0] * 1e3:,.1f}"]
            for carrier in ["process", "xdp"]:
                live = times(runs, name, "measured", figure, carrier)
                cells += [spread(live), percent(statistics.median(live) / predicted[0])] if live else ["–", "–"]
            print("| " + " | ".join(cells) + " |")


def table3(runs):
    print()
    print("| | | live ms | packets | off by | fluid | below RCP, live | packets | fluid |")
    print("|---|---|---|---|---|---|---|---|---|")
    for figure in ["mean_s", "p95_s", "p99_s"]:
        rcp = {what: statistics.median(times(runs, "rcp", what, figure)) for what in ["measured", "packets", "fluid"]}
        for name in [run["name"] for run in runs[0]["runs"]]:
            middle = {what: statistics.median(times(runs, name, what, figure)) for what in rcp}
            below = ["", "", ""] if name == "rcp" else [share(middle[what] / rcp[what]) for what in rcp]
            cells = [figure[:-2], name, f"{middle['measured'] * 1e3:,.1f}", f"{middle['packets'] * 1e3:,.1f}"]
            cells += [percent(middle["measured"] / middle["packets"]), f"{middle['fluid'] * 1e3:,.1f}"]
            print("| " + " | ".join(cells + below) + " |")


main()
