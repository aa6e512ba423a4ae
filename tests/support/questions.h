/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of up to 12 words in five languages, for memories that say all of one, or two words. */
#ifndef TESTS_SUPPORT_QUESTIONS_H
#define TESTS_SUPPORT_QUESTIONS_H

#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct question {
    const char *words[12];
    const char *between; /* a blank, or nothing */
};

static const struct question questions[] = {
    {{"payment", "gateway", "rejects", "expired", "cards", "during", "nightly", "settlement",
      "because", "clock", "drifts", "backwards"},
     " "},
    {{"Zahlungen", "schlagen", "während", "der", "nächtlichen", "Abrechnung", "fehl", "weil",
      "abgelaufene", "Schlüssel", "übersprungen", "werden"},
     " "},
    {{"支付", "网关", "夜间", "结算", "拒绝", "过期", "银行", "时钟", "漂移", "缓存", "密钥",
      "轮换"},
     ""},
    {{"決済", "夜間", "照合", "失敗", "期限", "証明", "時計", "接続", "再試行", "障害", "鍵束",
      "更新"},
     ""},
    {{"getUserById", "payment_gateway", "ms-4821", "src/lib/words.c", "E1042", "v2.7.1",
      "HTTPServer", "retry_backoff", "db-primary-3", "parseJSON", "0x80070057", "std::move"},
     " "},
};

enum { QUESTIONS = sizeof questions / sizeof *questions };

static inline void join_words(char *text, size_t room, const struct question *question,
                              size_t count)
{
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(text);
        (void)snprintf(text + size, room - size, "%s%s", i > 0 ? question->between : "",
                       question->words[i]);
    }
}

#endif
