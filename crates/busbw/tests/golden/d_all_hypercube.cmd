hypercube_perf -b 32 -e 32 -f 2 -g 2 -d all
