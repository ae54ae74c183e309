TZ=UTC broadcast_perf -b 8 -e 8 -f 2 -g 2 -r -1 -J J_broadcast_rm1.json
