all_reduce_perf -b 8 -e 8 -g 2 -- -b 16
