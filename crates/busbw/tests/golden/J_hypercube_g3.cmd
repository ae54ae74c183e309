TZ=UTC hypercube_perf -b 32 -e 64 -f 2 -g 3 -J J_hypercube_g3.json
