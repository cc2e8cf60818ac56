// What integers and floats do alike.
#pragma once
#include "loops.h"

namespace pallasim::interp::PALLASIM_KNS {
namespace {

struct Add {
  template <class T>
  static T f(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <class T>
  static T f(T a, T b) {
    return a - b;
  }
};
struct Mul {
  template <class T>
  static T f(T a, T b) {
    return a * b;
  }
};

}  // namespace
}  // namespace pallasim::interp::PALLASIM_KNS
