STUB_COMM_MEM=10737418240 all_reduce_perf -b 1M -e 1M -g 2 -M 1 -c 0
