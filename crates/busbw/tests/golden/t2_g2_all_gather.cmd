all_gather_perf -b 8 -e 1K -f 2 -t 2 -g 2
