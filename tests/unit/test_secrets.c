/* SPDX-License-Identifier: Apache-2.0 */
/* What is taken for a credential and what is not, by each row of client/secrets/forms.def; what
 * becomes of documents and reasons that have one; and that no text takes long. The credentials are
 * invented, and written in pieces so that scanners of repositories do not report them. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/secrets/find.h"
#include "client/secrets/redact.h"
#include "lib/base/buffer.h"
#include "lib/base/json.h"

#define HEX_32    "8d41bed440e50454f31af3176813e02e"
#define HEX_64    HEX_32 "a68ef786e4d3cea27d26934b484e73cf"
#define ALNUM_20  "8hkqdlm7tOtHWnsCGRlr"
#define ALNUM_34  ALNUM_20 "wZbqcabUGJmGEp"
#define ALNUM_40  ALNUM_34 "7CgQ0P"
#define ALNUM_58  ALNUM_40 "BQFI14zGtSnovm14TU"
#define URL_22    "c_hva9FrLhJ-r59ehi_w8B"
#define URL_43    URL_22 "YYD7dvani2xjLE_7RaGVo"
#define URL_100   URL_43 "oALvpZHtZrjmTJAMJTT1-NXa0IrleG6woopoDzp7O8QuKEh6D0JCk39Q1"
#define BASE64_40 "mJWikyFE+xzzdAIDhXzK2QkI3cBXkLjSgSOUpTP/"
#define BASE64_86 BASE64_40 "j33ZyXOivikASDTyPhQz0ziAFnPzMtgBoxpAKLG3JxIyiJ"
#define LINE      "MC4CAQAwBQYDK2VwBCIEIKLG3JxIyiJG21DHtOR3WRbUfj33ZyXOivikASDTyPhQ"
#define DASHES                                                                                     \
    "---"                                                                                          \
    "--"
#define CHECKED_1 "Ky9Pf34qY6Nb3wWD25RQ4F5ZR3qa7y3gm1IL"
#define CHECKED_2 "Eeeby3abP3E2Zs8IQ9Y7aJZqhB6bae2dTjzx"

static const struct {
    const char *form; /* the prefix or name in the table */
    enum handoff_secret kind;
    const char *lead, *start, *rest, *tail; /* start and rest are the credential */
} examples[] = {
    {"-----BEGIN ", HANDOFF_SECRET_PRIVATE_KEY, "key:\n", DASHES "BEGIN PRIVATE KEY" DASHES "\n",
     LINE "\n" DASHES "END PRIVATE KEY" DASHES, "\nthe end"},
    {"-----BEGIN ", HANDOFF_SECRET_PRIVATE_KEY, "", DASHES "BEGIN OPENSSH PRIVATE KEY" DASHES "\n",
     LINE "\n" LINE "\n" LINE "\n" DASHES "END OPENSSH PRIVATE KEY" DASHES, ""},
    {"-----BEGIN ", HANDOFF_SECRET_PRIVATE_KEY, "", DASHES "BEGIN RSA PRIVATE KEY" DASHES "\n",
     "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123\n\n" LINE "\n" DASHES
     "END RSA PRIVATE KEY" DASHES,
     "\n"},
    {"-----BEGIN ", HANDOFF_SECRET_PRIVATE_KEY, "",
     DASHES "BEGIN PGP PRIVATE KEY BLOCK" DASHES "\n",
     "Version: GnuPG v2\n\n" LINE "\n=abcd\n" DASHES "END PGP PRIVATE KEY BLOCK" DASHES,
     " and more"},
    {"-----BEGIN ", HANDOFF_SECRET_PRIVATE_KEY,
     "{\"type\": \"service_account\", \"private_key\": \"", DASHES "BEGIN PRIVATE KEY" DASHES,
     "\\n" LINE "\\n" LINE "\\n" DASHES "END PRIVATE KEY" DASHES,
     "\\n\", \"client_email\": \"x\"}"},
    {"-----BEGIN ", HANDOFF_SECRET_PRIVATE_KEY, "cut: ", DASHES "BEGIN EC PRIVATE KEY" DASHES "\n",
     LINE "\n" LINE, ""},
    {"AGE-SECRET-KEY-1", HANDOFF_SECRET_PRIVATE_KEY, "",
     "AGE-SECRET"
     "-KEY-1",
     ALNUM_58, ""},
    {"AKIA", HANDOFF_SECRET_AWS_KEY, "id ",
     "AK"
     "IA",
     "KOK3ZV2MWUFXBV54", " for S3"},
    {"ASIA", HANDOFF_SECRET_AWS_KEY, "AWS_ACCESS_KEY_ID=",
     "AS"
     "IA",
     "BYVSEHOGFQRCLRI3", "\n"},
    {"secretaccesskey", HANDOFF_SECRET_AWS_KEY, "aws_secret_access_key = ", "", BASE64_40,
     "\nregion"},
    {"secretaccesskey", HANDOFF_SECRET_AWS_KEY, "export AWS_SECRET_ACCESS_KEY=", "", BASE64_40, ""},
    {"secretaccesskey", HANDOFF_SECRET_AWS_KEY, "{\"SecretAccessKey\": \"", "", BASE64_40, "\"}"},
    {"secretaccesskey", HANDOFF_SECRET_AWS_KEY, "Secret access key: ", "", BASE64_40, "."},
    {"awssecretkey", HANDOFF_SECRET_AWS_KEY, "aws-secret-key: '", "", BASE64_40, "'"},
    {"sessiontoken", HANDOFF_SECRET_AWS_KEY, "aws_session_token=", "",
     BASE64_86 BASE64_86 "==", ""},
    {"accountkey", HANDOFF_SECRET_AZURE_KEY, "AccountName=x;AccountKey=", "",
     BASE64_86 "==", ";EndpointSuffix=core.windows.net"},
    {"sharedaccesskey", HANDOFF_SECRET_AZURE_KEY, "SharedAccessKeyName=root;SharedAccessKey=", "",
     BASE64_40 "abc=", ""},
    {"sig=", HANDOFF_SECRET_AZURE_KEY, "https://x.blob.core.windows.net/c?sv=2022-11-02&sp=r&sig=",
     "", "mJWikyFE%2BxzzdAIDhXzK2QkI3cBXkLjSgSOUpTPj33ZyX%3D", "&se=2026"},
    {"sig=", HANDOFF_SECRET_AZURE_KEY, "sig=", "",
     "mJW%2BiFE%2BxzzdAI%2FhXzK2%2FkI3cBXk%2BjSgS%2FUpTPj%2BZyX%3D", "&se=2026"},
    {"~", HANDOFF_SECRET_AZURE_KEY, "client_secret: ",
     "aB3"
     "8Q~",
     "c-hva9FrLhJ.r59ehi_w8BYYD7dvani2x", " "},
    {"AIza", HANDOFF_SECRET_GOOGLE_KEY, "key=",
     "AI"
     "za",
     URL_22 "YYD7dvani2xjL", "&q=1"},
    {"GOCSPX-", HANDOFF_SECRET_GOOGLE_KEY, "",
     "GOC"
     "SPX-",
     URL_22 "YYD7dv", ""},
    {"ya29.", HANDOFF_SECRET_GOOGLE_KEY, "",
     "ya"
     "29.",
     URL_100, ""},
    {"ghp_", HANDOFF_SECRET_GITHUB_TOKEN, "use ",
     "gh"
     "p_",
     CHECKED_1, "."},
    {"ghp_", HANDOFF_SECRET_GITHUB_TOKEN, "first\\n",
     "gh"
     "p_",
     CHECKED_2, "\\nlast"},
    {"ghp_", HANDOFF_SECRET_GITHUB_TOKEN, "GITHUB_TOKEN=",
     "gh"
     "p_",
     CHECKED_2, ""},
    {"gho_", HANDOFF_SECRET_GITHUB_TOKEN, "",
     "gh"
     "o_",
     CHECKED_1, ""},
    {"ghu_", HANDOFF_SECRET_GITHUB_TOKEN, "(",
     "gh"
     "u_",
     CHECKED_1, ")"},
    {"ghs_", HANDOFF_SECRET_GITHUB_TOKEN, "\xc3\xa9",
     "gh"
     "s_",
     CHECKED_1, "\xc3\xa9"},
    {"ghr_", HANDOFF_SECRET_GITHUB_TOKEN, "",
     "gh"
     "r_",
     CHECKED_1, ","},
    {"github_pat_", HANDOFF_SECRET_GITHUB_TOKEN, "",
     "github"
     "_pat_",
     "11AAAAAAA0123456789abc_" ALNUM_58 "Z", ""},
    {"glpat-", HANDOFF_SECRET_GITLAB_TOKEN, "PRIVATE-TOKEN: ",
     "gl"
     "pat-",
     "c_hva9FrLhJ-r59ehi_w", ""},
    {"glpat-", HANDOFF_SECRET_GITLAB_TOKEN, "",
     "gl"
     "pat-",
     URL_22 ".01.120abcdef", ". Next"},
    {"gldt-", HANDOFF_SECRET_GITLAB_TOKEN, "",
     "gl"
     "dt-",
     URL_22, ""},
    {"glrt-", HANDOFF_SECRET_GITLAB_TOKEN, "",
     "gl"
     "rt-",
     URL_22, ""},
    {"glcbt-", HANDOFF_SECRET_GITLAB_TOKEN, "",
     "gl"
     "cbt-",
     URL_22, ""},
    {"glptt-", HANDOFF_SECRET_GITLAB_TOKEN, "",
     "gl"
     "ptt-",
     URL_22, ""},
    {"gloas-", HANDOFF_SECRET_GITLAB_TOKEN, "",
     "gl"
     "oas-",
     URL_22, ""},
    {"xoxa-", HANDOFF_SECRET_SLACK_TOKEN, "",
     "xox"
     "a-",
     "2-123456789012-" ALNUM_20, ""},
    {"xoxb-", HANDOFF_SECRET_SLACK_TOKEN, "",
     "xox"
     "b-",
     "123456789012-123456789012-" ALNUM_20, "\n"},
    {"xoxc-", HANDOFF_SECRET_SLACK_TOKEN, "",
     "xox"
     "c-",
     "123456789012-123456789012-" HEX_32, ""},
    {"xoxd-", HANDOFF_SECRET_SLACK_TOKEN, "",
     "xox"
     "d-",
     "abc%2B" ALNUM_40, ""},
    {"xoxe-", HANDOFF_SECRET_SLACK_TOKEN, "",
     "xox"
     "e-",
     "1-" ALNUM_40, ""},
    {"xoxo-", HANDOFF_SECRET_SLACK_TOKEN, "",
     "xox"
     "o-",
     "523423-234243-234233-e039d02840a0b9379c", ""},
    {"xoxp-", HANDOFF_SECRET_SLACK_TOKEN, "xoxe.",
     "xox"
     "p-",
     "1-" ALNUM_40, ""},
    {"xoxr-", HANDOFF_SECRET_SLACK_TOKEN, "",
     "xox"
     "r-",
     "123456789012-" ALNUM_20, ""},
    {"xoxs-", HANDOFF_SECRET_SLACK_TOKEN, "",
     "xox"
     "s-",
     "123456789012-" ALNUM_20, ""},
    {"xapp-", HANDOFF_SECRET_SLACK_TOKEN, "",
     "xap"
     "p-",
     "1-A0123456789-1234567890123-" HEX_64, ""},
    {"hooks.slack.com/services/", HANDOFF_SECRET_SLACK_TOKEN, "https://hooks.slack.com/services/",
     "", "T00000000/B00000000/" ALNUM_20 "wZbq", " posts"},
    {"sk_live_", HANDOFF_SECRET_STRIPE_KEY, "",
     "sk_"
     "live_",
     ALNUM_34, ""},
    {"rk_live_", HANDOFF_SECRET_STRIPE_KEY, "",
     "rk_"
     "live_",
     ALNUM_20, ""},
    {"whsec_", HANDOFF_SECRET_STRIPE_KEY, "",
     "wh"
     "sec_",
     ALNUM_34, ""},
    {"sk-ant-", HANDOFF_SECRET_ANTHROPIC_KEY, "x-api-key: ",
     "sk-"
     "ant-",
     "api03-" URL_100 "AA", ""},
    {"sk-proj-", HANDOFF_SECRET_OPENAI_KEY, "",
     "sk-"
     "proj-",
     URL_43 "T3BlbkFJ" URL_43, ""},
    {"sk-svcacct-", HANDOFF_SECRET_OPENAI_KEY, "",
     "sk-"
     "svcacct-",
     URL_43 "T3BlbkFJ" URL_43, ""},
    {"sk-admin-", HANDOFF_SECRET_OPENAI_KEY, "",
     "sk-"
     "admin-",
     URL_43 "T3BlbkFJ" URL_43, ""},
    {"sk-or-v1-", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "sk-"
     "or-v1-",
     HEX_64, ""},
    {"sk-", HANDOFF_SECRET_OPENAI_KEY, "",
     "sk"
     "-",
     ALNUM_20 "T3BlbkFJ" ALNUM_20, ""},
    {"sk-", HANDOFF_SECRET_OPENAI_KEY, "OPENAI_API_KEY=",
     "sk"
     "-",
     HEX_32, ""},
    {"hf_", HANDOFF_SECRET_HUGGINGFACE_TOKEN, "",
     "hf"
     "_",
     ALNUM_34, ""},
    {"npm_", HANDOFF_SECRET_NPM_TOKEN, "//registry.example/:_authToken=",
     "np"
     "m_",
     CHECKED_2, ""},
    {"pypi-Ag", HANDOFF_SECRET_PYPI_TOKEN, "",
     "py"
     "pi-Ag",
     "EIcHlwaS5vcmc" URL_100, ""},
    {"SG.", HANDOFF_SECRET_SENDGRID_KEY, "",
     "S"
     "G.",
     URL_22 "." URL_43, "."},
    {"SK", HANDOFF_SECRET_TWILIO_KEY, "",
     "S"
     "K",
     HEX_32, ""},
    {"twilioauthtoken", HANDOFF_SECRET_TWILIO_KEY, "TWILIO_AUTH_TOKEN=", "", HEX_32, ""},
    {"eyJ", HANDOFF_SECRET_JWT, "",
     "ey"
     "JhbGciOiJIUzI1NiJ9.",
     "eyJzdWIiOiIxMjM0In0." URL_43, ""},
    {"eyJ", HANDOFF_SECRET_JWT, "Authorization: Bearer ",
     "ey"
     "JhbGciOiJIUzI1NiJ9.",
     "eyJzdWIiOiIxMjM0In0." URL_43, ". It ends"},
    {"://", HANDOFF_SECRET_URL_PASSWORD, "postgres://app:", "", "s3cr3t", "@db.internal:5432/app"},
    {"://", HANDOFF_SECRET_URL_PASSWORD, "https://user:", "", "p%40ss!$word", "@example.com"},
    {"://", HANDOFF_SECRET_URL_PASSWORD, "mongodb+srv://u:", "", "a@b", "@c.example.net/?x=y@z"},
    {"://", HANDOFF_SECRET_URL_PASSWORD, "redis://:", "", "x", "@h:6379/0"},
    {"authorizationbearer", HANDOFF_SECRET_AUTHORIZATION, "-H 'Authorization: Bearer ", "",
     ALNUM_34, "'"},
    {"authorizationbasic", HANDOFF_SECRET_AUTHORIZATION, "authorization: basic ", "",
     "dXNlcjpwYXNzd29yZA==", "\r\n"},
    {"authorizationtoken", HANDOFF_SECRET_AUTHORIZATION, "\"Authorization\": \"token ", "",
     ALNUM_40, "\""},
    {"dop_v1_", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "dop"
     "_v1_",
     HEX_64, ""},
    {"doo_v1_", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "doo"
     "_v1_",
     HEX_64, ""},
    {"dor_v1_", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "dor"
     "_v1_",
     HEX_64, ""},
    {"dckr_pat_", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "dckr"
     "_pat_",
     URL_22 "YYD7d", ""},
    {"shpat_", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "shp"
     "at_",
     HEX_32, ""},
    {"shpca_", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "shp"
     "ca_",
     HEX_32, ""},
    {"shppa_", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "shp"
     "pa_",
     HEX_32, ""},
    {"shpss_", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "shp"
     "ss_",
     HEX_32, ""},
    {"hvs.", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "hv"
     "s.",
     URL_100, ""},
    {"hvb.", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "hv"
     "b.",
     URL_100, ""},
    {"dapi", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "da"
     "pi",
     HEX_32, ""},
    {"glsa_", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "gl"
     "sa_",
     ALNUM_20 "wZbqcabUGJmG_8d41bed4", ""},
    {"ATATT3", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "ATA"
     "TT3",
     URL_100 URL_43 "=8D41BED4", ""},
    {"lin_api_", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "lin"
     "_api_",
     ALNUM_40, ""},
    {"NRAK-", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "NR"
     "AK-",
     "KOK3ZV2MWUFXBV54BYVSEHOGFQR", ""},
    {"figd_", HANDOFF_SECRET_SERVICE_TOKEN, "",
     "fi"
     "gd_",
     URL_43, ""},
    {":AA", HANDOFF_SECRET_SERVICE_TOKEN, "bot110201543:AA", "",
     "HdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1", "/getMe"},
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

/* What resembles them and is none. */
static const char *const look_alikes[] = {
    /* what handoffs are full of */
    "0190c2f4-7d1e-7a3b-9f21-6d2f6c3b8a10",
    "previous 0190C2F4-7D1E-7A3B-9F21-6D2F6C3B8A10 and 0190c2f47d1e7a3b9f216d2f6c3b8a10",
    "commit 83de1d2f0c3b5a7e9d1f2b4c6a8e0d1c2b3a4f5e fixes it",
    "sha256:8d41bed440e50454f31af3176813e02ea68ef786e4d3cea27d26934b484e73cf",
    "data:image/"
    "png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+"
    "M9QDwADhgGAWjR9awAAAABJRU5E",
    "exporter_request_body_of_an_unauthenticated_caller and handoff_assembly_is_cycle",
    "TheLongestCamelCaseIdentifierOfTheWholeCodeBaseFactoryBuilder2",
    "/usr/lib/x86_64-linux-gnu/libmicrohttpd.so.12.56.0",
    "2026-11-19T10:05:42.123456789+00:00",
    "integrity "
    "sha512-mJWikyFExzzdAIDhXzK2QkI3cBXkLjSgSOUpTPj33ZyXOivikASDTyPhQz0ziAFnPzMtgBoxpAKLG3JxIyiJ==",
    "!!!!!!!!!!!!!!!!--------========________@@@@@@@@@@@@@@@@",
    /* private keys */
    "the file begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----",
    DASHES "BEGIN PUBLIC KEY" DASHES "\n" LINE "\n" DASHES "END PUBLIC KEY" DASHES,
    DASHES "BEGIN CERTIFICATE" DASHES "\n" LINE "\n" DASHES "END CERTIFICATE" DASHES,
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKLG3JxIyiJG21DHtOR3WRbUfj33ZyXOivikASDTyPhQ me@host",
    "-----BEGIN PRIVATE KEY",
    "-----BEGIN -----BEGIN -----BEGIN -----BEGIN -----",
    "AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ",
    /* Amazon */
    "AKIAIOSFODNN7EXAMPLE",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AKIAXXXXXXXXXXXXXXXX",
    "AKIAKOK3ZV2MWUFXBV545",
    "BAKIAKOK3ZV2MWUFXBV54",
    "AKIAKOK3ZV2MWUFXBV5",
    "AKIAKOK3ZV2MWUFXBV54x",
    "the secret access key is rotated every quarter by the platform team",
    "secret_access_key: 8d41bed440e50454f31af3176813e02e",
    "session_token: see the vault",
    BASE64_40,
    "public key " BASE64_40,
    /* Microsoft */
    "AccountKey=<the key of the account>;",
    "https://x.example/?sig=unsigned&sv=2022-11-02",
    "aB38Q~too-short",
    "~/projects/handoff-exporter/client/secrets",
    "aB3xQ~c-hva9FrLhJ.r59ehi_w8BYYD7dvani2x",
    "\xc3\xa4"
    "B8Q~c-hva9FrLhJ.r59ehi_w8BYYD7dvani2x",
    "no 8Q~c-hva9FrLhJ.r59ehi_w8BYYD7dvani2x",
    /* Google */
    "AIzaSyShort0123456789",
    "ya29.a0",
    "GOCSPX-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    /* tokens with a checksum, which these do not have */
    "ghp_Ky9Pf34qY6Nb3wWD25RQ4F5ZR3qa7y3gm1IM",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "npm_Ky9Pf34qY6Nb3wWD25RQ4F5ZR3qa7y3gm1Il",
    "ghp_" CHECKED_1 "A",
    "xghp_" CHECKED_1,
    "npm_config_registry_of_the_company_mirror",
    "gho_and_ghu_are_prefixes_of_github_tokens",
    "github_pat_11AAAAAAA0123456789abc",
    "github_pat_your_fine_grained_personal_access_token_goes_here",
    "glpat-your-personal-access-token-here",
    "glpat-xxxxxxxxxxxxxxxxxxxx",
    "glpat-short",
    "xoxb-your-token-goes-here-for-slack",
    "xoxb-111111111111-111111111111-11111111",
    "xoxb-short-1",
    "https://hooks.slack.com/services/T000/B000",
    "sk_live_short",
    "sk_test_is_not_live",
    "rk_live_xxxxxxxxxxxxxxxxxxxxxxxx",
    "whsec_your_signing_secret",
    /* "sk-" in prose and names */
    "sk-learn and sk-image are libraries",
    "task-runner-for-the-risk-assessment-of-disk-encryption",
    "sk-skeleton-loading-animation-of-the-page-header",
    "ask-me-anything-about-everything-at-all-2026",
    "sk-ant-your-key-goes-here",
    "sk-ant-api03-...",
    "sk-proj-your-project-key-goes-here-and-not-in-the-text",
    "sk-thisisaveryveryveryverylongsingleword",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "hf_transfer_is_enabled_by_an_environment",
    "hf_hubhubhubhubhubhubhubhubhubhubhub",
    "pypi-AgEI is how they begin",
    "SG.not.a.key.of.sendgrid.but.a.name.with.many.dots.in.it.and.more1",
    "SK8d41bed440e50454f31af3176813e02",
    "SKELETON0123456789012345678901234",
    "TWILIO_AUTH_TOKEN=your_auth_token_of_32_characters",
    /* tokens of three parts */
    "eyJhbGciOiJIUzI1NiJ9",
    "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxMjM0In0.",
    "eyJhbGciOiJIUzI1NiJ9.payload.sig",
    "com.example.project.service.implementation.Factory",
    /* URLs */
    "https://example.com/path?user=a&password=b",
    "https://user@example.com/x",
    "https://example.com:8080/@scope/pkg",
    "git@github.com:owner/repository.git",
    "http://[::1]:8080/a@b",
    "mailto:someone@example.com",
    "postgres://app:$PASSWORD@db/app",
    "postgres://app:${DB_PASSWORD}@db/app",
    "https://user:<password>@host/",
    "https://user:***@example.com",
    "https://user:[redacted: url password]@example.com",
    "https://user:@example.com/",
    "ratio://of:things",
    "see https://a.example: b@c.example",
    /* headers */
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer YOUR_ACCESS_TOKEN_GOES_HERE",
    "Authorization: Bearer <token>",
    "the bearer 0123456789abcdefghij came",
    "Authorization: Basic realm",
    /* others */
    "dop_v1_too_short",
    "shpat_of_the_shop",
    "hvs.short",
    "dapi8d41",
    "lin_api_key",
    "NRAK-",
    "figd_x",
    "12:AA:BB:CC:DD:EE:FF",
    "http://host:AAAA/",
    "dckr_pat_of_the_docker_hub_account",
    "ATATT3xFfGF0",
    "[redacted: github token]",
    "",
};
enum { LOOK_ALIKES = sizeof look_alikes / sizeof *look_alikes };

static struct base_span around(struct base_buffer *out, const char *before, const char *text,
                               const char *after)
{
    base_buffer_clear(out);
    base_buffer_text(out, before);
    base_buffer_text(out, text);
    base_buffer_text(out, after);
    return base_buffer_span(out);
}

static bool begin_search(struct handoff_secret_search *search, struct base_span text)
{
    size_t at;
    if (!handoff_secret_look(text, &at))
        return false;
    handoff_secret_begin(search, text, (struct base_span){0}, at);
    return true;
}

static bool find_first(struct base_span text, struct handoff_secret_found *found)
{
    struct handoff_secret_search search;
    return begin_search(&search, text) && handoff_secret_next(&search, found);
}

/* Wherever it stands, since the first look goes by blocks of 16. */
static void test_each_example_is_found_at_every_offset(void **state)
{
    (void)state;
    struct base_buffer text = {0};
    for (size_t i = 0; i < EXAMPLES; i++) {
        for (unsigned offset = 0; offset < 33; offset++) {
            struct handoff_secret_found found = {0};
            base_buffer_clear(&text);
            base_buffer_printf(&text, "%.*s %s", (int)offset,
                               "a b c d e f g h i j k l m n o p q r s", examples[i].lead);
            const size_t at = text.size;
            base_buffer_printf(&text, "%s%s", examples[i].start, examples[i].rest);
            const size_t size = text.size - at;
            base_buffer_text(&text, examples[i].tail);
            if (!find_first(base_buffer_span(&text), &found))
                fail_msg("not found: %s", text.data);
            if (found.kind != examples[i].kind || found.at != at || found.size != size)
                fail_msg("%s: %s at %zu, %zu bytes; not %s at %zu, %zu bytes", text.data,
                         handoff_secret_name(found.kind), found.at, found.size,
                         handoff_secret_name(examples[i].kind), at, size);
        }
    }
    base_buffer_free(&text);
}

static void test_what_resembles_one_is_none(void **state)
{
    (void)state;
    struct base_buffer text = {0};
    static const char *const frames[][2] = {
        {"", ""}, {"see ", " there"}, {"\"", "\"\n"}, {"(", ")."}};
    for (size_t i = 0; i < LOOK_ALIKES; i++) {
        for (size_t f = 0; f < sizeof frames / sizeof *frames; f++) {
            struct handoff_secret_found found;
            const struct base_span framed =
                around(&text, frames[f][0], look_alikes[i], frames[f][1]);
            if (find_first(framed, &found))
                fail_msg("%s: taken for a %s", framed.data, handoff_secret_name(found.kind));
        }
    }
    base_buffer_free(&text);
}

static void test_every_row_has_an_example(void **state)
{
    (void)state;
    static const char *const rows[] = {
#define TOKEN(kind, prefix, ...) prefix,
#define VALUE(kind, prefix, ...) prefix,
#define NAMED(kind, name, ...)   name,
#define SHAPE(kind, prefix, ...) prefix,
#include "client/secrets/forms.def"
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        size_t i = 0;
        while (i < EXAMPLES && strcmp(examples[i].form, rows[row]) != 0)
            i++;
        if (i == EXAMPLES)
            fail_msg("no example of the form %s", rows[row]);
    }
}

static void test_every_kind_has_an_example(void **state)
{
    (void)state;
    for (int kind = HANDOFF_SECRET_NONE + 1; kind < HANDOFF_SECRET_COUNT; kind++) {
        size_t i = 0;
        while (i < EXAMPLES && examples[i].kind != (enum handoff_secret)kind)
            i++;
        assert_true(i < EXAMPLES);
    }
}

/* All examples in one text: each is found, once and in order. */
static void test_all_are_found_in_one_text(void **state)
{
    (void)state;
    struct base_buffer text = {0};
    struct handoff_secret_found found;
    for (size_t i = 0; i < EXAMPLES; i++) {
        if (*examples[i].tail)
            base_buffer_printf(&text, "%s%s%s%s - ", examples[i].lead, examples[i].start,
                               examples[i].rest, examples[i].tail);
    }
    struct handoff_secret_search search;
    assert_true(begin_search(&search, base_buffer_span(&text)));
    for (size_t i = 0; i < EXAMPLES; i++) {
        if (!*examples[i].tail)
            continue;
        assert_true(handoff_secret_next(&search, &found));
        assert_int_equal(found.kind, examples[i].kind);
    }
    assert_false(handoff_secret_next(&search, &found));
    base_buffer_free(&text);
}

/* ---- documents ------------------------------------------------------------------------------- */

static const struct handoff_field id_item = {.name = "ids", .type = HANDOFF_FIELD_ID};
static const struct handoff_field rows[] = {
    {.name = "task_id", .type = HANDOFF_FIELD_ID},
    {.name = "target_agent", .type = HANDOFF_FIELD_NAME},
    {.name = "memory_ids", .type = HANDOFF_FIELD_ARRAY, .item = &id_item},
    {.name = "intent", .type = HANDOFF_FIELD_TEXT},
    {.name = "state", .type = HANDOFF_FIELD_OBJECT},
    {.name = "constraints", .type = HANDOFF_FIELD_OBJECT},
};
static const struct handoff_fields fields = {.rows = rows, .count = HANDOFF_FIELDS_COUNT(rows)};

#define GITHUB                                                                                     \
    "gh"                                                                                           \
    "p_" CHECKED_1
#define MARKER "[redacted: github token]"

/* The document as JSON after the search; free it with base_buffer_free. */
static enum handoff_code search_in(const char *json, struct handoff_secrets *secrets,
                                   struct base_buffer *out, struct handoff_error *error)
{
    yyjson_doc *doc;
    struct base_arena arena;
    base_arena_init(&arena, 0);
    secrets->arena = &arena;
    assert_int_equal(base_json_read_in(&arena, base_span_text(json), "body", &doc, NULL),
                     HANDOFF_OK);
    const enum handoff_code code =
        handoff_secrets_in_document(secrets, &fields, HANDOFF_SECRET_PLACE_REQUEST, doc, error);
    base_buffer_clear(out);
    base_json_write(out, yyjson_doc_get_root(doc));
    base_arena_free(&arena);
    return code;
}

static void test_markers_take_the_place_of_values_and_keys(void **state)
{
    (void)state;
    struct handoff_secrets secrets = {0};
    struct handoff_error error;
    struct base_buffer out = {0};
    assert_int_equal(search_in("{\"intent\":\"log in with " GITHUB ", then " GITHUB
                               "!\",\"state\":{\"" GITHUB "\":[1,\"a\",\"\\u0067hp_" CHECKED_2
                               "\"]},\"constraints\":{\"use\":\"" GITHUB "\"}}",
                               &secrets, &out, &error),
                     HANDOFF_OK);
    assert_string_equal(out.data, "{\"intent\":\"log in with " MARKER ", then " MARKER
                                  "!\",\"state\":{\"" MARKER "\":[1,\"a\",\"" MARKER
                                  "\"]},\"constraints\":{\"use\":\"" MARKER "\"}}");
    assert_int_equal(secrets.total, 5);
    assert_int_equal(secrets.found[HANDOFF_SECRET_GITHUB_TOKEN][HANDOFF_SECRET_PLACE_REQUEST], 4);
    assert_int_equal(secrets.found[HANDOFF_SECRET_GITHUB_TOKEN][HANDOFF_SECRET_PLACE_CONSTRAINT],
                     1);
    assert_int_equal(secrets.nfields, 3);
    assert_string_equal(secrets.fields[0].field, "intent");
    assert_string_equal(secrets.fields[1].field, "state");
    assert_string_equal(secrets.fields[2].field, "constraints");
    base_buffer_free(&out);
}

/* The key of a member is the name of its value; so is the entry before in a list of arguments. */
static void test_keys_name_their_values(void **state)
{
    (void)state;
    struct handoff_secrets secrets = {0};
    struct base_buffer out = {0};
    assert_int_equal(search_in("{\"state\":{\"SecretAccessKey\":\"" BASE64_40
                               "\",\"other\":\"" BASE64_40
                               "\",\"headers\":{\"Authorization\":\"Bearer " ALNUM_34 "\"}}}",
                               &secrets, &out, NULL),
                     HANDOFF_OK);
    assert_string_equal(
        out.data, "{\"state\":{\"SecretAccessKey\":\"[redacted: aws key]\",\"other\":\"" BASE64_40
                  "\",\"headers\":{\"Authorization\":\"Bearer [redacted: authorization]\"}}}");
    base_buffer_free(&out);
}

static void test_a_document_without_any_stays_as_it_is(void **state)
{
    (void)state;
    static const char json[] =
        "{\"task_id\":\"0190c2f4-7d1e-7a3b-9f21-6d2f6c3b8a10\",\"intent\":\"write\",\"state\":"
        "{\"commit\":\"83de1d2f0c3b5a7e9d1f2b4c6a8e0d1c2b3a4f5e\",\"n\":1.50,\"x\":null}}";
    struct handoff_secrets secrets = {0};
    struct base_buffer out = {0};
    assert_int_equal(search_in(json, &secrets, &out, NULL), HANDOFF_OK);
    assert_string_equal(out.data, json);
    assert_int_equal(secrets.total, 0);
    base_buffer_free(&out);
}

static void test_refused_if_the_policy_says_so(void **state)
{
    (void)state;
    struct handoff_secrets secrets = {.policy = HANDOFF_SECRET_POLICY_REFUSE};
    struct handoff_error error;
    struct base_buffer out = {0};
    assert_int_equal(search_in("{\"intent\":\"log in with " GITHUB "\"}", &secrets, &out, &error),
                     HANDOFF_ERR_SECRET_IN_REQUEST);
    assert_string_equal(error.field, "intent");
    assert_string_equal(error.seen, "github token");
    assert_int_equal(secrets.total, 1);
    base_buffer_free(&out);
}

static void test_allowed_if_the_policy_says_so(void **state)
{
    (void)state;
    struct handoff_secrets secrets = {.policy = HANDOFF_SECRET_POLICY_ALLOW};
    struct base_buffer out = {0};
    assert_int_equal(search_in("{\"task_id\":\"" GITHUB "\"}", &secrets, &out, NULL), HANDOFF_OK);
    assert_string_equal(out.data, "{\"task_id\":\"" GITHUB "\"}");
    base_buffer_free(&out);
}

/* A marker as an id would make one task of many. */
static void test_ids_and_names_are_refused(void **state)
{
    (void)state;
    static const char *const bodies[][2] = {
        {"{\"task_id\":\"" GITHUB "\"}", "task_id"},
        {"{\"target_agent\":\"" GITHUB "\"}", "target_agent"},
        {"{\"memory_ids\":[\"a\",\"" GITHUB "\"]}", "memory_ids"},
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct handoff_secrets secrets = {0};
        struct handoff_error error;
        struct base_buffer out = {0};
        assert_int_equal(search_in(bodies[i][0], &secrets, &out, &error),
                         HANDOFF_ERR_SECRET_IN_REQUEST);
        assert_string_equal(error.field, bodies[i][1]);
        assert_null(strstr(error.seen, CHECKED_1));
        base_buffer_free(&out);
    }
}

/* ---- reasons --------------------------------------------------------------------------------- */

static void test_reasons_are_cut_without_leaving_half_a_credential(void **state)
{
    (void)state;
    static const char text[] =
        "cannot log in with " GITHUB " at example \xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9";
    char whole[200];
    assert_int_equal(handoff_secrets_cut(whole, sizeof whole, text, sizeof text - 1),
                     UINT32_C(1) << HANDOFF_SECRET_GITHUB_TOKEN);
    assert_string_equal(whole, "cannot log in with " MARKER
                               " at example \xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
    for (size_t size = 1; size <= sizeof text; size++) {
        char cut[sizeof text];
        handoff_secrets_cut(cut, size, text, sizeof text - 1);
        assert_true(strlen(cut) < size);
        assert_memory_equal(cut, whole, strlen(cut));
        assert_true(strlen(cut) + 2 >= size || strlen(cut) == strlen(whole));
    }
}

static void test_other_reasons_stay_as_they_are(void **state)
{
    (void)state;
    char cut[16];
    assert_int_equal(handoff_secrets_cut(cut, sizeof cut, "no disk, try again later", 24), 0);
    assert_string_equal(cut, "no disk, try ag");
    assert_int_equal(handoff_secrets_cut(cut, sizeof cut, "", 0), 0);
    assert_string_equal(cut, "");
}

/* ---- hostile texts --------------------------------------------------------------------------- */

/* Bytes that were looked at again would show as a time that grows with the square; 4 MB then take
   hours, and the test never ends. */
static void test_no_text_takes_long(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    enum { SIZE = 256 * 1024 }; /* a search has one thread, and is thirty times slower here */
#else
    enum { SIZE = 4 * 1024 * 1024 };
#endif
    static const char *const patterns[] = {
        "a",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----"
        "AAAAAAAA",
        "eyJ.eyJ",
        "eyJ-",
        "eyJ-eyJ-eyJ-eyJ-eyJ.",
        "sk-",
        "sk-ant-",
        "glpat-",
        "xoxb-1",
        "://",
        "://a:",
        "a://b:c@",
        "sk-ghp_" CHECKED_1 "-",
        "authorization bearer ",
        "Q~",
        "a1Q~",
        "@",
        "SG.",
        "\\n",
        "ghp_",
        "-",
        "sig=sig%",
        "secret_access_key=",
        "hooks.slack.com/services/",
        ".eyJ-eyJ-",
        "\xc3\xa9",
        "A ",
        "----- ",
        "eyJaaaaaaaaaaaaaa.eyJaaaaaaaaaaaa.a",
    };
    char *text = malloc(SIZE);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const size_t size = strlen(patterns[i]);
        struct handoff_secret_found found;
        size_t end = 0;
        for (size_t at = 0; at + size <= SIZE; at += size)
            memcpy(text + at, patterns[i], size);
        struct handoff_secret_search search;
        const bool may_hold = begin_search(&search, base_span(text, SIZE - SIZE % size));
        while (may_hold && handoff_secret_next(&search, &found)) {
            assert_true(found.at >= end && found.size > 0);
            end = found.at + found.size;
        }
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_example_is_found_at_every_offset),
        cmocka_unit_test(test_what_resembles_one_is_none),
        cmocka_unit_test(test_every_row_has_an_example),
        cmocka_unit_test(test_every_kind_has_an_example),
        cmocka_unit_test(test_all_are_found_in_one_text),
        cmocka_unit_test(test_markers_take_the_place_of_values_and_keys),
        cmocka_unit_test(test_keys_name_their_values),
        cmocka_unit_test(test_a_document_without_any_stays_as_it_is),
        cmocka_unit_test(test_refused_if_the_policy_says_so),
        cmocka_unit_test(test_allowed_if_the_policy_says_so),
        cmocka_unit_test(test_ids_and_names_are_refused),
        cmocka_unit_test(test_reasons_are_cut_without_leaving_half_a_credential),
        cmocka_unit_test(test_other_reasons_stay_as_they_are),
        cmocka_unit_test(test_no_text_takes_long),
    };
    return RUN_TESTS(tests);
}
