/* Every kernel, for one instruction set. instruction_sets.h includes this file once for each: the macro NAME makes a name of
 * a function's own, TARGET names its instructions.
 *
 * The loops are short, so that the compiler turns each into vector instructions.
 */

#include "ciede2000_kernel.h"
#include "ciede2000_bounds_kernel.h"
#include "euclidean_kernels.h"

static const DeltaE NAME(differences)[DIFFERENCES] = {
    [CIEDE2000] = {"ciede2000", NAME(compute_delta_e_ciede2000), NAME(bound_ciede2000)},
    [CIE76] = {"cie76", NAME(compute_delta_e_euclidean), NAME(bound_euclidean)},
    [CIE94] = {"cie94", NAME(compute_delta_e_cie94), NAME(bound_cie94)},
    [HYAB] = {"hyab", NAME(compute_delta_e_hyab), NAME(bound_hyab)},
    [OKLAB] = {"oklab", NAME(compute_delta_e_euclidean), NAME(bound_euclidean)},
};

#undef NAME
#undef TARGET
