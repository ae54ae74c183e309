TZ=UTC all_reduce_perf -b 8 -e 16 -f 2 -g 2 -C 1 -S 1 -J J_C1.json
