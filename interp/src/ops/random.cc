// Counter-based generators.
#include <algorithm>
#include <array>

#include "../plan/payload/array.h"
#include "array.h"

namespace pallasim::interp::ops {
namespace {

using Pair = std::array<uint32_t, 2>;

uint32_t rotl(uint32_t v, int by) { return v << by | v >> (32 - by); }

// Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
Pair threefry(Pair key, Pair x) {
  static constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t ks[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
  x[0] += ks[0], x[1] += ks[1];
  for (uint32_t group = 0; group < 5; ++group) {
    for (int r : kRotations[group % 2]) {
      x[0] += x[1];
      x[1] = rotl(x[1], r) ^ x[0];
    }
    x[0] += ks[(group + 1) % 3];
    x[1] += ks[(group + 2) % 3] + group + 1;
  }
  return x;
}

// Philox-4x32 with 10 rounds (same paper).
std::array<uint32_t, 4> philox(Pair key, std::array<uint32_t, 4> x) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * x[0], b = uint64_t{0xCD9E8D57u} * x[2];
    x = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ key[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ x[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u, key[1] += 0xBB67AE85u;
  }
  return x;
}

uint32_t word(const std::byte* at, int64_t i) {
  uint32_t v;
  std::memcpy(&v, at + i * 4, 4);
  return v;
}
void put(std::byte* at, int64_t i, uint32_t v) { std::memcpy(at + i * 4, &v, 4); }

// Where XLA puts threefry's pairs: the words of one pair are neighbours along the first even dimension, else along the
// longest.
struct PairLayout {
  int64_t inner = 1, split = 1;
  explicit PairLayout(const Dims& dims) {
    size_t at = dims.size();
    for (size_t d = 0; d < dims.size() && at == dims.size(); ++d)
      if (dims[d] % 2 == 0) at = d;
    if (at == dims.size()) at = static_cast<size_t>(std::max_element(dims.begin(), dims.end()) - dims.begin());
    if (dims.empty()) return;
    split = dims[at];
    for (size_t d = at + 1; d < dims.size(); ++d) inner *= dims[d];
  }
  int64_t pair(int64_t element) const {
    const int64_t row = element / inner, along = row % split, outer = row / split;
    return (outer * ((split + 1) / 2) + along / 2) * inner + element % inner;
  }
  int which(int64_t element) const { return static_cast<int>(element / inner % split % 2); }
};

}  // namespace

ArrayBody threefry2x32(int64_t n, std::vector<int64_t> strides) {
  return [=](const ArrayCall& c) {
    for (int64_t i = 0; i < n; ++i) {
      const Pair r = threefry({word(c.in[0], i * strides[0]), word(c.in[1], i * strides[1])},
                              {word(c.in[2], i * strides[2]), word(c.in[3], i * strides[3])});
      put(c.out[0], i, r[0]);
      put(c.out[1], i, r[1]);
    }
  };
}

ArrayBody iota_2x32(int64_t n) {
  return [=](const ArrayCall& c) {
    for (int64_t i = 0; i < n; ++i) {
      put(c.out[0], i, static_cast<uint32_t>(static_cast<uint64_t>(i) >> 32));
      put(c.out[1], i, static_cast<uint32_t>(i));
    }
  };
}

ArrayBody rng_bits(RngAlgorithm algorithm, Dims dims, ir::DType dtype) {
  return [=](const ArrayCall& c) {
    const int64_t n = count(dims);
    const int bytes = ir::byte_size(dtype);
    const bool wide = bytes == 8;
    const Pair key = {word(c.in[0], 0), word(c.in[0], 1)};
    uint64_t counter = word(c.in[0], 2) | static_cast<uint64_t>(word(c.in[0], 3)) << 32;
    const PairLayout pairs(dims);
    // Word `k` of the stream that starts at the counter.
    auto philox_word = [&](int64_t k) {
      const uint64_t block = static_cast<uint64_t>(k) / 4, low = counter + block;
      const uint64_t high = (key[0] | static_cast<uint64_t>(key[1]) << 32) + (low < counter);
      return philox(key, {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                          static_cast<uint32_t>(high >> 32)})[k % 4];
    };
    auto threefry_word = [&](int64_t pair, int which) {
      const uint64_t at = counter + static_cast<uint64_t>(pair);
      return threefry(key, {static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32)})[static_cast<size_t>(which)];
    };
    for (int64_t i = 0; i < n; ++i) {
      uint64_t v;
      if (algorithm == RngAlgorithm::Philox)
        v = wide ? philox_word(2 * i) | static_cast<uint64_t>(philox_word(2 * i + 1)) << 32 : philox_word(i);
      else
        v = wide ? threefry_word(i, 0) | static_cast<uint64_t>(threefry_word(i, 1)) << 32
                 : threefry_word(pairs.pair(i), pairs.which(i));
      std::memcpy(c.out[1] + i * bytes, &v, static_cast<size_t>(bytes));
    }
    const int64_t last = n == 0 || wide ? n : algorithm == RngAlgorithm::Philox ? n : pairs.pair(n - 1) + 1;
    counter += static_cast<uint64_t>(algorithm == RngAlgorithm::Philox ? ((wide ? 2 * n : n) + 3) / 4 : last);
    put(c.out[0], 0, key[0]);
    put(c.out[0], 1, key[1]);
    put(c.out[0], 2, static_cast<uint32_t>(counter));
    put(c.out[0], 3, static_cast<uint32_t>(counter >> 32));
  };
}

ArrayBody prng_seed(uint32_t slot, std::vector<int64_t> seed_words) {
  return [=](const ArrayCall& c) {
    Pair key = {0, 0};
    uint32_t position = 0;
    for (size_t s = 0; s < seed_words.size(); ++s)
      for (int64_t i = 0; i < seed_words[s]; ++i) key = threefry(key, {word(c.in[s], i), position++});
    std::memcpy(c.thread.arena + slot, key.data(), 8);
    const uint64_t draws = 0;
    std::memcpy(c.thread.arena + slot + 8, &draws, 8);
  };
}

// Element i of draw d: word i % 2 of threefry(key, (d, i / 2)).
ArrayBody prng_draw(uint32_t slot, int64_t n) {
  return [=](const ArrayCall& c) {
    Pair key;
    uint64_t draws;
    std::memcpy(key.data(), c.thread.arena + slot, 8);
    std::memcpy(&draws, c.thread.arena + slot + 8, 8);
    for (int64_t i = 0; i < n; i += 2) {
      const Pair r = threefry(key, {static_cast<uint32_t>(draws), static_cast<uint32_t>(i / 2)});
      put(c.out[0], i, r[0]);
      if (i + 1 < n) put(c.out[0], i + 1, r[1]);
    }
    ++draws;
    std::memcpy(c.thread.arena + slot + 8, &draws, 8);
  };
}

}  // namespace pallasim::interp::ops
