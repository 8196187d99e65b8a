/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SMG2000's problem and command line on top of HYPRE's struct interface: an anisotropic diffusion
 * equation on a cuboid, solved by the semicoarsening multigrid solver, alone or as the
 * preconditioner of conjugate gradients. Written against the interface from the published
 * description of the benchmark.
 *
 * Beyond the original: -stencil 27, and one line of key=value pairs for scripts.
 */
#include "benchmarks/mpi_time.h"
#include "benchmarks/smg_problem.h"

#include <HYPRE_struct_ls.h>
#include <HYPRE_utilities.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_ITER  50
#define TOLERANCE 1.0e-6

enum solver { SOLVER_SMG, SOLVER_CG_SMG, SOLVER_CG_DIAGONAL, SOLVER_CG, SOLVERS };

struct phase {
    double wall, cpu, mpi;
};

struct result {
    struct phase setup, solve;
    int iterations;
    double residual;
};

/* ---- command line -------------------------------------------------------------------------- */

static void usage(const char *program)
{
    printf("\nUsage: %s [<options>]\n\n"
           "  -n <nx> <ny> <nz>    : problem size per block\n"
           "  -P <Px> <Py> <Pz>    : processor topology\n"
           "  -b <bx> <by> <bz>    : blocking per processor\n"
           "  -c <cx> <cy> <cz>    : diffusion coefficients\n"
           "  -v <n_pre> <n_post>  : number of pre and post relaxations\n"
           "  -d <dim>             : problem dimension (2 or 3)\n"
           "  -solver <ID>         : solver ID (default = 0)\n"
           "                         0 - SMG\n"
           "                         1 - CG with SMG precond\n"
           "                         2 - CG with diagonal scaling\n"
           "                         3 - CG\n"
           "  -stencil <points>    : 7 (default) or 27\n\n",
           program);
}

static bool parse_ints(char **argv, int count, int *out)
{
    for (int i = 0; i < count; i++) {
        char *end;
        long v = argv[i] ? strtol(argv[i], &end, 10) : 0;
        if (!argv[i] || *end || end == argv[i] || v < 0 || v > 1 << 20)
            return false;
        out[i] = (int)v;
    }
    return true;
}

static bool parse_doubles(char **argv, int count, double *out)
{
    for (int i = 0; i < count; i++) {
        char *end;
        out[i] = argv[i] ? strtod(argv[i], &end) : 0;
        if (!argv[i] || *end || end == argv[i])
            return false;
    }
    return true;
}

static bool options_valid(const struct smg_options *opt, int ranks)
{
    if (opt->dim < 2 || opt->dim > 3 || opt->solver >= SOLVERS ||
        (opt->stencil != 7 && opt->stencil != 27))
        return false;
    for (int d = 0; d < opt->dim; d++)
        if (opt->n[d] < 1 || opt->blocks[d] < 1 || opt->c[d] <= 0)
            return false;
    if ((double)opt->n[0] * opt->n[1] * opt->n[2] > 1e8)
        return false;
    return (double)opt->procs[0] * opt->procs[1] * opt->procs[2] == ranks;
}

/* Returns the number of values that follow `name`, stored into the options; -1 when unknown or
 * malformed. */
static int parse_option(const char *name, char **values, struct smg_options *opt)
{
    int relax[2];
    if (!strcmp(name, "-n"))
        return parse_ints(values, 3, opt->n) ? 3 : -1;
    if (!strcmp(name, "-P"))
        return parse_ints(values, 3, opt->procs) ? 3 : -1;
    if (!strcmp(name, "-b"))
        return parse_ints(values, 3, opt->blocks) ? 3 : -1;
    if (!strcmp(name, "-c"))
        return parse_doubles(values, 3, opt->c) ? 3 : -1;
    if (!strcmp(name, "-d"))
        return parse_ints(values, 1, &opt->dim) ? 1 : -1;
    if (!strcmp(name, "-solver"))
        return parse_ints(values, 1, &opt->solver) ? 1 : -1;
    if (!strcmp(name, "-stencil"))
        return parse_ints(values, 1, &opt->stencil) ? 1 : -1;
    if (strcmp(name, "-v") != 0 || !parse_ints(values, 2, relax))
        return -1;
    opt->n_pre = relax[0];
    opt->n_post = relax[1];
    return 2;
}

static bool parse_options(char **argv, int ranks, struct smg_options *opt)
{
    *opt = (struct smg_options){.n = {10, 10, 10},
                                .procs = {ranks, 1, 1},
                                .blocks = {1, 1, 1},
                                .c = {1.0, 1.0, 1.0},
                                .n_pre = 1,
                                .n_post = 1,
                                .dim = 3,
                                .stencil = 7};
    for (int i = 1; argv[i]; i++) {
        int used = parse_option(argv[i], argv + i + 1, opt);
        if (used < 0)
            return false;
        i += used;
    }
    if (opt->dim == 2) {
        opt->n[2] = opt->procs[2] = opt->blocks[2] = 1;
        opt->c[2] = 0.0;
    }
    return options_valid(opt, ranks);
}

static void print_options(const struct smg_options *opt)
{
    printf("Running with these driver parameters:\n");
    printf("  (nx, ny, nz)    = (%d, %d, %d)\n", opt->n[0], opt->n[1], opt->n[2]);
    printf("  (Px, Py, Pz)    = (%d, %d, %d)\n", opt->procs[0], opt->procs[1], opt->procs[2]);
    printf("  (bx, by, bz)    = (%d, %d, %d)\n", opt->blocks[0], opt->blocks[1], opt->blocks[2]);
    printf("  (cx, cy, cz)    = (%f, %f, %f)\n", opt->c[0], opt->c[1], opt->c[2]);
    printf("  (n_pre, n_post) = (%d, %d)\n", opt->n_pre, opt->n_post);
    printf("  dim             = %d\n", opt->dim);
    printf("  solver ID       = %d\n", opt->solver);
    if (opt->stencil != 7)
        printf("  stencil         = %d\n", opt->stencil);
}

/* ---- solve --------------------------------------------------------------------------------- */

static void phase_begin(struct phase *ph)
{
    MPI_Barrier(MPI_COMM_WORLD);
    ph->mpi = -mpi_time_seconds();
    ph->cpu = -(double)clock() / CLOCKS_PER_SEC;
    ph->wall = -MPI_Wtime();
}

static void phase_end(struct phase *ph)
{
    ph->wall += MPI_Wtime();
    ph->cpu += (double)clock() / CLOCKS_PER_SEC;
    ph->mpi += mpi_time_seconds();
}

static HYPRE_StructSolver create_smg(const struct smg_options *opt, int max_iter, double tol,
                                     int logging)
{
    HYPRE_StructSolver smg;
    HYPRE_StructSMGCreate(MPI_COMM_WORLD, &smg);
    HYPRE_StructSMGSetMemoryUse(smg, 0);
    HYPRE_StructSMGSetMaxIter(smg, max_iter);
    HYPRE_StructSMGSetTol(smg, tol);
    HYPRE_StructSMGSetRelChange(smg, 0);
    HYPRE_StructSMGSetNumPreRelax(smg, opt->n_pre);
    HYPRE_StructSMGSetNumPostRelax(smg, opt->n_post);
    HYPRE_StructSMGSetLogging(smg, logging);
    return smg;
}

static void solve_smg(struct smg_problem *p, struct result *res)
{
    HYPRE_Int iterations;

    phase_begin(&res->setup);
    HYPRE_StructSolver smg = create_smg(p->opt, MAX_ITER, TOLERANCE, 1);
    HYPRE_StructSMGSetup(smg, p->a, p->b, p->x);
    phase_end(&res->setup);

    phase_begin(&res->solve);
    HYPRE_StructSMGSolve(smg, p->a, p->b, p->x);
    phase_end(&res->solve);

    HYPRE_StructSMGGetNumIterations(smg, &iterations);
    HYPRE_StructSMGGetFinalRelativeResidualNorm(smg, &res->residual);
    HYPRE_StructSMGDestroy(smg);
    res->iterations = (int)iterations;
}

static void solve_cg(struct smg_problem *p, struct result *res)
{
    HYPRE_StructSolver cg, smg = NULL;
    HYPRE_Int iterations;

    phase_begin(&res->setup);
    HYPRE_StructPCGCreate(MPI_COMM_WORLD, &cg);
    HYPRE_StructPCGSetMaxIter(cg, MAX_ITER);
    HYPRE_StructPCGSetTol(cg, TOLERANCE);
    HYPRE_StructPCGSetTwoNorm(cg, 1);
    HYPRE_StructPCGSetRelChange(cg, 0);
    HYPRE_StructPCGSetLogging(cg, 1);
    if (p->opt->solver == SOLVER_CG_SMG) {
        smg = create_smg(p->opt, 1, 0.0, 0);
        HYPRE_StructSMGSetZeroGuess(smg);
        HYPRE_StructPCGSetPrecond(cg, HYPRE_StructSMGSolve, HYPRE_StructSMGSetup, smg);
    } else if (p->opt->solver == SOLVER_CG_DIAGONAL) {
        HYPRE_StructPCGSetPrecond(cg, HYPRE_StructDiagScale, HYPRE_StructDiagScaleSetup, NULL);
    }
    HYPRE_StructPCGSetup(cg, p->a, p->b, p->x);
    phase_end(&res->setup);

    phase_begin(&res->solve);
    HYPRE_StructPCGSolve(cg, p->a, p->b, p->x);
    phase_end(&res->solve);

    HYPRE_StructPCGGetNumIterations(cg, &iterations);
    HYPRE_StructPCGGetFinalRelativeResidualNorm(cg, &res->residual);
    HYPRE_StructPCGDestroy(cg);
    if (smg)
        HYPRE_StructSMGDestroy(smg);
    res->iterations = (int)iterations;
}

/* ---- report -------------------------------------------------------------------------------- */

/* Largest resident set this process ever had, in KiB. */
static double peak_rss_kib(void)
{
    char line[256];
    double kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "VmHWM:", 6))
            kib = strtod(line + 6, NULL);
    if (status)
        fclose(status);
    return kib;
}

static void print_phase(const char *title, const char *solver, const char *verb, double wall,
                        double cpu)
{
    static const char rule[] = "=============================================";
    printf("%s\n%s phase times:\n%s\n%s %s:\n", rule, title, rule, solver, verb);
    printf("  wall clock time = %f seconds\n  cpu clock time  = %f seconds\n\n", wall, cpu);
}

static void report(const struct smg_options *opt, const struct result *res, int rank, int ranks)
{
    double busy = res->setup.wall + res->solve.wall;
    double most[5] = {res->setup.wall, res->setup.cpu, res->solve.wall, res->solve.cpu,
                      peak_rss_kib()};
    double sum[2] = {res->setup.mpi + res->solve.mpi, busy};
    const char *name = opt->solver == SOLVER_SMG ? "SMG" : "PCG";
    bool converged = res->residual < TOLERANCE;
    double share;

    MPI_Allreduce(MPI_IN_PLACE, most, 5, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, sum, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank != 0)
        return;
    share = busy > 0 ? sum[0] / sum[1] : 0.0;
    print_phase("Setup", name, "Setup", most[0], most[1]);
    print_phase("Solve", name, "Solve", most[2], most[3]);
    printf("\nIterations = %d\nFinal Relative Residual Norm = %e\n\n", res->iterations,
           res->residual);
    printf("smg2000: ranks=%d iterations=%d residual=%.17g converged=%d setup_seconds=%.6f "
           "solve_seconds=%.6f comm_share=%.4f peak_rss_kib=%.0f\n",
           ranks, res->iterations, res->residual, converged, most[0], most[2], share, most[4]);
}

static int run(const struct smg_options *opt, int rank, int ranks)
{
    struct smg_problem problem;
    struct result result;

    if (rank == 0)
        print_options(opt);
    HYPRE_Init();
    smg_problem_init(&problem, opt, rank);
    if (opt->solver == SOLVER_SMG)
        solve_smg(&problem, &result);
    else
        solve_cg(&problem, &result);
    report(opt, &result, rank, ranks);
    smg_problem_fini(&problem);
    HYPRE_Finalize();
    return result.residual < TOLERANCE ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct smg_options opt;
    int rank, ranks, rc;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (parse_options(argv, ranks, &opt)) {
        rc = run(&opt, rank, ranks);
    } else {
        if (rank == 0) {
            usage(argv[0]);
            fprintf(stderr, "Error: Invalid arguments, or Px*Py*Pz is not the number of "
                            "processes\n");
        }
        rc = 2;
    }
    MPI_Finalize();
    return rc;
}
