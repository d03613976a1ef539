/* The peer that a C programmer would write: the textbook formula with libm, and a full scan. */
#include <math.h>
#include <stddef.h>

typedef struct { double l, a, b; } lab;

static const double degree = M_PI / 180.0;

static double hue(double b, double a) {
    if (a == 0.0 && b == 0.0) return 0.0;
    double h = atan2(b, a);
    return h < 0.0 ? h + 2.0 * M_PI : h;
}

static double ciede2000(lab x, lab y) {
    double mean = (hypot(x.a, x.b) + hypot(y.a, y.b)) / 2.0;
    double g = 0.5 * (1.0 - sqrt(pow(mean, 7.0) / (pow(mean, 7.0) + pow(25.0, 7.0))));
    double a1 = (1.0 + g) * x.a, a2 = (1.0 + g) * y.a;
    double c1 = hypot(a1, x.b), c2 = hypot(a2, y.b);
    double h1 = hue(x.b, a1), h2 = hue(y.b, a2);
    double dl = y.l - x.l, dc = c2 - c1, dh = h2 - h1, h = h1 + h2;
    if (c1 * c2 == 0.0) {
        dh = 0.0;
    } else {
        if (fabs(h1 - h2) > M_PI) h += h < 2.0 * M_PI ? 2.0 * M_PI : -2.0 * M_PI;
        h /= 2.0;
        if (dh > M_PI) dh -= 2.0 * M_PI;
        else if (dh < -M_PI) dh += 2.0 * M_PI;
    }
    double dH = 2.0 * sqrt(c1 * c2) * sin(dh / 2.0);
    double l = (x.l + y.l) / 2.0 - 50.0, c = (c1 + c2) / 2.0;
    double t = 1.0 - 0.17 * cos(h - 30.0 * degree) + 0.24 * cos(2.0 * h) + 0.32 * cos(3.0 * h + 6.0 * degree)
        - 0.20 * cos(4.0 * h - 63.0 * degree);
    double theta = 30.0 * degree * exp(-pow((h / degree - 275.0) / 25.0, 2.0));
    double rc = 2.0 * sqrt(pow(c, 7.0) / (pow(c, 7.0) + pow(25.0, 7.0)));
    double sl = 1.0 + 0.015 * l * l / sqrt(20.0 + l * l), sc = 1.0 + 0.045 * c, sh = 1.0 + 0.015 * c * t;
    double u = dl / sl, v = dc / sc, w = dH / sh;
    return sqrt(u * u + v * v + w * w - sin(2.0 * theta) * rc * v * w);
}

static double linear(double v) { return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4); }

static double f(double t) { return t > 216.0 / 24389.0 ? cbrt(t) : (24389.0 / 27.0 * t + 16.0) / 116.0; }

static lab lab_of(const double *rgb) {
    double r = linear(rgb[0] / 255.0), g = linear(rgb[1] / 255.0), b = linear(rgb[2] / 255.0);
    double x = f((0.4123907993 * r + 0.3575843394 * g + 0.1804807884 * b) / 0.9504559271);
    double y = f(0.2126390059 * r + 0.7151686788 * g + 0.0721923154 * b);
    double z = f((0.0193308187 * r + 0.1191947798 * g + 0.9505321522 * b) / 1.0890577508);
    return (lab){116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)};
}

void delta_e(const lab *ones, const lab *twos, double *out, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = ciede2000(ones[i], twos[i]);
}

void to_lab(const double *rgb, lab *out, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = lab_of(rgb + 3 * i);
}

/* The nearest three, nearest first. */
void nearest(const double *rgb, size_t n, const lab *palette, size_t size, ptrdiff_t *out) {
    for (size_t i = 0; i < n; i++, out += 3) {
        lab query = lab_of(rgb + 3 * i);
        double best[3] = {INFINITY, INFINITY, INFINITY};
        for (size_t j = 0; j < size; j++) {
            double delta_e = ciede2000(query, palette[j]);
            int k = 3;
            for (; k > 0 && delta_e < best[k - 1]; k--)
                if (k < 3) { best[k] = best[k - 1]; out[k] = out[k - 1]; }
            if (k < 3) { best[k] = delta_e; out[k] = (ptrdiff_t)j; }
        }
    }
}
