#include "debug_picture.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "debug_text.h"
#include "io.h"
#include "pallasim/capsule/values.h"

namespace pallasim::cli {
namespace {

using Mark = DebugPicture::Mark;
using Colour = std::array<uint8_t, 3>;

bool has_colour(ir::DType t) { return ir::is_float(t) || ir::is_int(t) || t == ir::DType::Bool || ir::is_complex(t); }

// An array as planes of rows and columns.
struct Planes {
  explicit Planes(const std::vector<int64_t>& dims) {
    if (!dims.empty()) columns = dims.back();
    if (dims.size() > 1) rows = dims[dims.size() - 2];
    for (size_t d = 0; d + 2 < dims.size(); ++d) planes *= dims[d];
  }
  int64_t planes = 1, rows = 1, columns = 1;
};

struct Sum {  // of a cell's elements
  double total = 0;
  int64_t finite = 0, outside = 0, all = 0;
  bool nan = false, infinite = false, undefined = false;

  Mark mark() const {
    return nan              ? Mark::NaN
           : undefined      ? Mark::Undefined
           : infinite       ? Mark::Infinite
           : outside == all ? Mark::Outside
                            : Mark::None;
  }
};

void add(const interp::DebugValue& v, size_t i, Sum* s) {
  ++s->all;
  if (!v.outside.empty() && v.outside[i]) {
    ++s->outside;
  } else if (!v.undefined.empty() && v.undefined[i]) {
    s->undefined = true;
  } else {
    const double x = to_double(v.bytes.data() + i * static_cast<size_t>(ir::byte_size(v.dtype)), v.dtype);
    s->nan |= std::isnan(x), s->infinite |= std::isinf(x);
    if (std::isfinite(x)) s->total += x, ++s->finite;
  }
}

constexpr Colour kScale[] = {{0, 34, 78}, {124, 123, 120}, {254, 232, 56}};    // from dark to light
constexpr Colour kSigns[] = {{33, 102, 172}, {247, 247, 247}, {178, 88, 26}};  // blue, white, orange

Colour colour_of(const DebugPicture& p, double level) {
  const auto& of = p.signs ? kSigns : kScale;
  const double at = std::clamp(level, 0.0, 1.0) * 2;
  const size_t first = at < 1 ? 0 : 1;
  Colour r;
  for (size_t c = 0; c < 3; ++c)
    r[c] = static_cast<uint8_t>(
        std::lround(of[first][c] + (of[first + 1][c] - of[first][c]) * (at - static_cast<double>(first))));
  return r;
}

char letter(Mark m) {
  switch (m) {
    case Mark::NaN: return 'N';
    case Mark::Infinite: return '!';
    case Mark::Undefined: return '?';
    case Mark::Outside: return '.';
    default: return ' ';
  }
}

}  // namespace

DebugPicture debug_picture(const interp::DebugValue& v, int64_t most_rows, int64_t most_columns) {
  if (v.bytes.empty() || v.dims.empty() || !has_colour(v.dtype))
    throw DebugError(v.dims.empty() ? "one element has no picture: print shows it" : "there are no numbers to look at");
  DebugPicture p;
  const Planes a(v.dims);
  p.across = (a.columns + most_columns - 1) / most_columns;
  p.columns = (a.columns + p.across - 1) / p.across;
  // Planes stand one below the other; all of them shrink before one is left out.
  const int64_t room = std::max<int64_t>(1, (most_rows + 1) / a.planes - 1);
  p.down = std::min(a.rows, (a.rows + room - 1) / room);
  const int64_t of_plane = p.plane = (a.rows + p.down - 1) / p.down;
  const int64_t planes = std::clamp<int64_t>((most_rows + 1) / (of_plane + 1), 1, a.planes);
  p.rows = planes * (of_plane + 1) - 1;
  if (planes < a.planes) p.note = fmt::format("the first {} of {} parts", planes, a.planes);
  std::vector<double> means;
  for (int64_t row = 0; row < p.rows; ++row)
    for (int64_t column = 0; column < p.columns; ++column) {
      const int64_t plane = row / (of_plane + 1), top = row % (of_plane + 1) * p.down, left = column * p.across;
      Sum s;
      for (int64_t i = top; i < std::min(top + p.down, a.rows); ++i)
        for (int64_t j = left; j < std::min(left + p.across, a.columns); ++j)
          add(v, static_cast<size_t>((plane * a.rows + i) * a.columns + j), &s);
      p.cells.push_back({0, s.all == 0 ? Mark::Gap : s.mark()});
      means.push_back(s.finite > 0 ? s.total / static_cast<double>(s.finite) : std::nan(""));
    }
  bool any = false;
  for (const double x : means)
    if (std::isfinite(x)) {
      p.least = any ? std::min(p.least, x) : x;
      p.most = any ? std::max(p.most, x) : x;
      any = true;
    }
  p.signs = p.least < 0 && p.most > 0;
  if (p.signs) p.most = std::max(p.most, -p.least), p.least = -p.most;
  for (size_t i = 0; i < means.size(); ++i)
    if (std::isfinite(means[i]) && p.most > p.least)
      p.cells[i].level = static_cast<float>((means[i] / 2 - p.least / 2) / (p.most / 2 - p.least / 2));
  return p;
}

std::string picture_colour(const DebugPicture& p, double level) {
  return fmt::format("rgb({})", fmt::join(colour_of(p, level), ", "));
}

std::string picture_legend(const DebugPicture& p, bool in_file) {
  std::string r;
  const auto has = [&](Mark m) {
    return std::any_of(p.cells.begin(), p.cells.end(), [m](const DebugPicture::Cell& c) { return c.mark == m; });
  };
  const auto say = [&](const std::string& s) { r += (r.empty() ? "" : "; ") + s; };
  if (p.down > 1 || p.across > 1) say(fmt::format("a cell is the mean of {} x {} elements", p.down, p.across));
  constexpr struct {
    Mark mark;
    const char *letter, *drawn, *means;
  } kMarks[] = {{Mark::NaN, "N", "crossed", "NaN"},
                {Mark::Undefined, "?", "chequered", "undefined"},
                {Mark::Infinite, "!", "barred", "infinite"},
                {Mark::Outside, ".", "empty", "outside of the array"}};
  for (const auto& m : kMarks)
    if (has(m.mark)) say(fmt::format("{}: {}", in_file ? m.drawn : m.letter, m.means));
  if (!p.note.empty()) say(p.note);
  return r;
}

// -- in a terminal --

Colours terminal_colours() {
  const auto environment = [](const char* name) {
    const char* s = std::getenv(name);
    return std::string(s ? s : "");
  };
  if (!::isatty(STDOUT_FILENO) || !environment("NO_COLOR").empty()) return Colours::None;
  const std::string depth = environment("COLORTERM");
  if (depth == "truecolor" || depth == "24bit") return Colours::All;
  return environment("TERM").find("256color") != std::string::npos ? Colours::Some : Colours::None;
}

int64_t terminal_columns() {
  winsize size = {};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

namespace {

std::string background(const Colour& c, Colours colours) {
  if (colours == Colours::All) return fmt::format("\x1b[48;2;{};{};{}m", c[0], c[1], c[2]);
  const auto of_cube = [](uint8_t x) { return x < 48 ? 0 : x < 115 ? 1 : (x - 35) / 40; };
  return fmt::format("\x1b[48;5;{}m", 16 + 36 * of_cube(c[0]) + 6 * of_cube(c[1]) + of_cube(c[2]));
}

std::string cell_text(const DebugPicture& p, const DebugPicture::Cell& c, Colours colours, size_t width) {
  if (c.mark != Mark::None) {
    const std::string text(width, letter(c.mark));
    // Black on white where there are colours, NaN the other way round: neither is in a scale.
    if (colours == Colours::None || c.mark == Mark::Gap || c.mark == Mark::Outside) return text;
    return (c.mark == Mark::NaN ? "\x1b[1;97;40m" : "\x1b[1;30;107m") + text + "\x1b[0m";
  }
  if (colours == Colours::None) return std::string(width, static_cast<char>('0' + std::lround(c.level * 9)));
  return background(colour_of(p, c.level), colours) + std::string(width, ' ') + "\x1b[0m";
}

std::string scale_text(const DebugPicture& p, Colours colours) {
  if (p.least == p.most) return fmt::format("all are {:g}", p.least);
  if (colours == Colours::None) return fmt::format("0 to 9: {:g} to {:g}", p.least, p.most);
  std::string r = fmt::format("{:g} ", p.least);
  for (int i = 0; i < 16; ++i) r += background(colour_of(p, i / 15.0), colours) + " ";
  return r + fmt::format("\x1b[0m {:g}", p.most);
}

}  // namespace

std::string picture_text(const DebugPicture& p, Colours colours) {
  const bool any = std::any_of(p.cells.begin(), p.cells.end(), [](const auto& c) { return c.mark == Mark::None; });
  std::string r = any ? scale_text(p, colours) : "", legend = picture_legend(p, false);
  if (!legend.empty()) r += (r.empty() ? "" : "; ") + legend;
  const size_t width = colours != Colours::None && p.columns <= 40 ? 2 : 1;  // cells of a terminal are high
  for (int64_t row = 0; row < p.rows; ++row) {
    if (!r.empty()) r += '\n';
    std::string line;
    for (int64_t column = 0; column < p.columns; ++column)
      line += cell_text(p, p.cells[static_cast<size_t>(row * p.columns + column)], colours, width);
    r += line.find_first_not_of(' ') == std::string::npos ? "" : line;
  }
  return r;
}

// -- as a file --

namespace {

// Of the palette. Levels are odd in number: one is the middle.
constexpr uint8_t kLevels = 247, kBlack = 247, kWhite = 248, kGrey = 249, kNothing = 250;

// What a mark looks like: crosses, bars and chequers, which no colour of a scale is.
uint8_t marked(Mark m, int64_t x, int64_t y, int64_t size) {
  const int64_t half = size / 2;
  switch (m) {
    case Mark::NaN: return x == y || x == size - 1 - y ? kWhite : kBlack;
    case Mark::Infinite: return x == half || y == half ? kBlack : kWhite;
    case Mark::Undefined: return (x / std::max<int64_t>(1, half) + y / std::max<int64_t>(1, half)) % 2 ? kGrey : kWhite;
    default: return kNothing;
  }
}

void append_number(std::string* to, uint32_t n) {
  for (int shift = 24; shift >= 0; shift -= 8) to->push_back(static_cast<char>(n >> shift));
}

void append_chunk(std::string* to, const char* kind, const std::string& data) {
  append_number(to, static_cast<uint32_t>(data.size()));
  const std::string all = kind + data;
  *to += all;
  append_number(
      to, static_cast<uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(all.data()), static_cast<uInt>(all.size()))));
}

std::string squeezed(const std::string& data) {
  uLongf size = ::compressBound(data.size());
  std::string r(size, '\0');
  if (::compress2(reinterpret_cast<Bytef*>(r.data()), &size, reinterpret_cast<const Bytef*>(data.data()), data.size(),
                  Z_DEFAULT_COMPRESSION) != Z_OK)
    fail("PS-IO-002", "a picture could not be compressed");
  r.resize(size);
  return r;
}

}  // namespace

int64_t picture_cell(const DebugPicture& p) { return std::clamp<int64_t>(512 / std::max(p.rows, p.columns), 4, 16); }

std::string picture_png(const DebugPicture& p) {
  const int64_t size = picture_cell(p);
  std::string points;
  for (int64_t y = 0; y < p.rows * size; ++y) {
    points.push_back(0);  // a row as it is
    for (int64_t x = 0; x < p.columns * size; ++x) {
      const DebugPicture::Cell& c = p.cells[static_cast<size_t>(y / size * p.columns + x / size)];
      points.push_back(static_cast<char>(c.mark == Mark::None ? std::lround(c.level * (kLevels - 1))
                                                              : marked(c.mark, x % size, y % size, size)));
    }
  }
  std::string head, palette, clear(kNothing, '\xff');
  append_number(&head, static_cast<uint32_t>(p.columns * size));
  append_number(&head, static_cast<uint32_t>(p.rows * size));
  head += std::string("\x08\x03\x00\x00\x00", 5);  // 8 bits, of a palette
  const auto colour = [&](const Colour& c) { palette.append(reinterpret_cast<const char*>(c.data()), c.size()); };
  for (int i = 0; i < kLevels; ++i) colour(colour_of(p, i / double{kLevels - 1}));
  for (const Colour& c : {Colour{0, 0, 0}, Colour{255, 255, 255}, Colour{128, 128, 128}, Colour{0, 0, 0}}) colour(c);
  clear.push_back('\0');
  std::string r = "\x89PNG\r\n\x1a\n";
  append_chunk(&r, "IHDR", head);
  append_chunk(&r, "PLTE", palette);
  append_chunk(&r, "tRNS", clear);
  append_chunk(&r, "IDAT", squeezed(points));
  append_chunk(&r, "IEND", "");
  return r;
}

std::string picture_command(const interp::Debugger& d, const std::string& text, Colours colours, int64_t columns) {
  const size_t space = text.find(' ');
  std::string file = text.substr(0, space), expression = text;
  if (file.ends_with(".png")) expression = space == std::string::npos ? "" : trimmed(text.substr(space));
  else file.clear();
  if (expression.empty()) throw interp::DebugError("of what? picture o_ref, picture tile.png o_ref[0:8]");
  const interp::DebugValue v = d.evaluate(expression);
  const bool drawn = file.empty();
  const DebugPicture p = debug_picture(v, drawn ? 40 : 128, drawn ? std::clamp<int64_t>(columns - 1, 16, 128) : 128);
  const std::string head = fmt::format("{}: {}", escaped(expression), debug_summary(v));
  if (drawn) return head + "\n" + picture_text(p, colours);
  write_file(file, picture_png(p));
  const std::string legend = picture_legend(p, true);
  return fmt::format("{}\nwrote {}{}", head, escaped(file), legend.empty() ? "" : ": " + legend);
}

}  // namespace pallasim::cli
