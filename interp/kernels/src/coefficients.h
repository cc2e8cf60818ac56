// Written by tools/minimax.py.
#pragma once
#include "body.h"

// clang-format off
namespace pallasim::interp::PALLASIM_KNS {

// 3.13e-9
constexpr float kExpF[] = {0x1.6db62a0000000p-10f, 0x1.123b560000000p-7f, 0x1.55545c0000000p-5f, 0x1.55548e0000000p-3f,
    0x1.0000000000000p-1f};
// 2.36e-10
constexpr float kExpm1F[] = {0x1.a1a2a00000000p-13f, 0x1.6d74860000000p-10f, 0x1.11108e0000000p-7f,
    0x1.5554ae0000000p-5f, 0x1.5555560000000p-3f, 0x1.0000000000000p-1f};
// 2.62e-19
constexpr double kExp[] = {0x1.1f9582a05fd76p-29, 0x1.af5ebf7d0ad03p-26, 0x1.27e4c58a13448p-22, 0x1.71ddf85375c4fp-19,
    0x1.a01a01b0c3b34p-16, 0x1.a01a01afe52a1p-13, 0x1.6c16c16c1441bp-10, 0x1.111111110f6afp-7, 0x1.555555555555ap-5,
    0x1.5555555555559p-3, 0x1.0000000000000p-1};
// 5.87e-9
constexpr float kLogF[] = {-0x1.41edea0000000p-4f, 0x1.07d1540000000p-3f, -0x1.0ce0aa0000000p-3f, 0x1.226e3a0000000p-3f,
    -0x1.5478840000000p-3f, 0x1.99a5980000000p-3f, -0x1.0002200000000p-2f, 0x1.55554a0000000p-2f};
// 2.47e-18
constexpr double kAtanh3[] = {0x1.2f050352ec54ap-3, 0x1.39a1c5aa92826p-3, 0x1.74663e6d734e8p-3, 0x1.c71c520bfcedcp-3,
    0x1.24924941ed85ep-2, 0x1.999999997fe04p-2, 0x1.5555555555592p-1};
// 2.22e-18
constexpr double kAtanh5[] = {0x1.0bc2b527cc177p-3, 0x1.0fc5c47810c97p-3, 0x1.3b1be40166098p-3, 0x1.745cfad958ba7p-3,
    0x1.c71c71fbb5104p-3, 0x1.249249247b3d9p-2, 0x1.9999999999a07p-2};
// 3.44e-18
constexpr double kSin[] = {0x1.5d92ffb407cd6p-33, -0x1.ae5e663882f80p-26, 0x1.71de3577b7ec3p-19, -0x1.a01a019c11a11p-13,
    0x1.111111110f87bp-7, -0x1.5555555555549p-3};
// 4.7e-20
constexpr double kCos[] = {-0x1.8faea5f540832p-37, 0x1.1ee9ec008b5a9p-29, -0x1.27e4f80a1d293p-22, 0x1.a01a019cb20e9p-16,
    -0x1.6c16c16c15182p-10, 0x1.555555555554cp-5};
// 4.9e-12
constexpr double kSinF[] = {0x1.6cd830272d917p-19, -0x1.a00f9d11914b7p-13, 0x1.11110895cbfd1p-7, -0x1.5555554cba177p-3};
// 9.6e-11
constexpr double kCosF[] = {0x1.9a0254b79a0e8p-16, -0x1.6c0c8c21abcefp-10, 0x1.55554ab5dea67p-5};
// 1.24e-18
constexpr double kAtan[] = {-0x1.259dcdc7a3dd0p-6, 0x1.37ed7bd787fc6p-5, -0x1.9cdc3d7c57085p-5, 0x1.df116c36e46f9p-5,
    -0x1.10ebdde98b829p-4, 0x1.3b111c6a3a481p-4, -0x1.745cf90b5bb26p-4, 0x1.c71c70e7a3dbdp-4, -0x1.24924922b122bp-3,
    0x1.99999999958ebp-3, -0x1.555555555553dp-2};
// 9.77e-19
constexpr double kAsin[] = {0x1.0baf3d05ab895p-5, -0x1.59508b1e45a64p-6, 0x1.648fa70283928p-6, 0x1.e2c95c3f5c392p-9,
    0x1.61732c866469ep-7, 0x1.757ba0e47696cp-7, 0x1.ca20c8d817910p-7, 0x1.1c49e2f8eb35dp-6, 0x1.6e8bdfa2a230bp-6,
    0x1.f1c71a8de9ca6p-6, 0x1.6db6db722597ep-5, 0x1.333333332df89p-4, 0x1.5555555555578p-3};
// 9.94e-10
constexpr float kTanhF[] = {-0x1.9bba920000000p-8f, 0x1.59568a0000000p-6f, -0x1.b92bba0000000p-5f,
    0x1.110d3c0000000p-3f, -0x1.55554c0000000p-2f};
// 1.26e-19
constexpr double kErf[] = {0x1.062759c5be8ecp-34, -0x1.38ac2290d3965p-30, 0x1.f7b99d7c8709ap-27, -0x1.5f1f40faeea79p-23,
    0x1.b9df305cad6f7p-20, -0x1.f4d1e434bc0cfp-17, 0x1.f9a321e4b84f9p-14, -0x1.c02db3db49762p-11, 0x1.565bcd0dbd921p-8,
    -0x1.b82ce31284f38p-6, 0x1.ce2f21a042b34p-4, -0x1.812746b0379e6p-2, 0x1.20dd750429b6dp+0};
// 2.8e-19
constexpr double kErfc[] = {-0x1.4afe558f0b463p-26, 0x1.01b565b3b8a6ap-25, 0x1.f4808deaf1aeap-24,
    -0x1.25a6e83f6ed3bp-23, -0x1.520a14a25d38cp-21, 0x1.8052287eff199p-22, 0x1.d2e1c33a7e866p-19,
    -0x1.89a81540666fbp-21, -0x1.5142c45674d23p-16, 0x1.4c33b5da047edp-18, 0x1.065a5f8f20b0fp-13,
    -0x1.b912a4121da59p-14, -0x1.98db5221d4210p-11, 0x1.ef1bdda115666p-10, 0x1.4b884e48574ddp-9, -0x1.8574c40c2da96p-6,
    0x1.17ca2877efdecp-4, -0x1.e88b803a4866ap-4, 0x1.098366a5b46e9p-3, -0x1.85a15c58aa622p-5, -0x1.15c084bb9e8f3p-3,
    0x1.40c522d7e4987p+0};
// 0.000704
constexpr double kCbrt[] = {0x1.71ab55458df47p-14, -0x1.2e954fe70f5ebp-9, 0x1.8c43b09401d41p-6, -0x1.138aa9a508a71p-3,
    0x1.0d66d5a653bc8p-1, 0x1.2c98f12e891e3p-1};

}  // namespace pallasim::interp::PALLASIM_KNS
