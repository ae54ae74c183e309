TZ=UTC STUB_WRONG=3 all_reduce_perf -b 8 -e 8 -f 2 -g 2 -J J_wrong.json
