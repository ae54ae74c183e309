all_reduce_perf -b 3 -e 3 -g 2
