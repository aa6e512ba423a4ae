/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What our pages share, see page.h. The policy names the style and the script by their digests, so
 * that text which found a way to be markup could bring neither.
 *
 * Pure, apart from the streams that it writes to; any thread.
 */
#include "exporter/status/page.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stdlib.h>

#include "exporter/status/html.h"
#include "exporter/version.h"
#include "lib/base/check.h"

/* Contrasts are at least 4.5 : 1 in both schemes; a test holds that. */
static const char page_style[] =
    ":root{color-scheme:light dark;--paper:#f7f7f5;--card:#fff;--ink:#1d2327;--soft:#5a6570;"
    "--line:#dfe2e0;--ok:#1b6e3c;--ok-bg:#e6f3ea;--attention:#7d5200;--attention-bg:#fbf0d9;"
    "--trouble:#a81f1f;--trouble-bg:#fbe7e5;--link:#1a5a96}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#15181b;--card:#1d2226;--ink:#e6e8ea;"
    "--soft:#a0abb5;--line:#31383e;--ok:#7fd19b;--ok-bg:#17301f;--attention:#f0c36a;"
    "--attention-bg:#33280f;--trouble:#ff9c92;--trouble-bg:#3a1a18;--link:#8fc4f5}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,sans-serif}\n"
    "header,main,footer{max-width:62rem;margin:0 auto;padding:0 1.25rem}\n"
    "header{display:flex;flex-wrap:wrap;gap:.25rem 1.5rem;align-items:baseline;"
    "justify-content:space-between;padding-top:1.5rem}\n"
    "header p{margin:0;font-weight:600}header p span{font-weight:400;color:var(--soft)}\n"
    "nav ul{display:flex;flex-wrap:wrap;gap:0 .35rem;margin:0;padding:0;list-style:none}\n"
    "a{color:var(--link);text-underline-offset:.2em}\n"
    "nav a{display:inline-block;padding:.5rem .4rem}\n"
    "a:focus-visible{outline:.15rem solid;outline-offset:.1rem}\n"
    ".verdict{margin:1rem 0 1.5rem;padding:1.1rem 1.4rem 1.2rem;border-radius:.75rem;"
    "overflow-wrap:anywhere;background:var(--tint);border-left:.35rem solid var(--hue)}\n"
    "h1{margin:0;font-size:1.55rem;line-height:1.3;color:var(--hue)}\n"
    ".verdict ul{margin:.5rem 0 0;padding-left:1.1rem}.verdict p{margin:.4rem 0 0}\n"
    ".ok{--hue:var(--ok);--tint:var(--ok-bg)}"
    ".attention{--hue:var(--attention);--tint:var(--attention-bg)}"
    ".trouble{--hue:var(--trouble);--tint:var(--trouble-bg)}\n"
    ".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem;"
    "margin:0 0 2rem}\n"
    ".figures div,.list,.none{background:var(--card);border:1px solid var(--line);"
    "border-radius:.75rem}\n"
    ".figures div{padding:.75rem 1rem;display:flex;flex-direction:column}\n"
    ".figures dt{color:var(--soft);font-size:.9rem}"
    ".figures dd{margin:0;font-size:1.5rem;font-variant-numeric:tabular-nums}"
    ".figures dd+dd{font-size:.9rem;color:var(--soft)}\n"
    "h2{font-size:1.1rem;margin:2rem 0 .6rem}\n"
    ".none{margin:0;padding:.9rem 1rem;color:var(--soft)}\n"
    ".list{width:100%;border-collapse:separate;border-spacing:0;margin:0;padding:0;"
    "list-style:none}\n"
    "th,td{padding:.6rem 1rem;text-align:right;font-variant-numeric:tabular-nums}\n"
    "th:first-child,th:nth-child(2),td:nth-child(2){text-align:left}\n"
    "thead th{font-weight:400;font-size:.9rem;color:var(--soft)}\n"
    "tbody th{font-weight:600;overflow-wrap:anywhere}\n"
    "tbody tr>*,.list li{border-top:1px solid var(--line)}.list li:first-child{border:0}\n"
    ".badge{display:inline-block;padding:.05rem .6rem;border-radius:1rem;white-space:nowrap;"
    "background:var(--tint);color:var(--hue);font-size:.9rem;font-weight:600}\n"
    ".soft,small{color:var(--soft)}td small{display:block;white-space:nowrap}\n"
    ".list li{padding:.75rem 1rem;overflow-wrap:anywhere}.list li p{margin:.2rem 0 0}\n"
    ".list li .soft{font-size:.9rem}\n"
    "code{font:.9em ui-monospace,monospace;overflow-wrap:anywhere}\n"
    "pre{margin:.6rem 0;padding:.75rem 1rem;background:var(--card);border:1px solid var(--line);"
    "border-radius:.75rem;white-space:pre-wrap}\n"
    ".runbook li{margin:.35rem 0}.runbook td,.runbook th{text-align:left}"
    ".runbook table{border-collapse:collapse}\n"
    "footer{margin-top:2.5rem;padding-bottom:2.5rem;color:var(--soft);font-size:.9rem}\n"
    "@media(max-width:44rem){thead{position:absolute;width:1px;height:1px;overflow:hidden;"
    "clip-path:inset(50%)}table,tbody,tr,tbody th,td{display:block}"
    "tbody tr{padding:.75rem 1rem;border-top:1px solid var(--line)}"
    "tbody tr:first-child{border:0}"
    "tbody tr>*{padding:.1rem 0;border:0;text-align:left}"
    "td{display:flex;justify-content:space-between;gap:1rem}"
    "td::before{content:attr(data-label);color:var(--soft)}td span{text-align:right}}\n";

/* Replaces what has changed, and leaves the page alone while a reader has selected something in it
 * or looks elsewhere. A sidecar that no longer answers must not look as it did when it still did.
 */
static const char page_script[] =
    "setInterval(async()=>{"
    "if(document.hidden||String(getSelection())||document.activeElement!==document.body)return;"
    "const all=['main','footer'],find=(d,s)=>d.querySelector(s);"
    "try{const r=await fetch(location.pathname,{cache:'no-store'});"
    "if(!r.ok)throw r;"
    "const p=new DOMParser().parseFromString(await r.text(),'text/html');"
    "for(const s of all)find(document,s).replaceWith(find(p,s));"
    "document.title=p.title}"
    "catch{const v=find(document,'.verdict');v.className='verdict trouble';"
    "find(v,'h1').textContent='The sidecar does not answer';"
    "document.title='No answer - handoff-exporter'}},15000)";

/* The digest by which a policy allows a text. */
struct page_digest {
    char text[48];
};

static struct page_digest page_digest_of(const char *text, size_t length)
{
    struct page_digest digest = {""};
    unsigned char bytes[32];
    gnutls_datum_t encoded;
    const gnutls_datum_t raw = {bytes, sizeof bytes};
    const int code = gnutls_hash_fast(GNUTLS_DIG_SHA256, text, length, bytes);
    BASE_CHECK(code == 0);
    if (gnutls_base64_encode2(&raw, &encoded) != 0)
        return digest; /* no memory: the page goes without it */
    snprintf(digest.text, sizeof digest.text, "%.*s", (int)encoded.size,
             (const char *)encoded.data);
    gnutls_free(encoded.data);
    return digest;
}

void exporter_page_policy(char policy[EXPORTER_PAGE_POLICY_SIZE])
{
    const struct page_digest style = page_digest_of(page_style, sizeof page_style - 1);
    const struct page_digest script = page_digest_of(page_script, sizeof page_script - 1);
    const int written =
        snprintf(policy, EXPORTER_PAGE_POLICY_SIZE,
                 "default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; "
                 "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                 style.text, script.text);
    BASE_CHECK(written > 0 && written < EXPORTER_PAGE_POLICY_SIZE);
}

const char *exporter_page_style(size_t *length)
{
    *length = sizeof page_style - 1;
    return page_style;
}

void exporter_page_refresh(FILE *out)
{
    fprintf(out, "<script>%s</script>\n", page_script);
}

static void write_page_link(FILE *out, const struct exporter_page_link *link)
{
    fputs("<li><a href=\"", out);
    exporter_html_text(out, link->path);
    fprintf(out, "\">%s</a></li>\n", link->name);
}

void exporter_page_begin(FILE *out, const char *title, const struct exporter_page_link *links,
                         size_t count)
{
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          out);
    exporter_html_text(out, title);
    fprintf(out,
            " - handoff-exporter</title>\n<style>%s</style>\n</head>\n<body>\n"
            "<header>\n<p>handoff-exporter <span>%s</span></p>\n<nav aria-label=\"Pages\"><ul>\n",
            page_style, exporter_version());
    for (size_t i = 0; i < count; i++)
        write_page_link(out, &links[i]);
    fputs("</ul></nav>\n</header>\n<main>\n", out);
}

char *exporter_page_end(FILE *out, char **bytes)
{
    const bool whole = ferror(out) == 0;
    if (fclose(out) == 0 && whole)
        return *bytes;
    free(*bytes);
    return NULL;
}
