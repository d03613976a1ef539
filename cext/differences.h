/* The colour-difference formulas: what a kernel takes and returns, and the terms that several kernels share. */
#ifndef SEPU_DIFFERENCES_H
#define SEPU_DIFFERENCES_H

#include <math.h>

/* PERF: one vector of AVX-512, two of AVX2. Blocks of 16 take 15 % less time per pair, but make a query compute more
 * pairs that it does not need. */
#define LANES 8

/* A colour in each lane, so that one instruction computes several. */
typedef struct {
    double lightness[LANES];
    double a[LANES];
    double b[LANES];
    double chroma[LANES]; /* C*ab (2) */
} LabBlock;

/* A box in L*a*b*, or in another space with a lightness. */
typedef struct {
    double lightness_low, lightness_high;
    double a_low, a_high;
    double b_low, b_high;
    double chroma_low, chroma_high;
} LabBox;

/* Computes the differences between `one` and `two`, lane by lane. */
typedef void (*DeltaEFunction)(const LabBlock *one, const LabBlock *two, double *restrict delta_e);

/* Bounds the difference between each colour and any point of the box. */
typedef void (*BoundsFunction)(
    const LabBlock *colours, const LabBox *box, double *restrict least, double *restrict most);

typedef enum { CIEDE2000, CIE76, CIE94, HYAB, OKLAB, DIFFERENCES } Difference;

typedef struct {
    const char *name;
    DeltaEFunction compute;
    BoundsFunction bound;
} DeltaE;

/* The constants of CIEDE2000. */
static const double COS_30 = 0.8660254037844386, SIN_30 = 0.5;
static const double COS_6 = 0.9945218953682733, SIN_6 = 0.10452846326765347;
static const double COS_63 = 0.4539904997395468, SIN_63 = 0.8910065241883678;
static const double COS_275 = 0.08715574274765789, SIN_275 = -0.9961946980917455;

/* The polynomials of docs/develop/matching.md: the fourth root of the Gaussian of eq. 16, and sin(pi/3 x). */
static const double GAUSS_1 = -2.626245080008977, GAUSS_2 = 3.010874096774643,
                    GAUSS_3 = -1.986134961724038, GAUSS_4 = 0.8374658323174304,
                    GAUSS_5 = -0.23751566795666457, GAUSS_6 = 0.04652056266169513,
                    GAUSS_7 = -0.006375587124543891, GAUSS_8 = 0.0006141315900922706,
                    GAUSS_9 = -4.11127272954559e-05, GAUSS_10 = 1.6813003043125718e-06;
static const double SINE_1 = 1.0471975511956877, SINE_3 = -0.19139676960597068,
                    SINE_5 = 0.01049450201743228, SINE_7 = -0.00027401142913625887,
                    SINE_9 = 4.172272213401329e-06, SINE_11 = -4.066585866657757e-08;

static inline double smaller(double x, double y) { return x < y ? x : y; }

static inline double greater(double x, double y) { return x > y ? x : y; }

static inline double clamp(double value, double low, double high) { return smaller(greater(value, low), high); }

static inline double norm(double x, double y) { return sqrt(x * x + y * y); }

/* How far a value is from the nearest and from the farthest point of an interval. */
static inline double nearest_of(double value, double low, double high)
{
    return greater(greater(low - value, value - high), 0.0);
}

static inline double farthest_of(double value, double low, double high) { return greater(value - low, high - value); }

/* sqrt(C^7 / (C^7 + 25^7)) of (4) and (17). */
static inline double chroma_ratio(double chroma)
{
    double cubed = chroma * chroma * chroma, seventh = cubed * cubed * chroma;
    return sqrt(seventh / (seventh + 6103515625.0));
}

static inline double lightness_term(double lightness1, double lightness2) /* (8) (12) (18) */
{
    double centred = (lightness1 + lightness2) * 0.5 - 50.0, squared = centred * centred;
    double root = sqrt(20.0 + squared);
    return fabs(lightness2 - lightness1) * root / (root + 0.015 * squared);
}

typedef struct {
    double value, slope; /* per radian */
} HueTerm;

/* T (15) of a mean hue, by the formulas of multiple angles. */
static inline HueTerm hue_term(double cos1, double sin1)
{
    double cos2 = cos1 * cos1 - sin1 * sin1, sin2 = 2.0 * cos1 * sin1;
    double cos3 = cos1 * cos2 - sin1 * sin2, sin3 = sin1 * cos2 + cos1 * sin2;
    double cos4 = cos2 * cos2 - sin2 * sin2, sin4 = 2.0 * cos2 * sin2;
    return (HueTerm){
        1.0 - 0.17 * (COS_30 * cos1 + SIN_30 * sin1) + 0.24 * cos2 + 0.32 * (COS_6 * cos3 - SIN_6 * sin3)
            - 0.20 * (COS_63 * cos4 + SIN_63 * sin4),
        0.17 * (COS_30 * sin1 - SIN_30 * cos1) - 0.48 * sin2 - 0.96 * (COS_6 * sin3 + SIN_6 * cos3)
            + 0.80 * (COS_63 * sin4 - SIN_63 * cos4),
    };
}

/* The Gaussian (16) of a mean hue h, wrapped at 360 degrees: the fourth root of exp(-((h - 275) / 25)^2) as a
 * polynomial in 1 - cos(h - 275). */
static inline double hue_gaussian(double cos1, double sin1)
{
    double x = 1.0 - (COS_275 * cos1 + SIN_275 * sin1);
    double root = 1.0 + x * (GAUSS_1 + x * (GAUSS_2 + x * (GAUSS_3 + x * (GAUSS_4 + x * (GAUSS_5
                + x * (GAUSS_6 + x * (GAUSS_7 + x * (GAUSS_8 + x * (GAUSS_9 + x * GAUSS_10)))))))));
    return (root * root) * (root * root);
}

/* sin(pi/3 x) */
static inline double sin_60_degrees_times(double x)
{
    double g = x * x;
    return x * (SINE_1 + g * (SINE_3 + g * (SINE_5 + g * (SINE_7 + g * (SINE_9 + g * SINE_11)))));
}

/* The terms of (22) without lightness: x = dC'/SC, y = dH'/SH, r = -RT. Convex, because |r| < 2. */
static inline double form(double x, double y, double r) { return x * x + y * y - r * x * y; }

#endif
