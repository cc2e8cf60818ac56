// Checked runs: aliased inputs that are read after their output was written.
#include <fmt/format.h>

#include <algorithm>

#include "../ops/elements.h"
#include "checked.h"
#include "pallasim/hw/machine.h"
#include "report.h"

namespace pallasim::interp {

AliasDetector::AliasDetector(const Plan& plan) : plan_(plan) {
  if (!plan.first().model->checks.aliased_inputs) return;
  const int inputs = static_cast<int>(plan.module.operands.size()) - plan.module.count(ir::Operand::Kind::Output);
  for (const ir::Alias& a : plan.module.aliases) {
    if (ir::is_sync(plan.first().windows[static_cast<size_t>(a.input)].dtype)) continue;
    pairs_[a.input] = inputs + a.output;
    pairs_[inputs + a.output] = a.input;
  }
}

void AliasDetector::cut(Runs* written, const ByteRun& run) {
  auto it = written->upper_bound(run.begin);
  if (it != written->begin()) --it;
  while (it != written->end() && it->first < run.end) {
    const auto [begin, w] = *it;
    if (w.end <= run.begin) {
      ++it;
      continue;
    }
    it = written->erase(it);
    if (begin < run.begin) (*written)[begin] = {run.begin, w.loc};
    if (w.end > run.end) it = written->insert_or_assign(run.end, Written{w.end, w.loc}).first;
  }
}

void AliasDetector::see(Seen& seen) {
  const Access& a = seen.access;
  if (a.buffer < kFirstOperandBuffer) return;
  const int operand = static_cast<int>(a.buffer - kFirstOperandBuffer);
  if (!pairs_.count(operand)) return;
  const bool output = plan_.first().windows[static_cast<size_t>(operand)].is_output;
  if (!a.write && (output || reported_.count(operand))) return;
  Runs& written = written_[seen.instance()];
  for (const ByteRun& run : byte_runs(a.offset, a.dims, a.strides, a.rank, a.element_bytes)) {
    if (!a.write) {
      auto it = written.upper_bound(run.begin);
      if (it != written.begin() && std::prev(it)->second.end > run.begin) --it;
      if (it == written.end() || it->first >= run.end) continue;
      return report(a, operand, std::max(it->first, run.begin), it->second.loc);
    }
    cut(&written, run);  // what is written through the input's own name is the input's
    if (output) written[run.begin] = {run.end, a.loc};
  }
}

void AliasDetector::report(const Access& a, int input, int64_t at, ir::LocId writer) {
  reported_.insert(input);
  const ir::Module& m = plan_.module;
  const Window& w = plan_.first().windows[static_cast<size_t>(input)];
  const std::string& name = m.operands[static_cast<size_t>(input)].name;
  const std::string& other = m.operands[static_cast<size_t>(pairs_[input])].name;
  int64_t element = at / w.element_bytes;
  std::vector<int64_t> index(w.dims.size());
  for (size_t d = index.size(); d-- > 0;) index[d] = element % w.dims[d], element /= w.dims[d];
  ir::Diagnostic d =
      diagnostic_at(thread(a.thread), a.loc, "PS-ALIAS-001",
                    fmt::format("{} is read where {} was written before: the two are one buffer", name, other));
  ir::Site side = ir::site_of(*ex().locs, writer);
  side.what = fmt::format("{} was written here", other);
  d.also.push_back(std::move(side));
  d.numbers.push_back(fmt::format("the first such element is {}", ops::shape_text(index)));
  d.numbers.push_back(
      "this run showed the new value; the HLO interpreter shows the old one, and a TPU what its window held when "
      "the block was fetched");
  d.hint = fmt::format("read {} before {} is written, or read {} where the new value is meant", name, other, other);
  findings_.push_back(std::move(d));
}

void AliasDetector::finish(std::vector<ir::Diagnostic>& out) {
  for (ir::Diagnostic& d : findings_) out.push_back(std::move(d));
}

}  // namespace pallasim::interp
