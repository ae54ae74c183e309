broadcast_perf -b 8 -e 64 -f 2 -g 2 -r 1
