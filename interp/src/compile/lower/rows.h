// Copies whose rows an array of indices chooses.
#pragma once
#include "lowering.h"

namespace pallasim::interp {

// Whether the last transform of a view has an array of indices.
bool chooses_rows(const ir::Viewed*);
// Of a dma_start: one of its sides chooses rows.
void lower_row_copy(Emitter&, const Op&);
// What a wait for such a copy names: as many rows as were chosen.
Val awaited_rows(Emitter&, const Op&, const char* key);

}  // namespace pallasim::interp
