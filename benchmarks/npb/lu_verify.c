/* SPDX-License-Identifier: BSD-3-Clause */
/* The classes, and the values that NAS publishes for the verification of each. */
#include "benchmarks/npb/lu.h"

#include <string.h>

static const char names[] = "SWAB";

static const struct lu_class classes[] = {
    {
        .points = 12,
        .iterations = 50,
        .dt = 0.5,
        .residual = {1.6196343210976702e-02, 2.1976745164821318e-03, 1.5179927653399185e-03,
                     1.5029584435994323e-03, 3.4264073155896461e-02},
        .error = {6.4223319957960924e-04, 8.4144342047347926e-05, 5.8588269616485186e-05,
                  5.8474222595157350e-05, 1.3103347914111294e-03},
        .surface = 7.8418928865937083e+00,
    },
    {
        .points = 33,
        .iterations = 300,
        .dt = 1.5e-3,
        .residual = {0.1236511638192e+02, 0.1317228477799e+01, 0.2550120713095e+01,
                     0.2326187750252e+01, 0.2826799444189e+02},
        .error = {0.4867877144216e+00, 0.5064652880982e-01, 0.9281818101960e-01,
                  0.8570126542733e-01, 0.1084277417792e+01},
        .surface = 0.1161399311023e+02,
    },
    {
        .points = 64,
        .iterations = 250,
        .dt = 2.0,
        .residual = {7.7902107606689367e+02, 6.3402765259692870e+01, 1.9499249727292479e+02,
                     1.7845301160418537e+02, 1.8384760349464247e+03},
        .error = {2.9964085685471943e+01, 2.8194576365003349e+00, 7.3473412698774742e+00,
                  6.7139225687777051e+00, 7.0715315688392578e+01},
        .surface = 2.6030925604886277e+01,
    },
    {
        .points = 102,
        .iterations = 250,
        .dt = 2.0,
        .residual = {3.5532672969982736e+03, 2.6214750795310692e+02, 8.8333721850952190e+02,
                     7.7812774739425265e+02, 7.3087969592545314e+03},
        .error = {1.1401176380212709e+02, 8.1098963655421574e+00, 2.8480597317698308e+01,
                  2.5905394567832939e+01, 2.6054907504857413e+02},
        .surface = 4.7887162703308227e+01,
    },
};

const struct lu_class *lu_class_find(char name)
{
    const char *found = name ? strchr(names, name) : NULL;

    return found ? &classes[found - names] : NULL;
}
