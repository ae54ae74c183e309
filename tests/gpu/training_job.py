"""A rank of a DDP training for tests/gpu/training.sh: a small transformer for SECONDS. usage: training_job.py RANK SECONDS"""
import os
import sys
import time

rank, seconds = int(sys.argv[1]), float(sys.argv[2])
os.environ["NCCL_HOSTID"] = f"host{rank}"  # two hosts: the network is used
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

torch.cuda.set_device(0)
torch.manual_seed(rank)
dist.init_process_group("nccl", rank=rank, world_size=2)
layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
model = DistributedDataParallel(torch.nn.TransformerEncoder(layer, 6).cuda(), device_ids=[0])
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
steps, end = 0, time.time() + seconds
going = torch.ones(1, device="cuda")
while True:
    if steps % 10 == 0:
        going.fill_(float(time.time() < end))
        dist.all_reduce(going, op=dist.ReduceOp.MIN)
        if going.item() == 0:
            break
    batch = torch.randn(8, 128, 512, device="cuda")
    optimizer.zero_grad()
    loss = (model(batch) - batch).square().mean()
    loss.backward()
    optimizer.step()
    steps += 1
torch.cuda.synchronize()
resident = next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]
print(f"rank {rank}: {steps} steps, loss {loss.item():.3f}, NCCL {torch.cuda.nccl.version()}, resident {int(resident) / 1024:.0f} MiB", flush=True)
dist.destroy_process_group()
