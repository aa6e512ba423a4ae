/* SPDX-License-Identifier: Apache-2.0 */
/* The style and the script of the review page, part of the program. On the loop of the request. */
#include "exporter/review/visit.h"
#include "exporter/status/page.h"
#include "generated/review_assets.h"

void review_view_page_style(struct review_visit *visit)
{
    size_t length;
    const char *style = exporter_page_style(&length);
    review_respond_static(visit, "text/css; charset=utf-8", style, length);
}

void review_view_style(struct review_visit *visit)
{
    review_respond_static(visit, "text/css; charset=utf-8", review_style, sizeof review_style - 1);
}

void review_view_script(struct review_visit *visit)
{
    review_respond_static(visit, "text/javascript; charset=utf-8", review_script,
                          sizeof review_script - 1);
}
