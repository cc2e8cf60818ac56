// Random numbers: counter-based generators, the core's own generator, and keys as words.
#include "../../plan/steps.h"
#include "../compiler.h"

namespace pallasim::interp {

// The same bytes as another type. The stateful generator's placeholder keys have no words: zeros.
Val Compiler::reinterpreted(const Val& v, const ir::Type* t) {
  Val r = materialized(dense(v));
  if (r.bytes() != t->num_bytes()) {
    r = temp(t->dtype, dims_of(t));
    FillPayload p{};
    p.dst = r.addr, p.dims = {r.elements()}, p.strides = {1}, p.size = ir::byte_size(t->dtype);
    emit(ops::fill, plan_.own(std::move(p)));
  }
  r.dtype = t->dtype;
  r.dims = dims_of(t);
  r.strides = dense_strides(r.dims);
  return r.dims.empty() ? load_scalar(r) : r;
}

void Compiler::op_random(const Op& op) {
  using C = ir::OpCode;
  if (prng_slot_ == Addr::kNoSlot) prng_slot_ = new_slot();
  switch (op.code) {
    case C::random_clone: return define(op.results[0], operand(op, 0));
    case C::random_wrap:
    case C::random_unwrap: return define(op.results[0], reinterpreted(operand(op, 0), type(op.results[0])));
    case C::prng_split: {
      Val words = materialized(dense(operand(op, 0)));
      require(op, words.bytes() == 4 * static_cast<int64_t>(op.results.size()), "a key of another size");
      words.dtype = ir::DType::U32;
      words.dims.clear();
      for (ir::ValueId r : op.results) {
        require(op, type(r)->is_scalar() && type(r)->dtype == ir::DType::U32, "other results than u32 words");
        define(r, load_scalar(words));
        words.addr.offset += 4;
      }
      return;
    }
    case C::prng_join: {
      Val words = temp(ir::DType::U32, {static_cast<int64_t>(op.operands.size())});
      for (size_t i = 0; i < op.operands.size(); ++i) {
        const Val& v = operand(op, i);
        require(op, v.dims.empty() && v.dtype == ir::DType::U32, "other words than u32");
        Val at = words;
        at.dims.clear(), at.strides.clear();
        at.addr.offset += 4 * static_cast<int64_t>(i);
        emit_pending(v, at);
      }
      return define(op.results[0], reinterpreted(words, type(op.results[0])));
    }
    case C::threefry2x32: {
      const int64_t n = type(op.results[0])->num_elements();
      std::vector<int64_t> strides;
      for (size_t i = 0; i < 4; ++i) {
        require(op, operand(op, i).elements() == n || operand(op, i).elements() == 1, "operands of different shapes");
        strides.push_back(operand(op, i).elements() == 1 ? 0 : 1);
      }
      return define_array(op, ops::threefry2x32(n, strides));
    }
    case C::iota_2x32: {
      require(op,
              op.results.size() == 2 && dims_of(type(op.results[0])) == dims_of(type(op.results[1])) &&
                  type(op.results[0])->dtype == ir::DType::U32 && type(op.results[1])->dtype == ir::DType::U32,
              "other results than two u32 arrays");
      return define_array(op, ops::iota_2x32(type(op.results[0])->num_elements()));
    }
    case C::rng_bit_generator: {
      const Val& state = operand(op, 0);
      const Attr* a = op.attr("algorithm");
      const bool threefry = a && (a->s == "rng_three_fry" || a->s == "three_fry");
      require(op, op.results.size() == 2 && state.bytes() == 16 && type(op.results[0])->num_bytes() == 16,
              "a state of other than four words");
      require(op, ir::is_unsigned_int(type(op.results[1])->dtype) && ir::bit_width(type(op.results[1])->dtype) >= 8,
              "results other than unsigned words");
      return define_array(op, ops::rng_bits(threefry ? ops::RngAlgorithm::ThreeFry : ops::RngAlgorithm::Philox,
                                            dims_of(type(op.results[1])), type(op.results[1])->dtype));
    }
    case C::prng_seed: {
      std::vector<int64_t> words;
      for (size_t i = 0; i < op.operands.size(); ++i) {
        const Val& v = operand(op, i);
        require(op, v.bytes() % 4 == 0 && !ir::is_float(v.dtype), "seeds other than words and keys");
        words.push_back(v.bytes() / 4);
      }
      return define_array(op, ops::prng_seed(prng_slot_, words));
    }
    default: {
      const ir::Type* t = type(op.results[0]);
      require(op, ir::bit_width(t->dtype) == 32, "results other than 32-bit words");
      return define_array(op, ops::prng_draw(prng_slot_, t->num_elements()));
    }
  }
}

}  // namespace pallasim::interp
