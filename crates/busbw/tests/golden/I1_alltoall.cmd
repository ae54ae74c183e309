alltoall_perf -b 32 -e 64 -f 2 -g 2 -I 1
