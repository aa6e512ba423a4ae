/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels: who receives each and what waits for them; of one channel also its publications, and of
 * one of these where each delivery is. A delivery is a handoff, and is decided about on its page.
 * On the loop of the request.
 */
#include <inttypes.h>
#include <string.h>

#include "exporter/review/filters.h"
#include "exporter/review/frame.h"
#include "exporter/status/html.h"

enum { PUBLICATIONS_SHOWN = 50, REASON_MOST = 300 };

/* Of a view of one channel, in the order of asking. */
enum { CHANNEL, PUBLICATIONS, PUBLICATION };

/* ---- receivers ------------------------------------------------------------------------------- */

static void write_standing_of_receiver(FILE *out, yyjson_val *receiver)
{
    if (!yyjson_is_true(yyjson_obj_get(receiver, "subscribed")))
        fputs(", not a receiver any more", out);
    if (yyjson_is_true(yyjson_obj_get(receiver, "catching_up")))
        fputs(", catching up", out);
    if (review_number(receiver, "dropped") > 0)
        fprintf(out, "; retention removed %" PRId64 " before it had come to them",
                review_number(receiver, "dropped"));
}

static void write_parked_of_receiver(FILE *out, yyjson_val *receiver)
{
    bool first = true;
    const int64_t parked = review_number(receiver, "parked");
    if (parked == 0)
        return;
    fputs(", <a href=\"/review", out);
    review_write_parameter(out, &first, "target", review_string(receiver, "agent"));
    fprintf(out, "\">%" PRId64 " parked</a>", parked);
}

static void write_receiver_item(FILE *out, yyjson_val *receiver)
{
    fputs("<li><p><strong>", out);
    review_write_text(out, review_string(receiver, "agent"));
    fprintf(out, "</strong>: %" PRId64 " in progress", review_number(receiver, "pending"));
    if (*review_string(receiver, "oldest_pending_at") != '\0') {
        fputs(" since ", out);
        review_write_time(out, review_string(receiver, "oldest_pending_at"));
    }
    write_parked_of_receiver(out, receiver);
    write_standing_of_receiver(out, receiver);
    fputs("</p></li>\n", out);
}

static void write_receivers(FILE *out, yyjson_val *channel)
{
    size_t i, count;
    yyjson_val *receiver, *receivers = yyjson_obj_get(channel, "receivers");
    if (yyjson_arr_size(receivers) == 0) {
        fputs("<p class=\"none\">It has no receivers.</p>\n", out);
        return;
    }
    fputs("<ul class=\"list\">\n", out);
    yyjson_arr_foreach(receivers, i, count, receiver)
    {
        write_receiver_item(out, receiver);
    }
    fputs("</ul>\n", out);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void write_channels_page(struct review_visit *visit)
{
    const struct review_answer *answer = &visit->answers[0];
    size_t i, count;
    yyjson_val *channel;
    if (answer->error.code != HANDOFF_OK) {
        review_fail(visit, &answer->error);
        return;
    }
    review_begin_page(visit, "Channels", REVIEW_TAB_CHANNELS);
    fputs("<section id=\"channels\" data-refresh=\"10\">\n", visit->out);
    yyjson_val *items = yyjson_obj_get(answer->root, "items");
    if (yyjson_arr_size(items) == 0)
        fputs("<p class=\"none\">There are no channels.</p>\n", visit->out);
    yyjson_arr_foreach(items, i, count, channel)
    {
        fputs("<h2><a href=\"/review/channels/", visit->out);
        exporter_html_url_value(visit->out, review_string(channel, "name"));
        fputs("\">", visit->out);
        review_write_text(visit->out, review_string(channel, "name"));
        fputs("</a></h2>\n", visit->out);
        write_receivers(visit->out, channel);
    }
    fputs("</section>\n", visit->out);
    review_end_page(visit, 200);
}

void review_view_channels(struct review_visit *visit)
{
    handoff_channels_list(visit->loop, NULL, review_answered, review_ask(visit));
    review_wait(visit, write_channels_page);
}

/* ---- one ------------------------------------------------------------------------------------- */

static void write_publication_delivery(FILE *out, yyjson_val *delivery)
{
    fputs("<li><p><strong>", out);
    review_write_text(out, review_string(delivery, "receiver"));
    fputs("</strong>: ", out);
    review_write_text(out, review_string(delivery, "state"));
    if (*review_string(delivery, "reason") != '\0') {
        fputs(", ", out);
        review_write_beginning(out, review_string(delivery, "reason"), REASON_MOST);
    }
    if (strcmp(review_string(delivery, "receiver"), review_string(delivery, "target_agent")) != 0) {
        fputs(", with ", out);
        review_write_text(out, review_string(delivery, "target_agent"));
    }
    fputs(": ", out);
    review_write_handoff_link(out, review_string(delivery, "handoff_id"), "");
    fputs("</p></li>\n", out);
}

/* The one that the address names. */
static void write_publication(struct review_visit *visit)
{
    size_t i, count;
    yyjson_val *delivery;
    if (visit->nanswers <= PUBLICATION)
        return;
    const struct review_answer *answer = &visit->answers[PUBLICATION];
    fputs("<h2>Deliveries</h2>\n", visit->out);
    if (answer->error.code != HANDOFF_OK) {
        review_write_error(visit->out, &answer->error);
        return;
    }
    fputs("<ul class=\"list\">\n", visit->out);
    yyjson_arr_foreach(yyjson_obj_get(answer->root, "deliveries"), i, count, delivery)
    {
        write_publication_delivery(visit->out, delivery);
    }
    fputs("</ul>\n", visit->out);
}

static void write_publication_item(struct review_visit *visit, yyjson_val *publication)
{
    bool first = true;
    fputs("<li><p><a href=\"/review/channels/", visit->out);
    exporter_html_url_value(visit->out, review_id(visit));
    review_write_parameter(visit->out, &first, "publication", review_string(publication, "id"));
    fputs("\">", visit->out);
    review_write_time(visit->out, review_string(publication, "published_at"));
    fputs("</a> by ", visit->out);
    review_write_text(visit->out, review_string(publication, "source_agent"));
    fputs(": ", visit->out);
    review_write_text(visit->out, review_string(publication, "task_id"));
    fputs("</p></li>\n", visit->out);
}

static void write_publications(struct review_visit *visit)
{
    const struct review_answer *answer = &visit->answers[PUBLICATIONS];
    size_t i, count;
    yyjson_val *publication, *items = yyjson_obj_get(answer->root, "items");
    fputs("<h2>Publications</h2>\n", visit->out);
    if (answer->error.code != HANDOFF_OK) {
        review_write_error(visit->out, &answer->error);
        return;
    }
    fputs(yyjson_arr_size(items) > 0 ? "<ul class=\"list\">\n"
                                     : "<p class=\"none\">Nothing is kept of it.</p>\n",
          visit->out);
    yyjson_arr_foreach(items, i, count, publication)
    {
        write_publication_item(visit, publication);
    }
    fputs(yyjson_arr_size(items) > 0 ? "</ul>\n" : "", visit->out);
}

static void write_channel_page(struct review_visit *visit)
{
    const struct review_answer *answer = &visit->answers[CHANNEL];
    if (answer->error.code != HANDOFF_OK) {
        review_fail(visit, &answer->error);
        return;
    }
    review_begin_page(visit, review_string(answer->root, "name"), REVIEW_TAB_CHANNELS);
    fputs("<section id=\"channel\" data-refresh=\"10\">\n<h2>Receivers</h2>\n", visit->out);
    write_receivers(visit->out, answer->root);
    write_publication(visit);
    write_publications(visit);
    fputs("</section>\n", visit->out);
    review_end_page(visit, 200);
}

void review_view_channel(struct review_visit *visit)
{
    const char *name = review_id(visit), *publication = review_value(visit, "publication");
    handoff_channel_get(visit->loop, name, NULL, review_answered, review_ask(visit));
    handoff_publications_list(visit->loop, name, NULL, NULL, PUBLICATIONS_SHOWN, review_answered,
                              review_ask(visit));
    if (publication != NULL)
        handoff_publication_get(visit->loop, name, publication, NULL, review_answered,
                                review_ask(visit));
    review_wait(visit, write_channel_page);
}
