all_reduce_perf -b 8 -e 1K -f 3 -g 2
