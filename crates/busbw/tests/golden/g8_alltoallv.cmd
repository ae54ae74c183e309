alltoallv_perf -b 8 -e 1M -f 4 -g 8
