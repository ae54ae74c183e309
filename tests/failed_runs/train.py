"""A training loop in small: ranks join, and average gradients step by step. PLANTED names what goes wrong, on one rank.
Not a benchmark; and it prints nothing that names what was planted, as a user's program would not.
"""

import os
import signal
import time
from datetime import timedelta

import torch
import torch.distributed as dist

RANK, WORLD, LOCAL = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
BACKEND = os.environ.get("BACKEND", "nccl")
STEPS = 5
ELEMENTS = 16 << 20 if BACKEND == "nccl" else 4 << 20


def planted(what, step):
    where = int(os.environ.get("PLANTED_RANK", "1")), int(os.environ.get("PLANTED_STEP", "2"))
    return os.environ.get("PLANTED") == what and (RANK, step) == where


def device():
    if BACKEND == "gloo":
        return torch.device("cpu")
    rule = os.environ.get("GPU_RULE", "shared")
    if rule == "shared":
        # NCCL refuses two ranks of one host on one GPU.
        os.environ.update(NCCL_HOSTID=f"node{RANK}", NCCL_MAX_NCHANNELS="2")
    found = torch.device("cuda", LOCAL if rule == "local" else 0)
    torch.cuda.set_device(found)
    return found


def load_batch(step):
    if planted("stuck", step):
        time.sleep(3600)
    if planted("raises", step):
        return open(f"shards/{step:05}-{RANK:05}.bin", "rb").read()


def forward(step, where):
    if planted("activations", step):
        return torch.empty(192 << 30, dtype=torch.uint8, device=where)
    if planted("cache", step):
        # Everything that is left, in pieces as PyTorch's allocator takes them.
        held = []
        for size in (1 << 30, 32 << 20, 1 << 20):
            try:
                while True:
                    held.append(torch.empty(size, dtype=torch.uint8, device=where))
            except torch.OutOfMemoryError:
                pass
        return held


def average(gradient, step):
    if planted("collective", step):
        dist.broadcast(gradient, 0)
        return
    if planted("half", step):
        gradient = gradient[: ELEMENTS // 2]
    if planted("little", step):
        gradient = gradient[:1024]
    if planted("killed", step):
        dist.all_reduce(gradient, async_op=True)
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(gradient)
    gradient /= WORLD


def wait_for_checkpoint():
    name = f"checkpoint-{os.getppid()}"
    if RANK == 0:
        open(name, "w").close()
    while not os.path.exists(name):
        time.sleep(0.2)


def main():
    where = device()
    gradient = torch.ones(ELEMENTS, device=where)
    dist.init_process_group(BACKEND, timeout=timedelta(seconds=int(os.environ.get("TIMEOUT", "60"))))
    for step in range(STEPS):
        load_batch(step)
        activations = forward(step, where)
        average(gradient, step)
        mean = gradient.mean().item()
        if RANK == 0:
            print(f"step {step} loss {mean / (step + 1):.4f}", flush=True)
        del activations
    wait_for_checkpoint()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
