/* The kernels, compiled for each instruction set, and the choice between them at run time.
 *
 * Each lane does the same operations in the same order, and IEEE 754 defines how to round each, so all instruction sets
 * give the same bits. That holds as long as the compiler fuses no multiply-add: -ffp-contract=off.
 */
#ifndef SEPU_INSTRUCTION_SETS_H
#define SEPU_INSTRUCTION_SETS_H

#include "differences.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define EACH_LANE for (int i = 0; i < LANES; i++)

/* A search needs the differences, building an index their bounds: a module compiles only what it needs. */
#if defined(SEPU_BOUNDS)
#define COMPUTE(function) 0
#define BOUND(function) NAME(function)
#else
#define COMPUTE(function) NAME(function)
#define BOUND(function) 0
#endif

#define TARGET __attribute__((unused))
#define NAME(function) function##_baseline
#include "kernels.h"

#if defined(__x86_64__)
#define TARGET __attribute__((unused, target("avx2")))
#define NAME(function) function##_avx2
#include "kernels.h"

#if defined(__clang__)
#define TARGET __attribute__((unused, target("avx512f,avx512dq,avx512vl")))
#else
#define TARGET __attribute__((unused, target("avx512f,avx512dq,avx512vl,prefer-vector-width=512")))
#endif
#define NAME(function) function##_avx512
#include "kernels.h"
#endif

#undef EACH_LANE

typedef struct {
    const char *name;
    const DeltaE *differences; /* one for each Difference */
} InstructionSet;

/* Sets whether the processor has the instructions and the system saves their registers. It asks the processor, because
 * __builtin_cpu_supports needs a run-time library that not every linker has (zig's does not). */
#if defined(__x86_64__)
static void detect_vector_instructions(int *avx2, int *avx512)
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

/* Fills `sets` with the instruction sets that this processor has, the fastest first; returns their number. */
#define MAX_INSTRUCTION_SETS 3
static int list_instruction_sets(InstructionSet *sets)
{
    int count = 0;
#if defined(__x86_64__)
    int avx2, avx512;
    detect_vector_instructions(&avx2, &avx512);
    if (avx512)
        sets[count++] = (InstructionSet){"avx512", differences_avx512};
    if (avx2)
        sets[count++] = (InstructionSet){"avx2", differences_avx2};
#endif
    sets[count++] = (InstructionSet){"baseline", differences_baseline};
    return count;
}

#endif
