// Arrays as pictures: a cell for an element, or for a few of them, in colours that the colour-blind can tell apart.
#pragma once
#include <string>
#include <vector>

#include "pallasim/interp/debug.h"

namespace pallasim::cli {

struct DebugPicture {
  // Of what has no colour. Gap: between two parts of an array of more than two dimensions.
  enum class Mark : uint8_t { None, NaN, Infinite, Undefined, Outside, Gap };
  struct Cell {
    float level = 0;  // 0 the least, 1 the greatest
    Mark mark = Mark::None;
  };
  int64_t rows = 0, columns = 0;  // of cells
  int64_t down = 1, across = 1;   // elements of a cell
  int64_t plane = 0;              // rows of one of the parts that stand one below the other, each behind a gap
  double least = 0, most = 0;     // of the colours
  bool signs = false;             // values of both signs: white is 0
  std::vector<Cell> cells;        // row-major
  std::string note;               // what is left out
};

// At most so many cells; more elements share one, which has their mean, and the mark of any of them. Throws DebugError.
DebugPicture debug_picture(const interp::DebugValue&, int64_t rows, int64_t columns);

enum class Colours : uint8_t { None, Some, All };  // of a terminal: digits instead, 256, 24 bits
Colours terminal_colours();                        // of standard output
int64_t terminal_columns();
std::string picture_text(const DebugPicture&, Colours);         // with a line that says what it shows
std::string picture_legend(const DebugPicture&, bool in_file);  // what a cell is, and what marks there are
int64_t picture_cell(const DebugPicture&);                      // points of a cell of a file, along an edge
// "[FILE.png] EXPRESSION", as the command takes it: draws that, or writes the file, and says so. Throws DebugError.
std::string picture_command(const interp::Debugger&, const std::string&, Colours, int64_t columns);
std::string picture_png(const DebugPicture&);
// "rgb(0, 34, 78)", a colour of the scale that the picture has.
std::string picture_colour(const DebugPicture&, double level);

}  // namespace pallasim::cli
