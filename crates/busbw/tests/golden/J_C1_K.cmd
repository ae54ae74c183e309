TZ=UTC all_reduce_perf -b 8 -e 8 -g 2 -C 1 -c 3 -K 2 -J J_C1_K.json
