// SPDX-License-Identifier: Apache-2.0
// Refreshes the parts of a page that change by themselves. A part is left alone while somebody has
// selected something, types in it or looks elsewhere; what no longer answers is shown as old. The
// progress of a job that runs comes as server-sent events in between.
"use strict";

const sections = () => [...document.querySelectorAll("[data-refresh]")];
let events = null;

function isInUse(section) {
  return document.hidden || !getSelection().isCollapsed || section.contains(document.activeElement);
}

async function refresh() {
  const due = sections().filter((section) => !isInUse(section));
  if (due.length === 0) return;
  const reply = await fetch(location.href, { cache: "no-store", headers: { "Handoff-Refresh": "1" } });
  if (!reply.ok || reply.redirected) throw new Error(reply.statusText);
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  for (const section of due) {
    const fresh = page.getElementById(section.id);
    if (fresh && !isInUse(section)) section.replaceWith(document.importNode(fresh, true));
  }
}

async function refreshOrAge() {
  try {
    await refresh();
  } catch {
    for (const section of sections()) section.classList.add("stale");
  }
}

async function again() {
  const waits = sections().map((section) => Number(section.dataset.refresh));
  if (waits.length === 0) return;
  await refreshOrAge();
  setTimeout(again, 1000 * Math.min(...waits));
}

function stopFollowing() {
  if (events) events.close();
  events = null;
}

function showProgress(event) {
  const section = document.querySelector("[data-events]");
  const job = JSON.parse(event.data);
  if (section) {
    section.querySelector("progress").value = job.done;
    section.querySelector("[role=status]").textContent = job.text;
  }
  if (section && job.state === "running") return;
  stopFollowing();
  refreshOrAge();
}

function follow() {
  const section = document.querySelector("[data-events]");
  if (!section || document.hidden) return stopFollowing();
  if (events) return;
  events = new EventSource(section.dataset.events);
  events.onmessage = showProgress;
}

if (sections().length > 0) setTimeout(again, 1000);
document.addEventListener("visibilitychange", follow);
follow();
