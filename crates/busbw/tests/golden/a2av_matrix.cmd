NCCL_TESTS_ALLTOALLV_MATRIX_FILE=../m2.txt alltoallv_perf -b 1M -e 1M -g 2
