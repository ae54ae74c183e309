"""A job of four ranks over gloo on CPUs in which one fault is planted: job.py FAULT FOLDER RANK

Each rank writes heartbeats into FOLDER, as busbw's profiler would (gloo loads no profiler of NCCL, so this file stands for
it), and its flight recorder's dump when FOLDER/dump is there. A rank that meets an error stays, as a job does until its
launcher ends it. Faults: never-comes, other-size, other-operation, killed, stopped, network, none.
"""

import json
import os
import signal
import sys
import threading
import time

FAULT, FOLDER, RANK = sys.argv[1], sys.argv[2], int(sys.argv[3])
AT = 6  # the number of the call, from 1

os.environ.update({"TORCH_FR_BUFFER_SIZE": "200", "RANK": str(RANK), "WORLD_SIZE": "4"})
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch._C._distributed_c10d import _dump_fr_trace  # noqa: E402


def path(name: str) -> str:
    return os.path.join(FOLDER, name)


def beats() -> None:
    began = time.time_ns()
    with open(path(f"{os.uname().nodename}.{os.getpid()}.jsonl"), "w") as file:
        def line(**keys) -> None:
            file.write(json.dumps(keys) + "\n")
            file.flush()

        line(kind="process", version=1, busbw="test", host=os.uname().nodename, pid=os.getpid(), rank=RANK, began=began,
             interface=6, mask=0)
        dumped = False
        while True:
            at = time.time_ns()
            line(kind="heartbeat", at=at - began, clock=at, late=0, dropped_calls=0, dropped_steps=0)
            if not dumped and os.path.exists(path("dump")):
                dumped = True
                with open(path(f"part.{RANK}"), "wb") as dump:
                    # The first stack takes half a minute: symbols of a library of 1 GB are read.
                    dump.write(_dump_fr_trace(includeStackTraces=False))
                os.rename(path(f"part.{RANK}"), path(f"rank_{RANK}"))
            time.sleep(0.5)


def stay() -> None:
    while True:
        time.sleep(1)


def train() -> None:
    data = torch.ones(1024)
    for number in range(1, 20):
        if number == AT:
            open(path(f"ready.{RANK}"), "w").close()
            while not os.path.exists(path("go")):
                time.sleep(0.05)
            match FAULT:
                case "never-comes" if RANK == 2:
                    stay()
                case "other-size" if RANK == 1:
                    data = torch.ones(2048)
                case "other-operation" if RANK == 3:
                    dist.all_gather([torch.empty(1024) for _ in range(4)], data)
                    continue
                case "killed" if RANK == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                case "stopped" if RANK == 1:
                    os.kill(os.getpid(), signal.SIGSTOP)
        dist.all_reduce(data)


threading.Thread(target=beats, daemon=True).start()
dist.init_process_group("gloo")
try:
    train()
except Exception as error:  # the launcher is not there to end the others
    print(f"rank {RANK}: {type(error).__name__}: {error}", flush=True)
stay()
