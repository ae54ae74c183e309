all_reduce_perf -b 8 -e 64 -f 2 -t 2 -g 2 -M 1 -p 1
