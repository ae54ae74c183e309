/* An iterative solver in small: a root hands out coefficients, and the ranks add up their residuals. PLANTED names what goes
 * wrong on rank 1, in its third iteration. It prints nothing that names what was planted, as a user's program would not. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CELLS = 1000, ITERATIONS = 6 };

static int rank;

static int planted(const char *what, int iteration) {
    const char *named = getenv("PLANTED");
    return rank == 1 && iteration == 2 && named && !strcmp(named, what);
}

/* Mesh cells that this rank owns, or null. */
static double *cells(int iteration) {
    static double own[CELLS];
    return planted("segfault", iteration) ? NULL : own;
}

static void refine(int iteration) {
    if (planted("memory", iteration)) {
        size_t bytes = (size_t)48 << 30;
        if (!malloc(bytes)) {
            perror("solver: refine: malloc of 51539607552 bytes");
            MPI_Abort(MPI_COMM_WORLD, 12);
        }
    }
    if (planted("exits", iteration)) {
        if (!fopen("mesh/part-0001.dat", "r")) {
            perror("solver: mesh/part-0001.dat");
            exit(2);
        }
    }
    if (planted("abort", iteration)) {
        fprintf(stderr, "solver: residual is not a number after iteration %d\n", iteration);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    if (planted("killed", iteration))
        raise(SIGKILL);
    if (planted("stuck", iteration))
        sleep(3600);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double coefficients[CELLS] = {1.0};
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        refine(iteration);
        MPI_Bcast(coefficients, planted("count", iteration) ? CELLS / 2 : CELLS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        double *own = cells(iteration), mine = 0.0, all = 0.0;
        for (int i = 0; i < CELLS; i++) {
            own[i] += coefficients[i];
            mine += own[i];
        }
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("iteration %d residual %.3e\n", iteration, 1.0 / (1.0 + all));
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
