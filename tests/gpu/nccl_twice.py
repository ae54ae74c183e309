"""A communicator of two ranks that ends and begins again in the same processes: what NCCL merged the first time it must merge again.
   nccl_twice.py LIBNCCL RANK FOLDER: one of two processes, each a host of its own (NCCL_HOSTID), on one GPU. No kernel runs: connections
are made at init (NCCL_RUNTIME_CONNECT=0). The log says over which device."""
import ctypes, os, sys, time

library, rank, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.environ.update(NCCL_HOSTID=f"host{rank}", NCCL_RUNTIME_CONNECT="0")


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
nccl = ctypes.CDLL(library)
nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, Id, ctypes.c_int]
nccl.ncclCommDestroy.argtypes = [ctypes.c_void_p]
for turn in (1, 2):
    meeting, name = Id(), f"{folder}/id{turn}"
    if rank == 0:
        assert nccl.ncclGetUniqueId(ctypes.byref(meeting)) == 0
        with open(name + ".new", "wb") as file:
            file.write(bytes(meeting))
        os.rename(name + ".new", name)
    until = time.monotonic() + 60
    while not os.path.exists(name) and time.monotonic() < until:
        time.sleep(0.05)
    ctypes.memmove(ctypes.byref(meeting), open(name, "rb").read(), 128)
    communicator = ctypes.c_void_p()
    print(f"turn {turn}", file=sys.stderr, flush=True)
    code = nccl.ncclCommInitRank(ctypes.byref(communicator), 2, meeting, rank)
    assert code == 0, f"ncclCommInitRank of turn {turn}: {code}"
    assert nccl.ncclCommDestroy(communicator) == 0
