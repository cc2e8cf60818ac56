// Programs of GPUs that reach into each other, and of clusters that take the work of others that have not begun.
#include "clusters.h"

namespace pallasim::judge {

// Each CTA with those at its place on the other devices: nobody goes on before all of them came.
void Clusters::meet_devices(const std::string& sem) {
  const auto device = [&](int64_t n) { return fmt::format("%c{}", n); };
  switch (below(3)) {
    case 0:
      line("gpu_sem_signal_multicast {}, %c1 {{sem = view($0, [index(0)]), inc = $1, collective_axes = [\"d\"]}}", sem);
      break;
    case 1: {
      std::string signals, operands = sem + ", %c1";
      for (int64_t n = 0; n < devices_; ++n) {
        operands += ", " + device(n);
        signals += fmt::format("{}signal(view($0, [index(0)]), $1, ${}, logical)", n ? ", " : "", n + 2);
      }
      line("gpu_sem_signal_parallel {} {{signals = [{}]}}", operands, signals);
      break;
    }
    default:
      for (int64_t n = 0; n < devices_; ++n)
        line("gpu_sem_signal {}, %c1, {} {{view = [index(0)], inc = $1, device_id = $2, device_id_type = logical}}",
             sem, device(n));
  }
  line("gpu_sem_wait {}, %c{} {{view = [index(0)], value = $1, decrement = true}}", sem, devices_);
}

// The value goes to the place of `o` on another device, or on all of them.
std::string Clusters::give_to_devices(const std::string& o, const std::string& value, const std::string& place) {
  const int64_t from = below(devices_);
  const std::string at = fresh(), to = fresh();
  line("{} = add %d, %c{} : i32[]", at, below(devices_));
  line("{} = rem {}, %c{} : i32[]", to, at, devices_);
  const auto index = [&](int first) {
    return fmt::format("index(${}, ${}, ${}, {})", first, first + 1, first + 2, place);
  };
  const auto in_shared = [&](const auto& f) {
    const std::string s = fresh();
    line("run_scoped ({} \"s\": ref<i32[4,16], gsmem, cta>) {{", s);
    ++depth_;
    line("store {}, {}", s, value);
    line("commit_smem");
    f(s);
    line("wait_smem_to_gmem %c0 {{wait_read_only = false}}");
    close();
  };
  switch (below(5)) {
    case 0:
      line("store {}, {}, {}, %i, %x, %y {{view = [peer($2, logical), {}]}}", o, value, to, index(3));
      return "store to a peer";
    case 1:
      line("store {}, {}, %i, %x, %y, {} {{view = [{}, peer($5, logical)]}}", o, value, to, index(2));
      return "store to a part of a peer";
    case 2:
      in_shared([&](const std::string& s) {
        line("copy_smem_to_gmem {}, {}, {}, %i, %x, %y {{src = view($0, []), dst = view($1, [peer($2, logical), {}])}}",
             s, o, to, index(3));
      });
      return "bulk copy to a peer";
    case 3:
      when(fmt::format("eq %d, %c{}", from), [&] {
        line("multimem_store {}, {}, %i, %x, %y {{value = $0, ref = view($1, [{}]), collective_axes = [\"d\"]}}", value,
             o, index(2));
      });
      return "multimem store";
    default:
      when(fmt::format("eq %d, %c{}", from), [&] {
        in_shared([&](const std::string& s) {
          line("copy_smem_to_gmem {}, {}, %i, %x, %y {{src = view($0, []), dst = view($1, [multicast(\"d\"), {}])}}", s,
               o, index(2));
        });
      });
      return "bulk copy to all devices";
  }
}

void Clusters::between_devices() {
  const std::string type = fmt::format("i32[{}4,16]", each()), o = output(type), twice = output(type), sem = fresh();
  line("run_scoped {{collective = [\"wg\"]}} ({} \"met\": ref<sem[1], gmem, cta>) {{", sem);
  ++depth_;
  only(below(wgs_), [&] {
    const std::string v = fresh(), place = fresh(), w = fresh(), got = fresh(), sum = fresh(), slices = all(4, 16);
    line("{} = get %0, %x {{view = [index($1, slice({}, 4), slice(0, 16))]}} : i32[4,16]", v, below(5));
    line("{} = broadcast_in_dim %d {{dims = []}} : i32[4,16]", place);
    line("{} = add {}, {} : i32[4,16]", w, v, place);
    if (one_in(2)) {
      const std::string how = give_to_devices(o, w, slices);
      term(how.c_str());
      meet_devices(sem);
      line("{} = get {}, %i, %x, %y {{view = [index($1, $2, $3, {})]}} : i32[4,16]", got, o, slices);
    } else {
      line("store {}, {}, %i, %x, %y {{view = [index($2, $3, $4, {})]}}", o, w, slices);
      meet_devices(sem);
      static constexpr const char* kHow[] = {"add", "min", "max", "and", "or", "xor"};
      if (one_in(2)) {
        term("multimem load");
        line(
            "{} = multimem_load_reduce {}, %i, %x, %y {{ref = view($0, [index($1, $2, $3, {})]), collective_axes = "
            "[\"d\"], reduction_op = {}}} : i32[4,16]",
            got, o, slices, kHow[below(6)]);
      } else {
        const std::string at = fresh(), from = fresh();
        term("load of a peer");
        line("{} = add %d, %c{} : i32[]", at, below(devices_));
        line("{} = rem {}, %c{} : i32[]", from, at, devices_);
        line("{} = get {}, {}, %i, %x, %y {{view = [peer($1, logical), index($2, $3, $4, {})]}} : i32[4,16]", got, o,
             from, slices);
      }
      line("{} = add {}, {} : i32[4,16]", sum, got, got);
      line("store {}, {}, %i, %x, %y {{view = [index($2, $3, $4, {})]}}", twice, sum, slices);
      return meet_devices(sem);  // nobody leaves before he was read
    }
    line("{} = add {}, {} : i32[4,16]", sum, got, got);
    line("store {}, {}, %i, %x, %y {{view = [index($2, $3, $4, {})]}}", twice, sum, slices);
  });
  close();
}

// A cluster does its own work, then that of clusters that have not begun, until none is left.
void Clusters::write_claims() {
  term("cluster launch control");
  grid_ = 2 + below(5), x_ = 1 + below(2), y_ = 1 + below(2), wgs_ = 1 + below(2);
  const bool alone = one_in(3), ahead = one_in(2);
  const std::string o = output(fmt::format("i32[{}{},16]", each(), wgs_)), answer = fresh(), bar = fresh(),
                    used = fresh(), how = who_ask(alone);
  line("run_scoped {{collective = [\"wg\"], transforms = [[], [], []], allocs = [none, {{num_arrivals = {}}},",
       alone ? 1 : wgs_);
  line("    {{num_arrivals = {}, collective_axes = [[\"x\", \"y\"]]}}]}} ({} \"answer\": ref<i8[2,16], gsmem, cta>,",
       wgs_, answer);
  line("    {} \"bar\": ref<mbarrier[2], gsmem, cta>, {} \"used\": ref<cluster_barrier[1], gsmem, cta>) {{", bar, used);
  ++depth_;
  const auto ask = [&](const std::string& slot) {
    const auto request = [&] {
      line("try_cluster_cancel {}, {}, {} {{result = view($0, [index($2, slice(0, 16))]), barrier = view($1,", answer,
           bar, slot);
      line("  [index($2)]){}}}", how);
    };
    if (alone) only(0, request);
    else request();
  };
  const auto read = [&](const std::string& slot, const std::string& next, const std::string& given) {
    line("barrier_wait {}, {} {{barrier = view($0, [index($1)])}}", bar, slot);
    line(
        "{}, {} = query_cluster_cancel {}, {} {{result = view($0, [index($1, slice(0, 16))]), grid_names = [\"i\"]}} : "
        "i32[], bool[]",
        next, given, answer, slot);
  };
  if (ahead) ask_ahead(o, used, ask, read);
  else ask_in_turn(o, used, ask, read);
  close();
  std::string head;
  head_of_mesh(&head);
  Clusters::end(head);
}

// Along which axes threads and CTAs ask together: all, said or not; those that are more than one; `alone`: the first
// warpgroup of each CTA asks, and no other one.
std::string Clusters::who_ask(bool alone) {
  if (!alone && one_in(2)) return "";
  term(alone ? "requests of one warpgroup" : "requests along named axes");
  std::vector<std::string> names;
  for (const auto& [name, size] : {std::pair{"\"x\"", x_}, std::pair{"\"y\"", y_}, std::pair{"\"wg\"", wgs_}})
    if (size > 1 ? !(alone && name == std::string("\"wg\"")) : one_in(2)) names.push_back(name);
  return fmt::format(", collective_axes = [{}]", fmt::join(names, ", "));
}

// The work of cluster `now`.
void Clusters::do_work(const std::string& o, const std::string& now) {
  const std::string row = fresh(), by = fresh(), v = fresh(), w = fresh();
  line("{} = rem {}, %c6 : i32[]", row, now);
  line("{} = get %0, {}, %wg {{view = [index($1, $2, slice(0, 16))]}} : i32[16]", v, row);
  line("{} = broadcast_in_dim {} {{dims = []}} : i32[16]", by, now);
  line("{} = add {}, {} : i32[16]", w, v, by);
  line("store {}, {}, {}, %x, %y, %wg {{view = [index($2, $3, $4, $5, slice(0, 16))]}}", o, w, now);
}

// One request at a time, before the work or behind it.
void Clusters::ask_in_turn(const std::string& o, const std::string& used, const Ask& ask, const Answer& read) {
  const std::string end = fresh(), last = fresh(), at = fresh(), go = fresh(), is = fresh(), now = fresh(),
                    go_on = fresh(), next = fresh(), given = fresh(), again = fresh();
  line("{}, {} = while %i, %c1 ({}: i32[], {}: i32[]) {{", end, last, at, go);
  line("  {} = ne {}, %c0 : bool[]", is, go);
  line("  yield {}", is);
  line("}} ({}: i32[], {}: i32[]) {{", now, go_on);
  ++depth_;
  const bool early = one_in(2);
  if (early) ask("%c0");
  do_work(o, now);
  if (!early) ask("%c0");
  read("%c0", next, given);
  line("{} = convert {} : i32[]", again, given);
  meet(used);
  line("yield {}, {}", next, again);
  --depth_;
  line("}} : i32[], i32[]");
}

// Two requests under way: the last of them is behind one that gets none, which nobody has read when it is made.
void Clusters::ask_ahead(const std::string& o, const std::string& used, const Ask& ask, const Answer& read) {
  term("a request behind one that gets none");
  ask("%c0"), ask("%c1");
  meet(used);
  do_work(o, "%i");
  const std::string steps = fresh(), last = fresh(), n = fresh(), go = fresh(), is = fresh(), now = fresh(),
                    go_on = fresh(), slot = fresh(), next = fresh(), given = fresh(), again = fresh(), more = fresh();
  line("{}, {} = while %c0, %c1 ({}: i32[], {}: i32[]) {{", steps, last, n, go);
  line("  {} = ne {}, %c0 : bool[]", is, go);
  line("  yield {}", is);
  line("}} ({}: i32[], {}: i32[]) {{", now, go_on);
  ++depth_;
  line("{} = rem {}, %c2 : i32[]", slot, now);
  read(slot, next, given);
  meet(used);
  line("{} = convert {} : i32[]", again, given);
  when(fmt::format("ne {}, %c0", again), [&] {
    do_work(o, next);
    ask(slot);
  });
  meet(used);  // nobody reads that there is none while somebody has yet to ask
  line("{} = add {}, %c1 : i32[]", more, now);
  line("yield {}, {}", more, again);
  --depth_;
  line("}} : i32[], i32[]");
  // Of two requests under way either may be the one that gets none.
  const std::string other = fresh(), rest = fresh(), found = fresh(), is_found = fresh();
  line("{} = rem {}, %c2 : i32[]", other, steps);
  read(other, rest, found);
  line("{} = convert {} : i32[]", is_found, found);
  when(fmt::format("ne {}, %c0", is_found), [&] { do_work(o, rest); });
}

}  // namespace pallasim::judge
