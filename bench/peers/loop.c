/* The OSU loop round MPI's collectives, for bench/peers.rs: the same points, the same touching and
 * the same arithmetic as peers/ours.rs. Not a benchmark of its own.
 *
 * Usage: loop BUFFER_BYTES BUDGET_US COLLECTIVE:SIZE...
 * A size is what OSU calls one: bytes of one message. Rank 0 prints a line for each point and mode:
 * mode, collective, size, mean over ranks and largest over ranks of each rank's mean time of one
 * operation, or in the mode "loop" of one pass of the loop over touched buffers, microseconds. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static char *send_buffer, *recv_buffer;
static int *counts, *offsets;

/* Bytes that one rank sends and receives. */
static void extents(const char *what, size_t size, size_t *send, size_t *recv) {
  size_t all = size * (size_t)ranks;
  *send = *recv = size;
  if (!strcmp(what, "all_gather") || !strcmp(what, "gather")) *recv = all;
  if (!strcmp(what, "scatter") || !strcmp(what, "reduce_scatter")) *send = all;
  if (!strncmp(what, "alltoall", 8)) *send = *recv = all;
}

static void operation(const char *what, size_t size) {
  int bytes = (int)size, floats = (int)(size / sizeof(float));
  MPI_Comm world = MPI_COMM_WORLD;
  if (!strcmp(what, "all_reduce"))
    MPI_Allreduce(send_buffer, recv_buffer, floats, MPI_FLOAT, MPI_SUM, world);
  else if (!strcmp(what, "reduce"))
    MPI_Reduce(send_buffer, recv_buffer, floats, MPI_FLOAT, MPI_SUM, 0, world);
  else if (!strcmp(what, "reduce_scatter"))
    MPI_Reduce_scatter_block(send_buffer, recv_buffer, floats, MPI_FLOAT, MPI_SUM, world);
  else if (!strcmp(what, "all_gather"))
    MPI_Allgather(send_buffer, bytes, MPI_CHAR, recv_buffer, bytes, MPI_CHAR, world);
  else if (!strcmp(what, "gather"))
    MPI_Gather(send_buffer, bytes, MPI_CHAR, recv_buffer, bytes, MPI_CHAR, 0, world);
  else if (!strcmp(what, "scatter"))
    MPI_Scatter(send_buffer, bytes, MPI_CHAR, recv_buffer, bytes, MPI_CHAR, 0, world);
  else if (!strcmp(what, "broadcast"))
    MPI_Bcast(recv_buffer, bytes, MPI_CHAR, 0, world);
  else if (!strcmp(what, "alltoall"))
    MPI_Alltoall(send_buffer, bytes, MPI_CHAR, recv_buffer, bytes, MPI_CHAR, world);
  else if (!strcmp(what, "alltoallv"))
    MPI_Alltoallv(send_buffer, counts, offsets, MPI_CHAR, recv_buffer, counts, offsets, MPI_CHAR,
                  world);
  else if (!strcmp(what, "sendrecv"))
    MPI_Sendrecv(send_buffer, bytes, MPI_CHAR, (rank + 1) % ranks, 0, recv_buffer, bytes, MPI_CHAR,
                 (rank + ranks - 1) % ranks, 0, world, MPI_STATUS_IGNORE);
  else
    MPI_Abort(world, 2);
}

static volatile uint64_t sink;

/* Seconds of the last run with all that lies between its operations. */
static double whole;

/* Every word of what is sent changes; every word of the result is read. A broadcast has one buffer. */
static void rewrite(const char *what, size_t bytes, int salt) {
  float value = (float)(salt % 1024);
  float *words = (float *)(strcmp(what, "broadcast") ? send_buffer : recv_buffer);
  for (size_t i = 0; i < bytes / sizeof(float); i++) words[i] = value;
}

static void read_result(size_t bytes) {
  uint64_t sum = 0;
  uint64_t *words = (uint64_t *)recv_buffer;
  for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) sum += words[i];
  sink = sum;
}

/* Seconds of this rank in `iterations` operations; what lies between them is not counted. */
static double run(const char *what, size_t size, int touched, int iterations) {
  double timer = 0, begun = MPI_Wtime();
  size_t send, recv;
  extents(what, size, &send, &recv);
  for (int i = 0; i < iterations; i++) {
    if (touched) rewrite(what, send, i);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    operation(what, size);
    timer += MPI_Wtime() - start;
    if (touched) read_result(recv);
  }
  whole = MPI_Wtime() - begun;
  return timer;
}

static void print(const char *mode, const char *what, size_t size, double mine) {
  double sum = 0, largest = 0;
  MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&mine, &largest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%s %s %zu %.4f %.4f\n", mode, what, size, sum / ranks, largest);
}

static void point(const char *what, size_t size, int touched, double budget) {
  /* A few for warmth, then as many as rank 0 thinks fit into the budget. */
  double before = MPI_Wtime();
  run(what, size, touched, 1);
  double each = MPI_Wtime() - before;
  MPI_Bcast(&each, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (each < budget) {
    run(what, size, touched, 3);
    before = MPI_Wtime();
    run(what, size, touched, 3);
    each = (MPI_Wtime() - before) / 3;
    MPI_Bcast(&each, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  }
  double fit = budget / each;
  int iterations = fit < 2 ? 2 : fit > 20000 ? 20000 : (int)fit;
  double mine = run(what, size, touched, iterations) / iterations * 1e6;
  double pass = whole / iterations * 1e6;
  print(touched ? "touched" : "untouched", what, size, mine);
  if (touched) print("loop", what, size, pass);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 4) MPI_Abort(MPI_COMM_WORLD, 2);
  size_t memory = strtoull(argv[1], NULL, 10);
  double budget = atof(argv[2]) * 1e-6;
  if (posix_memalign((void **)&send_buffer, 4096, memory)) MPI_Abort(MPI_COMM_WORLD, 3);
  if (posix_memalign((void **)&recv_buffer, 4096, memory)) MPI_Abort(MPI_COMM_WORLD, 3);
  memset(send_buffer, 0, memory);
  memset(recv_buffer, 0, memory);
  counts = calloc((size_t)ranks, sizeof(int));
  offsets = calloc((size_t)ranks, sizeof(int));
  for (int i = 3; i < argc; i++) {
    char *colon = strchr(argv[i], ':');
    if (!colon) MPI_Abort(MPI_COMM_WORLD, 2);
    *colon = 0;
    size_t size = strtoull(colon + 1, NULL, 10);
    for (int peer = 0; peer < ranks; peer++) {
      counts[peer] = (int)size;
      offsets[peer] = (int)size * peer;
    }
    point(argv[i], size, 1, budget);
    point(argv[i], size, 0, budget);
  }
  MPI_Finalize();
  return 0;
}
