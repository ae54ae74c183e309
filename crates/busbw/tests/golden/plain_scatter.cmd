scatter_perf -b 8 -e 1K -f 2 -g 2
