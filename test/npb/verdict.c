/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kernel whose outcome is known before: class S is exact, B just within the tolerance, W just
 * beyond it, A not a number. Only rank 0 judges; all ranks must end with its verdict.
 */
#include "benchmarks/npb/npb_common.h"

#include <math.h>

#define EPSILON 1e-8

static void run(char class, struct npb_result *result)
{
    static const double errors[] = {0, 1.01 * EPSILON, NAN, 0.99 * EPSILON};
    double error = errors[npb_class_index(class)];

    result->size[0] = 1;
    result->iterations = 1;
    result->seconds = npb_timer_stop(npb_timer_start());
    result->verified = npb_verify("value", -3 * (1 + error), -3, EPSILON);
    if (npb_rank() != 0)
        result->verified = !result->verified;
}

int main(int argc, char **argv)
{
    const struct npb_kernel kernel = {.name = "Verdict", .operation = "nothing", .run = run};

    return npb_main(argc, argv, &kernel);
}
