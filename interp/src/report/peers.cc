// Clusters that were taken before they began, and GPUs that reach into each other, in words.
#include <fmt/format.h>

#include "../plan/kinds.h"
#include "../plan/payload/launch_control.h"
#include "causes.h"
#include "pallasim/hw/machine.h"
#include "race_detector.h"
#include "report.h"
#include "words.h"

namespace pallasim::interp {

void Words::lost_cluster(Execution& ex, const ClusterClaim& c) const {
  const memory::Units all(ex.plan->threads.units.meshes(), ex.devices);
  const int64_t unit = all.first(memory::Level::Cluster, 0, c.device) + c.cluster;
  const Step& s = ex.plan->steps[static_cast<size_t>(c.step)];
  const bool several = payload<Kind::cluster_request>(&s).several;
  const std::string why = c.missed < 0
                              ? "nobody looked at the answer"
                              : fmt::format("another answer came over the one that said so before {} looked at it",
                                            core_name(ex.threads[static_cast<size_t>(c.missed)], c.missed_at));
  ir::Diagnostic d =
      ir::Diagnostic("PS-CLU-001",
                     fmt::format("{} is lost: a request took it, and {}", all.name(memory::Level::Cluster, unit), why))
          .of(ex.plan->module.name)
          .at(ir::site_of(*ex.locs, ex.plan->loc_of(s)))
          .with({"a cluster that another one takes never begins: its part of the work is not done"})
          .hinted(several ? "here each of several CTAs or threads asks for a cluster of its own, and its "
                            "answer goes to all CTAs: let one ask for all, "
                            "plgpu.dynamic_scheduling_loop(..., cluster_axes=...) or "
                            "plgpu.try_cluster_cancel(..., collective_axes=...) with the axes of the "
                            "cluster"
                          : "behind the wait for the request's barrier, let "
                            "plgpu.query_cluster_cancel say whose work it is, and "
                            "do it, before the next request and before the kernel ends");
  d.severity = ir::Severity::Warning;
  ex.add_finding(std::move(d));
}

void Words::vain_request(const Thread& t, const Step* s) const {
  Execution& ex = *t.exec;
  if (!ex.log.noted.emplace(s, ex.log.findings.size()).second) return;
  ir::Diagnostic d =
      diagnostic_at(t, s, "PS-CLU-002", "a request for a cluster behind one that got none, as its CTA has read");
  d.numbers.push_back("none is left, and what a further request does is undefined in PTX");
  d.hint = "ask no more once plgpu.query_cluster_cancel has said that there was none";
  d.severity = ir::Severity::Warning;
  ex.add_finding(std::move(d));
}

// An actor's later accesses come after its earlier ones: the last one to a device stands for all.
void RaceDetector::note_remote(const memory::shadow::Access& a, const Where& w) {
  const Execution& ex = this->ex();
  if (ex.devices == 1 || plan_.first().model->in_order()) return;
  const auto device = [&](int32_t t) { return ex.device_of(ex.threads[static_cast<size_t>(t)]); };
  const int32_t to = device(w.owner);
  if (device(w.thread) == to) return;
  Remote& r = remote_[{a.who, to}];
  r.at = order_.now(a.who);
  if (r.loc >= 0 && r.write && !a.write) return;  // a write says more
  r.where = w;
  r.write = a.write;
  r.loc = instances_.line(plan_, a.site).loc;
  r.who = name_of(ex.threads[static_cast<size_t>(w.thread)]);
}

// A kernel may end, and its arrays be somebody else's, as soon as all of its own device's threads have ended.
void RaceDetector::check_left() {
  Execution& ex = this->ex();
  std::set<std::tuple<ir::LocId, int32_t>> told;
  for (const auto& [key, r] : remote_) {
    const int32_t device = key.second;
    bool awaited = false;
    for (int32_t i = 0; i < ex.device_threads && !awaited; ++i)  // who still waits has not left
      awaited = thread(device * ex.device_threads + i).stop == Stop::Blocked ||
                order_.ordered(r.at, device * ex.device_threads + i);
    if (awaited || !told.emplace(r.loc, device).second) continue;
    const std::string name = allocation_name(plan_, r.where.buffer, r.where.offset),
                      ref = name.empty() ? "an array" : name;
    ir::Diagnostic d =
        ir::Diagnostic("PS-RACE-004", fmt::format("{} of device {} is {} by {}, and that device does not "
                                                  "wait for it before its kernel ends",
                                                  ref, device, r.write ? "written" : "read", r.who))
            .of(plan_.module.name)
            .at(ir::site_of(*ex.locs, r.loc))
            .with({fmt::format("device {} may have left by then, and the memory be somebody else's", device)})
            .hinted(fmt::format("behind the access signal a semaphore of device {0}, and let device {0} "
                                "wait for that as the last thing it does",
                                device));
    d.severity = ir::Severity::Warning;
    d.about.push_back(about_ref(ref));
    findings_.push_back({std::move(d), {"devices leave"}});
  }
}

}  // namespace pallasim::interp
