// SPDX-License-Identifier: Apache-2.0
//
// Special functions in fp64 that the C library lacks: what opfuncs of those names compute before
// the one rounding to their format. Errors are below 1e-12 of the result, and near a zero that is
// no floating-point number below 1e-14 of the function's size around it; polynomials of degree n
// lose n^2 times 1e-16 of their size. Domains and poles are PyTorch's (torch.special). Definitions:
// NIST Digital Library of Mathematical Functions, chapters 5, 7, 10, 18 and 25.
#ifndef TENSOR_SPECIAL_FUNCTIONS_H
#define TENSOR_SPECIAL_FUNCTIONS_H

double special_digamma(double x);

// Hurwitz' zeta function, the sum of (q + k)^-s over k = 0, 1, ..; NaN below s = 1.
double special_zeta(double s, double q);

// The derivative of order n of digamma; `order` is cut to a whole number.
double special_polygamma(double order, double x);

// Modified Bessel functions of order 0 or 1, times e^-|x| (first kind) or e^x (second kind).
double special_bessel_i_scaled(int order, double x);
double special_bessel_k_scaled(int order, double x);

// y with erf(y) = size and erfc(y) = rest, which is 1 - size, both within [0, 1].
double special_erf_root(double size, double rest);

double special_erfcx(double x);    // e^(x^2) erfc(x); x^2 is exact for what the card holds
double special_log_ndtr(double x); // log of the normal distribution
double special_ndtri(double p);    // the inverse of the normal distribution

// Orthogonal polynomials at x; the degree is cut to a whole number, 0 below degree 0, NaN beyond
// degree 16384.
typedef enum {
    SPECIAL_CHEBYSHEV_T,
    SPECIAL_CHEBYSHEV_U,
    SPECIAL_CHEBYSHEV_V,
    SPECIAL_CHEBYSHEV_W,
    SPECIAL_HERMITE_H,
    SPECIAL_HERMITE_HE,
    SPECIAL_LAGUERRE,
    SPECIAL_LEGENDRE
} special_family;

double special_polynomial(special_family family, double x, double degree);

#endif
