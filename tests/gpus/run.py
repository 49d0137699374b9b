#!/usr/bin/env python3
"""Everything that needs real cards, in one command: `tests/gpus/run.py --out results`.

Builds with cargo, or takes built programs with `--programs DIR` (gpus, scaling, devices), for machines without Rust. Writes
results.json with each part's outcome, beside the benchmarks' own JSON and plots. Parts that no time is left for are said so.
"""

import argparse
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ASK_DRIVER = """
import ctypes, json
cuda = ctypes.CDLL("libcuda.so.1")
code = cuda.cuInit(0)
found, count = [], ctypes.c_int(0)
if code == 0:
    cuda.cuDeviceGetCount(ctypes.byref(count))
    for index in range(count.value):
        device, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        cuda.cuDeviceGet(ctypes.byref(device), index)
        cuda.cuDeviceGetUuid_v2(uuid, device)
        text = bytes(uuid).hex()
        found.append("GPU-" + "-".join([text[:8], text[8:12], text[12:16], text[16:20], text[20:]]))
print(json.dumps({"code": code, "uuids": found}))
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, help="folder with gpus, scaling and devices")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-results"))
    parser.add_argument("--seconds", type=float, default=570, help="time for all parts together")
    parser.add_argument("--parts", default="visibility,tests,scaling", help="which parts to run, in order")
    parser.add_argument("--models", default="conv,tiny,transformer,mlp", help="models of the scaling benchmark, in order")
    return parser.parse_args()


def build():
    """Build the three programs, and say where they are."""
    programs = {}
    command = ["cargo", "build", "--release", "--features", "cuda,train", "--message-format", "json"]
    targets = ["--test", "gpus", "--bench", "scaling", "--example", "devices"]
    output = subprocess.run(command + targets, stdout=subprocess.PIPE, check=True, text=True).stdout
    for line in output.splitlines():
        message = json.loads(line)
        if message.get("executable"):
            programs[message["target"]["name"]] = message["executable"]
    return programs


class Run:
    def __init__(self, args, programs):
        self.args, self.programs = args, programs
        self.deadline = time.monotonic() + args.seconds
        self.results = []

    def program(self, name, *args, part, seconds, env=None):
        """Run one program to its end or its time limit, and note how it went."""
        limit = min(seconds, self.deadline - time.monotonic())
        if limit < 5:
            self.note(part, "left out: no time")
            return
        started = time.monotonic()
        command = [self.programs[name], *map(str, args)]
        try:
            done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit)
            code, text = done.returncode, done.stdout
        except subprocess.TimeoutExpired as error:
            code, text = "time limit", (error.stdout or b"").decode(errors="replace")
        self.note(part, "ok" if code == 0 else f"failed: {code}", seconds=time.monotonic() - started, text=text)

    def note(self, part, outcome, **more):
        print(f"== {part}: {outcome} {more.get('seconds', 0):.0f} s", flush=True)
        if more.get("text"):
            print(more["text"][-3000:], flush=True)
        self.results.append({"part": part, "outcome": outcome, **more})
        (self.args.out / "results.json").write_text(json.dumps(self.results, indent=1))


def cards():
    """UUIDs of all cards, in the order of their numbers."""
    clean = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
    clean["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    done = subprocess.run([sys.executable, "-c", ASK_DRIVER], env=clean, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["uuids"]


def masks(uuids):
    """Values of CUDA_VISIBLE_DEVICES: every order of some cards, and what people mistype."""
    count = len(uuids)
    numbers = list(map(str, range(count)))
    some = numbers[: min(count, 3)]
    yield from (",".join(order) for length in range(1, len(some) + 1) for order in itertools.permutations(some, length))
    yield from ("", "-1", "all", "none", ",", "0,", ",0", "0,0", f"0,{count}", f"{count},0", " 0", "0 ", "0, 0", "+0", "-0", "00", "0x0")
    yield from ("0gpu", "0.0", '"0"', "0;1", "0-1", "4294967296", "4294967297", "NoDevFiles", "GPU-", "GPU-ffffffff")
    for uuid in uuids[:2]:
        yield from (uuid, uuid[:12], uuid.upper(), uuid + "," + uuid, "0," + uuid, uuid + ",0", uuid.replace("GPU-", ""))


def visibility(run):
    """The driver's answer and ours, mask by mask, each from a process of its own."""
    if "devices" not in run.programs:
        return run.note("visibility", "left out: no program")
    rows = []
    for mask in dict.fromkeys(masks(cards())):
        env = {**os.environ, "CUDA_VISIBLE_DEVICES": mask, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        driver = subprocess.run([sys.executable, "-c", ASK_DRIVER], env=env, stdout=subprocess.PIPE, check=True)
        ours = subprocess.run([run.programs["devices"], "--json"], env=env, stdout=subprocess.PIPE, check=True)
        driver, ours = json.loads(driver.stdout), json.loads(ours.stdout)
        found = [device["uuid"] for device in ours["visible"]]
        same = [uuid.lower() for uuid in found] == [uuid.lower() for uuid in driver["uuids"]]
        rows.append({"mask": mask, "driver": driver, "ours": found, "same": same})
    wrong = [row for row in rows if not row["same"]]
    run.note("visibility", "ok" if not wrong else "failed", masks=len(rows), wrong=wrong, rows=rows)


def without_nccl():
    """The environment with every folder of libnccl off the library path."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    kept = [folder for folder in folders if not list(pathlib.Path(folder or ".").glob("libnccl.so*"))]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(kept)}


def tests(run):
    one_thread = ("--test-threads", "1", "--nocapture")
    unlisted = "memory::a_card_that_is_not_listed_holds_no_memory_of_this_process"
    run.program("gpus", unlisted, "--exact", *one_thread, part="tests: unlisted card", seconds=120)
    run.program("gpus", *one_thread, part="tests, NCCL", seconds=300)
    run.program("gpus", *one_thread, part="tests, through the host", seconds=200, env=without_nccl())


def scaling(run):
    ordinals = ",".join(str(index) for index, _ in enumerate(cards()))
    count = len(cards())
    replicas = ",".join(str(number) for number in (1, 2, 4, 8) if number <= count)
    peers = ["--burn-train", "--torch"] + (["--ddp", "--all-reduce"] if count > 1 else [])
    for model in run.args.models.split(","):
        for kind in ("weak", "strong"):
            out = run.args.out / f"scaling-{model}-{kind}"
            options = ["--devices", ordinals, "--replicas", replicas, "--size", "full", "--models", model]
            options += ["--scaling", kind, "--rounds", 5, "--steps", 8, "--json", f"{out}.json", "--svg", f"{out}.svg"]
            run.program("scaling", *options, *peers, part=f"scaling {model} {kind}", seconds=240)


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.programs:
        programs = {name: str(args.programs / name) for name in ("gpus", "scaling", "devices") if (args.programs / name).exists()}
    elif shutil.which("cargo"):
        programs = build()
    else:
        sys.exit("no cargo here: give built programs with --programs")
    run = Run(args, programs)
    parts = {"visibility": visibility, "tests": tests, "scaling": scaling}
    for part in args.parts.split(","):
        parts[part](run)
    failed = [result["part"] for result in run.results if result["outcome"] not in ("ok",)]
    sys.exit(f"not ok: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
