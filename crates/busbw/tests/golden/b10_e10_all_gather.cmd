all_gather_perf -b 10 -e 10 -g 2
