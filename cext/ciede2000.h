/* CIEDE2000 in double precision, block by block; docs/matching.md derives what differs from the paper.
 *
 * The body of the computation, ciede2000_block.h, is compiled once per instruction set. Each lane takes the same
 * operations in the same order, every one of them rounded as IEEE 754 says, so all instruction sets give the same
 * bits. That holds as long as the compiler fuses no multiply-add: -ffp-contract=off.
 */
#ifndef SEPU_CIEDE2000_H
#define SEPU_CIEDE2000_H

#include <math.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* PERF: one vector of AVX-512, two of AVX2. Blocks of 16 take 15 % less time a pair, but a query then meets more pairs
 * that it does not need. */
#define LANES 8

/* Colours side by side, so that one instruction takes several. */
typedef struct {
    double lightness[LANES];
    double a[LANES];
    double b[LANES];
    double chroma[LANES]; /* C*ab (2) */
} LabBlock;

/* The differences of `one` and `two`, lane by lane. */
typedef void (*Differences)(const LabBlock *one, const LabBlock *two, double *restrict out);

static const double COS_30 = 0.8660254037844386, SIN_30 = 0.5;
static const double COS_6 = 0.9945218953682733, SIN_6 = 0.10452846326765347;
static const double COS_63 = 0.4539904997395468, SIN_63 = 0.8910065241883678;
static const double COS_275 = 0.08715574274765789, SIN_275 = -0.9961946980917455;

/* The coefficients of docs/matching.md: a fourth root of the Gaussian of eq. 16, and sin(pi/3 x). */
static const double GAUSS_1 = -2.626245080008977, GAUSS_2 = 3.010874096774643,
                    GAUSS_3 = -1.986134961724038, GAUSS_4 = 0.8374658323174304,
                    GAUSS_5 = -0.23751566795666457, GAUSS_6 = 0.04652056266169513,
                    GAUSS_7 = -0.006375587124543891, GAUSS_8 = 0.0006141315900922706,
                    GAUSS_9 = -4.11127272954559e-05, GAUSS_10 = 1.6813003043125718e-06;
static const double SINE_1 = 1.0471975511956877, SINE_3 = -0.19139676960597068,
                    SINE_5 = 0.01049450201743228, SINE_7 = -0.00027401142913625887,
                    SINE_9 = 4.172272213401329e-06, SINE_11 = -4.066585866657757e-08;

#define DIFFERENCES differences_baseline
#include "ciede2000_block.h"

#if defined(__x86_64__) && defined(__clang__)

#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#define DIFFERENCES differences_avx2
#include "ciede2000_block.h"
#pragma clang attribute pop

#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl"))), apply_to = function)
#define DIFFERENCES differences_avx512
#include "ciede2000_block.h"
#pragma clang attribute pop

#elif defined(__x86_64__) && defined(__GNUC__)

#pragma GCC push_options
#pragma GCC target("avx2")
#define DIFFERENCES differences_avx2
#include "ciede2000_block.h"
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,prefer-vector-width=512")
#define DIFFERENCES differences_avx512
#include "ciede2000_block.h"
#pragma GCC pop_options

#endif

typedef struct {
    const char *name;
    Differences differences;
} Path;

/* Whether this processor has the instructions, and the system saves their registers. Asked of the processor itself:
 * __builtin_cpu_supports needs a run-time library that not every linker brings (zig's does not). */
#if defined(__x86_64__)
static void look_at_processor(int *avx2, int *avx512)
{
    const unsigned osxsave = 1u << 27, avx = 1u << 28;                              /* leaf 1, ECX */
    const unsigned avx2_bit = 1u << 5, avx512_bits = 1u << 16 | 1u << 17 | 1u << 31; /* leaf 7, EBX: F, DQ, VL */
    const unsigned ymm_saved = 0x06, zmm_saved = 0xe6;                              /* XCR0 */
    unsigned a, b, c, d, saved, high;
    *avx2 = *avx512 = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & (osxsave | avx)) != (osxsave | avx))
        return;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return;
    *avx2 = (b & avx2_bit) && (saved & ymm_saved) == ymm_saved;
    *avx512 = *avx2 && (b & avx512_bits) == avx512_bits && (saved & zmm_saved) == zmm_saved;
}
#endif

/* The paths that this processor can take, the fastest first; returns their number. */
#define MOST_PATHS 3
static int paths_here(Path *paths)
{
    int count = 0;
#if defined(__x86_64__)
    int avx2, avx512;
    look_at_processor(&avx2, &avx512);
    if (avx512)
        paths[count++] = (Path){"avx512", differences_avx512};
    if (avx2)
        paths[count++] = (Path){"avx2", differences_avx2};
#endif
    paths[count++] = (Path){"baseline", differences_baseline};
    return count;
}

#endif
