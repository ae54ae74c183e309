"""A job of four ranks in which one fault is planted: job.py FAULT FOLDER RANK

BACKEND=gloo (the default) runs on CPUs: each rank writes heartbeats into FOLDER, as busbw's profiler would (gloo loads no
profiler of NCCL, so this file stands for it). BACKEND=nccl takes a GPU a rank, and what its environment says of the profiler.
Each rank writes its flight recorder's dump when FOLDER/dump is there. A rank that meets an error stays, as a job does until
its launcher ends it. Faults: never-comes, other-size, other-operation, killed, stopped, network, none.
"""

import json
import os
import signal
import sys
import threading
import time

FAULT, FOLDER, RANK = sys.argv[1], sys.argv[2], int(sys.argv[3])
AT = 6  # the number of the call, from 1
BACKEND = os.environ.get("BACKEND", "gloo")

os.environ.update({"TORCH_FR_BUFFER_SIZE": "200", "RANK": str(RANK), "WORLD_SIZE": "4"})
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch._C import _distributed_c10d  # noqa: E402

NCCL = BACKEND == "nccl"
DEVICE = f"cuda:{RANK}" if NCCL else "cpu"
# NCCL compares no sizes: calls that differ end, these too, and with wrong data.
COUNT = 1 << 22 if NCCL else 1024


def path(name: str) -> str:
    return os.path.join(FOLDER, name)


def recorded() -> bytes:
    # The first stack takes half a minute: symbols of a library of 1 GB are read.
    trace = _distributed_c10d._dump_nccl_trace if NCCL else _distributed_c10d._dump_fr_trace
    return trace(includeStackTraces=False)


def dump_when_asked() -> None:
    while not os.path.exists(path("dump")):
        time.sleep(0.1)
    with open(path(f"part.{RANK}"), "wb") as dump:
        dump.write(recorded())
    os.rename(path(f"part.{RANK}"), path(f"rank_{RANK}"))


def beats() -> None:
    began = time.time_ns()
    with open(path(f"{os.uname().nodename}.{os.getpid()}.jsonl"), "w") as file:
        def line(**keys) -> None:
            file.write(json.dumps(keys) + "\n")
            file.flush()

        with open("/proc/sys/kernel/random/boot_id") as boot:
            line(kind="process", version=1, busbw="test", host=os.uname().nodename, pid=os.getpid(), boot=boot.read().strip(),
                 pid_namespace=os.stat("/proc/self/ns/pid").st_ino, rank=RANK, began=began, interface=6, mask=0)
        while True:
            at = time.time_ns()
            line(kind="heartbeat", at=at - began, clock=at, late=0, dropped_calls=0, dropped_steps=0)
            time.sleep(0.5)


def stay() -> None:
    while True:
        time.sleep(1)


def train() -> None:
    data = torch.ones(COUNT, device=DEVICE)
    for number in range(1, 20):
        if number == AT:
            open(path(f"ready.{RANK}"), "w").close()
            while not os.path.exists(path("go")):
                time.sleep(0.05)
            match FAULT:
                case "never-comes" if RANK == 2:
                    stay()
                case "other-size" if RANK == 1:
                    data = torch.ones(2 * COUNT, device=DEVICE)
                case "other-operation" if RANK == 3:
                    dist.all_gather([torch.empty(COUNT, device=DEVICE) for _ in range(4)], data)
                    continue
                case "killed" if RANK == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                case "stopped" if RANK == 1:
                    os.kill(os.getpid(), signal.SIGSTOP)
        dist.all_reduce(data)
        # As a training loop, which looks at its loss now and then: some calls are enqueued behind the one that hangs.
        if NCCL and number % 3 == 2:
            torch.cuda.synchronize()


threading.Thread(target=dump_when_asked, daemon=True).start()
if NCCL:
    torch.cuda.set_device(RANK)
    dist.init_process_group("nccl", device_id=torch.device(DEVICE))
else:
    threading.Thread(target=beats, daemon=True).start()
    dist.init_process_group("gloo")
try:
    train()
except Exception as error:  # the launcher is not there to end the others
    print(f"rank {RANK}: {type(error).__name__}: {error}", flush=True)
stay()
