// Checked runs: two plain writes that nothing orders. They are a race where they leave different bytes; where they
// leave the same ones, no result depends on their order (as NVIDIA's racecheck has it, whose severity of such hazards
// is INFO: Compute Sanitizer, "Understanding Racecheck Reports").
#include "race_detector.h"
#include "report.h"

namespace pallasim::interp {
namespace shadow = memory::shadow;

// What the earlier one left is there to be looked at, unless it is an operation that is still to move its bytes.
void RaceDetector::compare(const shadow::Race& race, shadow::Actor earlier, const shadow::Access& a, const Where& w,
                           int64_t operation) {
  Writes now{race, report(ex(), race, w), {w.owner, w.buffer, a, race.bytes}, {}, operation, false, {}};
  if (!now.found) return;
  for (const auto& [id, sides] : issued_)
    if (sides.writes == earlier && id != operation) now.earlier.push_back(id);
  if (now.earlier.empty()) now.one = now.place.read(ex());
  writes_.push_back(std::move(now));
}

bool RaceDetector::landed(Writes& w) {
  std::vector<std::byte> now = w.place.read(ex());
  if (!w.one) return w.one = std::move(now), false;
  const auto sites = std::minmax(w.race.earlier.site, w.race.later.site);
  if (!now.empty() && *w.one == now) same_.try_emplace(sites, std::move(*w.found));
  else if (races_.differ(w.race)) findings_.push_back(std::move(*w.found));
  return true;
}

// Of the steps that were about to run when they were seen.
void RaceDetector::steps_done() {
  std::erase_if(writes_, [&](Writes& w) {
    if (w.operation >= 0 || w.later_done) return false;
    w.later_done = true;
    return landed(w);
  });
}

void RaceDetector::operation_moved(int64_t id) {
  steps_done();
  std::erase_if(writes_, [&](Writes& w) {
    if (w.operation == id) return w.later_done = true, landed(w);
    return std::erase(w.earlier, id) != 0 && w.earlier.empty() && landed(w);
  });
}

// Those that never differed.
std::vector<Meeting> RaceDetector::notes() const {
  std::vector<Meeting> r;
  for (const auto& [sites, meeting] : same_) {
    const auto& [a, b] = sites;
    shadow::Race race;
    race.earlier.site = a, race.later.site = b;
    if (races_.told(race)) continue;
    Meeting note = meeting;
    note.found = the_same(std::move(note.found));
    r.push_back(std::move(note));
  }
  return r;
}

}  // namespace pallasim::interp
