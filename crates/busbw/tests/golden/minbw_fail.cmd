NCCL_TESTS_MIN_BW=1e9 all_reduce_perf -b 8 -e 64 -f 2 -g 2
