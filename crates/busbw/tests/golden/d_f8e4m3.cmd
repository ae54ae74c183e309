all_reduce_perf -b 8 -e 64 -f 2 -g 2 -d f8e4m3
