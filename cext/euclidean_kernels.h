/* Euclidean differences (CIE76, OKLab), HyAB and CIE94, with their bounds. kernels.h includes this file;
 * docs/develop/indexes.md derives the bounds.
 */

TARGET static void NAME(compute_delta_e_euclidean)(const LabBlock *one, const LabBlock *two, double *restrict delta_e)
{
    EACH_LANE {
        double l = two->lightness[i] - one->lightness[i], a = two->a[i] - one->a[i], b = two->b[i] - one->b[i];
        delta_e[i] = sqrt(l * l + a * a + b * b);
    }
}

/* Abasi, Amani Tehran and Fairchild, "Distance metrics for very large color differences", Color Research and Application
 * 45 (2020), 208-223. */
TARGET static void NAME(compute_delta_e_hyab)(const LabBlock *one, const LabBlock *two, double *restrict delta_e)
{
    EACH_LANE {
        double l = two->lightness[i] - one->lightness[i], a = two->a[i] - one->a[i], b = two->b[i] - one->b[i];
        delta_e[i] = fabs(l) + norm(a, b);
    }
}

/* CIE 116:1995 for graphic arts: kL = 1, K1 = 0.045, K2 = 0.015. `two` is the standard, whose chroma sets the weights. */
TARGET static void NAME(compute_delta_e_cie94)(const LabBlock *one, const LabBlock *two, double *restrict delta_e)
{
    EACH_LANE {
        double l = two->lightness[i] - one->lightness[i], a = two->a[i] - one->a[i], b = two->b[i] - one->b[i];
        double c = two->chroma[i] - one->chroma[i];
        double h2 = greater(a * a + b * b - c * c, 0.0);
        double sc = 1.0 + 0.045 * two->chroma[i], sh = 1.0 + 0.015 * two->chroma[i];
        delta_e[i] = sqrt(l * l + c * c / (sc * sc) + h2 / (sh * sh));
    }
}

TARGET static void NAME(bound_euclidean)(
    const LabBlock *colours, const LabBox *box, double *restrict least, double *restrict most)
{
    EACH_LANE {
        double l = nearest_of(colours->lightness[i], box->lightness_low, box->lightness_high);
        double a = nearest_of(colours->a[i], box->a_low, box->a_high);
        double b = nearest_of(colours->b[i], box->b_low, box->b_high);
        least[i] = sqrt(l * l + a * a + b * b);
    }
    EACH_LANE {
        double l = farthest_of(colours->lightness[i], box->lightness_low, box->lightness_high);
        double a = farthest_of(colours->a[i], box->a_low, box->a_high);
        double b = farthest_of(colours->b[i], box->b_low, box->b_high);
        most[i] = sqrt(l * l + a * a + b * b);
    }
}

TARGET static void NAME(bound_hyab)(
    const LabBlock *colours, const LabBox *box, double *restrict least, double *restrict most)
{
    EACH_LANE {
        double a = nearest_of(colours->a[i], box->a_low, box->a_high);
        double b = nearest_of(colours->b[i], box->b_low, box->b_high);
        least[i] = nearest_of(colours->lightness[i], box->lightness_low, box->lightness_high) + norm(a, b);
    }
    EACH_LANE {
        double a = farthest_of(colours->a[i], box->a_low, box->a_high);
        double b = farthest_of(colours->b[i], box->b_low, box->b_high);
        most[i] = farthest_of(colours->lightness[i], box->lightness_low, box->lightness_high) + norm(a, b);
    }
}

/* The squared difference is l^2 + (a^2 + b^2) / SH^2 - c^2 (1 / SH^2 - 1 / SC^2), at least l^2 + c^2 / SC^2. */
TARGET static void NAME(bound_cie94)(
    const LabBlock *colours, const LabBox *box, double *restrict least, double *restrict most)
{
    EACH_LANE {
        double chroma = colours->chroma[i], sc = 1.0 + 0.045 * chroma, sh = 1.0 + 0.015 * chroma;
        double of_c = 1.0 / (sc * sc), of_h = 1.0 / (sh * sh);
        double l = nearest_of(colours->lightness[i], box->lightness_low, box->lightness_high);
        double a = nearest_of(colours->a[i], box->a_low, box->a_high);
        double b = nearest_of(colours->b[i], box->b_low, box->b_high);
        double c_low = nearest_of(chroma, box->chroma_low, box->chroma_high);
        double c_high = farthest_of(chroma, box->chroma_low, box->chroma_high);
        double plane = (a * a + b * b) * of_h - c_high * c_high * (of_h - of_c);
        double far_l = farthest_of(colours->lightness[i], box->lightness_low, box->lightness_high);
        double far_a = farthest_of(colours->a[i], box->a_low, box->a_high);
        double far_b = farthest_of(colours->b[i], box->b_low, box->b_high);
        double far_plane = (far_a * far_a + far_b * far_b) * of_h - c_low * c_low * (of_h - of_c);
        least[i] = sqrt(l * l + greater(plane, c_low * c_low * of_c));
        most[i] = sqrt(far_l * far_l + greater(far_plane, 0.0));
    }
}
