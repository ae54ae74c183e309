TZ=UTC alltoall_perf -b 32 -e 64 -f 2 -g 2 -J J_alltoall.json
