#include "pallasim/memory/shadow/claims.h"

namespace pallasim::memory::shadow {

void Claims::Users::add(Shared::Use use) {
  if (last.unit != use.unit) other = last;
  last = use;
}

const Shared::Use* Claims::Users::not_of(int64_t unit) const {
  if (last.unit >= 0 && last.unit != unit) return &last;
  return other.unit >= 0 && other.unit != unit ? &other : nullptr;
}

void Claims::step(int64_t unit, const Access& a, bool kept, State& s, Range bytes) {
  const Shared::Use* met = nullptr;
  bool wrote = false;
  const auto look = [&](const Users& users, bool write) {
    if (!met && (met = users.not_of(unit))) wrote = write;
  };
  const bool overwrites = a.write && !a.atomic && !kept;
  if (const Shared::Use* writer = s.writers.not_of(unit); writer && apart_ && overwrites)
    writes_.push_back({*writer, {unit, a.site}, true, true, false, a.instance, bytes});
  else look(s.writers, true);
  if (kept) {
    // What another unit wrote here before this one did is gone.
    if (a.write || met != &s.writers.last) met = nullptr;
  } else {
    if (!a.atomic) look(s.atomic_writers, true);
    if (a.write) look(s.readers, false);
    if (a.write && !a.atomic) look(s.atomic_readers, false);
  }
  const auto left = [&](const Users& writers) { return writers.last.unit >= 0 && writers.last.unit != unit; };
  const bool carries = met && !a.write && (left(s.writers) || left(s.atomic_writers));
  if (met && told_.insert({a.instance, met->site, a.site, carries}).second)
    found_.push_back({*met, {unit, a.site}, wrote, a.write, carries, a.instance, bytes});
  Users& users = a.atomic ? (a.write ? s.atomic_writers : s.atomic_readers) : a.write ? s.writers : s.readers;
  users.add({unit, a.site});
}

bool Claims::access(int64_t unit, const Access& a, bool kept) {
  writes_.clear();
  if (limit_) return false;
  regions_.visit(a.instance, a.box(), a.places, [&](State& s, Range bytes) { step(unit, a, kept, s, bytes); });
  if (memory() <= max_bytes_) return true;
  limit_ = Races::Limit{a.instance, memory(), max_bytes_};
  return false;
}

void Claims::fresh(int32_t instance, int64_t begin, int64_t end) { regions_.forget(instance, begin, end); }

}  // namespace pallasim::memory::shadow
