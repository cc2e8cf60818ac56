#include "pallasim/memory/streams.h"

#include <algorithm>

namespace pallasim::memory {

int64_t Stream::outstanding(bool reads) const {
  const auto busy = [&](const StreamGroup& g) { return (reads ? g.reads : g.writes) > 0; };
  return closed.end() - std::find_if(closed.begin(), closed.end(), busy);
}

void Streams::reset(size_t count, size_t first_in_order) {
  streams_.resize(count);
  waiters_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    Stream& s = streams_[i];
    s.in_order = i >= first_in_order;
    s.open = {};
    s.closed.clear();
    s.committed = s.waited = 0;
    waiters_[i].clear();
  }
}

StreamGroup& Streams::group(int64_t id, int64_t number) {
  Stream& s = streams_[static_cast<size_t>(id)];
  return number == s.committed ? s.open : s.closed[static_cast<size_t>(number - s.gone())];
}

int64_t Streams::issue(int64_t id) {
  Stream& s = streams_[static_cast<size_t>(id)];
  ++s.open.reads;
  ++s.open.writes;
  return s.committed;
}

void Streams::reads_done(int64_t id, int64_t number, std::vector<int32_t>* woken) {
  --group(id, number).reads;
  settle(id, woken);
}

void Streams::writes_done(int64_t id, int64_t number, bool reads_were_done, std::vector<int32_t>* woken) {
  StreamGroup& g = group(id, number);
  --g.writes;
  if (!reads_were_done) --g.reads;
  settle(id, woken);
}

// Waiters try again; whether it is their group that completed is theirs to see.
void Streams::settle(int64_t id, std::vector<int32_t>* woken) {
  Stream& s = streams_[static_cast<size_t>(id)];
  while (!s.closed.empty() && s.closed.front().writes == 0) s.closed.pop_front();
  auto& w = waiters_[static_cast<size_t>(id)];
  woken->insert(woken->end(), w.begin(), w.end());
  w.clear();
}

int64_t Streams::commit(int64_t id) {
  Stream& s = streams_[static_cast<size_t>(id)];
  s.closed.push_back(s.open);
  s.open = {};
  while (!s.closed.empty() && s.closed.front().writes == 0) s.closed.pop_front();
  return s.committed++;
}

bool Streams::wait(int64_t id, int64_t most, bool reads, int32_t thread) {
  Stream& s = streams_[static_cast<size_t>(id)];
  if (s.outstanding(reads) > std::max<int64_t>(0, most)) {
    waiters_[static_cast<size_t>(id)].push_back(thread);
    return false;
  }
  s.waited = std::max(s.waited, last_awaited(id, most) + 1);
  return true;
}

int64_t Streams::last_awaited(int64_t id, int64_t most) const {
  return std::max<int64_t>(-1, streams_[static_cast<size_t>(id)].committed - 1 - std::max<int64_t>(0, most));
}

StreamLeftOver Streams::left_over(int64_t id) const {
  const Stream& s = streams_[static_cast<size_t>(id)];
  return {std::max(s.open.reads, s.open.writes), s.outstanding(false), s.committed - s.waited};
}

}  // namespace pallasim::memory
