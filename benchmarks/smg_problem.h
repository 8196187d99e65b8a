/* SPDX-License-Identifier: BSD-3-Clause */
/* SMG2000's linear system in HYPRE's struct interface: its parameters, and the objects made of
 * them. */
#ifndef SMG_PROBLEM_H
#define SMG_PROBLEM_H

#include <HYPRE.h>
#include <HYPRE_struct_mv.h>

#define SMG_MAX_STENCIL 14

struct smg_options {
    int n[3];     /* cells per block */
    int procs[3]; /* processor grid */
    int blocks[3];
    double c[3];
    int n_pre, n_post;
    int dim;
    int solver;
    int stencil; /* points of the three-dimensional stencil: 7 or 27 */
};

struct smg_problem {
    const struct smg_options *opt;
    HYPRE_StructGrid grid;
    HYPRE_StructStencil stencil;
    HYPRE_StructMatrix a;
    HYPRE_StructVector b, x;
    HYPRE_Int offsets[SMG_MAX_STENCIL][3]; /* the half that symmetric storage keeps */
    double values[SMG_MAX_STENCIL];
    int entries;
    int corner[3]; /* lowest cell of this process's first block */
};

/* Collective. `opt` is borrowed; the options must have been checked. Out of memory ends the job. */
void smg_problem_init(struct smg_problem *p, const struct smg_options *opt, int rank);
void smg_problem_fini(struct smg_problem *p);

#endif
