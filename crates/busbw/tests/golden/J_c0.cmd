TZ=UTC LANG=C all_reduce_perf -b 8 -e 16 -f 2 -g 2 -c 0 -J J_c0.json
