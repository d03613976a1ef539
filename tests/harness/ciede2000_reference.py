"""CIEDE2000 and sRGB to L*a*b* in plain Python, written from the papers alone: slow, and easy to check.

Sharma, Wu and Dalal, Color Research and Application 30 (2005), 21-30; equation numbers are theirs.
IEC 61966-2-1 for sRGB, CIE 15 for L*a*b*; white D65 for the 2 degree observer, (0.3127, 0.3290).
"""

from fractions import Fraction
from math import atan2, cos, degrees, exp, radians, sin, sqrt

import numpy as np
from numpy.typing import NDArray

Triple = tuple[float, float, float]

RED, GREEN, BLUE = ((Fraction(x, 100), Fraction(y, 100)) for x, y in ((64, 33), (30, 60), (15, 6)))
WHITE = (Fraction(3127, 10000), Fraction(3290, 10000))


def tristimulus(xy: tuple[Fraction, Fraction]) -> list[Fraction]:
    """X, Y, Z of a chromaticity at Y = 1."""
    x, y = xy
    return [x / y, Fraction(1), (1 - x - y) / y]


def determinant(m: list[list[Fraction]]) -> Fraction:
    (a, b, c), (d, e, f), (g, h, i) = m
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)


def shares() -> list[list[Fraction]]:
    """The shares of red, green and blue in X/Xn, Y/Yn and Z/Zn, one row each (Cramer's rule, exact)."""
    primaries = [tristimulus(xy) for xy in (RED, GREEN, BLUE)]
    white = tristimulus(WHITE)
    whole = determinant(primaries)
    scales = [determinant([*primaries[:k], white, *primaries[k + 1 :]]) / whole for k in range(3)]
    return [[scales[k] * primaries[k][row] / white[row] for k in range(3)] for row in range(3)]


SHARES = [[float(share) for share in row] for row in shares()]


def srgb_to_lab(rgb: Triple) -> Triple:
    def linear(channel: float) -> float:
        value = channel / 255
        return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)

    def f(t: float) -> float:
        return float(t ** (1 / 3)) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116

    light = [linear(channel) for channel in rgb]
    fx, fy, fz = (f(sum(s * c for s, c in zip(row, light, strict=True))) for row in SHARES)
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def ciede2000(lab1: Triple, lab2: Triple) -> float:
    l1, a1, b1 = lab1
    l2, a2, b2 = lab2
    c_star1, c_star2 = sqrt(a1**2 + b1**2), sqrt(a2**2 + b2**2)  # (2)
    c_star_mean = (c_star1 + c_star2) / 2  # (3)
    g = 0.5 * (1 - sqrt(c_star_mean**7 / (c_star_mean**7 + 25**7)))  # (4)
    a_prime1, a_prime2 = (1 + g) * a1, (1 + g) * a2  # (5)
    c1, c2 = sqrt(a_prime1**2 + b1**2), sqrt(a_prime2**2 + b2**2)  # (6)
    h1 = 0.0 if b1 == a_prime1 == 0 else degrees(atan2(b1, a_prime1)) % 360  # (7)
    h2 = 0.0 if b2 == a_prime2 == 0 else degrees(atan2(b2, a_prime2)) % 360

    d_l = l2 - l1  # (8)
    d_c = c2 - c1  # (9)
    if c1 * c2 == 0:  # (10)
        d_h_angle = 0.0
    elif abs(h2 - h1) <= 180:
        d_h_angle = h2 - h1
    elif h2 - h1 > 180:
        d_h_angle = h2 - h1 - 360
    else:
        d_h_angle = h2 - h1 + 360
    d_h = 2 * sqrt(c1 * c2) * sin(radians(d_h_angle / 2))  # (11)

    l_mean = (l1 + l2) / 2  # (12)
    c_mean = (c1 + c2) / 2  # (13)
    if c1 * c2 == 0:  # (14)
        h_mean = h1 + h2
    elif abs(h1 - h2) <= 180:
        h_mean = (h1 + h2) / 2
    elif h1 + h2 < 360:
        h_mean = (h1 + h2 + 360) / 2
    else:
        h_mean = (h1 + h2 - 360) / 2

    t = 1 - 0.17 * cos(radians(h_mean - 30)) + 0.24 * cos(radians(2 * h_mean))
    t += 0.32 * cos(radians(3 * h_mean + 6)) - 0.20 * cos(radians(4 * h_mean - 63))  # (15)
    d_theta = 30 * exp(-(((h_mean - 275) / 25) ** 2))  # (16)
    r_c = 2 * sqrt(c_mean**7 / (c_mean**7 + 25**7))  # (17)
    s_l = 1 + 0.015 * (l_mean - 50) ** 2 / sqrt(20 + (l_mean - 50) ** 2)  # (18)
    s_c = 1 + 0.045 * c_mean  # (19)
    s_h = 1 + 0.015 * c_mean * t  # (20)
    r_t = -sin(radians(2 * d_theta)) * r_c  # (21)
    return sqrt((d_l / s_l) ** 2 + (d_c / s_c) ** 2 + (d_h / s_h) ** 2 + r_t * (d_c / s_c) * (d_h / s_h))  # (22)


def ciede2000_of_rows(lab1: NDArray[np.float64], lab2: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same for millions of pairs, shape (n, 3); not for hues exactly 180 degrees apart."""
    (l1, a1, b1), (l2, a2, b2) = lab1.T, lab2.T
    c_star_mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    g = 0.5 * (1 - np.sqrt(c_star_mean**7 / (c_star_mean**7 + 25**7)))
    a_prime1, a_prime2 = (1 + g) * a1, (1 + g) * a2
    c1, c2 = np.hypot(a_prime1, b1), np.hypot(a_prime2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a_prime1)) % 360, np.degrees(np.arctan2(b2, a_prime2)) % 360
    wraps = abs(h2 - h1) > 180
    d_h_angle = h2 - h1 - np.where(wraps, np.copysign(360, h2 - h1), 0)
    d_h = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(d_h_angle / 2))
    l_mean, c_mean = (l1 + l2) / 2, (c1 + c2) / 2
    h_mean = (h1 + h2 + np.where(wraps, np.where(h1 + h2 < 360, 360, -360), 0)) / 2
    t = 1 - 0.17 * np.cos(np.radians(h_mean - 30)) + 0.24 * np.cos(np.radians(2 * h_mean))
    t += 0.32 * np.cos(np.radians(3 * h_mean + 6)) - 0.20 * np.cos(np.radians(4 * h_mean - 63))
    d_theta = 30 * np.exp(-(((h_mean - 275) / 25) ** 2))
    r_t = -np.sin(np.radians(2 * d_theta)) * 2 * np.sqrt(c_mean**7 / (c_mean**7 + 25**7))
    light = (l2 - l1) / (1 + 0.015 * (l_mean - 50) ** 2 / np.sqrt(20 + (l_mean - 50) ** 2))
    chroma = (c2 - c1) / (1 + 0.045 * c_mean)
    hue = d_h / (1 + 0.015 * c_mean * t)
    delta_e: NDArray[np.float64] = np.sqrt(light**2 + chroma**2 + hue**2 + r_t * chroma * hue)
    return delta_e
