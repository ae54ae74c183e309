all_reduce_perf -b 8 -e 64 -f 2 -t 2 -g 1 -I 1 -K 3 -p 1 -z 1
