"""A rank of a small job for tests/gpu/stragglers.sh: computes, reduces, again and again, and is late as a file says.

usage: straggler_job.py RANK FOLDER
The file FOLDER/case.RANK has the fault of that rank: none, compute, host. FOLDER/run is there while the loop is to run.
"""
import os
import sys
import time

rank, folder = int(sys.argv[1]), sys.argv[2]
os.environ["NCCL_HOSTID"] = f"host{rank}"  # two hosts: the network is used
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

torch.cuda.set_device(0)
dist.init_process_group("nccl", rank=rank, world_size=2)
data = torch.ones(1 << 20, device="cuda")
# Cycles of the GPU for a millisecond, measured: other work of the GPU does not make them longer.
begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
torch.cuda._sleep(1_000_000)
begin.record()
torch.cuda._sleep(20_000_000)
end.record()
torch.cuda.synchronize()
ms = int(20_000_000 / begin.elapsed_time(end))


def fault():
    try:
        return open(f"{folder}/case.{rank}").read().strip()
    except FileNotFoundError:
        return "none"


def step(kind):
    torch.cuda._sleep(2 * ms)
    if kind == "compute":
        torch.cuda._sleep(2 * ms)
    if kind == "host":
        time.sleep(0.004)
    dist.all_reduce(data)
    data.fill_(1)
    # As a program that looks at its loss.
    torch.cuda.synchronize()


for _ in range(20):
    step("none")
open(f"{folder}/ready.{rank}", "w").close()
go = torch.zeros(1, device="cuda")
while True:
    # Rank 0 says whether to go on, so that both do as many steps.
    state = -1.0 if os.path.exists(f"{folder}/end") else float(os.path.exists(f"{folder}/run"))
    go.fill_(state)
    dist.broadcast(go, 0)
    state = go.item()
    if state < 0:
        break
    if state == 0:
        time.sleep(0.05)
        continue
    kind = fault()
    for _ in range(20):
        step(kind)
dist.destroy_process_group()
