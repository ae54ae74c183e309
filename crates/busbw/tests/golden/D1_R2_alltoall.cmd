alltoall_perf -b 32 -e 64 -f 2 -g 2 -D 3 -R 2
