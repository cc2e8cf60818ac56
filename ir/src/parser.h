// The parser: one pass over the text, one function per rule of the grammar in docs/ir.md.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pallasim/ir/module.h"

namespace pallasim::ir {

class Parser {
 public:
  Parser(std::string_view text, std::string_view file_name, const Limits& limits, Unplaced unplaced);
  Module parse_module();
  LocTable parse_locations();  // of a text that is nothing else

 private:
  // Values of one graph. Canonical text numbers them 0, 1, 2, …, so the table is needed for other text only.
  class Values {
   public:
    bool define(int64_t number, ValueId id);  // false: the number is taken
    bool find(int64_t number, ValueId* id) const;

   private:
    ValueId count_ = 0;
    bool identity_ = true;
    std::unordered_map<int64_t, ValueId> table_;
  };

  // Raises the nesting level for the lifetime of a rule that contains itself.
  class Nested {
   public:
    Nested(Parser& p, const char* what);
    ~Nested() { --p_.depth_; }

   private:
    Parser& p_;
  };

  // Characters (parse_lexer.cc).
  void skip_line_space();  // blanks and a comment, up to the end of the line
  void skip_space();       // line ends too
  char peek() const { return p_ < end_ ? *p_ : '\0'; }
  bool at_end() const { return p_ == end_; }
  bool accept(char c);
  bool accept_nl_ok(char c);  // skips line ends first
  void expect(char c, const char* where);
  void expect_end_of_line(const char* after);
  std::string_view name_token();  // empty when there is none
  std::string_view expect_name(const char* what);
  int64_t integer(const char* what);
  std::string string_literal(const char* what);
  void string_escape(std::string& out);
  uint32_t hex4();
  int64_t value_number();

  // Types (parse_type.cc).
  const Type* type();
  const Type* tensor_type();
  const Type* tensor_type_after(DType dtype, const char* begin);
  const Type* ref_type();
  Dim dim();
  void dim_expression(std::string& out);
  const Type* cached(const char* begin, const char* end) const;

  // Attributes (parse_attr.cc).
  Attr attr();
  Attr named_attr();
  Attr bits(DType dtype);
  Attr dense(const Type* type);
  Attr call(std::string_view name);
  std::vector<Attr> items(char close, const char* what);
  AttrDict attr_dict();
  AttrDict optional_attrs();

  // Graphs (parse_graph.cc).
  Graph graph();
  void region(Region& r);
  void region_argument(Region& r);
  void op(Op& o);
  void results(Op& o);
  void result_types(Op& o, const char* begin);
  void operands(Op& o);
  ValueId define(const char* at, int64_t number, const Type* type);

  // Declarations (parse_module.cc).
  void header();
  bool declaration();
  void module_decl();
  void param_decl();
  void mesh_decl();
  void grid_decl();
  void operand_decl(Operand::Kind kind);
  void scratch_decl();
  void alias_decl();
  void body_decl();
  void loc_decl();
  void check_locations();
  void declared_at(LocId* loc, const char* at);  // where no location is named
  void place(Region& r, LocId first, bool here);
  void place_unplaced();
  void block(Operand& o, const Attr& a, const char* at);
  BlockDim block_dim(const Attr& a, const char* at);
  // Takes `key` out of the dictionary; fails where it is required and absent.
  bool take(AttrDict& d, std::string_view key, Attr* out);
  Attr need(AttrDict& d, std::string_view key, const char* decl, const char* at);
  int64_t take_int(AttrDict& d, std::string_view key, const char* decl, const char* at);
  std::string take_text(const Attr& a, std::string_view key, const char* decl, const char* at);

  void count(int64_t* counter, int64_t limit, const char* what);
  SourceLine line_of(const char* at, const char** from, int* line) const;
  [[noreturn]] void fail(const char* at, Code code, std::string message, std::string hint = {}) const;
  [[noreturn]] void syntax(const std::string& expected) const;
  std::string found() const;

  const char* begin_;
  const char* p_;
  const char* end_;
  std::string file_name_;
  Limits limits_;
  int depth_ = 0;
  int64_t num_ops_ = 0, num_attrs_ = 0, num_values_ = 0;
  int decl_rank_ = -1;
  const char* decl_at_ = nullptr;
  Module m_;
  Graph* graph_ = nullptr;
  Values* values_ = nullptr;
  LocId max_loc_ = -1;
  const char* max_loc_at_ = nullptr;
  Unplaced unplaced_;
  std::vector<const char*> places_;  // of what has the location -2, -3, … until the table is complete
  std::unordered_map<std::string_view, const Type*> type_cache_;  // by the text as written
};

}  // namespace pallasim::ir
