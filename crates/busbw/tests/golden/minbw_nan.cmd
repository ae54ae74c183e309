NCCL_TESTS_MIN_BW=1 hypercube_perf -b 8 -e 64 -f 2 -g 3
