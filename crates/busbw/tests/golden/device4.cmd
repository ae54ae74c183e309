NCCL_TESTS_DEVICE=4 all_reduce_perf -b 8 -e 8 -g 2
