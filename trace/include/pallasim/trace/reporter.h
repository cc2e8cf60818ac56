// Observers that say something in the end, by name: what `pallasim run --observe NAME` shows. Each lies in one file of
// trace/src, which registers it.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pallasim/interp/observer.h"

namespace pallasim::trace {

class Reporter : public interp::Observer {
 public:
  virtual std::string text() const = 0;  // lines, each with its end
};

struct ReporterRow {
  std::string name, doc;
  std::function<std::unique_ptr<Reporter>()> make;
};
// By name.
std::vector<ReporterRow> reporters();
// Null where there is none of that name.
std::unique_ptr<Reporter> make_reporter(const std::string& name);

// A variable of this type at the top of a file makes its reporter known.
struct Registered {
  explicit Registered(ReporterRow);
};

}  // namespace pallasim::trace
