TZ=UTC all_reduce_perf -b 8 -e 8 -g 2 -J J_g2.json
