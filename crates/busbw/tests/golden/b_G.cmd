all_reduce_perf -b 1G -e 2G -i 512m -g 2
