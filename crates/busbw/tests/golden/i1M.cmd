all_reduce_perf -b 1M -e 4M -i 1M -g 2
