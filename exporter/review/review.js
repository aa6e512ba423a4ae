// SPDX-License-Identifier: Apache-2.0
// Refreshes the parts of a page that change by themselves. A part is left alone while somebody has
// selected something, types in it or looks elsewhere; what no longer answers is shown as old.
"use strict";

const sections = () => [...document.querySelectorAll("[data-refresh]")];

function isInUse(section) {
  return document.hidden || !getSelection().isCollapsed || section.contains(document.activeElement);
}

async function refresh() {
  const due = sections().filter((section) => !isInUse(section));
  if (due.length === 0) return;
  const reply = await fetch(location.href, { cache: "no-store" });
  if (!reply.ok || reply.redirected) throw new Error(reply.statusText);
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  for (const section of due) {
    const fresh = page.getElementById(section.id);
    if (fresh && !isInUse(section)) section.replaceWith(document.importNode(fresh, true));
  }
}

async function again() {
  const waits = sections().map((section) => Number(section.dataset.refresh));
  if (waits.length === 0) return;
  try {
    await refresh();
  } catch {
    for (const section of sections()) section.classList.add("stale");
  }
  setTimeout(again, 1000 * Math.min(...waits));
}

if (sections().length > 0) setTimeout(again, 1000);
