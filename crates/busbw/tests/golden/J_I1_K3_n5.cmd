TZ=UTC LANG=C all_reduce_perf -b 8 -e 16 -f 2 -t 2 -g 2 -I 1 -K 3 -n 5 -J J_I1_K3_n5.json
