#include <algorithm>

#include "pallasim/hw/timing.h"

namespace pallasim::hw {

int Transfers::add(std::string name, double rate, Order order) {
  shares_.emplace_back(rate);
  queues_.emplace_back();
  orders_.push_back(order);
  names_.push_back(std::move(name));
  versions_.push_back(0);
  return static_cast<int>(shares_.size()) - 1;
}

// The next end at a resource; what was foreseen before is no more.
void Transfers::schedule(int resource) {
  const auto r = static_cast<size_t>(resource);
  ++versions_[r];
  if (const double at = shares_[r].next(); at < kNever) events_.push({at, order_++, resource, -1, versions_[r]});
}

void Transfers::foresee(int64_t id) {
  Flight& f = flights_[static_cast<size_t>(id)];
  f.latency = std::max(f.latency, f.there - f.last);
  events_.push({f.last + f.latency, order_++, -1, id, 0});
}

void Transfers::begin(double now, double latency, const Use* uses, size_t count, int64_t tag, double there) {
  int64_t id = static_cast<int64_t>(flights_.size());
  if (free_.empty()) {
    flights_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Flight& f = flights_[static_cast<size_t>(id)];
  f = {tag, now, latency, now, there, 0, -1};
  for (size_t i = 0; i < count; ++i) {
    if (uses[i].work <= 0) continue;
    if (const auto r = static_cast<size_t>(uses[i].resource); orders_[r] == Order::Queued) {
      const double end = queues_[r].take(now, uses[i].work / shares_[r].rate());
      if (end >= f.last) f.last = end, f.resource = uses[i].resource;
      continue;
    }
    ++f.left;
    shares_[static_cast<size_t>(uses[i].resource)].add(now, uses[i].work, id);
    schedule(uses[i].resource);
  }
  if (f.left == 0) foresee(id);
}

double Transfers::busy(int resource) const {
  const auto r = static_cast<size_t>(resource);
  return orders_[r] == Order::Queued ? queues_[r].busy() : shares_[r].served() / shares_[r].rate();
}

void Transfers::clean() {
  while (!events_.empty() && events_.top().resource >= 0 &&
         events_.top().version != versions_[static_cast<size_t>(events_.top().resource)])
    events_.pop();
}

double Transfers::next() {
  clean();
  return events_.empty() ? kNever : events_.top().time;
}

bool Transfers::step(Done* done) {
  clean();
  const Event e = events_.top();
  events_.pop();
  if (e.resource < 0) {
    const Flight& f = flights_[static_cast<size_t>(e.flight)];
    *done = {f.tag, e.time, f.begin, f.latency, f.resource};
    free_.push_back(e.flight);
    return true;
  }
  const int64_t id = shares_[static_cast<size_t>(e.resource)].take();
  Flight& f = flights_[static_cast<size_t>(id)];
  if (e.time >= f.last) f.last = e.time, f.resource = e.resource;
  if (--f.left == 0) foresee(id);
  schedule(e.resource);
  return false;
}

BoxCache::Found BoxCache::touch(uint64_t key, double bytes, double arrives) {
  const auto it = boxes_.find(key);
  const bool hit = it != boxes_.end();
  const double there = hit ? it->second.there : arrives;
  boxes_[key] = {bytes, there, ++stamp_};
  order_.push({key, stamp_});
  if (!hit) held_ += bytes;
  while (held_ > bytes_ && !order_.empty()) {
    const auto [oldest, stamp] = order_.front();
    order_.pop();
    const auto at = boxes_.find(oldest);
    if (at == boxes_.end() || at->second.stamp != stamp) continue;
    held_ -= at->second.bytes;
    boxes_.erase(at);
  }
  return {hit, there};
}

}  // namespace pallasim::hw
