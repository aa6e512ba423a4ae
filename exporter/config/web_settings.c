/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a web configuration file. The keys are declared in web_settings.def; walking, positions and
 * refusals are those of the configuration reader, so that both files complain alike.
 *
 * On the thread that loads the file: the control thread at startup, later the web loop's.
 */
#include "exporter/config/web_settings.h"

#include <stdlib.h>
#include <string.h>

#include "exporter/config/config_internal.h"
#include "exporter/http/tls_priority.h"

enum {
    BCRYPT_LENGTH = 60,
    BCRYPT_COST_MIN = 4,
    BCRYPT_COST_MAX = 15, /* about 2 s of a core; each step doubles it */
    PREFIX_MAX = 64,
};

enum web_kind {
    WEB_FILE,
    WEB_FLAG,
    WEB_CHOICE,
    WEB_CHOICES,
    WEB_DURATION,
    WEB_NUMBER,
    WEB_TEXT,
    WEB_LIST,
    WEB_HEADER,
    WEB_USERS,
};

struct web_row {
    const char *path;
    enum web_kind kind;
    size_t offset;
    uint64_t least;
    uint64_t most;
    const char *choices;
};

static const struct web_row rows[] = {
#define WEB(path, kind, field, least, most, choices)                                               \
    {path, WEB_##kind, offsetof(struct exporter_web_settings, field), least, most, choices},
#include "exporter/config/web_settings.def"
#undef WEB
};

enum { ROWS = sizeof rows / sizeof *rows };

/* One load. */
struct web_reader {
    struct config_reader base; /* its `config` stays NULL */
    struct exporter_web_settings *settings;
    const yaml_node_t *tls_node; /* where complaints about the whole of TLS point to */
    const yaml_node_t *rate_node;
};

/* ---- values --------------------------------------------------------------------------------- */

static bool read_common(struct web_reader *reader, const struct web_row *row,
                        const yaml_node_t *node, const struct config_place *place)
{
    static const enum config_kind kinds[] = {
        [WEB_FILE] = CONFIG_FILE,         [WEB_FLAG] = CONFIG_FLAG,
        [WEB_CHOICE] = CONFIG_CHOICE,     [WEB_CHOICES] = CONFIG_CHOICES,
        [WEB_DURATION] = CONFIG_DURATION, [WEB_NUMBER] = CONFIG_NUMBER,
    };
    const struct config_row common = {
        .path = row->path,
        .fallback = "1s", /* only an example in what is said about durations */
        .choices = row->choices,
        .least = row->least,
        .most = row->most,
        .offset = row->offset,
        .size = sizeof(uint32_t), /* of a number; the other kinds know theirs */
        .kind = kinds[row->kind],
    };
    return exporter_config_read_value(&reader->base, &common, node, place, reader->settings);
}

static const char *copy_scalar(struct web_reader *reader, const struct web_row *row,
                               const yaml_node_t *node, const struct config_place *place)
{
    const char *text = exporter_config_text(node);
    if (text == NULL || strlen(text) < row->least || strlen(text) > row->most) {
        exporter_config_refuse_node(&reader->base, node, place, "text");
        return NULL;
    }
    const char *copy = base_arena_copy(reader->base.arena, text, strlen(text));
    if (copy == NULL)
        exporter_config_no_memory(&reader->base);
    return copy;
}

static bool read_text(struct web_reader *reader, const struct web_row *row, const yaml_node_t *node,
                      const struct config_place *place)
{
    const char **field = (const char **)(void *)((char *)reader->settings + row->offset);
    *field = copy_scalar(reader, row, node, place);
    return *field != NULL;
}

/* The one list: client_allowed_sans. */
static bool read_list(struct web_reader *reader, const struct web_row *row, const yaml_node_t *node,
                      const struct config_place *place)
{
    const struct web_row item_row = {.path = row->path, .least = 1, .most = 253};
    const size_t count =
        node->type == YAML_SEQUENCE_NODE
            ? (size_t)(node->data.sequence.items.top - node->data.sequence.items.start)
            : 0;
    if (count < row->least || count > row->most)
        return exporter_config_refuse_node(&reader->base, node, place, "a list of names");
    const char **items = base_arena_calloc(reader->base.arena, count, sizeof *items);
    if (items == NULL)
        return exporter_config_no_memory(&reader->base);
    for (size_t i = 0; i < count; i++) {
        const yaml_node_t *item =
            yaml_document_get_node(reader->base.document, node->data.sequence.items.start[i]);
        items[i] = copy_scalar(reader, &item_row, item, place);
        if (items[i] == NULL)
            return false;
    }
    reader->settings->tls.client_allowed_sans = items;
    reader->settings->tls.nclient_allowed_sans = count;
    return true;
}

/* ---- headers -------------------------------------------------------------------------------- */

static bool is_choice(const char *choices, const char *text)
{
    const size_t length = strlen(text);
    for (const char *at = choices; at != NULL; at = strchr(at, '|')) {
        at += *at == '|' ? 1 : 0;
        if (strcspn(at, "|") == length && memcmp(at, text, length) == 0)
            return true;
    }
    return false;
}

/* What libmicrohttpd would refuse to send: anything that could end the header. */
static bool is_header_value(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    }
    return true;
}

static bool read_header_row(struct web_reader *reader, const struct web_row *row,
                            const yaml_node_t *node, const struct config_place *place)
{
    const char *value = copy_scalar(reader, row, node, place);
    if (value == NULL)
        return false;
    if (row->choices != NULL && !is_choice(row->choices, value))
        return exporter_config_refuse_node(&reader->base, node, place,
                                           strchr(row->choices, '|') != NULL ? "deny or sameorigin"
                                                                             : row->choices);
    if (!is_header_value(value))
        return exporter_config_refuse_node(&reader->base, node, place,
                                           "text without control characters");
    struct exporter_web_settings *settings = reader->settings;
    settings->headers[settings->nheaders++] =
        (struct exporter_header){strrchr(row->path, '.') + 1, value};
    return true;
}

/* ---- users ---------------------------------------------------------------------------------- */

/* "$2y$10$" and 53 characters; answers the cost, or 0 where it is not such a hash. */
static unsigned bcrypt_cost(const char *hash)
{
    static const char letters[] =
        "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    if (strlen(hash) != BCRYPT_LENGTH || strncmp(hash, "$2", 2) != 0 ||
        strchr("aby", hash[2]) == NULL || hash[3] != '$' || hash[6] != '$' ||
        strspn(hash + 7, letters) != BCRYPT_LENGTH - 7 || strspn(hash + 4, "0123456789") != 2)
        return 0;
    return (unsigned)(hash[4] - '0') * 10 + (unsigned)(hash[5] - '0');
}

static bool read_user(struct web_reader *reader, const yaml_node_t *key, const yaml_node_t *value,
                      const struct config_place *place, struct exporter_web_user *user)
{
    const char *name = exporter_config_text(key);
    const char *hash = exporter_config_text(value);
    const unsigned cost = hash != NULL ? bcrypt_cost(hash) : 0;
    if (name == NULL || name[0] == '\0' || strchr(name, ':') != NULL)
        return exporter_config_refuse(&reader->base, key, place,
                                      "allowed: a user name without a colon");
    /* The hash is not shown: who reads the log need not have it. */
    if (cost < BCRYPT_COST_MIN || cost > BCRYPT_COST_MAX)
        return exporter_config_refuse(&reader->base, value, place,
                                      "allowed: a bcrypt hash ($2y$...) of cost %d to %d, as "
                                      "htpasswd -nBC 10 \"\" prints it",
                                      BCRYPT_COST_MIN, BCRYPT_COST_MAX);
    user->name = base_arena_copy(reader->base.arena, name, strlen(name));
    user->hash = base_arena_copy(reader->base.arena, hash, strlen(hash));
    if (user->name == NULL || user->hash == NULL)
        return exporter_config_no_memory(&reader->base);
    if (cost > reader->settings->bcrypt_cost)
        reader->settings->bcrypt_cost = cost;
    return true;
}

static bool read_users(struct web_reader *reader, const struct web_row *row,
                       const yaml_node_t *node, const struct config_place *place)
{
    size_t count;
    if (!exporter_config_open(&reader->base, node, place, &count))
        return false;
    if (count > row->most)
        return exporter_config_refuse(&reader->base, node, place, "allowed: up to 1000 users");
    if (count == 0)
        return true;
    struct exporter_web_user *users = base_arena_calloc(reader->base.arena, count, sizeof *users);
    if (users == NULL)
        return exporter_config_no_memory(&reader->base);
    for (size_t i = 0; i < count; i++) {
        const yaml_node_t *key = exporter_config_key(&reader->base, node, i);
        if (!exporter_config_check_key(&reader->base, node, i, place))
            return false;
        const struct config_place below = exporter_config_below(place, key);
        if (!read_user(reader, key, exporter_config_value(&reader->base, node, i), &below,
                       &users[i]))
            return false;
    }
    reader->settings->users = users;
    reader->settings->nusers = count;
    return true;
}

/* ---- the walk ------------------------------------------------------------------------------- */

static bool read_web_row(struct web_reader *reader, const struct web_row *row,
                         const yaml_node_t *node, const struct config_place *place)
{
    switch (row->kind) {
    case WEB_TEXT:
        return read_text(reader, row, node, place);
    case WEB_LIST:
        return read_list(reader, row, node, place);
    case WEB_HEADER:
        return read_header_row(reader, row, node, place);
    case WEB_USERS:
        return read_users(reader, row, node, place);
    default:
        return read_common(reader, row, node, place);
    }
}

static const char *below_place(size_t i, const void *place)
{
    return exporter_config_below_prefix(rows[i].path, place);
}

static bool read_web_section(struct web_reader *reader, const yaml_node_t *node, const char *prefix,
                             const struct config_place *place);

static bool read_web_key(struct web_reader *reader, const yaml_node_t *key,
                         const yaml_node_t *value, const char *prefix,
                         const struct config_place *place)
{
    bool leaf;
    const struct config_keys keys = {.path = below_place, .place = prefix, .count = ROWS};
    const size_t row = exporter_config_find(&keys, key, &leaf);
    if (row == ROWS)
        return exporter_config_refuse_unknown(
            &reader->base, &keys, key, place,
            "; the file has the format of Prometheus' exporter-toolkit");
    if (leaf)
        return read_web_row(reader, &rows[row], value, place);
    char below[PREFIX_MAX];
    const size_t length = strlen(prefix) + key->data.scalar.length + 1;
    memcpy(below, rows[row].path, length); /* a part of a path of the table, so it fits */
    below[length] = '\0';
    return read_web_section(reader, value, below, place);
}

static bool read_web_section(struct web_reader *reader, const yaml_node_t *node, const char *prefix,
                             const struct config_place *place)
{
    size_t count;
    if (!exporter_config_open(&reader->base, node, place, &count))
        return false;
    if (count > 0 && strcmp(prefix, "tls_server_config.") == 0) {
        reader->settings->tls.given = true;
        reader->tls_node = node;
    }
    if (strcmp(prefix, "rate_limit.") == 0)
        reader->rate_node = node;
    for (size_t i = 0; i < count; i++) {
        const yaml_node_t *key = exporter_config_key(&reader->base, node, i);
        if (!exporter_config_check_key(&reader->base, node, i, place))
            return false;
        const struct config_place below = exporter_config_below(place, key);
        if (!read_web_key(reader, key, exporter_config_value(&reader->base, node, i), prefix,
                          &below))
            return false;
    }
    return true;
}

/* ---- what must fit together ----------------------------------------------------------------- */

static bool refuse_tls(const struct web_reader *reader, const char *message)
{
    const struct config_place place = {NULL, "tls_server_config", strlen("tls_server_config")};
    return exporter_config_refuse(&reader->base, reader->tls_node, &place, "%s", message);
}

static bool is_given(const struct exporter_pem *pem)
{
    return pem->text != NULL || pem->file != NULL;
}

static bool is_given_twice(const struct exporter_pem *pem)
{
    return pem->text != NULL && pem->file != NULL;
}

static bool check_tls(const struct web_reader *reader)
{
    const struct exporter_web_tls *tls = &reader->settings->tls;
    const bool verifies = tls->client_auth == EXPORTER_CLIENT_VERIFY_IF_GIVEN ||
                          tls->client_auth == EXPORTER_CLIENT_VERIFY;
    char priority[EXPORTER_TLS_PRIORITY_MAX];
    struct exporter_error error;
    if (!tls->given)
        return true;
    if (is_given_twice(&tls->cert) || is_given_twice(&tls->key) || is_given_twice(&tls->client_ca))
        return refuse_tls(
            reader, "cert and cert_file are mutually exclusive (likewise for key and client_ca); "
                    "allowed: one of each pair");
    if (!is_given(&tls->cert) || !is_given(&tls->key))
        return refuse_tls(reader, "a certificate (cert_file or cert) and its key (key_file or key) "
                                  "are required");
    if (verifies && !is_given(&tls->client_ca))
        return refuse_tls(reader, "client_auth_type verifies certificates, so client_ca_file (or "
                                  "client_ca) is required");
    if (!verifies && is_given(&tls->client_ca))
        return refuse_tls(reader, "client_ca_file has no effect without client_auth_type "
                                  "RequireAndVerifyClientCert or VerifyClientCertIfGiven");
    if (!verifies && tls->nclient_allowed_sans > 0)
        return refuse_tls(reader, "client_allowed_sans has no effect without client_auth_type "
                                  "RequireAndVerifyClientCert or VerifyClientCertIfGiven");
    if (!exporter_tls_priority(tls, priority, &error))
        return refuse_tls(reader, error.text);
    return true;
}

static bool check_rate_limit(const struct web_reader *reader)
{
    const struct config_place place = {NULL, "rate_limit", strlen("rate_limit")};
    if (reader->settings->rate_limit.interval_ms == 0 || reader->settings->rate_limit.burst > 0)
        return true;
    return exporter_config_refuse(
        &reader->base, reader->rate_node, &place,
        "burst must be at least 1 if interval is set; otherwise every request would be rejected");
}

/* ---- loading -------------------------------------------------------------------------------- */

static bool read_web_document(struct web_reader *reader)
{
    const yaml_node_t *root = yaml_document_get_root_node(reader->base.document);
    if (root == NULL)
        return true; /* an empty file asks for nothing */
    return read_web_section(reader, root, "", NULL) && check_tls(reader) &&
           check_rate_limit(reader);
}

struct exporter_web_settings *exporter_web_settings_load_memory(const char *name, const char *text,
                                                                size_t length,
                                                                struct exporter_error *error)
{
    yaml_document_t document;
    if (!exporter_config_yaml(name, text, length, &document, error))
        return NULL;
    struct exporter_web_settings *settings = calloc(1, sizeof *settings);
    if (settings == NULL) {
        exporter_error_set(error, "%s: out of memory", name);
    } else {
        settings->tls.max_version = EXPORTER_TLS13;
        struct web_reader reader = {
            .base = {.file = name,
                     .document = &document,
                     .arena = &settings->arena,
                     .error = error},
            .settings = settings,
        };
        if (!read_web_document(&reader))
            exporter_web_settings_free(&settings);
    }
    yaml_document_delete(&document);
    return settings;
}

struct exporter_web_settings *exporter_web_settings_load(const char *path,
                                                         struct exporter_error *error)
{
    size_t length;
    char *text = exporter_config_slurp(path, &length, error);
    if (text == NULL)
        return NULL;
    struct exporter_web_settings *settings =
        exporter_web_settings_load_memory(path, text, length, error);
    explicit_bzero(text, length); /* it may hold a private key */
    free(text);
    return settings;
}

void exporter_web_settings_free(struct exporter_web_settings **settings)
{
    if (*settings == NULL)
        return;
    base_arena_free(&(*settings)->arena);
    free(*settings);
    *settings = NULL;
}
