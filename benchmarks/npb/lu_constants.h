/* SPDX-License-Identifier: BSD-3-Clause */
/* The constants of LU's equations (RNR-94-007, section 3.2). */
#ifndef NPB_LU_CONSTANTS_H
#define NPB_LU_CONSTANTS_H

#define LU_K1    1.4 /* ratio of specific heats */
#define LU_K2    0.4
#define LU_K34   (0.1 * 1.0) /* viscosity */
#define LU_K15   (1.4 * 1.4)
#define LU_K1345 (LU_K34 * LU_K15)

/* Coefficient of the fourth-order dissipation: a quarter of the largest second-order one. */
#define LU_DISSIPATION_4 0.25

/* Coefficient of the second-order dissipation along an axis, for every variable. */
static inline double lu_dissipation_2(int axis)
{
    return axis == 2 ? 1.0 : 0.75;
}

/* Viscosity of velocity `d` along an axis: more where the flow is stretched than where sheared. */
static inline double lu_viscosity(int d, int axis)
{
    return d == axis ? LU_K34 * 4 / 3 : LU_K34;
}

#endif
