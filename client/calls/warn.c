/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers with warnings, see warn.h: a stop on the way of an answer to its asker, because what
 * warns is freed long before a sender that waits is answered.
 *
 * On the loop's thread.
 */
#include "client/calls/warn.h"

#include "client/model/warnings.h"
#include "lib/base/check.h"
#include "lib/base/memory.h"

enum { WARNING_MAGIC = 0x7761726e };

struct warning {
    unsigned magic;
    handoff_answered *answered; /* the asker's */
    void *context;
    struct handoff_warnings warnings;
};

static void answer_with_warnings(void *context, const struct handoff_result *result)
{
    struct warning *warning = context;
    struct handoff_result warned = *result;
    BASE_CHECK_MAGIC(warning, WARNING_MAGIC);
    warned.warnings = handoff_warnings_text(&warning->warnings).data;
    warning->answered(warning->context, &warned);
    handoff_warnings_free(&warning->warnings);
    warning->magic = 0;
    base_free(warning);
}

struct handoff_warnings *handoff_warn_in_answer(handoff_answered **answered, void **context)
{
    struct warning *warning = base_malloc(sizeof *warning);
    if (!warning)
        return NULL;
    *warning = (struct warning){
        .magic = WARNING_MAGIC, .answered = *answered, .context = *context, .warnings = {0}};
    *answered = answer_with_warnings;
    *context = warning;
    return &warning->warnings;
}
