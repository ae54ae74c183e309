TZ=UTC NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY=1 alltoallv_perf -b 32 -e 32 -g 2 -J J_a2av_summary.json
