// Chooses and loads the table of kernels that suits the CPU.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "module.h"

namespace pallasim::interp {
namespace {

#if defined(__x86_64__)
bool runs_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
}
#else
bool runs_avx2() { return false; }
bool runs_avx512() { return false; }
#endif

struct Isa {
  const char* name;
  bool (*runs)();
  bool builtin;
};
constexpr Isa kIsas[] = {
    {"avx512", runs_avx512, false}, {"avx2", runs_avx2, false}, {"baseline", [] { return true; }, true}};

std::string folder_of_this_module() {
  Dl_info where;
  if (!dladdr(reinterpret_cast<const void*>(&folder_of_this_module), &where) || !where.dli_fname) return "";
  const std::string path = where.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

const IsaModule* open_module(const Isa& isa) {
  if (isa.builtin) return pallasim_kernels_baseline();
  const std::string file = std::string("libpallasim_kernels_") + isa.name + ".so";
  const std::string here = folder_of_this_module();
  const char* env = std::getenv("PALLASIM_KERNELS_DIR");
  std::vector<std::string> paths;
  if (env && *env) {
    paths = {std::string(env) + '/' + file};
  } else {
    if (!here.empty()) paths = {here + '/' + file, here + "/../lib/" + file};
    paths.push_back(file);  // along the search path of the program, which an installation adds itself to
    paths.push_back(PALLASIM_KERNELS_DIR "/" + file);
  }
  for (const std::string& path : paths) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed
    if (!handle) continue;
    using Entry = const IsaModule* (*)();
    auto entry = reinterpret_cast<Entry>(dlsym(handle, "pallasim_kernels_module"));
    const IsaModule* module = entry ? entry() : nullptr;
    if (module && module->abi == kAbi) return module;
    std::fprintf(stderr, "pallasim: %s is of another version and is not used\n", path.c_str());
  }
  return nullptr;
}

const IsaModule* choose() {
  const char* want = std::getenv("PALLASIM_ISA");
  if (want && *want) {
    for (const Isa& isa : kIsas) {
      if (std::strcmp(want, isa.name) != 0) continue;
      if (!isa.runs()) {
        std::fprintf(stderr, "pallasim: this CPU cannot run PALLASIM_ISA=%s; using the best it can\n", want);
      } else if (const IsaModule* m = open_module(isa)) {
        return m;
      } else {
        std::fprintf(stderr, "pallasim: libpallasim_kernels_%s.so was not found; using the best that was\n", want);
      }
      want = nullptr;
      break;
    }
    if (want)
      std::fprintf(stderr, "pallasim: PALLASIM_ISA=%s is unknown (avx512, avx2, baseline); using the best\n", want);
  }
  for (const Isa& isa : kIsas) {
    if (!isa.runs()) continue;
    if (const IsaModule* m = open_module(isa)) return m;
    std::fprintf(stderr, "pallasim: libpallasim_kernels_%s.so was not found: kernels run slower than this CPU can\n",
                 isa.name);
  }
  return pallasim_kernels_baseline();
}

}  // namespace

const IsaModule& isa_module() {
  static const IsaModule* const module = choose();
  return *module;
}

const KernelTable& kernels() { return isa_module().table; }
const KernelTable& reference_kernels() { return pallasim_kernels_reference()->table; }

namespace {
const IsaModule* module_for(const char* name) {
  for (const Isa& isa : kIsas)
    if (std::strcmp(name, isa.name) == 0 && isa.runs()) return open_module(isa);
  return nullptr;
}
}  // namespace

const KernelTable* kernels_for(const char* name) {
  const IsaModule* m = module_for(name);
  return m ? &m->table : nullptr;
}

void aligned_sum(const AlignedRule& rule, int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* sum,
                 float* scratch) {
  isa_module().aligned_sum(rule, m, n, k, a, b, sum, scratch);
}

void aligned_sum_reference(const AlignedRule& rule, int64_t m, int64_t n, int64_t k, const float* a, const float* b,
                           float* sum, float* scratch) {
  pallasim_kernels_reference()->aligned_sum(rule, m, n, k, a, b, sum, scratch);
}

AlignedSum aligned_sum_for(const char* name) {
  const IsaModule* m = module_for(name);
  return m ? m->aligned_sum : nullptr;
}

}  // namespace pallasim::interp
