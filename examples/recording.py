"""Writes recording.json: what torch.profiler says of one GPU that stands for 64, made up and small.

Two steps of six layers under FSDP over PyTorch's fake process group, in the form that `torch.profiler` exports: what the host calls
and launches, and what runs on the GPU. A real one is made by the code in training.ipynb and has a hundred thousand events.
"""

from __future__ import annotations

import json

LAYERS, RANKS = 6, 64
PARAMETERS = 100_000_000  # of a layer
FORWARD, BACKWARD = (2_100, 1_700), (3_900, 3_500)  # kernels of a layer, in microseconds

events: list[dict[str, object]] = []
host = 1_000  # the host's clock
gpu = 1_000  # when the GPU is free


def on_host(category: str, name: str, begin: int, lasts: int, **args: object) -> None:
    events.append(
        {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": begin, "dur": lasts, "args": args}
    )


def launch(name: str, lasts: int) -> None:
    """Launches a kernel, which begins when the GPU is free."""
    global host, gpu
    number = len(events)
    on_host("cuda_runtime", "cudaLaunchKernel", host, 5, correlation=number)
    begin = max(gpu, host + 10)
    gpu = begin + lasts
    args = {"stream": 7, "correlation": number}
    events.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": begin, "dur": lasts, "args": args})
    host += 20


def called(name: str, output: int, given: int, dtype: str) -> None:
    """Calls a collective, in which nothing moves."""
    global host
    about = {"Input Dims": [[output], [given], [], []], "Input type": [dtype, dtype, "", ""]}
    on_host("cpu_op", name, host, 40, **about, **{"Concrete Inputs": ["", "", "", "False", "-1"]})
    host += 50


def gather(layer: int) -> None:
    on_host("user_annotation", f"FSDP::all_gather (layers.{layer})", host, 60)
    called("c10d::_allgather_base_", PARAMETERS, PARAMETERS // RANKS, "c10::BFloat16")


def copy_out(layer: int) -> None:
    global host
    on_host("user_annotation", f"FSDP::all_gather_copy_out (layers.{layer})", host, 30)
    launch("split_with_sizes_copy", 60)


def step() -> None:
    global host
    gather(0)
    for layer in range(LAYERS):
        copy_out(layer)
        if layer + 1 < LAYERS:
            gather(layer + 1)
        for lasts in FORWARD:
            launch("forward", lasts)
    gather(LAYERS - 1)
    for layer in reversed(range(LAYERS)):
        copy_out(layer)
        if layer > 0:
            gather(layer - 1)
        for lasts in BACKWARD:
            launch("backward", lasts)
        on_host("user_annotation", f"FSDP::post_backward_reduce (layers.{layer})", host, 80)
        launch("chunk_cat", 90)
        called("c10d::_reduce_scatter_base_", PARAMETERS // RANKS, PARAMETERS, "float")
    on_host("user_annotation", "Optimizer.step#AdamW.step", host, 500)
    launch("fused_adamw", 900)
    host = gpu + 700  # reads the loss, and prepares the next batch


step()
step()
group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": RANKS, "ranks": list(range(RANKS))}
about = {"backend": "fake", "rank": 0, "world_size": RANKS, "pg_count": 1, "pg_config": [group]}
with open("recording.json", "w") as file:
    file.write('{"schemaVersion": 1, "distributedInfo": ' + json.dumps(about) + ',\n"traceEvents": [\n')
    file.write(",\n".join(json.dumps(event) for event in events))
    file.write("\n]}\n")
