/* SPDX-License-Identifier: Apache-2.0 */
/*
 * header_list.h - reads a header of HTTP whose value is a list (RFC 9110 5.6): elements by commas,
 * parameters by semicolons, values maybe in quotes. In one pass and without allocation: what is
 * found points into the header. Whatever the bytes, reading ends.
 *
 * Pure.
 */
#ifndef BASE_HEADER_LIST_H
#define BASE_HEADER_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct base_header_span {
    const char *begin;
    size_t length;
};

/* What is between two places of a text, without the blanks around it. */
struct base_header_span base_header_between(const char *begin, const char *end);

/* Cuts off what precedes `separator` outside of quotes; false at the end. `*rest` begins as the
 * header, which may be NULL. */
bool base_header_next(const char **rest, char separator, struct base_header_span *piece);

/* The next parameter of an element, cut off `*rest`; false at the end. */
bool base_header_parameter(struct base_header_span *rest, struct base_header_span *parameter);

/* name=value; the value without its quotes. */
void base_header_split(struct base_header_span parameter, struct base_header_span *name,
                       struct base_header_span *value);

/* Whether it is this text, in any case of letters. */
bool base_header_is(struct base_header_span span, const char *text);

/* A q of "0.75" as 750; -1 where it is none. More than three decimals are cut. */
int base_header_q(struct base_header_span text);

#endif
