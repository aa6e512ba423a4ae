/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings and their keys, for both configuration files: the daemon's and the web listener's. On
 * the thread that loads the file.
 */
#include <string.h>

#include "exporter/config/config_internal.h"
#include "lib/base/nearest.h"

/* ---- mappings ------------------------------------------------------------------------------ */

static size_t pair_count(const yaml_node_t *node)
{
    return (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
}

yaml_node_t *exporter_config_key(const struct config_reader *reader, const yaml_node_t *node,
                                 size_t i)
{
    return yaml_document_get_node(reader->document, node->data.mapping.pairs.start[i].key);
}

yaml_node_t *exporter_config_value(const struct config_reader *reader, const yaml_node_t *node,
                                   size_t i)
{
    return yaml_document_get_node(reader->document, node->data.mapping.pairs.start[i].value);
}

struct config_place exporter_config_below(const struct config_place *above, const yaml_node_t *key)
{
    return (struct config_place){above, (const char *)key->data.scalar.value,
                                 key->data.scalar.length};
}

/* A mapping, or nothing at all: a section whose keys are commented out. *pairs is 0 for the
 * latter. */
bool exporter_config_open(const struct config_reader *reader, const yaml_node_t *node,
                          const struct config_place *place, size_t *pairs)
{
    *pairs = 0;
    if (exporter_config_is_null(node)) {
        return true;
    }
    if (node->type != YAML_MAPPING_NODE ||
        strcmp((const char *)node->tag, YAML_DEFAULT_MAPPING_TAG) != 0) {
        return exporter_config_refuse_node(reader, node, place, "keys with values");
    }
    *pairs = pair_count(node);
    return true;
}

static bool same_key(const yaml_node_t *a, const yaml_node_t *b)
{
    return a->data.scalar.length == b->data.scalar.length &&
           memcmp(a->data.scalar.value, b->data.scalar.value, a->data.scalar.length) == 0;
}

/* A key is text and given once. All keys before `index` were checked already. */
bool exporter_config_check_key(const struct config_reader *reader, const yaml_node_t *node,
                               size_t index, const struct config_place *above)
{
    const yaml_node_t *key = exporter_config_key(reader, node, index);

    if (key->type != YAML_SCALAR_NODE ||
        strcmp((const char *)key->tag, YAML_DEFAULT_SCALAR_TAG) != 0) {
        return exporter_config_refuse_node(reader, key, above, "a name before each colon");
    }
    for (size_t i = 0; i < index; i++) {
        const yaml_node_t *other = exporter_config_key(reader, node, i);
        if (same_key(key, other)) {
            struct config_place place = exporter_config_below(above, key);
            return exporter_config_refuse(reader, key, &place, "given twice, first on line %zu",
                                          other->start_mark.line + 1);
        }
    }
    return true;
}

/* ---- tables of keys ------------------------------------------------------------------------ */

const char *exporter_config_below_prefix(const char *path, const char *prefix)
{
    size_t length = strlen(prefix);

    return strncmp(path, prefix, length) == 0 ? path + length : NULL;
}

size_t exporter_config_find(const struct config_keys *keys, const yaml_node_t *key, bool *leaf)
{
    size_t length = key->data.scalar.length;

    for (size_t i = 0; i < keys->count; i++) {
        const char *rest = keys->path(i, keys->place);
        if (rest != NULL && length > 0 && strcspn(rest, ".") == length &&
            memcmp(rest, key->data.scalar.value, length) == 0) {
            *leaf = rest[length] == '\0';
            return i;
        }
    }
    return keys->count;
}

bool exporter_config_refuse_unknown(const struct config_reader *reader,
                                    const struct config_keys *keys, const yaml_node_t *key,
                                    const struct config_place *place, const char *otherwise)
{
    struct base_nearest nearest =
        base_nearest_begin((const char *)key->data.scalar.value, key->data.scalar.length);

    for (size_t i = 0; i < keys->count; i++) {
        const char *rest = keys->path(i, keys->place);
        if (rest != NULL) {
            base_nearest_offer(&nearest, rest, strcspn(rest, "."));
        }
    }
    if (nearest.best == NULL) {
        return exporter_config_refuse(reader, key, place, "unknown key%s", otherwise);
    }
    return exporter_config_refuse(reader, key, place, "unknown key, did you mean %.*s?",
                                  (int)nearest.best_length, nearest.best);
}
