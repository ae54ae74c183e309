#!/usr/bin/env bash
# Packs an image of one layer without a container engine, from this machine's files: a program, its loader, the shared
# libraries that it needs, and what name look-ups read. The same files give the same bytes.
#   tools/image.sh [--name NAME] [--mpi openmpi|mpich] [PROGRAM] OUT.tar   PROGRAM: target/release/busbw unless given
#   podman load -i OUT.tar; docker load -i OUT.tar; ctr -n k8s.io images import OUT.tar
# --mpi adds that library, which busbw opens for --backend mpi, the parts that it opens itself, mpirun, sshd and ssh: for MPIJobs.
# NCCL, CUDA and RDMA libraries are not packed: Containerfile.cuda makes an image that has them.
set -euo pipefail
exec python3 "$(dirname "$0")/image/pack.py" "$@"
