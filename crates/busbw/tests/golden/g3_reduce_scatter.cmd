reduce_scatter_perf -b 1000 -e 1000 -g 3 -d half
