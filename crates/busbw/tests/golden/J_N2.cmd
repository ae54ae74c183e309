TZ=UTC all_reduce_perf -b 8 -e 8 -g 2 -N 2 -J J_N2.json
