reduce_scatter_perf -b 32 -e 32 -f 2 -g 2 -o all -d all
