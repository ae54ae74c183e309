sendrecv_perf -b 8 -e 16 -f 2 -g 2 -o all
