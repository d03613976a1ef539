/* The CIEDE2000 formula in double precision, for a block of pairs. kernels.h includes this file.
 *
 * The loops are short, so that the compiler turns each into vector instructions, and so that the divisions of one
 * overlap with the arithmetic of the next. Equation numbers are those of Sharma, Wu and Dalal 2005;
 * docs/develop/matching.md derives the steps marked "algebra".
 */

TARGET static void NAME(compute_delta_e_ciede2000)(const LabBlock *one, const LabBlock *two, double *restrict delta_e)
{
    double a1[LANES], a2[LANES], c1[LANES], c2[LANES];
    double dl[LANES], sl[LANES];
    double product[LANES], length2_over_product[LANES], cosine[LANES], sine[LANES], dh[LANES];
    double sc[LANES], sh[LANES], rotation[LANES];

    EACH_LANE { /* dL' / SL as dl / sl, both times the root */
        double centred = (one->lightness[i] + two->lightness[i]) * 0.5 - 50.0; /* (12) */
        double squared = centred * centred;
        double root = sqrt(20.0 + squared);
        dl[i] = (two->lightness[i] - one->lightness[i]) * root; /* (8) */
        sl[i] = root + 0.015 * squared;                         /* (18) */
    }

    EACH_LANE {
        double mean = (one->chroma[i] + two->chroma[i]) * 0.5; /* (3) */
        double stretch = 1.5 - 0.5 * chroma_ratio(mean);       /* 1 + G (4) */
        a1[i] = stretch * one->a[i];                           /* (5) */
        a2[i] = stretch * two->a[i];
    }

    EACH_LANE {
        c1[i] = norm(a1[i], one->b[i]); /* (6) */
        c2[i] = norm(a2[i], two->b[i]);
    }

    /* The hues (7) and their mean (14) are vectors; the mean does not have unit length yet. Algebra: if the hues are
     * less than 90 degrees apart, their mean is the hue of the sum of the unit vectors. Otherwise it is that of their
     * difference, turned by 90 degrees to the side of `cross`. So neither the sum nor the difference ever cancels.
     *
     * NOTE: hues exactly 180 degrees apart do not wrap: the second is ahead if the first is below 180 degrees, which is
     * b > 0 or b = 0 < a. The cross product of opposite vectors is exactly 0 because both products are rounded; a
     * fused multiply-add would round only one. */
    EACH_LANE {
        double b1 = one->b[i], b2 = two->b[i];
        double cross = a1[i] * b2 - a2[i] * b1;
        double dot = a1[i] * a2[i] + b1 * b2;
        double sign_of_hue_1 = b1 != 0.0 ? b1 : a1[i];
        double ahead = copysign(1.0, cross != 0.0 ? cross : sign_of_hue_1);
        double xs = c2[i] * a1[i], ys = c2[i] * b1, xo = c1[i] * a2[i], yo = c1[i] * b2;
        int near = dot >= 0.0;
        product[i] = c1[i] * c2[i];
        length2_over_product[i] = 2.0 * (product[i] + fabs(dot));
        cosine[i] = near ? xs + xo : ahead * (yo - ys);
        sine[i] = near ? ys + yo : ahead * (xs - xo);
        dh[i] = near ? 2.0 * cross : ahead * length2_over_product[i];
    }

    EACH_LANE {
        /* A neutral colour has no hue: the length and dH' are 0, and so is every term with the mean hue. The minimum
         * length prevents 0 / 0. */
        double length = sqrt(product[i] * length2_over_product[i]);
        double inverse = 1.0 / (length > 1e-150 ? length : 1e-150);
        cosine[i] *= inverse;
        sine[i] *= inverse;
        dh[i] *= sqrt(product[i]) * inverse; /* (11), algebra */
    }

    EACH_LANE {
        double mean = (c1[i] + c2[i]) * 0.5;                             /* (13) */
        sc[i] = 1.0 + 0.045 * mean;                                      /* (19) */
        sh[i] = 1.0 + 0.015 * mean * hue_term(cosine[i], sine[i]).value; /* (20) */
    }

    EACH_LANE {
        /* NOTE: eq. 16 does not wrap at 360 degrees: for it, 10 degrees is 265 away from 275, not 95, and the Gaussian
         * is 0 there. At 0 degrees it jumps from 1e-5 to 1e-53. */
        double first_quadrant = sine[i] >= 0.0 ? cosine[i] : -1.0;
        double gauss = first_quadrant > 0.0 ? 0.0 : hue_gaussian(cosine[i], sine[i]); /* algebra */
        double mean = (c1[i] + c2[i]) * 0.5;
        rotation[i] = sin_60_degrees_times(gauss) * 2.0 * chroma_ratio(mean); /* -RT (17) (21), algebra */
    }

    EACH_LANE { /* (22) with one division instead of three: all terms over the product of the three weights */
        double l = dl[i] * (sc[i] * sh[i]);
        double c = (c2[i] - c1[i]) * (sl[i] * sh[i]); /* (9) */
        double h = dh[i] * (sl[i] * sc[i]);
        double form = l * l + (c * c + h * h - rotation[i] * c * h);
        double weights = sl[i] * (sc[i] * sh[i]);
        delta_e[i] = sqrt(form > 0.0 ? form : 0.0) / weights;
    }
}
