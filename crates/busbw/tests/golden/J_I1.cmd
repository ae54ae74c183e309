TZ=UTC LANG=C all_reduce_perf -b 8 -e 16 -f 2 -g 2 -I 1 -J J_I1.json
