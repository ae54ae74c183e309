all_reduce_perf -b 1e3 -e 1e3 -g 2
