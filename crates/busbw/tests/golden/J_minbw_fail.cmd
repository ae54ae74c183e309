TZ=UTC NCCL_TESTS_MIN_BW=1e9 all_reduce_perf -b 8 -e 8 -g 2 -J J_minbw_fail.json
