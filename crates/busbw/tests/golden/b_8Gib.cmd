all_reduce_perf -b 8Kib -e 8Kib -g 2
