reduce_perf -b 8 -e 8 -g 2 -r -1 -o all -d all
