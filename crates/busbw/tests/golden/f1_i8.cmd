all_reduce_perf -b 8 -e 32 -f 1 -i 8 -g 2
