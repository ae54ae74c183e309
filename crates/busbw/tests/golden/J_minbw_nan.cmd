TZ=UTC NCCL_TESTS_MIN_BW=1 hypercube_perf -b 32 -e 64 -f 2 -g 3 -J J_minbw_nan.json
