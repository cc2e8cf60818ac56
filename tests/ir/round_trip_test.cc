#include <gtest/gtest.h>

#include "files.h"
#include "pallasim/ir/equal.h"
#include "pallasim/ir/module.h"

namespace pallasim::ir {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> kernels() { return psir_files("pass"); }

TEST(RoundTrip, CanonicalTextPrintsBackByteForByte) {
  ASSERT_GE(kernels().size(), 10u);
  for (const fs::path& p : kernels()) {
    SCOPED_TRACE(p.filename().string());
    const std::string text = read(p);
    const Module m = parse(text, p.filename().string());
    EXPECT_NO_THROW(verify(m));
    EXPECT_EQ(print(m), text);
    EXPECT_TRUE(equal(m, parse(print(m))));
  }
}

TEST(RoundTrip, CommentsAndLocationsAreOptional) {
  for (const fs::path& p : kernels()) {
    SCOPED_TRACE(p.filename().string());
    const Module m = parse(read(p));
    EXPECT_TRUE(equal(m, parse(print(m, {.literal_comments = true}))));
    const std::string bare = print(m, {.locations = false});
    EXPECT_EQ(bare.find("\nloc "), std::string::npos);
    EXPECT_EQ(print(parse(bare)), bare);
  }
}

}  // namespace
}  // namespace pallasim::ir
