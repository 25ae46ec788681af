// SPDX-License-Identifier: Apache-2.0
//
// Series, recurrences and integrals as the chapters named in the header have them. An integral over
// a period, or of what falls off on both sides, is taken at equal steps: the error of that falls
// exponentially with their number (DLMF 3.5.1).
#include "tensor/special_functions.h"

#include <math.h>
#include <stdbool.h>

static const double PI = 3.14159265358979323846, ROOT_TWO = 1.41421356237309504880;
static const double ROOT_PI = 1.77245385090551602730;

// B(2k) / (2k)! of the Bernoulli numbers, k = 1, 2, ..
static const double bernoulli[] = {
    1.0 / 12,
    -1.0 / 720,
    1.0 / 30240,
    -1.0 / 1209600,
    1.0 / 47900160,
    -691.0 / 1307674368000,
    1.0 / 74724249600,
    -3617.0 / 10670622842880000,
};
enum { BERNOULLI = sizeof bernoulli / sizeof *bernoulli };

// Stirling's series holds from here on.
static const double FAR = 12.0;

double special_digamma(double x)
{
    if (x == 0.0) return copysign((double)INFINITY, -x);
    if (x < 0.0) {
        double part = x - trunc(x);
        if (part == 0.0) return (double)NAN;
        return special_digamma(1.0 - x) - PI / tan(PI * part);
    }
    double sum = 0.0, factorial = 1.0, power = 1.0;
    for (; x < FAR; x += 1.0) sum -= 1.0 / x;
    for (int k = 0; k < BERNOULLI; k++) {
        power *= x * x;
        sum -= bernoulli[k] * factorial / power;        // B(2k) / 2k = (B(2k) / (2k)!) (2k - 1)!
        factorial *= (2 * k + 2) * (2 * k + 3);
    }
    return sum + log(x) - 0.5 / x;
}

// Of q > 0: the first terms, and Euler's and Maclaurin's formula for the rest.
static double zeta_of_positive(double s, double q)
{
    double sum = 0.0;
    for (; q < FAR || q < s; q += 1.0) {
        double term = pow(q, -s);
        sum += term;
        if (!(term > 1e-17 * sum) || isinf(sum)) return sum;
    }
    double power = pow(q, -s), factor = s * power / q;
    sum += power * (q / (s - 1.0) + 0.5);
    for (int k = 0; k < BERNOULLI; k++) {
        sum += bernoulli[k] * factor;
        factor *= (s + (2 * k + 1)) * (s + (2 * k + 2)) / (q * q);
    }
    return sum;
}

double special_zeta(double s, double q)
{
    if (s == 1.0) return (double)INFINITY;
    if (!(s > 1.0) || isnan(q)) return (double)NAN;
    if (q > 0.0) return isinf(q) ? 0.0 : zeta_of_positive(s, q);
    if (q == floor(q)) return (double)INFINITY;
    if (s != floor(s)) return (double)NAN;
    // The sum over all whole numbers, of which those below q are taken away.
    double near = q - rint(q), sign = fmod(s, 2.0) == 0.0 ? 1.0 : -1.0;
    double below = zeta_of_positive(s, 1.0 - near) - zeta_of_positive(s, 1.0 - q);
    return pow(near, -s) + zeta_of_positive(s, 1.0 + near) + sign * below;
}

double special_polygamma(double order, double x)
{
    order = trunc(order);
    if (!(order >= 0.0)) return (double)NAN;
    if (order == 0.0) return special_digamma(x);
    double size = tgamma(order + 1.0) * special_zeta(order + 1.0, x);
    return fmod(order, 2.0) == 0.0 ? -size : size;
}

double special_bessel_i_scaled(int order, double x)
{
    double size = fabs(x), sum = 1.0, term = 1.0;
    if (size < 30.0) { // the ascending series
        for (int k = 1; term > 1e-18 * sum; k++) {
            term *= size * size / 4.0 / ((double)k * (k + order));
            sum += term;
        }
        sum *= exp(-size) * (order == 0 ? 1.0 : size / 2.0);
    } else { // Hankel's expansion
        for (int k = 1; fabs(term) > 1e-18; k++) {
            term *= -(4.0 * order - (2 * k - 1) * (2.0 * k - 1)) / (8.0 * k * size);
            sum += term;
        }
        sum /= sqrt(2.0 * PI * size);
    }
    return order == 0 ? sum : copysign(sum, x);
}

// The integral of e^(-x (cosh t - 1)) cosh(order t) over t > 0.
double special_bessel_k_scaled(int order, double x)
{
    if (!(x >= 0.0)) return (double)NAN;
    if (x == 0.0) return (double)INFINITY;
    if (isinf(x)) return 0.0;
    double step = fmin(0.2, 0.7 / sqrt(x)), sum = 0.5;
    for (int n = 1;; n++) {
        double t = n * step, half = sinh(t / 2.0), fall = 2.0 * x * half * half;
        double term = exp(-fall) * (order == 0 ? 1.0 : cosh(t));
        sum += term;
        if (fall > 1.0 && term < 1e-17 * sum) return sum * step;
    }
}

// Newton's steps from below, where erf is concave, so that none goes too far; by the complement
// where erf is near one.
double special_erf_root(double size, double rest)
{
    double y = size * ROOT_PI / 2.0;
    for (int step = 0; step < 1000; step++) {
        double missing = size > 0.5 ? erfc(y) - rest : size - erf(y);
        double change = missing * ROOT_PI / 2.0 * exp(y * y);
        y += change;
        if (fabs(change) <= 1e-16 * y) break;
    }
    return y;
}

double special_erfcx(double x)
{
    if (x < 25.0) return exp(x * x) * erfc(x);
    double square = 2.0 * x * x, sum = 1.0;
    for (int k = 11; k > 0; k -= 2) sum = 1.0 - k / square * sum;
    return isnan(x) ? x : sum / (x * ROOT_PI);
}

double special_log_ndtr(double x)
{
    if (x > -1.0) return log1p(-0.5 * erfc(x / ROOT_TWO));
    return log(0.5 * special_erfcx(-x / ROOT_TWO)) - 0.5 * x * x;
}

double special_ndtri(double p)
{
    if (!(p >= 0.0 && p <= 1.0)) return (double)NAN;
    if (p == 0.0 || p == 1.0) return p == 0.0 ? -(double)INFINITY : (double)INFINITY;
    double rest = 2.0 * fmin(p, 1.0 - p), y = ROOT_TWO * special_erf_root(1.0 - rest, rest);
    return p < 0.5 ? -y : y;
}

static const int MOST_DEGREE = 1 << 14;

// Degree 1; that of degree 0 is 1 in every family.
static double first_degree(special_family family, double x)
{
    switch (family) {
    case SPECIAL_CHEBYSHEV_U:
    case SPECIAL_HERMITE_H: return 2.0 * x;
    case SPECIAL_CHEBYSHEV_V: return 2.0 * x - 1.0;
    case SPECIAL_CHEBYSHEV_W: return 2.0 * x + 1.0;
    case SPECIAL_LAGUERRE: return 1.0 - x;
    case SPECIAL_CHEBYSHEV_T:
    case SPECIAL_HERMITE_HE:
    case SPECIAL_LEGENDRE: break;
    }
    return x;
}

// Degree n + 1 of those of n and n - 1.
static double next_degree(special_family family, double x, double n, double last, double before)
{
    switch (family) {
    case SPECIAL_HERMITE_H: return 2.0 * (x * last - n * before);
    case SPECIAL_HERMITE_HE: return x * last - n * before;
    case SPECIAL_LAGUERRE: return ((2.0 * n + 1.0 - x) * last - n * before) / (n + 1.0);
    case SPECIAL_LEGENDRE: return ((2.0 * n + 1.0) * x * last - n * before) / (n + 1.0);
    case SPECIAL_CHEBYSHEV_T:
    case SPECIAL_CHEBYSHEV_U:
    case SPECIAL_CHEBYSHEV_V:
    case SPECIAL_CHEBYSHEV_W: break;
    }
    return 2.0 * x * last - before;
}

double special_polynomial(special_family family, double x, double degree)
{
    if (isnan(x) || isnan(degree) || degree > MOST_DEGREE) return (double)NAN;
    if (degree <= -1.0) return 0.0;
    double last = 1.0, value = first_degree(family, x);
    if (degree < 1.0) return last;
    for (int n = 1; n < (int)degree && !isnan(value); n++) {
        double next = next_degree(family, x, n, value, last);
        last = value;
        value = next;
    }
    return value;
}
