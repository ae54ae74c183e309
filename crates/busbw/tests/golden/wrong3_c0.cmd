STUB_WRONG=3 all_reduce_perf -b 8 -e 8 -g 2 -c 0
