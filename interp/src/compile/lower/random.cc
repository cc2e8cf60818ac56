// Random numbers: counter-based generators, the core's own generator, and keys as words.
#include "../../plan/payload/movement.h"
#include "../../plan/steps.h"
#include "arrays.h"

namespace pallasim::interp {

namespace {

// The core's own generator, where it is used.
struct Generator {
  uint32_t slot = Addr::kNoSlot;
};

}  // namespace

// The same bytes as another type. The stateful generator's placeholder keys have no words: zeros.
static Val reinterpreted(Emitter& e, const Val& v, const ir::Type* t) {
  Val r = materialized(e, dense(e, v));
  if (r.bytes() != t->num_bytes()) {
    r = e.temp(t->dtype, dims_of(t));
    FillPayload p{};
    p.dst = r.memory().addr, p.dims = {r.elements()}, p.strides = {1}, p.size = ir::byte_size(t->dtype);
    e.emit<Kind::fill>(std::move(p));
  }
  r.dtype = t->dtype;
  r.dims = dims_of(t);
  r.memory().strides = dense_strides(r.dims);
  return r.dims.empty() ? load_scalar(e, r) : r;
}

static void lower_random(Emitter& e, const Op& op) {
  using C = ir::OpCode;
  uint32_t& state = e.state<Generator>().slot;
  if (state == Addr::kNoSlot) state = e.new_slot();
  switch (op.code) {
    case C::random_clone: return e.define(op.results[0], e.operand(op, 0));
    case C::random_wrap:
    case C::random_unwrap: return e.define(op.results[0], reinterpreted(e, e.operand(op, 0), e.type(op.results[0])));
    case C::prng_split: {
      Val words = materialized(e, dense(e, e.operand(op, 0)));
      require(e, op, words.bytes() == 4 * static_cast<int64_t>(op.results.size()), "a key of another size");
      words.dtype = ir::DType::U32;
      words.dims.clear();
      for (ir::ValueId r : op.results) {
        require(e, op, e.type(r)->is_scalar() && e.type(r)->dtype == ir::DType::U32, "other results than u32 words");
        e.define(r, load_scalar(e, words));
        words.memory().addr.offset += 4;
      }
      return;
    }
    case C::prng_join: {
      Val words = e.temp(ir::DType::U32, {static_cast<int64_t>(op.operands.size())});
      for (size_t i = 0; i < op.operands.size(); ++i) {
        const Val& v = e.operand(op, i);
        require(e, op, v.dims.empty() && v.dtype == ir::DType::U32, "other words than u32");
        Val at = words;
        at.dims.clear(), at.memory().strides.clear();
        at.memory().addr.offset += 4 * static_cast<int64_t>(i);
        emit_pending(e, v, at);
      }
      return e.define(op.results[0], reinterpreted(e, words, e.type(op.results[0])));
    }
    case C::threefry2x32: {
      const int64_t n = e.type(op.results[0])->num_elements();
      std::vector<int64_t> strides;
      for (size_t i = 0; i < 4; ++i) {
        require(e, op, e.operand(op, i).elements() == n || e.operand(op, i).elements() == 1,
                "operands of different shapes");
        strides.push_back(e.operand(op, i).elements() == 1 ? 0 : 1);
      }
      return define_array(e, op, e.functions().arrays.threefry2x32(n, strides));
    }
    case C::iota_2x32: {
      require(e, op,
              op.results.size() == 2 && dims_of(e.type(op.results[0])) == dims_of(e.type(op.results[1])) &&
                  e.type(op.results[0])->dtype == ir::DType::U32 && e.type(op.results[1])->dtype == ir::DType::U32,
              "other results than two u32 arrays");
      return define_array(e, op, e.functions().arrays.iota_2x32(e.type(op.results[0])->num_elements()));
    }
    case C::rng_bit_generator: {
      const Val& key = e.operand(op, 0);
      const Attr* a = op.attr("algorithm");
      const bool threefry = a && (a->s == "rng_three_fry" || a->s == "three_fry");
      require(e, op, op.results.size() == 2 && key.bytes() == 16 && e.type(op.results[0])->num_bytes() == 16,
              "a state of other than four words");
      require(e, op,
              ir::is_unsigned_int(e.type(op.results[1])->dtype) && ir::bit_width(e.type(op.results[1])->dtype) >= 8,
              "results other than unsigned words");
      return define_array(
          e, op,
          e.functions().arrays.rng_bits(threefry ? arrays::RngAlgorithm::ThreeFry : arrays::RngAlgorithm::Philox,
                                        dims_of(e.type(op.results[1])), e.type(op.results[1])->dtype));
    }
    case C::prng_seed: {
      std::vector<int64_t> words;
      for (size_t i = 0; i < op.operands.size(); ++i) {
        const Val& v = e.operand(op, i);
        require(e, op, v.bytes() % 4 == 0 && !ir::is_float(v.dtype), "seeds other than words and keys");
        words.push_back(v.bytes() / 4);
      }
      return define_arrays(e, op, e.functions().arrays.prng_seed(state, words));
    }
    default: {
      const ir::Type* t = e.type(op.results[0]);
      require(e, op, ir::bit_width(t->dtype) == 32, "results other than 32-bit words");
      return define_arrays(e, op, e.functions().arrays.prng_draw(state, t->num_elements()));
    }
  }
}

Rows random_rows() {
  static constexpr Row kRows[] = {{OpCode::prng_seed, lower_random},         {OpCode::prng_random_bits, lower_random},
                                  {OpCode::rng_bit_generator, lower_random}, {OpCode::threefry2x32, lower_random},
                                  {OpCode::iota_2x32, lower_random},         {OpCode::random_wrap, lower_random},
                                  {OpCode::random_unwrap, lower_random},     {OpCode::random_clone, lower_random},
                                  {OpCode::prng_join, lower_random},         {OpCode::prng_split, lower_random}};
  return kRows;
}

}  // namespace pallasim::interp
