"""An application of two parts for `cargo xtask spark`: job.py NAME=VALUE…, which are Spark's properties.

Each part runs when a line comes in, and prints `rows DIGEST`, of its rows in order.
"""

import hashlib
import signal
import sys

from pyspark.sql import SparkSession

ROWS = 30_000
# Nothing here takes minutes: what hangs ends.
PATIENCE_S = 280


def table(spark, shift):
    digest = f"sha2(cast(id + {shift} as string), 256)"
    return spark.range(0, ROWS, 1, 2).selectExpr("id % 300 AS key", f"{digest} AS payload{shift}")


def part(spark, name):
    """A join, which reads two shuffles at once, and what reads its result."""
    spark.sparkContext.setJobDescription(name)
    joined = table(spark, 0).groupBy("key").agg({"payload0": "max", "*": "count"})
    joined = joined.join(table(spark, 7).groupBy("key").agg({"payload7": "min"}), "key")
    rows = joined.repartition(2, "`max(payload0)`").sortWithinPartitions("key").collect()
    payloads = table(spark, 3).repartition(2, "payload3").groupBy("payload3").count().collect()
    text = "\n".join(sorted(map(repr, rows + payloads)))
    return hashlib.sha256(text.encode()).hexdigest()


def main():
    signal.alarm(PATIENCE_S)
    builder = SparkSession.builder.appName("xtask")
    for argument in sys.argv[1:]:
        builder = builder.config(*argument.split("=", 1))
    spark = builder.getOrCreate()
    print("ready", flush=True)
    for line in sys.stdin:
        print("rows", part(spark, line.strip()), flush=True)
    spark.stop()


main()
