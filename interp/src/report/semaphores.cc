// Semaphores in words: who signals, who waits, what is left.
#include <fmt/format.h>

#include "../plan/kinds.h"
#include "causes.h"
#include "pallasim/hw/machine.h"
#include "report.h"
#include "words.h"

namespace pallasim::interp {

std::string where(const Execution& ex, ir::LocId loc) {
  const ir::Site site = ir::site_of(*ex.locs, loc);
  return site.source.file.empty() ? std::string("an unknown line")
                                  : fmt::format("{}:{}", site.source.file, site.source.line);
}

namespace {

const char* how(const Plan& p, const SyncUse& u) {
  const bool bytes = p.memory.semaphores.blocks()[static_cast<size_t>(u.block)].bytes;
  switch (u.role) {
    case SyncUse::Role::Signal: return "is signalled";
    case SyncUse::Role::Written:
      return bytes ? "counts the bytes of the copy started" : "is signalled by the copy started";
    case SyncUse::Role::Read:
      return bytes ? "counts the bytes read by the copy started"
                   : "is signalled when its source was read by the copy started";
    default: return nullptr;
  }
}

// " of x_ref to o_ref", of steps that start a copy.
std::string copied(const Step& s) {
  if (!starts_operation(s)) return "";
  const SideNames names = row(s).sides(s);
  if (names.reads.empty() && names.writes.empty()) return "";
  return fmt::format(" of {} to {}", names.reads.empty() ? "a ref" : names.reads,
                     names.writes.empty() ? "a ref" : names.writes);
}

// note(block, how, location) of every step that adds to a semaphore.
template <typename F>
void for_each_signal(const Plan& p, const F& note) {
  for (const Step& s : p.steps)
    for (const SyncUse& u : sync_uses(s))
      if (u.object == Wait::Kind::Semaphore)
        if (const char* adds = how(p, u)) note(u.block, adds, s);
}

}  // namespace

std::vector<std::string> signallers(const Execution& ex, const std::set<int>& blocks) {
  const Plan& p = *ex.plan;
  std::set<std::string> lines;
  for_each_signal(p, [&](int block, std::string_view how, const Step& s) {
    if (!blocks.count(block)) return;
    const bool copy = how.ends_with(" started");  // "…the copy started": which one stands before that word
    lines.insert(fmt::format("{} {}{}{} at {}", p.memory.semaphores.blocks()[static_cast<size_t>(block)].name,
                             copy ? how.substr(0, how.size() - 8) : how, copy ? copied(s) : "", copy ? " started" : "",
                             where(ex, p.loc_of(s))));
  });
  return {lines.begin(), lines.end()};
}

namespace {
// Who takes from the semaphores of a block, a line each.
std::vector<std::string> awaiters(const Execution& ex, int block) {
  const Plan& p = *ex.plan;
  std::set<std::string> lines;
  const std::string& name = p.memory.semaphores.blocks()[static_cast<size_t>(block)].name;
  for (const Step& s : p.steps)
    for (const SyncUse& u : sync_uses(s)) {
      if (u.object != Wait::Kind::Semaphore || u.role != SyncUse::Role::Await || u.block != block) continue;
      std::string line = fmt::format("{} is awaited at {}", name, where(ex, p.loc_of(s)));
      if (u.bytes == SyncUse::kAnyBytes) line += ", for a size known at run time";
      else if (u.bytes > 0) line += fmt::format(", for {} bytes", u.bytes);
      lines.insert(std::move(line));
    }
  if (lines.empty()) lines.insert(name + " is never awaited");
  return {lines.begin(), lines.end()};
}
}  // namespace

// A kernel may declare that its semaphores are not to be checked.
static bool checks_semaphores(const ir::Module& m) {
  const ir::Attr* params = ir::find(m.attrs, "params");
  for (size_t i = 0; params && i < params->keys.size(); ++i)
    if (params->keys[i] == "disable_semaphore_checks" && params->items[i].is_true()) return false;
  return true;
}

void Words::left_over(Thread& t, const Step* s, int64_t id) const {
  Execution& ex = *t.exec;
  const int64_t left = ex.semaphores.count(id);
  if (left == 0) return;
  const Plan& p = *ex.plan;
  ex.semaphores.set(id, 0);
  if (!checks_semaphores(p.module)) return;
  int block = -1;
  const std::string name = object_name(ex, Wait::Kind::Semaphore, id, &block);
  const bool bytes = block >= 0 && p.memory.semaphores.blocks()[static_cast<size_t>(block)].bytes;
  ir::Diagnostic d = diagnostic_at(t, s, "PS-SEM-002",
                                   bytes ? fmt::format("{} ends with {} bytes that nobody waited for", name, left)
                                         : fmt::format("{} ends at {} instead of 0", name, left));
  d.about.push_back(about_semaphores(block));
  for_each_signal(p, [&](int signalled, const char*, const Step& step) {
    if (signalled == block && d.site.source.file.empty()) d.site = ir::site_of(*ex.locs, p.loc_of(step));
  });
  d.numbers = signallers(ex, {block});
  if (block >= 0)
    for (std::string& line : awaiters(ex, block)) d.numbers.push_back(std::move(line));
  d.hint = bytes ? "every copy that is started needs a wait for its bytes; on hardware the next user of the semaphore "
                   "goes wrong"
                 : fmt::format(
                       "signals and waits must balance: pl.semaphore_wait({}, {}) takes what is left; on "
                       "hardware the next user of the semaphore goes wrong",
                       name, left);
  d.severity = t.body->model->left_in_semaphores;
  if (d.severity == ir::Severity::Note)
    d.hint = "signals and waits that balance leave nothing; the next launch begins at 0 all the same";
  if (d.severity == ir::Severity::Error) throw ir::DiagnosticError(std::move(d));
  ex.add_finding(std::move(d));
}

}  // namespace pallasim::interp
