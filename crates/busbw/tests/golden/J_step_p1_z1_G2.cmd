TZ=UTC all_reduce_perf -b 1M -e 2M -i 1M -g 2 -p 1 -z 1 -G 2 -M 1 -u 1 -m 2 -J J_step_p1_z1_G2.json
