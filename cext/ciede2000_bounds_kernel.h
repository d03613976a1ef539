/* Bounds of the CIEDE2000 difference between each colour of a block and any point of a box: interval arithmetic in the
 * order of the formula. kernels.h includes this file; docs/develop/indexes.md derives each step. Equation numbers are
 * those of Sharma, Wu and Dalal 2005. Names with 1 belong to the colours, with 2 to the point.
 *
 * It calls no libm, so every processor builds the same index, byte for byte.
 */

TARGET static void NAME(bound_ciede2000)(
    const LabBlock *colours, const LabBox *box, double *restrict least, double *restrict most)
{
    double l_low[LANES], l_high[LANES], stretch_low[LANES], stretch_high[LANES], a2_low[LANES], a2_high[LANES];
    double c1_low[LANES], c1_high[LANES], c2_low[LANES], c2_high[LANES];
    double x_low[LANES], x_high[LANES], y_low[LANES], y_high[LANES], r_low[LANES], r_high[LANES];
    double plane_low[LANES], plane_high[LANES]; /* of x^2 + y^2 */
    double cosine[LANES], sine[LANES], half_sine[LANES], hue_radius[LANES];
    double t_low[LANES], t_high[LANES], gauss_low[LANES], gauss_high[LANES];
    double has_hue[LANES], wraps[LANES]; /* 1 or 0 */

    EACH_LANE { /* dL' / SL grows with the distance in lightness, on either side */
        double lightness = colours->lightness[i];
        double to_low = lightness_term(lightness, box->lightness_low);
        double to_high = lightness_term(lightness, box->lightness_high);
        int outside = (lightness < box->lightness_low) | (lightness > box->lightness_high);
        l_low[i] = outside ? smaller(to_low, to_high) : 0.0;
        l_high[i] = greater(to_low, to_high);
    }

    EACH_LANE { /* 1 + G (4) falls as chroma grows */
        stretch_low[i] = 1.5 - 0.5 * chroma_ratio((colours->chroma[i] + box->chroma_high) * 0.5);
        stretch_high[i] = 1.5 - 0.5 * chroma_ratio((colours->chroma[i] + box->chroma_low) * 0.5);
    }

    EACH_LANE { /* (5) (6) */
        a2_low[i] = smaller(stretch_low[i] * box->a_low, stretch_high[i] * box->a_low);
        a2_high[i] = greater(stretch_low[i] * box->a_high, stretch_high[i] * box->a_high);
        c1_low[i] = norm(stretch_low[i] * colours->a[i], colours->b[i]);
        c1_high[i] = norm(stretch_high[i] * colours->a[i], colours->b[i]);
        c2_low[i] = norm(clamp(0.0, a2_low[i], a2_high[i]), clamp(0.0, box->b_low, box->b_high));
        c2_high[i] = norm(greater(-a2_low[i], a2_high[i]), greater(-box->b_low, box->b_high));
    }

    EACH_LANE { /* dC' / SC (9) (19) grows with C2' and falls with C1' */
        x_low[i] = (c2_low[i] - c1_high[i]) / (1.0 + 0.0225 * (c2_low[i] + c1_high[i]));
        x_high[i] = (c2_high[i] - c1_low[i]) / (1.0 + 0.0225 * (c2_high[i] + c1_low[i]));
    }

    /* The hues (7) are the directions of the midpoints. The radius bounds the angle to any corner, because an angle is
     * at most its tangent. ciede2000_kernel.h has the algebra of the mean hue. */
    EACH_LANE {
        double stretch = (stretch_low[i] + stretch_high[i]) * 0.5;
        double a1 = stretch * colours->a[i], b1 = colours->b[i];
        double a2 = (a2_low[i] + a2_high[i]) * 0.5, b2 = (box->b_low + box->b_high) * 0.5;
        double a2_half = (a2_high[i] - a2_low[i]) * 0.5, b2_half = (box->b_high - box->b_low) * 0.5;
        double dot1 = stretch_low[i] * colours->a[i] * a1 + b1 * b1;
        double dot2 = a2 * a2 + b2 * b2 - fabs(a2) * a2_half - fabs(b2) * b2_half; /* the least of the corners */
        double radius = (stretch - stretch_low[i]) * fabs(colours->a[i] * b1) / greater(dot1, 1e-150)
                      + (fabs(a2) * b2_half + fabs(b2) * a2_half) / greater(dot2, 1e-150);
        double c1 = norm(a1, b1), c2 = norm(a2, b2), product = c1 * c2;
        double cross = a1 * b2 - a2 * b1, dot = a1 * a2 + b1 * b2;
        double length2_over_product = 2.0 * (product + fabs(dot));
        double inverse = 1.0 / greater(sqrt(product * length2_over_product), 1e-150);
        double ahead = cross >= 0.0 ? 1.0 : -1.0;
        int near = dot >= 0.0;
        cosine[i] = (near ? c2 * a1 + c1 * a2 : ahead * (c1 * b2 - c2 * b1)) * inverse;
        sine[i] = (near ? c2 * b1 + c1 * b2 : ahead * (c2 * a1 - c1 * a2)) * inverse;
        half_sine[i] = (near ? cross : ahead * length2_over_product * 0.5) * inverse; /* sin(dh' / 2) */
        hue_radius[i] = radius;
        has_hue[i] = (dot1 > 1e-9) & (dot2 > 1e-9) ? 1.0 : 0.0;
        /* An angle is at least its sine, so hues over 90 degrees apart are at least |cross| / product short of 180. */
        double room = near ? 1.5 : fabs(cross) / greater(product, 1e-150);
        wraps[i] = (has_hue[i] > 0.0) & (radius < 1.5) & (room > radius + 1e-9) ? 0.0 : 1.0;
    }

    EACH_LANE { /* Taylor around the mean hue: |T''| <= 7.21; the Gaussian's slope is below 1.97 */
        double half = hue_radius[i] * 0.5;
        HueTerm t = hue_term(cosine[i], sine[i]);
        double change = fabs(t.slope) * half + 7.21 / 2.0 * half * half;
        t_low[i] = wraps[i] > 0.0 ? 0.07 : greater(t.value - change, 0.07);
        t_high[i] = wraps[i] > 0.0 ? 1.93 : smaller(t.value + change, 1.93);
        double gauss = hue_gaussian(cosine[i], sine[i]);
        /* (16) does not wrap: it is 0 for mean hues below 90 degrees, where `gauss` is below 1e-5. */
        gauss_low[i] = wraps[i] > 0.0 ? 0.0 : greater(gauss - 1.97 * half - 1e-5, 0.0);
        gauss_high[i] = wraps[i] > 0.0 ? 1.0 : smaller(gauss + 1.97 * half, 1.0);
    }

    EACH_LANE {
        double mean_low = (c1_low[i] + c2_low[i]) * 0.5, mean_high = (c1_high[i] + c2_high[i]) * 0.5; /* (13) */
        double rotation_low = 2.0 * chroma_ratio(mean_low) * sin_60_degrees_times(gauss_low[i]); /* -RT (17) (21) */
        double rotation_high = 2.0 * chroma_ratio(mean_high) * sin_60_degrees_times(gauss_high[i]);
        double scale_low = 2.0 * sqrt(c1_low[i] * c2_low[i]) / (1.0 + 0.015 * mean_high * t_high[i]); /* (11) (20) */
        double scale_high = 2.0 * sqrt(c1_high[i] * c2_high[i]) / (1.0 + 0.015 * mean_low * t_low[i]);
        double half = hue_radius[i] * 0.5; /* an angle's sine changes no more than the angle */
        double low = greater(half_sine[i] - half, -1.0), high = smaller(half_sine[i] + half, 1.0);
        double wrapped_low = has_hue[i] * greater(fabs(half_sine[i]) - half, 0.0);
        /* Past 180 degrees both signs of dH' count. The mirrored rectangle with r is the rectangle with -r. */
        int is_wrapped = wraps[i] > 0.0;
        /* dC'^2 + dH'^2 is the squared distance between both (a', b'), which share 1 + G (5). x^2 + y^2 is that square
         * over SH^2, less dC'^2 (1 / SH^2 - 1 / SC^2), so its bounds need no angles. SH < SC. */
        double a_near = stretch_low[i] * nearest_of(colours->a[i], box->a_low, box->a_high);
        double a_far = stretch_high[i] * farthest_of(colours->a[i], box->a_low, box->a_high);
        double b_near = nearest_of(colours->b[i], box->b_low, box->b_high);
        double b_far = farthest_of(colours->b[i], box->b_low, box->b_high);
        double c_near = greater(greater(c2_low[i] - c1_high[i], c1_low[i] - c2_high[i]), 0.0);
        double c_far = greater(c2_high[i] - c1_low[i], c1_high[i] - c2_low[i]);
        double of_c_low = 1.0 / (1.0 + 0.045 * mean_high), of_c_high = 1.0 / (1.0 + 0.045 * mean_low);
        double of_h_low = 1.0 / (1.0 + 0.015 * mean_high * t_high[i]), of_h_high = 1.0 / (1.0 + 0.015 * mean_low * t_low[i]);
        double near_square = a_near * a_near + b_near * b_near, far_square = a_far * a_far + b_far * b_far;
        double of_c2_low = of_c_low * of_c_low, of_c2_high = of_c_high * of_c_high;
        double of_h2_low = of_h_low * of_h_low, of_h2_high = of_h_high * of_h_high;
        double rest = greater(near_square * of_h2_low - c_far * c_far * (of_h2_low - of_c2_low), near_square * of_c2_low);
        plane_low[i] = (1.0 - 0.5 * rotation_high) * rest;
        plane_high[i] =
            (1.0 + 0.5 * rotation_high) * (far_square * of_h2_high - c_near * c_near * (of_h2_high - of_c2_high));
        r_low[i] = is_wrapped ? -rotation_high : rotation_low;
        r_high[i] = rotation_high;
        y_low[i] = is_wrapped ? wrapped_low * scale_low : low * (low < 0.0 ? scale_high : scale_low);
        y_high[i] = is_wrapped ? scale_high : high * (high < 0.0 ? scale_low : scale_high);
    }

    EACH_LANE { /* (22) is linear in RT, so its ends suffice. The least is at 0 or on an edge, the most at a corner. */
        double x0 = x_low[i], x1 = x_high[i], y0 = y_low[i], y1 = y_high[i], r0 = r_low[i], r1 = r_high[i];
        double least0 = smaller(
            smaller(form(x0, clamp(r0 * x0 * 0.5, y0, y1), r0), form(x1, clamp(r0 * x1 * 0.5, y0, y1), r0)),
            smaller(form(clamp(r0 * y0 * 0.5, x0, x1), y0, r0), form(clamp(r0 * y1 * 0.5, x0, x1), y1, r0)));
        double least1 = smaller(
            smaller(form(x0, clamp(r1 * x0 * 0.5, y0, y1), r1), form(x1, clamp(r1 * x1 * 0.5, y0, y1), r1)),
            smaller(form(clamp(r1 * y0 * 0.5, x0, x1), y0, r1), form(clamp(r1 * y1 * 0.5, x0, x1), y1, r1)));
        int has_zero = (x0 <= 0.0) & (0.0 <= x1) & (y0 <= 0.0) & (0.0 <= y1);
        double square = has_zero ? 0.0 : smaller(least0, least1);
        least[i] = sqrt(l_low[i] * l_low[i] + greater(square, plane_low[i]));
    }

    EACH_LANE {
        double x0 = x_low[i], x1 = x_high[i], y0 = y_low[i], y1 = y_high[i], r0 = r_low[i], r1 = r_high[i];
        double most0 = greater(greater(form(x0, y0, r0), form(x0, y1, r0)), greater(form(x1, y0, r0), form(x1, y1, r0)));
        double most1 = greater(greater(form(x0, y0, r1), form(x0, y1, r1)), greater(form(x1, y0, r1), form(x1, y1, r1)));
        most[i] = sqrt(l_high[i] * l_high[i] + smaller(greater(most0, most1), plane_high[i]));
    }
}
