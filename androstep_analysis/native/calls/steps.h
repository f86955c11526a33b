// What a call does at its beginning and at its end.
#pragma once

#include "calls/state.h"

// Which of the numbers of a row a descriptor of the call is looked up by.
enum number { NO_NUMBER, FIRST_NUMBER, SECOND_NUMBER };

// The numbers of the two descriptors of a call, which are looked up before it begins.
void call_numbers(const struct calls *calls, uint32_t row, enum number numbers[2]);

// Whether only the end of the call is recorded, or none.
bool call_is_partial(const struct calls *calls, uint32_t row);

// A partial call is left out, but what it opened or ended counts.
void call_resume(struct calls *calls, const struct running *call);

// Whether there is more to be done at the end of the call.
bool call_begin(struct calls *calls, struct running *call);
void call_end(struct calls *calls, const struct running *call);

// A call whose duration is not recorded stands on one line, and nothing that was recorded happened meanwhile.
int64_t call_end_ns(const struct calls_input *in, uint32_t row);

// Whether the call cannot have ended yet, whatever its rounded or missing times say: it returns a number that is open.
// It ended before the next call of its thread, and before another thread used the number.
bool call_is_early(const struct calls *calls, const struct running *call);
