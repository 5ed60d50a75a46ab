"""Recipes: one study as an array of Slurm, a job of Kubernetes, or on Dask or Ray in Kubernetes.

    python -m cavalcade.recipes kubernetes study.py --parts 500 --image registry.example/study:1 > study.yaml

A study is a script that calls :func:`cavalcade.sweep` and says neither where nor which part: a recipe sets ``CAVALCADE_PART`` or
``CAVALCADE_ON``, which ``sweep`` reads where it is not told, so the same script runs on a laptop. Whatever is killed and started
again runs what is missing.

All recipes are made of one: a command and what it needs. Those of Kubernetes have kinds that every cluster knows, and no operator has
to be there.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from string import Template
from typing import Any

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,50}[a-z0-9])?")
_TIME = re.compile(r"(\d+-)?\d{1,2}:\d{2}:\d{2}")
_MEMORY = re.compile(r"(\d+)(Mi|Gi)")


@dataclass(frozen=True)
class Recipe:
    """A study, in how many parts or on how many workers, and what each of them needs."""

    # The script, as its path is where it runs.
    study: str
    # Parts of an array, or workers of a cluster.
    parts: int = 100
    # What objects are called.
    name: str = "study"
    # The image of containers: Python with cavalcade and the study in it.
    image: str | None = None
    # Cores of each part or worker: so many runs at a time.
    cores: int = 1
    # As Kubernetes writes it.
    memory: str = "2Gi"
    # The longest time of a part, as Slurm writes it.
    time: str = "4:00:00"

    def __post_init__(self) -> None:
        for given, value, expected in [
            ("parts", self.parts, "at least 1" if self.parts < 1 else None),
            ("cores", self.cores, "at least 1" if self.cores < 1 else None),
            ("name", self.name, None if _NAME.fullmatch(self.name) else "small letters, digits and dashes, a letter first"),
            ("memory", self.memory, None if _MEMORY.fullmatch(self.memory) else "a size such as 2Gi or 512Mi"),
            ("time", self.time, None if _TIME.fullmatch(self.time) else "hours, minutes and seconds, such as 4:00:00"),
            ("study", self.study, "the path of a script" if not self.study or "\n" in self.study else None),
        ]:
            if expected is not None:
                raise ValueError(f"{given} {value}: expected {expected}")

    def slurm(self) -> str:
        """Returns a batch script: ``sbatch study.sh``."""
        amount, unit = _MEMORY.fullmatch(self.memory).groups()  # type: ignore[union-attr]
        return _SLURM.substitute(
            name=self.name,
            last=self.parts - 1,
            parts=self.parts,
            cores=self.cores,
            memory=f"{amount}{unit[0]}",
            time=self.time,
            study=shlex.quote(self.study),
            on=_processes(self.cores),
        )

    def kubernetes(self) -> str:
        """Returns an indexed job of so many parts: ``kubectl apply -f study.yaml``."""
        run = f'CAVALCADE_PART="$JOB_COMPLETION_INDEX/{self.parts}" {_processes(self.cores)}exec python {self._script}'
        return _yaml(self._job(run, completions=self.parts, completionMode="Indexed", backoffLimitPerIndex=3))

    def dask(self) -> str:
        """Returns a scheduler, workers, and the study as their client."""
        scheduler = self._role("scheduler")
        run = f"CAVALCADE_ON=dask://{scheduler}:8786 exec python {self._script}"
        worker = f"exec dask worker tcp://{scheduler}:8786 --nworkers {self.cores} --nthreads 1"
        return _yaml(
            self._service("scheduler", 8786),
            self._deployment("scheduler", "exec dask scheduler --port 8786", 1, cores=1),
            self._deployment("worker", worker, self.parts, cores=self.cores),
            self._job(run, backoffLimit=3),
        )

    def ray(self) -> str:
        """Returns a head, workers, and the study as a node without cores of its own."""
        head = self._role("head")
        join = f"ray start --address={head}:6379"
        run = f"{join} --num-cpus=0 && CAVALCADE_ON=ray RAY_ADDRESS={head}:6379 exec python {self._script}"
        start = "exec ray start --head --port=6379 --num-cpus=0 --include-dashboard=false --block"
        objects = [
            self._service("head", 6379),
            self._deployment("head", start, 1, cores=1),
            self._deployment("worker", f"exec {join} --num-cpus={self.cores} --block", self.parts, cores=self.cores),
            self._job(run, backoffLimit=3),
        ]
        # Nodes of Ray take no others in without a token that they share.
        secret = self._role("token")
        token = {"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": {"name": secret, "key": "token"}}}
        for one in objects[1:]:
            container = one["spec"]["template"]["spec"]["containers"][0]
            container["env"] = [{"name": "RAY_AUTH_MODE", "value": "token"}, token]
        first = f"# First: kubectl create secret generic {secret} --from-literal=token=$(openssl rand -hex 24)\n"
        return first + _yaml(*objects)

    @property
    def _script(self) -> str:
        return shlex.quote(self.study)

    def _role(self, role: str) -> str:
        return f"{self.name}-{role}"

    def _pod(self, command: str, role: str, cores: int, restart: str) -> dict[str, Any]:
        if self.image is None:
            raise ValueError("image: expected an image with Python, cavalcade and the study in it")
        needs = {"cpu": str(cores), "memory": self.memory}
        container = {
            "name": role,
            "image": self.image,
            "command": ["sh", "-c", command],
            # Memory has a limit, or one part could end its neighbours; cores have none, which only slows down.
            "resources": {"requests": needs, "limits": {"memory": self.memory}},
        }
        labels = {"app": self.name, "role": role}
        return {"metadata": {"labels": labels}, "spec": {"restartPolicy": restart, "containers": [container]}}

    def _job(self, command: str, **settings: Any) -> dict[str, Any]:
        pod = self._pod(command, "study", self.cores if "completions" in settings else 1, "Never")
        spec = {**settings, "template": pod}
        if "completions" in settings:
            spec["parallelism"] = self.parts
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": self.name}, "spec": spec}

    def _deployment(self, role: str, command: str, replicas: int, cores: int) -> dict[str, Any]:
        pod = self._pod(command, role, cores, "Always")
        spec = {"replicas": replicas, "selector": {"matchLabels": pod["metadata"]["labels"]}, "template": pod}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": self._role(role)}, "spec": spec}

    def _service(self, role: str, port: int) -> dict[str, Any]:
        # Without an address of its own: peers of Ray talk over more ports than one.
        spec = {"clusterIP": "None", "selector": {"app": self.name, "role": role}, "ports": [{"port": port}]}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": self._role(role)}, "spec": spec}


_SLURM = Template("""\
#!/bin/sh
#SBATCH --job-name=$name
#SBATCH --array=0-$last
#SBATCH --cpus-per-task=$cores
#SBATCH --mem=$memory
#SBATCH --time=$time
#SBATCH --requeue
export CAVALCADE_PART="$$SLURM_ARRAY_TASK_ID/$parts"
${on}exec python $study
""")


def _processes(cores: int) -> str:
    """What has one part use all of its cores; with one core it runs in its own process."""
    return "" if cores == 1 else f"CAVALCADE_ON={cores} "


def _yaml(*objects: dict[str, Any]) -> str:
    """Objects as documents of YAML: mappings and lists in blocks, texts quoted as JSON, which YAML reads alike."""

    def lines(value: Any, indent: str) -> list[str]:
        if isinstance(value, dict):
            return [line for key, inner in value.items() for line in entry(f"{indent}{key}:", inner, indent + "  ")]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            items = [lines(item, indent + "  ") for item in value]
            return [line if at else f"{indent}- {line.lstrip()}" for item in items for at, line in enumerate(item)]
        raise TypeError(f"{value!r} has no block")

    def entry(key: str, inner: Any, indent: str) -> list[str]:
        is_block = isinstance(inner, dict) or (isinstance(inner, list) and inner and isinstance(inner[0], dict))
        return [key, *lines(inner, indent)] if is_block else [f"{key} {json.dumps(inner)}"]

    return "---\n".join("\n".join(lines(one, "")) + "\n" for one in objects)


KINDS = {"slurm": Recipe.slurm, "kubernetes": Recipe.kubernetes, "dask": Recipe.dask, "ray": Recipe.ray}


def main(words: Sequence[str] | None = None) -> int:
    """Prints a recipe; the command ``python -m cavalcade.recipes``."""
    parser = argparse.ArgumentParser(prog="python -m cavalcade.recipes", description="A study for a cluster.")
    parser.add_argument("kind", choices=sorted(KINDS), help="where it runs")
    parser.add_argument("study", help="the script, as its path is where it runs")
    parser.add_argument("--parts", type=int, default=Recipe.parts, help="parts of an array, or workers (default: %(default)s)")
    parser.add_argument("--name", help="what objects are called (default: the script's name)")
    parser.add_argument("--image", help="the image of containers: Python with cavalcade and the study in it")
    parser.add_argument("--cores", type=int, default=Recipe.cores, help="of each part or worker (default: %(default)s)")
    parser.add_argument("--memory", default=Recipe.memory, help="of each part or worker (default: %(default)s)")
    parser.add_argument("--time", default=Recipe.time, help="the longest of a part, for Slurm (default: %(default)s)")
    asked = parser.parse_args(words)
    stem = re.sub(r"[^a-z0-9]+", "-", PurePosixPath(asked.study).stem.lower()).strip("-")
    name = asked.name or (stem if _NAME.fullmatch(stem) else Recipe.name)
    try:
        recipe = Recipe(asked.study, asked.parts, name, asked.image, asked.cores, asked.memory, asked.time)
        sys.stdout.write(KINDS[asked.kind](recipe))
    except ValueError as error:
        parser.error(f"--{error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
