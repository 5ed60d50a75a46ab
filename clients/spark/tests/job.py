"""An application for `cargo xtask spark`: job.py NAME=VALUE…, which are Spark's properties.

A line that comes in is the name of a part, which runs and prints `rows DIGEST`, of its rows in order. `wide…` has one shuffle of 15 MB,
any other several small ones. The line `executors` prints their processes.
"""

import hashlib
import pathlib
import signal
import sys

from pyspark.sql import SparkSession

ROWS = 30_000
WIDE_ROWS = 200_000
# Nothing here takes minutes: what hangs ends.
PATIENCE_S = 280


def table(spark, shift, rows=ROWS, tasks=2):
    digest = f"sha2(cast(id + {shift} as string), 256)"
    return spark.range(0, rows, 1, tasks).selectExpr("id % 300 AS key", f"{digest} AS payload{shift}")


def small(spark):
    """A join, which reads two shuffles at once, and what reads its result."""
    joined = table(spark, 0).groupBy("key").agg({"payload0": "max", "*": "count"})
    joined = joined.join(table(spark, 7).groupBy("key").agg({"payload7": "min"}), "key")
    rows = joined.repartition(2, "`max(payload0)`").sortWithinPartitions("key").collect()
    return rows + table(spark, 3).repartition(2, "payload3").groupBy("payload3").count().collect()


def wide(spark):
    """All of a table goes to other tasks, whose result is small."""
    moved = table(spark, 5, WIDE_ROWS, 4).repartition(4, "payload5")
    return moved.groupBy("key").agg({"payload5": "max", "*": "count"}).collect()


def rows(spark, name):
    spark.sparkContext.setJobDescription(name)
    text = "\n".join(sorted(map(repr, wide(spark) if name.startswith("wide") else small(spark))))
    return hashlib.sha256(text.encode()).hexdigest()


def executors():
    """The processes of executors whose parent is this application's driver."""
    driver = SparkSession.getActiveSession().sparkContext._gateway.proc.pid
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            is_executor = "CoarseGrainedExecutorBackend" in (process / "cmdline").read_text()
        except OSError:
            continue
        if is_executor and int(parent) == driver:
            yield process.name


def main():
    signal.alarm(PATIENCE_S)
    builder = SparkSession.builder.appName("xtask")
    for argument in sys.argv[1:]:
        builder = builder.config(*argument.split("=", 1))
    spark = builder.getOrCreate()
    print("ready", flush=True)
    for line in sys.stdin:
        name = line.strip()
        print(*(["executors", *executors()] if name == "executors" else ["rows", rows(spark, name)]), flush=True)
    spark.stop()


main()
