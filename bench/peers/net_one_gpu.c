/* all_reduce between ranks that share one GPU without taking turns on it, over NCCL's network: threads of one
 * process, whose kernels run side by side, each with a copy of NCCL of its own that takes it for a host of its own.
 * Not busbw: processes that share a GPU are each given it for milliseconds, in which a network's time cannot be seen.
 *
 * Usage: net_one_gpu FOLDER RANKS FROM TO FACTOR COUNT BATCHES
 * FOLDER/RANK/libnccl.so.2 is each rank's copy, FOLDER/RANK/plugin.so, if there, its net plugin. A line a size:
 * bytes, and microseconds of an operation: the slowest rank's mean over batches of COUNT, which are BATCHES or, after
 * a quarter of a second, fewer, but three. Before them, every element of one operation is checked. Build: cc -O2 -rdynamic net_one_gpu.c -ldl -lpthread */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FLOAT = 7, SUM = 0, MOST = 8 };
typedef struct { char bytes[128]; } Id;
extern char **environ;

static const char *folder;
static int ranks, count, batches;
static size_t from, to, factor;
static pthread_barrier_t gate;
static Id meeting;
static double spent[MOST];
static int enough;

/* Threads inherit their creator's blocked signals: three of them say whose rank a thread works for, so that NCCL's and
 * the plugin's own threads count too. */
static void be_rank(int rank) {
  sigset_t set;
  sigemptyset(&set);
  for (int bit = 0; bit < 3; bit++)
    if (rank >> bit & 1) sigaddset(&set, SIGRTMIN + 10 + bit);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
}
static int whose(void) {
  sigset_t set;
  int rank = 0;
  pthread_sigmask(SIG_BLOCK, NULL, &set);
  for (int bit = 0; bit < 3; bit++) rank |= sigismember(&set, SIGRTMIN + 10 + bit) << bit;
  return rank;
}

/* In the place of libc's: the two variables in which ranks differ. */
char *getenv(const char *name) {
  static char hosts[MOST][16], plugins[MOST][4096];
  int rank = whose();
  if (folder && !strcmp(name, "NCCL_HOSTID")) {
    snprintf(hosts[rank], sizeof hosts[rank], "host%d", rank);
    return hosts[rank];
  }
  if (folder && !strcmp(name, "NCCL_NET_PLUGIN")) {
    snprintf(plugins[rank], sizeof plugins[rank], "%s/%d/plugin.so", folder, rank);
    return access(plugins[rank], R_OK) ? NULL : plugins[rank];
  }
  size_t length = strlen(name);
  for (char **entry = environ; *entry; entry++)
    if (!strncmp(*entry, name, length) && (*entry)[length] == '=') return *entry + length + 1;
  return NULL;
}

static void must(int code, const char *what) {
  if (code) {
    fprintf(stderr, "%s by rank %d: error %d\n", what, whose(), code);
    _exit(1);
  }
}
static void *function(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (!found) {
    fprintf(stderr, "%s\n", dlerror());
    _exit(1);
  }
  return found;
}
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void *cuda, *context;
#define CUDA(name, ...) must(((int (*)())function(cuda, #name))(__VA_ARGS__), #name)
#define NCCL(name, ...) must(((int (*)())function(nccl, #name))(__VA_ARGS__), #name)

static void *run(void *argument) {
  int rank = (int)(intptr_t)argument;
  be_rank(rank);
  char path[4096];
  snprintf(path, sizeof path, "%s/%d/libnccl.so.2", folder, rank);
  void *nccl = dlopen(path, RTLD_NOW | RTLD_LOCAL), *comm, *stream;
  if (!nccl) {
    fprintf(stderr, "%s\n", dlerror());
    _exit(1);
  }
  uint64_t send, recv;
  CUDA(cuCtxSetCurrent, context);
  CUDA(cuStreamCreate, &stream, 1);
  CUDA(cuMemAlloc_v2, &send, to);
  CUDA(cuMemAlloc_v2, &recv, to);
  if (rank == 0) NCCL(ncclGetUniqueId, &meeting);
  pthread_barrier_wait(&gate);
  must(((int (*)(void **, int, Id, int))function(nccl, "ncclCommInitRank"))(&comm, ranks, meeting, rank), "ncclCommInitRank");
  int (*all_reduce)(uint64_t, uint64_t, size_t, int, int, void *, void *) = function(nccl, "ncclAllReduce");
  int (*synchronize)(void *) = function(cuda, "cuStreamSynchronize");
  float *host = malloc(to);
  for (size_t size = from; size <= to; size *= factor) {
    size_t elements = size / sizeof(float);
    for (size_t i = 0; i < elements; i++) host[i] = (float)(i % 1021 + rank);
    CUDA(cuMemcpyHtoD_v2, send, host, size);
    for (int i = 0; i < (count + 3) / 4 + 1; i++) must(all_reduce(send, recv, elements, FLOAT, SUM, comm, stream), "ncclAllReduce");
    must(synchronize(stream), "cuStreamSynchronize");
    CUDA(cuMemcpyDtoH_v2, host, recv, size);
    for (size_t i = 0; i < elements; i++)
      if (host[i] != (float)(ranks * (i % 1021) + ranks * (ranks - 1) / 2)) must(1, "checking an element");
    int ran = 0;
    spent[rank] = 0;
    for (double start = now();; ran++) {
      if (rank == 0) enough = ran >= batches || (ran >= 3 && now() - start > 250e3);
      pthread_barrier_wait(&gate);
      if (enough) break;
      double began = now();
      for (int i = 0; i < count; i++) must(all_reduce(send, recv, elements, FLOAT, SUM, comm, stream), "ncclAllReduce");
      must(synchronize(stream), "cuStreamSynchronize");
      spent[rank] += (now() - began) / count;
      pthread_barrier_wait(&gate);
    }
    if (rank == 0) {
      double slowest = 0;
      for (int i = 0; i < ranks; i++) slowest = spent[i] > slowest ? spent[i] : slowest;
      printf("%zu %.2f\n", size, slowest / ran);
      fflush(stdout);
    }
    pthread_barrier_wait(&gate);
  }
  ((int (*)(void *))function(nccl, "ncclCommDestroy"))(comm);
  return NULL;
}

static size_t bytes(const char *text) {
  char *unit;
  size_t n = strtoull(text, &unit, 10);
  return *unit == 'K' ? n << 10 : *unit == 'M' ? n << 20 : *unit == 'G' ? n << 30 : n;
}

int main(int argc, char **argv) {
  if (argc != 8 || (ranks = atoi(argv[2])) < 2 || ranks > MOST) {
    fprintf(stderr, "usage: net_one_gpu FOLDER RANKS FROM TO FACTOR COUNT BATCHES\n");
    return 2;
  }
  folder = argv[1], from = bytes(argv[3]), to = bytes(argv[4]), factor = bytes(argv[5]);
  count = atoi(argv[6]), batches = atoi(argv[7]);
  if (from < 4 || factor < 2 || count < 1 || batches < 1) return 2;
  setenv("CUDA_MODULE_LOADING", "EAGER", 0); /* a kernel that is loaded later would wait for those that run */
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);    /* so would memory that is taken later */
  cuda = dlopen("libcuda.so.1", RTLD_NOW);
  if (!cuda) must(1, dlerror());
  CUDA(cuInit, 0);
  CUDA(cuDevicePrimaryCtxRetain, &context, 0);
  pthread_barrier_init(&gate, NULL, (unsigned)ranks);
  pthread_t threads[MOST];
  for (intptr_t rank = 0; rank < ranks; rank++) pthread_create(&threads[rank], NULL, run, (void *)rank);
  for (int rank = 0; rank < ranks; rank++) pthread_join(threads[rank], NULL);
  return 0;
}
