#include "pallasim/capsule/capsule.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pallasim/capsule/files.h"
#include "pallasim/capsule/npy.h"
#include "pallasim/ir/module.h"

namespace pallasim::capsule {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxManifestBytes = 64 << 20;
constexpr int64_t kMaxNpyHeader = 1 << 16;
constexpr size_t kMaxRank = 16;
constexpr const char* kManifest = "manifest.json";

// A value of the manifest and the path to it, for messages: launches[3].arguments[0].shape.
class Node {
 public:
  Node(const Json& json, std::string path, const std::string& file_name)
      : json_(json), path_(std::move(path)), file_name_(file_name) {}

  [[noreturn]] void wrong(const std::string& want) const {
    fail("PS-CAP-003", fmt::format("{}: {} of {} is not {}", file_name_, where(), kManifest, want));
  }
  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  Node at(const char* key) const {
    if (!json_.is_object()) wrong("an object");
    const auto it = json_.find(key);
    if (it == json_.end())
      fail("PS-CAP-003", fmt::format("{}: {} of {} has no {}", file_name_, where(), kManifest, key));
    return {*it, path_.empty() ? key : path_ + "." + key, file_name_};
  }
  std::vector<Node> items() const {
    if (!json_.is_array()) wrong("a list");
    std::vector<Node> all;
    for (const Json& j : json_) all.emplace_back(j, fmt::format("{}[{}]", path_, all.size()), file_name_);
    return all;
  }
  std::string string() const {
    if (!json_.is_string()) wrong("a string");
    return json_.get<std::string>();
  }
  double seconds() const {
    if (!json_.is_number() || !(json_.get<double>() >= 0)) wrong("a number of seconds");
    return json_.get<double>();
  }
  // A whole number of 0 or more.
  int64_t count() const {
    if (!json_.is_number_integer() || json_ < 0 || json_ > INT64_MAX) wrong("a whole number of 0 or more");
    return json_.get<int64_t>();
  }

 private:
  std::string where() const { return path_.empty() ? "the top level" : path_; }

  const Json& json_;
  std::string path_;
  const std::string& file_name_;
};

// Semaphores are words in their file.
ir::DType file_dtype(const CapsuleArray& a) {
  if (!ir::is_sync(a.dtype)) return a.dtype;
  return ir::byte_size(a.dtype) == 4 ? ir::DType::U32 : ir::DType::U64;
}

// The shape that the .npy file of such an array has: words of keys stand in a trailing dimension.
std::vector<int64_t> file_dims(const CapsuleArray& a) {
  std::vector<int64_t> dims = a.dims;
  if (const int words = npy_key_words(a.dtype)) dims.push_back(words);
  return dims;
}

CapsuleArray array_of(const Node& n, const ZipReader& zip, int64_t max_bytes) {
  CapsuleArray a;
  a.name = n.at("name").string();
  if (!ir::parse_dtype(n.at("dtype").string(), &a.dtype) || a.dtype == ir::DType::Token)
    n.at("dtype").wrong("an element type");
  a.bytes = ir::byte_size(a.dtype);
  const auto dims = n.at("shape").items();
  if (dims.size() > kMaxRank) n.at("shape").wrong(fmt::format("a shape of rank {} or less", kMaxRank));
  for (const Node& d : dims) {
    a.dims.push_back(d.count());
    if (__builtin_mul_overflow(a.bytes, a.dims.back(), &a.bytes) || a.bytes > max_bytes)
      n.at("shape").wrong(fmt::format("a shape of at most {} bytes", max_bytes));
  }
  if (!n.has("file")) return a;
  a.file = n.at("file").string();
  // Before anything is read: a member of another size is another array.
  const int64_t size = zip.size(a.file);
  if (size < a.bytes || size > a.bytes + kMaxNpyHeader)
    n.at("file").wrong(fmt::format("an array of {} bytes: the member has {}", a.bytes, size));
  return a;
}

CapsuleLaunch launch_of(const Node& n, const ZipReader& zip, int64_t max_bytes) {
  CapsuleLaunch l;
  l.kernel = n.at("kernel").string();
  l.module = n.at("module").string();
  l.options = n.at("options").string();
  l.device = n.at("device").count();
  if (n.has("error")) l.error = n.at("error").at("code").string();
  if (n.has("findings")) {
    l.findings.emplace();
    for (const Node& f : n.at("findings").items()) {
      CapsuleFinding& found = l.findings->emplace_back(CapsuleFinding{f.at("code").string(), {}, 0});
      if (f.has("file")) found.file = f.at("file").string(), found.line = f.at("line").count();
    }
  }
  if (n.has("predicted"))
    l.predicted = {n.at("predicted").at("chip").string(), n.at("predicted").at("seconds").seconds()};
  zip.size(l.module);
  for (const Node& a : n.at("arguments").items()) {
    l.arguments.push_back(array_of(a, zip, max_bytes));
    if (l.arguments.back().file.empty()) a.at("file");
  }
  for (const Node& r : n.at("results").items()) {
    l.results.push_back(array_of(r, zip, max_bytes));
    if (l.results.back().file.empty() && l.error.empty()) r.at("file");
  }
  return l;
}

}  // namespace

Capsule::Capsule(std::string_view bytes, const std::string& file_name, int64_t max_bytes)
    : file_name_(escaped(file_name)), zip_(bytes, file_name_, {max_bytes}), max_bytes_(max_bytes) {
  read_manifest();
}

void Capsule::read_manifest() {
  const std::string text = zip_.read(kManifest, kMaxManifestBytes);
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& e) {
    fail("PS-CAP-003", fmt::format("{}: {} is not JSON", file_name_, kManifest), {fmt::format("at byte {}", e.byte)});
  }
  const Node root(json, "", file_name_);
  if (!root.has("pallasim-capsule"))
    fail("PS-CAP-003", fmt::format("{}: {} is not a capsule's: it has no pallasim-capsule", file_name_, kManifest));
  const int64_t version = root.at("pallasim-capsule").count();
  if (version != kCapsuleVersion)
    fail("PS-CAP-004", fmt::format("{}: capsule version {} is unknown", file_name_, version),
         {fmt::format("this pallasim reads version {}", kCapsuleVersion)}, "a newer pallasim reads newer capsules");
  recorded_by_ = fmt::format("pallasim {}, JAX {}", root.at("pallasim").string(), root.at("jax").string());
  if (root.has("omitted")) omitted_ = root.at("omitted").count();
  for (const Node& n : root.at("launches").items()) launches_.push_back(launch_of(n, zip_, max_bytes_));
}

std::string Capsule::module_text(const CapsuleLaunch& l) const {
  return zip_.read(l.module, ir::Limits{}.max_text_bytes);
}

Array Capsule::array(const CapsuleArray& a, int64_t* budget) const {
  const int64_t size = zip_.size(a.file);
  if (size > *budget || a.bytes > *budget - size)
    fail("PS-SIZE-001", fmt::format("{}: array {} is too large", file_name_, escaped(a.name)),
         {fmt::format("{} bytes do not fit into the {} that are left", a.bytes, *budget)},
         "raise --max-memory if the machine has more");
  *budget -= a.bytes;
  const std::string bytes = zip_.read(a.file, size);
  const std::string shown = fmt::format("{}: {}", file_name_, escaped(a.file));
  const NpyHeader header = parse_npy_header(bytes, shown);
  if (!npy_descr_matches(header.descr, file_dtype(a)) || header.dims != file_dims(a))
    fail("PS-CAP-006", fmt::format("{} is not the array that {} describes", shown, kManifest),
         {fmt::format("the manifest has {}[{}], an array of {}", ir::name(a.dtype), fmt::join(a.dims, ","),
                      numpy_name(file_dtype(a))),
          fmt::format("the file holds shape ({}) of '{}'", fmt::join(header.dims, ", "), escaped(header.descr))});
  return {a.dtype, a.dims, npy_elements(bytes, header, file_dtype(a))};
}

}  // namespace pallasim::capsule
