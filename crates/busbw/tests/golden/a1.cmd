STUB_VT_SKEW_NS=4000 all_reduce_perf -b 8 -e 64 -f 2 -t 2 -g 1 -a 1
