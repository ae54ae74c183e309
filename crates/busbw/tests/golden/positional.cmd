all_reduce_perf foo -b 8 -e 8 bar -g 2
