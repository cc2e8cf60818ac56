// The text of programs whose races are known: every thread runs its own items of one body.
#include <fmt/format.h>

#include "races.h"

namespace pallasim::judge {
namespace {

using Kind = Item::Kind;

std::string slices(const Block& b) {
  return fmt::format("index(slice({}, {}), slice({}, {}))", b.row, b.rows, b.column, b.columns);
}

class Text {
 public:
  explicit Text(const RaceProgram& p) : p_(p) {
    for (int* id : {&shared_, &end_acc_, &end_own_, &acc_, &own_, &signals_, &moved_, &sent_}) *id = w_.fresh();
  }

  std::string make() {
    begin();
    for (size_t i = 0; i < p_.items.size();) {
      const int t = p_.items[i].thread;
      w_.open(fmt::format("cond {} () {{", name(is_[static_cast<size_t>(t)])));
      w_.line("yield");
      w_.between("} () {");
      for (; i < p_.items.size() && p_.items[i].thread == t; ++i) item(p_.items[i]);
      w_.line("yield");
      w_.close("}");
    }
    for (const auto& [from, to] : {std::pair{acc_, end_acc_}, std::pair{own_, end_own_}})
      w_.line(fmt::format("store {}, {}, {} {{view = [index($2, slice(0, {}), slice(0, {}))]}}", name(to),
                          name(w_.op("get " + name(from), str(array_))), name(core_), Block::kRows, Block::kColumns));
    return header() + w_.text() + "  yield\n}\n" + lines();
  }

 private:
  void begin() {
    const auto axis = [&](const char* n) { return w_.op(fmt::format("axis_index {{axis = \"{}\"}}", n), "i32[]"); };
    core_ = p_.cores > 1 ? axis("core") : number(0);
    if (p_.subcores > 0)
      core_ = w_.op(fmt::format("add {}, {}",
                                name(w_.op(fmt::format("mul {}, {}", name(core_), name(number(p_.subcores))), "i32[]")),
                                name(axis("subcore"))),
                    "i32[]");
    int me = core_;
    if (p_.devices > 1) {
      const int device = axis("x");
      me = w_.op(fmt::format("add {}, {}",
                             name(w_.op(fmt::format("mul {}, {}", name(device), name(number(p_.cores))), "i32[]")),
                             name(core_)),
                 "i32[]");
    }
    for (int t = 0; t < p_.threads(); ++t)
      is_.push_back(w_.op(fmt::format("eq {}, {}", name(me), name(number(t))), "bool[]"));
    w_.line(fmt::format("store {}, {}", name(acc_),
                        name(w_.op("broadcast_in_dim " + name(me) + " {dims = []}", str(array_)))));
  }
  int number(int64_t v) {
    return w_.op("constant {value = " + literal(DType::I32, static_cast<double>(v)) + "}", "i32[]");
  }
  // The array, by the name it has in the thread that reaches it, or for a copy in the one it reaches.
  int array(int a) const { return a < p_.devices ? shared_ : own_; }
  std::string at(const Item& i) const { return fmt::format(" @{}", i.id); }

  // Into the accumulator, so that what was read shows in the result. A read may be one step with what uses it.
  void fold(const Item& i, int x) {
    const Block& b = i.to.block;
    const Block corner{0, 0, b.rows, b.columns};
    const std::string type = str(Type{DType::I32, {b.rows, b.columns}}), view = " {view = [" + slices(corner) + "]}";
    const int old = w_.op("get " + name(acc_) + view, type + at(i));
    const char* how[] = {"add", "sub", "xor"};
    const int sum = w_.op(fmt::format("{} {}, {}", how[i.variant % 3], name(old), name(x)), type + at(i));
    w_.line("store " + name(acc_) + ", " + name(sum) + view + at(i));
  }
  void access(const Item& i) {
    const Block& b = i.to.block;
    const std::string type = str(Type{DType::I32, {b.rows, b.columns}}), view = " {view = [" + slices(b) + "]}",
                      ref = name(array(i.to.array));
    if (!i.write) {
      const int x = w_.fresh();
      w_.line(fmt::format("{} = get {}{} : {}{}", name(x), ref, view, type, at(i)));
      return fold(i, x);
    }
    const Block corner{0, 0, b.rows, b.columns};
    const int old = w_.op("get " + name(acc_) + " {view = [" + slices(corner) + "]}", type + at(i));
    const int value = w_.op(fmt::format("add {}, {}", name(old), name(number(i.variant))), type + at(i));
    if (i.first || i.variant % 4 < 2) {
      w_.line(fmt::format("store {}, {}{}{}", ref, name(value), view, at(i)));
    } else if (i.variant % 4 == 2) {
      w_.line(fmt::format("addupdate {}, {}{}{}", ref, name(value), view, at(i)));
    } else {
      const int x = w_.fresh();
      w_.line(fmt::format("{} = swap {}, {}{} : {}{}", name(x), ref, name(value), view, type, at(i)));
      fold(i, x);
    }
  }
  // Appends who is meant, as operands and attributes.
  void target(const Item& i, std::string* operands, std::string* attributes, int count) {
    if (p_.devices > 1) {
      *operands += ", " + name(number(i.target / p_.cores));
      *attributes += fmt::format(", device_id = ${}, device_id_type = logical", count++);
    }
    if (p_.cores > 1) {
      *operands += ", " + name(number(i.target % p_.cores));
      *attributes += fmt::format(", core_index = ${}", count);
    }
  }
  void copy(const Item& i) {
    std::string operands = fmt::format("{}, {}, {}", name(array(i.from.array)), name(array(i.to.array)), name(moved_));
    std::string attributes = fmt::format("src = view($0, [{}]), dst = view($1, [{}]), dst_sem = view($2, [index({})])",
                                         slices(i.from.block), slices(i.to.block), i.number);
    if (i.remote) {
      operands += ", " + name(sent_);
      attributes += fmt::format(", src_sem = view($3, [index({})])", i.number);
      target(i, &operands, &attributes, 4);
    }
    w_.line(fmt::format("dma_start {} {{{}}}{}", operands, attributes, at(i)));
    blocks_[i.number] = i.from.block;
  }
  void copy_wait(const Item& i) {
    const std::string any = slices({0, 0, blocks_[i.number].rows, blocks_[i.number].columns});
    w_.line(
        fmt::format("dma_wait {0}, {0}, {1} {{src = view($0, [{2}]), dst = view($1, [{2}]), dst_sem = view($2, "
                    "[index({3})])}}{4}",
                    name(own_), name(i.reads ? sent_ : moved_), any, i.number, at(i)));
  }
  void item(const Item& i) {
    switch (i.kind) {
      case Kind::Access: return access(i);
      case Kind::Copy: return copy(i);
      case Kind::CopyWait: return copy_wait(i);
      case Kind::Signal: {
        std::string operands = name(signals_) + ", " + name(number(i.amount)), attributes;
        target(i, &operands, &attributes, 2);
        return w_.line(
            fmt::format("sem_signal {} {{view = [index({})], inc = $1{}}}{}", operands, i.number, attributes, at(i)));
      }
      case Kind::Wait:
        return w_.line(fmt::format("sem_wait {}, {} {{view = [index({})], value = $1}}{}", name(signals_),
                                   name(number(i.amount)), i.number, at(i)));
      case Kind::Barrier: return w_.line("sc_barrier" + at(i));
    }
  }
  std::string header() const {
    const Type ends{DType::I32, {p_.cores, Block::kRows, Block::kColumns}};
    const std::string copies = fmt::format("ref<dma_sem[{}], semaphore>", std::max(1, p_.copies)),
                      sems = fmt::format("ref<sem[{}], semaphore>", p_.semaphores);
    std::string t = fmt::format("pallasim-ir 1\nmodule \"races_{}\" {{machine = tpu", p_.seed);
    if (p_.devices > 1) t += fmt::format(", devices = [axis(\"x\", {})], communicates = true", p_.devices);
    t += "}\n";
    if (p_.subcores > 0)
      t += fmt::format("mesh \"cores\" {{kind = vector_subcore, axes = [axis(\"core\", {}), axis(\"subcore\", {})]}}\n",
                       p_.cores / p_.subcores, p_.subcores);
    else if (p_.cores > 1)
      t += fmt::format("mesh \"cores\" {{kind = tensorcore, axes = [axis(\"core\", {})]}}\n", p_.cores);
    std::string args;
    const auto declare = [&](const char* kind, const char* n, int id, const std::string& type, const std::string& ref) {
      t += fmt::format("{} \"{}\" : {}\n", kind, n, type);
      args += fmt::format("{}{} \"{}\": {}", args.empty() ? "" : ", ", name(id), n, ref);
    };
    declare("output", "shared", shared_, str(array_) + " {space = any}", ref_type(array_, "any"));
    declare("output", "end_acc", end_acc_, str(ends) + " {space = any}", ref_type(ends, "any"));
    declare("output", "end_own", end_own_, str(ends) + " {space = any}", ref_type(ends, "any"));
    for (const auto& [n, id] : {std::pair{"acc", acc_}, std::pair{"own", own_}})
      declare("scratch", n, id, ref_type(array_, "vmem"), ref_type(array_, "vmem"));
    declare("scratch", "signals", signals_, sems, sems);
    declare("scratch", "moved", moved_, copies, copies);
    declare("scratch", "sent", sent_, copies, copies);
    return t + "body " + (p_.cores > 1 ? "\"cores\" (" : "(") + args + ") {\n";
  }
  // Every item is a line of its own, which says what it is.
  std::string lines() const {
    std::map<int, std::string> said;
    const auto place = [&](const Place& x) {
      return fmt::format(
          "{}[{}:{}, {}:{}]",
          x.array < p_.devices ? fmt::format("shared {}", x.array) : fmt::format("own {}", x.array - p_.devices),
          x.block.row, x.block.row + x.block.rows, x.block.column, x.block.column + x.block.columns);
    };
    for (const Item& i : p_.items) {
      std::string s = fmt::format("thread {} ", i.thread);
      switch (i.kind) {
        case Kind::Access: s += (i.write ? "writes " : "reads ") + place(i.to); break;
        case Kind::Copy: s += fmt::format("copy {}: {} to {}", i.number, place(i.from), place(i.to)); break;
        case Kind::CopyWait: s += fmt::format("waits for copy {}{}", i.number, i.reads ? " to have read" : ""); break;
        case Kind::Signal: s += fmt::format("signals thread {}", i.target); break;
        case Kind::Wait: s += fmt::format("waits for {} of semaphore {}", i.amount, i.number); break;
        case Kind::Barrier: s += fmt::format("comes to barrier {}", i.number); break;
      }
      said[i.id] = s;
    }
    std::string r;
    const int last = said.empty() ? 0 : said.rbegin()->first;
    for (int k = 0; k <= last; ++k)
      r += fmt::format("loc {} {{file = \"races.py\", line = {}, column = 0, function = \"races\", text = \"{}\"}}\n",
                       k, k, said[k]);
    return r;
  }

  const RaceProgram& p_;
  Writer w_;
  const Type array_{DType::I32, {Block::kRows, Block::kColumns}};
  int shared_, end_acc_, end_own_, acc_, own_, signals_, moved_, sent_, core_ = -1;
  std::vector<int> is_;
  std::map<int, Block> blocks_;  // of copies
};

}  // namespace

std::string RaceProgram::text() const { return Text(*this).make(); }

}  // namespace pallasim::judge
