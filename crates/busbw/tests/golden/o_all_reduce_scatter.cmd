reduce_scatter_perf -b 32 -e 32 -g 2 -o all
