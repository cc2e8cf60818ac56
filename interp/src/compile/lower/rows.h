// Copies whose rows an array of indices chooses.
#pragma once
#include "../../plan/payload/rows.h"
#include "lowering.h"

namespace pallasim::interp {

// Whether the last transform of a view has an array of indices.
bool chooses_rows(const ir::Viewed*);
// A copy in parts between two refs with what `of` says of rows, peer and adding; `sent`: where op has such a semaphore.
// Refuses semaphores that do not count bytes.
void emit_parts(Emitter&, const Op&, const Val& src, const Val& dst, const Val& received, const Val& sent,
                RowCopyPayload of);
// Of a dma_start: one of its sides chooses rows.
void lower_row_copy(Emitter&, const Op&);
// The view with all rows of the dimension from which a list chooses, and the list, which is kept until the copy is
// emitted.
Val all_rows(Emitter&, const Op&, const char* key, ViewUse, ChosenRows*, Val* list);
// What a wait for such a copy names: as many rows as were chosen.
Val awaited_rows(Emitter&, const Op&, const char* key);

}  // namespace pallasim::interp
