#!/usr/bin/env python3
"""Writes src/coefficients.h: minimax polynomials (Remez exchange, relative error) for the elementwise functions.

    pip install mpmath && python3 minimax.py > ../src/coefficients.h

Coefficients are listed from the highest degree down. The comment before each gives the largest relative error of the
function that the polynomial serves, before rounding of the coefficients.
"""
import struct
import textwrap
from mpmath import mp, mpf, exp, log, sqrt, erfc, matrix, lu_solve, cos as mcos, pi, taylor, tanh

mp.prec = 180


def remez(f, weight, a, b, degree, rounds=12):
    """Coefficients c[0..degree] minimising max |weight(x) (p(x) - f(x))| on [a, b]."""
    n = degree + 2
    a, b = mpf(a), mpf(b)
    nodes = [(a + b) / 2 - (b - a) / 2 * mcos(pi * i / (n - 1)) for i in range(n)]
    c, worst = None, None
    for _ in range(rounds):
        m, rhs = matrix(n, n), matrix(n, 1)
        for i, x in enumerate(nodes):
            for j in range(degree + 1):
                m[i, j] = x**j
            m[i, n - 1] = (-1) ** i / weight(x)
            rhs[i] = f(x)
        s = lu_solve(m, rhs)
        c = [s[j] for j in range(degree + 1)]
        level = abs(s[n - 1])
        grid_n = 24 * n
        grid = [(a + b) / 2 - (b - a) / 2 * mcos(pi * i / grid_n) for i in range(grid_n + 1)]
        err = [weight(x) * (sum(cj * x**j for j, cj in enumerate(c)) - f(x)) for x in grid]
        worst = max(abs(e) for e in err)
        extrema, i = [], 0
        while i <= grid_n:  # the largest error of each run of one sign
            j, best = i, i
            while j <= grid_n and (err[j] > 0) == (err[i] > 0):
                if abs(err[j]) > abs(err[best]):
                    best = j
                j += 1
            extrema.append(grid[best])
            i = j
        if len(extrema) < n:
            break
        while len(extrema) > n:  # drop the weaker end
            first = abs(weight(extrema[0]) * (sum(cj * extrema[0]**j for j, cj in enumerate(c)) - f(extrema[0])))
            last = abs(weight(extrema[-1]) * (sum(cj * extrema[-1]**j for j, cj in enumerate(c)) - f(extrema[-1])))
            extrema.pop(0 if first < last else -1)
        nodes = extrema
        if worst < level * mpf("1.01"):
            break
    return c, worst


def hexf(x, single):
    v = float(x)
    if single:
        v = struct.unpack("f", struct.pack("f", v))[0]
    return v.hex() + ("f" if single else "")


def series(f0, terms):
    """A function near 0 by its Taylor series (avoids cancellation), else by its formula."""
    coeffs = terms
    return lambda x: sum(t * x**i for i, t in enumerate(coeffs)) if abs(x) < mpf("1e-3") else f0(x)


def emit(name, f, weight, a, b, degree, single=False):
    c, worst = remez(f, weight, a, b, degree)
    t = "float" if single else "double"
    body = ", ".join(hexf(x, single) for x in reversed(c))
    print(f"// {mp.nstr(worst, 3)}")
    print(textwrap.fill(f"constexpr {t} {name}[] = {{{body}}};", 120, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False))


def fact(n):
    return mp.factorial(n)


ONE = mpf(1)


def main():
    print("// Written by tools/minimax.py.")
    print("#pragma once\n#include \"body.h\"\n")
    print("// clang-format off")
    print("namespace pallasim::interp::PALLASIM_KNS {\n")
    ln2h = log(2) / 2 * mpf("1.0001")
    # exp(r) = 1 + r + r^2 p(r)
    f = series(lambda x: (exp(x) - 1 - x) / x**2, [1 / fact(i + 2) for i in range(30)])
    emit("kExpF", f, lambda x: x**2 + mpf("1e-9"), -ln2h, ln2h, 4, True)
    emit("kExpm1F", f, lambda x: abs(x) + mpf("1e-9"), -ln2h, ln2h, 5, True)
    emit("kExp", f, lambda x: abs(x) + mpf("1e-9"), -ln2h, ln2h, 10)
    # log(1 + f) = f - f^2/2 + f^3 p(f)
    lo, hi = sqrt(mpf("0.5")) - 1, sqrt(mpf(2)) - 1
    f = series(lambda x: (log(1 + x) - x + x**2 / 2) / x**3, [(-1) ** i / mpf(i + 3) for i in range(40)])
    emit("kLogF", f, lambda x: x**2 + mpf("1e-9"), lo, hi, 7, True)
    # log((1 + s) / (1 - s)) = 2 s + s^3 p(s^2), and 2 s + 2/3 s^3 + s^5 q(s^2)
    z = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1)) ** 2
    g = lambda k: series(None, None) if False else (lambda x: sum(2 * x**i / mpf(2 * i + 2 * k + 1) for i in range(60)))
    emit("kAtanh3", g(1), lambda x: x + mpf("1e-9"), 0, z, 6)
    emit("kAtanh5", g(2), lambda x: x + mpf("1e-9"), 0, z, 6)
    # sin(r) = r + r^3 p(r^2); cos(r) = 1 - r^2/2 + r^4 p(r^2)
    q = (pi / 4 * mpf("1.0001")) ** 2
    sf = lambda x: sum((-1) ** (i + 1) * x**i / fact(2 * i + 3) for i in range(30))
    cf = lambda x: sum((-1) ** i * x**i / fact(2 * i + 4) for i in range(30))
    emit("kSin", sf, lambda x: x + mpf("1e-9"), 0, q, 5)
    emit("kCos", cf, lambda x: x**2 + mpf("1e-9"), 0, q, 5)
    emit("kSinF", sf, lambda x: x + mpf("1e-9"), 0, q, 3)
    emit("kCosF", cf, lambda x: x**2 + mpf("1e-9"), 0, q, 2)
    # atan(x) = x + x^3 p(x^2), |x| <= tan(pi/8)
    t = (sqrt(mpf(2)) - 1) ** 2 * mpf("1.0001")
    emit("kAtan", lambda x: sum((-1) ** (i + 1) * x**i / mpf(2 * i + 3) for i in range(100)), lambda x: x + mpf("1e-9"), 0, t, 10)
    # asin(x) = x + x^3 p(x^2), |x| <= 1/2
    asn = lambda x: sum(fact(2 * i) / (4**i * fact(i) ** 2 * (2 * i + 1)) * x ** (i - 1) for i in range(1, 110))
    emit("kAsin", asn, lambda x: x + mpf("1e-9"), 0, mpf("0.25"), 12)
    # tanh(x) = x + x^3 p(x^2), |x| <= 0.55
    tt = taylor(tanh, 0, 81)
    emit("kTanhF", lambda x: sum(tt[2 * i + 3] * x**i for i in range(38)), lambda x: x + mpf("1e-9"), 0, mpf("0.3025"), 4, True)
    # erf(x) = x p(x^2), |x| <= 1
    emit("kErf", lambda x: sum(2 / sqrt(pi) * (-1) ** i * x**i / (fact(i) * (2 * i + 1)) for i in range(60)), lambda x: 1, 0, 1, 12)
    # erf(x) = x + x p(x^2), |x| <= 0.9; erf(x) = 1 - exp(-p(x - 1)), 0.9 <= x <= 4
    ef = lambda x: sum(2 / sqrt(pi) * (-1) ** i * x**i / (fact(i) * (2 * i + 1)) for i in range(60)) - 1
    emit("kErfF", ef, lambda x: 1, 0, mpf("0.81"), 6, True)
    emit("kErfOuterF", lambda u: -log(erfc(u + 1)), lambda u: erfc(u + 1) / (1 - erfc(u + 1)), mpf("-0.1"), 3, 6, True)
    # erfc(x) exp(x^2) (1 + 2 x) = p((x - 3) / (x + 3)), 0.9 <= x <= 28
    ec = lambda u: (lambda x: erfc(x) * exp(x * x) * (1 + 2 * x))(3 * (1 + u) / (1 - u))
    emit("kErfc", ec, lambda u: 1, (mpf("0.9") - 3) / (mpf("0.9") + 3), mpf(25) / 31, 21)
    # The same with (x - 2) / (x + 2), 0.5 <= x <= 10.2, where f32's results end
    ecf = lambda u: (lambda x: erfc(x) * exp(x * x) * (1 + 2 * x))(2 * (1 + u) / (1 - u))
    emit("kErfcF", ecf, lambda u: 1 / ecf(u), mpf("-0.6"), mpf("8.2") / mpf("12.2"), 8, True)
    # 2^x over [0, 1) for the first guess of a cube root: m^(1/3), 1 <= m < 8
    emit("kCbrt", lambda x: x ** (ONE / 3), lambda x: x ** (-ONE / 3), 1, 8, 5)
    print("\n}  // namespace pallasim::interp::PALLASIM_KNS")


if __name__ == "__main__":
    main()
