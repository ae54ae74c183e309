# The kinds of kinds.tsv, a function each; make.sh runs them in /tmp/failed_runs, where train.py and solver are.
# They print nothing of their own: a log holds what the launcher and the ranks print. 77 is waived, the last line says why.

waived() {
    echo "$1"
    exit 77
}
# two_ranks: train.py on two ranks of one launcher. NCCL's lines come as on a terminal: in a full buffer, a rank that
# is killed would take its last ones along.
launcher=(stdbuf -oL python3 -m torch.distributed.run --standalone --local-addr 127.0.0.1 --nproc-per-node 2 train.py)
two_ranks() { "${launcher[@]}"; }
# rank R PORT: one rank of two, as a scheduler starts it; a shell in between says "Killed" as a terminal does.
rank() { RANK=$1 LOCAL_RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$2 sh -c 'stdbuf -oL python3 train.py; exit $?'; }
# flight_recorder COMMAND…: with PyTorch's flight recorder on. 2.11 knows some names, later releases the others.
flight_recorder() {
    local trace=$PWD/trace_rank_
    TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_DUMP_TEMP_FILE=$trace TORCH_NCCL_DEBUG_INFO_TEMP_FILE=$trace "$@"
}
# little_shm MIB COMMAND…: /dev/shm is this small, in a mount namespace that ends with the command. So it is in containers.
little_shm() {
    unshare -m true 2>/dev/null || waived "unshare: no mount namespace here"
    # shellcheck disable=SC2016 # the inner shell expands these
    unshare -m sh -c 'mount -t tmpfs -o size="$1"m tmpfs /dev/shm && shift && exec "$@"' sh "$@"
}
# The watchdog sleeps four times this after it has timed out (15 s by default).
export TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=2000

mpi() {
    [ -x solver ] || waived "no Open MPI here"
    mpirun "$@"
}
# loud COMMAND…: each rank's help texts at once. Collected, they get lost when two come together (seen with 4.1.4).
loud() { OMPI_MCA_orte_base_help_aggregate=0 "$@"; }
mpi_as_root() {
    [ "$(id -u)" = 0 ] || waived "not root here"
    unset OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
    mpi -np 2 ./solver
}
mpi_too_few_slots() { mpi -np $(($(nproc) * 4)) ./solver; }
mpi_program_missing() { mpi -np 2 --oversubscribe ./solver_v2; }
mpi_segfault() { PLANTED=segfault mpi -np 2 --oversubscribe ./solver; }
mpi_truncate() { PLANTED=count mpi -np 2 --oversubscribe ./solver; }
mpi_abort() { PLANTED=abort mpi -np 2 --oversubscribe ./solver; }
mpi_timeout() { PLANTED=stuck mpi -np 2 --oversubscribe --timeout 6 ./solver; }
mpi_rank_killed() { PLANTED=killed mpi -np 2 --oversubscribe ./solver; }
mpi_rank_exits() { PLANTED=exits mpi -np 2 --oversubscribe ./solver; }
mpi_no_memory() {
    ulimit -v 4000000
    PLANTED=memory mpi -np 2 --oversubscribe ./solver
}
mpi_unknown_host() {
    command -v ssh >/dev/null || waived "no ssh here"
    mpi -np 2 --host "$(hostname):1,node017:1" ./solver
}
mpi_no_ssh() {
    mkdir -p bin
    ln -sf "$(command -v mpirun)" bin/mpirun
    PATH=$PWD/bin mpi -np 2 --host node016:1,node017:1 ./solver
}
mpi_no_transport() { loud mpi -np 2 --oversubscribe --mca pml ob1 --mca btl self ./solver; }
mpi_interface_missing() { loud mpi -np 2 --oversubscribe --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include ib7 ./solver; }
mpi_shm_full() {
    [ -x solver ] || waived "no Open MPI here"
    loud little_shm 1 mpirun -np 2 --oversubscribe --mca pml ob1 --mca btl vader,self ./solver
}
mpi_harmless_warnings() {
    mpi -np 2 --oversubscribe --bind-to none --report-bindings --mca pml ob1 --mca btl vader,tcp,self --mca btl_tcp_if_include ib7 ./solver
}

gloo_rank_killed() { BACKEND=gloo PLANTED=killed two_ranks; }
gloo_size_mismatch() { BACKEND=gloo PLANTED=half TIMEOUT=10 two_ranks; }
gloo_rank_stuck() { BACKEND=gloo PLANTED=stuck TIMEOUT=10 two_ranks; }
gloo_interface_missing() { BACKEND=gloo GLOO_SOCKET_IFNAME=ib7 TIMEOUT=20 two_ranks; }
gloo_wrong_collective() { BACKEND=gloo PLANTED=collective TIMEOUT=10 TORCH_DISTRIBUTED_DEBUG=DETAIL two_ranks; }
torch_rank_raises() { BACKEND=gloo PLANTED=raises two_ranks; }
torch_rank_never_comes() { BACKEND=gloo TIMEOUT=10 rank 0 29611; }
torch_master_silent() { BACKEND=gloo TIMEOUT=10 rank 1 29612; }
torch_node_never_comes() {
    BACKEND=gloo python3 -m torch.distributed.run --nnodes 2 --nproc-per-node 1 --rdzv-id job --rdzv-backend c10d \
        --rdzv-endpoint localhost:29613 --rdzv-conf join_timeout=10 train.py
}
torch_port_in_use() {
    python3 -c 'import socket, time
held = socket.create_server(("", 29614))
time.sleep(60)' &
    sleep 1
    BACKEND=gloo python3 -m torch.distributed.run --nnodes 1 --nproc-per-node 2 --master-addr 127.0.0.1 --master-port 29614 train.py
}

# Two ranks share the GPU: each acts as a host of its own (NCCL_HOSTID, by train.py), but where GPU_RULE says otherwise.
nccl_healthy() { NCCL_DEBUG=INFO two_ranks; }
nccl_duplicate_gpu() { GPU_RULE=first NCCL_DEBUG=INFO two_ranks; }
nccl_wrong_device() { GPU_RULE=local NCCL_DEBUG=WARN two_ranks; }
nccl_no_gpu() { CUDA_VISIBLE_DEVICES='' two_ranks; }
nccl_plugin_missing() { NCCL_NET_PLUGIN=none-such NCCL_DEBUG=INFO two_ranks; }
nccl_net_missing() { NCCL_NET=NoSuch NCCL_DEBUG=INFO two_ranks; }
nccl_interface_missing() { NCCL_SOCKET_IFNAME=nosuch0 NCCL_DEBUG=INFO two_ranks; }
nccl_algorithm_missing() { NCCL_ALGO=CollnetDirect NCCL_DEBUG=INFO two_ranks; }
nccl_shm_full() { NCCL_DEBUG=INFO little_shm 8 "${launcher[@]}"; }
nccl_rank_killed() { PLANTED=killed NCCL_DEBUG=INFO two_ranks; }
nccl_peer_killed() {
    export PLANTED=killed NCCL_DEBUG=WARN TIMEOUT=20
    rank 1 29615 &
    rank 0 29615
}
torch_gpu_memory() { PLANTED=activations NCCL_DEBUG=WARN two_ranks; }
nccl_no_memory() { PLANTED=cache PLANTED_STEP=0 TORCH_DIST_INIT_BARRIER=1 NCCL_DEBUG=WARN two_ranks; }

# Ring and Simple: both ranks then cut their messages into the same pieces, and the longer one waits for ever.
nccl_size_mismatch() { PLANTED=half PLANTED_STEP=4 TIMEOUT=15 NCCL_DEBUG=WARN NCCL_ALGO=Ring NCCL_PROTO=Simple flight_recorder two_ranks; }
nccl_size_truncated() { PLANTED=little TIMEOUT=15 NCCL_DEBUG=WARN two_ranks; }
nccl_rank_stuck() { PLANTED=stuck TIMEOUT=15 NCCL_DEBUG=WARN two_ranks; }
nccl_wrong_collective() { PLANTED=collective TIMEOUT=15 NCCL_DEBUG=WARN flight_recorder two_ranks; }
nccl_root_stuck() { PLANTED=stuck PLANTED_RANK=0 PLANTED_STEP=0 TIMEOUT=15 NCCL_DEBUG=INFO two_ranks; }
# What is on the screen of a run that still hangs: nobody ends it before make.sh does.
nccl_init_hang() {
    PLANTED=stuck PLANTED_STEP=0 TIMEOUT=600 NCCL_DEBUG=INFO two_ranks &
    sleep 30
}
