all_reduce_perf -b 1.5K -e 6K -f 2 -g 2
