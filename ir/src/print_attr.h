// Pieces of the printer that diagnostics use as well.
#pragma once
#include <string>

#include "pallasim/ir/module.h"

namespace pallasim::ir {

void append_attr(std::string& out, const Attr& a);
void append_attrs(std::string& out, const AttrDict& d);  // {k = v, …}
void append_viewed(std::string& out, const Viewed& v);
void append_entry(std::string& out, const view::Entry& e);
std::string to_string(const Attr& a);

// The first line of an operation without its location: "%2 = add %0, %1 : f32[8]"; regions become "(…) {…}".
std::string op_text(const Graph& g, const Op& op);

// The float or complex constants of `a` in decimal, for comments: "1.5". Empty when there is none.
std::string literal_comment(const Attr& a);

}  // namespace pallasim::ir
