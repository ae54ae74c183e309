all_reduce_perf -b 1 -e 1G -f 32 -g 2
