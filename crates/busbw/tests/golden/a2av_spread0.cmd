NCCL_TESTS_ALLTOALLV_SPREAD=0 alltoallv_perf -b 32 -e 1K -f 2 -g 2
