/* Every kernel, for one instruction set. instruction_sets.h includes this file once for each: the NAME macro gives
 * each function its own name, TARGET its instructions.
 *
 * The loops are short, so that the compiler turns each into vector instructions.
 */

#include "ciede2000_kernel.h"
#include "ciede2000_bounds_kernel.h"
#include "euclidean_kernels.h"

static const DeltaE NAME(differences)[DIFFERENCES] = {
    [CIEDE2000] = {"ciede2000", COMPUTE(compute_delta_e_ciede2000), BOUND(bound_ciede2000)},
    [CIE76] = {"cie76", COMPUTE(compute_delta_e_euclidean), BOUND(bound_euclidean)},
    [CIE94] = {"cie94", COMPUTE(compute_delta_e_cie94), BOUND(bound_cie94)},
    [HYAB] = {"hyab", COMPUTE(compute_delta_e_hyab), BOUND(bound_hyab)},
    [OKLAB] = {"oklab", COMPUTE(compute_delta_e_euclidean), BOUND(bound_euclidean)},
};

#undef NAME
#undef TARGET
