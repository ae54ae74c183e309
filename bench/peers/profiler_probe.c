/* A profiler for NCCL 2.27 to 2.32 that does nothing, which shows what part of a profiler's cost is NCCL's own; or one
 * that hands each call to another profiler and times it. Not busbw's, and it records nothing of a job.
 *
 * Build: cc -O2 -shared -fPIC -o libprofiler_probe.so profiler_probe.c -ldl
 * PROBE_MASK     the events that it asks NCCL for, hexadecimal (nccl_profiler.h): 46 are calls and kernels, 6 calls alone
 * PROBE_PLUGIN   the profiler that it hands calls to; it asks for what that one asks for
 * PROBE_OUTPUT   where the process writes, as it ends, what was called how often, and the mean and the median time, ns,
 *                with some 20 ns of reading the clock; the median within a quarter */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

typedef int (*Start)(void *, void **, void *);
typedef int (*Stop)(void *);
typedef int (*State)(void *, int, void *);
typedef int (*InitV4)(void **, int *, const char *, uint64_t, int, int, int, void *);
typedef int (*InitV5)(void **, uint64_t, int *, const char *, int, int, int, void *);
struct table {
  const char *name;
  void *init;
  Start start;
  Stop stop;
  State state;
  int (*finalize)(void *);
};
enum { START, STOP, STATE, FUNCTIONS };
/* Kinds of events, and half octaves of ticks. */
enum { KINDS = 32, HALVES = 80 };

static struct table *other[8];
static int mask;
static double ticks_a_ns;
static uint64_t calls[FUNCTIONS][KINDS], ticks[FUNCTIONS][KINDS], within[FUNCTIONS][KINDS][HALVES];

static void begin(void) {
  if (ticks_a_ns) return;
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  uint64_t first = __rdtsc();
  usleep(50000);
  clock_gettime(CLOCK_MONOTONIC, &to);
  ticks_a_ns = (__rdtsc() - first) / ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec));
  const char *asked = getenv("PROBE_MASK"), *path = getenv("PROBE_PLUGIN");
  mask = asked ? strtol(asked, NULL, 16) : 0;
  void *library = path ? dlopen(path, RTLD_NOW) : NULL;
  if (path && !library) {
    fprintf(stderr, "profiler_probe: %s\n", dlerror());
    exit(2);
  }
  for (int version = 4; library && version <= 7; version++) {
    char symbol[32];
    snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", version);
    other[version] = dlsym(library, symbol);
  }
}

static void count(int function, int kind, uint64_t spent) {
  int octave = 63 - __builtin_clzll(spent | 1);
  int half = octave * 2 + (octave > 0 && spent >> (octave - 1) & 1);
  __atomic_fetch_add(&calls[function][kind], 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&ticks[function][kind], spent, __ATOMIC_RELAXED);
  __atomic_fetch_add(&within[function][kind][half < HALVES ? half : HALVES - 1], 1, __ATOMIC_RELAXED);
}
static int kind_of(uint64_t type) { return type ? (63 - __builtin_clzll(type)) % KINDS : KINDS - 1; }

#define TABLE(version, type)                                              \
  static int start##version(void *context, void **handle, void *event) {  \
    if (!other[version]) {                                                \
      *handle = &mask;                                                    \
      return 0;                                                           \
    }                                                                     \
    uint64_t from = __rdtsc();                                            \
    int result = other[version]->start(context, handle, event);           \
    count(START, kind_of(*(type *)event), __rdtsc() - from);              \
    return result;                                                        \
  }                                                                       \
  static int stop##version(void *handle) {                                \
    if (!other[version]) return 0;                                        \
    uint64_t from = __rdtsc();                                            \
    int result = other[version]->stop(handle);                            \
    count(STOP, 0, __rdtsc() - from);                                     \
    return result;                                                        \
  }                                                                       \
  static int state##version(void *handle, int state, void *arguments) {   \
    if (!other[version]) return 0;                                        \
    uint64_t from = __rdtsc();                                            \
    int result = other[version]->state(handle, state, arguments);         \
    count(STATE, 0, __rdtsc() - from);                                    \
    return result;                                                        \
  }                                                                       \
  static int finalize##version(void *context) {                           \
    return other[version] ? other[version]->finalize(context) : 0;        \
  }                                                                       \
  struct table ncclProfiler_v##version = {"probe", init##version, start##version, stop##version, state##version, finalize##version};

static int init4(void **context, int *asked, const char *name, uint64_t id, int nodes, int ranks, int rank, void *log) {
  begin();
  if (other[4]) return ((InitV4)other[4]->init)(context, asked, name, id, nodes, ranks, rank, log);
  *context = &mask;
  *asked = mask;
  return 0;
}
#define INIT(version)                                                                                                         \
  static int init##version(void **context, uint64_t id, int *asked, const char *name, int nodes, int ranks, int rank, void *log) { \
    begin();                                                                                                                  \
    if (other[version]) return ((InitV5)other[version]->init)(context, id, asked, name, nodes, ranks, rank, log);             \
    *context = &mask;                                                                                                         \
    *asked = mask;                                                                                                            \
    return 0;                                                                                                                 \
  }
INIT(5)
INIT(6)
INIT(7)
TABLE(4, uint8_t)
TABLE(5, uint64_t)
TABLE(6, uint64_t)
TABLE(7, uint64_t)

__attribute__((destructor)) static void end(void) {
  static const char *names[] = {"startEvent", "stopEvent", "recordEventState"};
  const char *path = getenv("PROBE_OUTPUT");
  FILE *file = path && ticks_a_ns ? fopen(path, "a") : NULL;
  if (!file) return;
  for (int function = 0; function < FUNCTIONS; function++)
    for (int kind = 0; kind < KINDS; kind++) {
      uint64_t all = calls[function][kind], sum = 0;
      int half = 0;
      if (!all) continue;
      while ((sum += within[function][kind][half]) * 2 <= all) half++;
      double median = (double)(1ull << half / 2) * (half % 2 ? 1.75 : 1.25);
      fprintf(file, "pid %d  %s", getpid(), names[function]);
      if (function == START) fprintf(file, " of bit %d", kind);
      fprintf(file, ": %llu calls, mean %.0f ns, median %.0f ns\n", (unsigned long long)all, ticks[function][kind] / ticks_a_ns / all, median / ticks_a_ns);
    }
  fclose(file);
}
