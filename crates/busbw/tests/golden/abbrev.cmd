all_reduce_perf --minb 8 --maxb=8 --ngpus 2
