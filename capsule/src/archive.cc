#include "pallasim/capsule/archive.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>

#include "pallasim/capsule/files.h"

namespace pallasim::capsule {
namespace {

// Deflate cannot do better, so a greater ratio is a lie.
constexpr int64_t kMaxDeflateRatio = 1032;
constexpr size_t kEndRecord = 22, kLocator = 20, kMaxComment = 65535;

// A zip64 directory may claim any number of members, for each of which the library would allocate; the plain one is
// bounded by its 16 bits.
bool has_zip64_directory(std::string_view bytes) {
  const size_t from = bytes.size() - std::min(bytes.size(), kEndRecord + kMaxComment + kLocator);
  for (size_t at = bytes.find("PK\5\6", from); at != bytes.npos; at = bytes.find("PK\5\6", at + 1))
    if (at >= kLocator && bytes.substr(at - kLocator, 4) == "PK\6\7") return true;
  return false;
}

// Relative, inside the archive, and the same for every program that unpacks it.
const char* unsafe_because(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (name.front() == '/') return "it is absolute";
  for (unsigned char c : name)
    if (c < 0x20 || c == 0x7f || c == '\\' || c == ':') return "it has a character that no member may have";
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    if (part == "..") return "it leads out of the archive";
    if (part == "." || (part.empty() && end != name.size())) return "it has an empty part";
    at = end + 1;
  }
  return nullptr;
}

}  // namespace

struct ZipReader::Handle {
  zip_t* zip = nullptr;
  ~Handle() {
    if (zip) zip_discard(zip);
  }
};

bool looks_like_zip(std::string_view bytes) { return bytes.substr(0, 4) == "PK\3\4" || bytes.substr(0, 4) == "PK\5\6"; }

ZipReader::ZipReader(std::string_view bytes, std::string file_name, const ZipLimits& limits)
    : handle_(std::make_unique<Handle>()), file_name_(std::move(file_name)) {
  auto damaged = [&](zip_error_t* error) {
    const std::string why = zip_error_strerror(error);
    zip_error_fini(error);
    fail("PS-CAP-001", fmt::format("{}: the archive cannot be read", file_name_), {why},
         "unzip -t tests it; a copy that was cut off on its way looks like this");
  };
  if (has_zip64_directory(bytes))
    fail("PS-CAP-001", fmt::format("{}: archives of 4 GiB or of 65,535 members (zip64) are not read", file_name_));
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (!source) damaged(&error);
  handle_->zip = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (!handle_->zip) {
    zip_source_free(source);
    damaged(&error);
  }
  zip_error_fini(&error);
  check_directory(limits);
}

ZipReader::~ZipReader() = default;
ZipReader::ZipReader(ZipReader&&) noexcept = default;

void ZipReader::check_directory(const ZipLimits& limits) {
  auto refuse = [&](std::string_view member, std::string message, std::vector<std::string> numbers = {},
                    std::string hint = {}) {
    fail("PS-CAP-002", fmt::format("{}: member {}: {}", file_name_, escaped(member), message), std::move(numbers),
         std::move(hint));
  };
  int64_t total = 0;
  const zip_int64_t count = zip_get_num_entries(handle_->zip, 0);
  for (zip_uint64_t i = 0; i < static_cast<zip_uint64_t>(count); ++i) {
    zip_stat_t s;
    zip_stat_init(&s);
    constexpr zip_uint64_t kNeeded =
        ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if (zip_stat_index(handle_->zip, i, ZIP_FL_ENC_RAW, &s) != 0 || (s.valid & kNeeded) != kNeeded)
      fail("PS-CAP-001", fmt::format("{}: member {} of the directory cannot be read", file_name_, i));
    const std::string name = s.name;
    if (const char* why = unsafe_because(name)) refuse(name, fmt::format("the name is refused: {}", why));
    if (s.encryption_method != ZIP_EM_NONE) refuse(name, "it is encrypted");
    if (s.comp_method != ZIP_CM_STORE && s.comp_method != ZIP_CM_DEFLATE)
      refuse(name, fmt::format("compression method {} is not read", s.comp_method),
             {"members are stored (0) or deflated (8)"});
    const int64_t bytes = static_cast<int64_t>(std::min<zip_uint64_t>(s.size, INT64_MAX));
    const int64_t packed = static_cast<int64_t>(std::min<zip_uint64_t>(s.comp_size, UINT32_MAX));
    if (bytes > (packed + 1) * kMaxDeflateRatio)
      refuse(name, "the compression ratio is impossible",
             {fmt::format("{} bytes are said to unpack to {}", s.comp_size, s.size)});
    if (bytes > limits.max_total_bytes - total)
      refuse(name, "the archive unpacks to too much",
             {fmt::format("{} bytes with this member of {}, at most {} are read", total + bytes, bytes,
                          limits.max_total_bytes)},
             "raise --max-memory if the machine has more");
    total += bytes;
    if (name.back() == '/') continue;  // folders, as some programs write them
    if (!members_.emplace(name, Member{i, bytes}).second) refuse(name, "the name occurs twice");
  }
}

const ZipReader::Member& ZipReader::find(const std::string& member) const {
  const auto it = members_.find(member);
  if (it == members_.end())
    fail("PS-CAP-005", fmt::format("{}: member {} is missing", file_name_, escaped(member)), {},
         "unzip -l lists the members");
  return it->second;
}

int64_t ZipReader::size(const std::string& member) const { return find(member).bytes; }

std::string ZipReader::read(const std::string& name, int64_t limit) const {
  const Member& member = find(name);
  if (member.bytes > limit)
    fail("PS-CAP-002", fmt::format("{}: member {}: it is too long", file_name_, escaped(name)),
         {fmt::format("{} bytes, at most {} are read", member.bytes, limit)});
  auto damaged = [&](const char* why) {
    fail("PS-CAP-001", fmt::format("{}: member {} is damaged", file_name_, escaped(name)), {why});
  };
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(zip_fopen_index(handle_->zip, member.index, 0),
                                                               zip_fclose);
  if (!file) damaged(zip_strerror(handle_->zip));
  std::string bytes(static_cast<size_t>(member.bytes), '\0');
  for (size_t at = 0; at < bytes.size();) {
    const zip_int64_t n = zip_fread(file.get(), &bytes[at], bytes.size() - at);
    if (n <= 0) damaged(n < 0 ? zip_file_strerror(file.get()) : "it ends early");
    at += static_cast<size_t>(n);
  }
  // The end is where the checksum is compared.
  char beyond;
  const zip_int64_t n = zip_fread(file.get(), &beyond, 1);
  if (n != 0) damaged(n < 0 ? zip_file_strerror(file.get()) : "it is longer than its directory entry says");
  return bytes;
}

}  // namespace pallasim::capsule
