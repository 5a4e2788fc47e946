import { describe, expect, test } from "vitest";
import { edgesWaitMs, nextRenameStep, type RenameFacts, type RenameHost } from "./steps.ts";

const since = new Date("2030-01-01T00:00:00Z");
const after = (ms: number) => new Date(since.getTime() + ms);

const aHost = (host: string, change: Partial<RenameHost> = {}): RenameHost => ({
  host,
  slug: host.replace(/^preview-/, "").replace(/--\d+$/, ""),
  channel: host.startsWith("preview-") ? "preview" : "production",
  prNumber: host.includes("--") ? Number(host.split("--")[1]) : null,
  redirectTo: null,
  published: "site",
  ...change,
});

/** "shop" on its way to "store", whose host serves everywhere. */
const facts = (change: Partial<RenameFacts> = {}): RenameFacts => ({
  now: after(1_000),
  projectGone: false,
  slug: "shop",
  nextSlug: "store",
  since,
  hosts: [aHost("shop"), aHost("store")],
  edgesInRotation: 2,
  edgesCurrent: 2,
  ...change,
});
const renamed = (change: Partial<RenameFacts> = {}) => facts({ slug: "store", nextSlug: null, since: null, ...change });

describe("before the new slug is the project's", () => {
  test.each<{ when: string; facts: RenameFacts; does: object }>([
    { when: "every edge serves the new hosts", facts: facts(), does: { do: "flip", slug: "store" } },
    {
      when: "a channel has no new host yet",
      facts: facts({ hosts: [aHost("shop"), aHost("store"), aHost("preview-shop"), aHost("preview-shop--7")] }),
      does: {
        do: "claim",
        slug: "store",
        addresses: [
          { channel: "preview", prNumber: null },
          { channel: "preview", prNumber: 7 },
        ],
      },
    },
    {
      when: "a new host is not published yet",
      facts: facts({ hosts: [aHost("shop"), aHost("store", { published: null })] }),
      does: { do: "wait" },
    },
    {
      when: "a new host serves something else than the old one still",
      facts: facts({ hosts: [aHost("shop"), aHost("store", { published: "the site before" })] }),
      does: { do: "wait" },
    },
    {
      when: "a channel came that has only a new host, which is not published",
      facts: facts({ hosts: [aHost("shop"), aHost("store"), aHost("preview-store--8", { published: null })] }),
      does: { do: "wait" },
    },
    { when: "an edge has not followed", facts: facts({ edgesCurrent: 1 }), does: { do: "wait", isLong: false } },
    {
      when: "an edge has not followed for some seconds",
      facts: facts({ edgesCurrent: 1, now: after(5_000) }),
      does: { do: "wait", isLong: true },
    },
    {
      when: "an edge has not followed for long",
      facts: facts({ edgesCurrent: 1, now: after(edgesWaitMs) }),
      does: { do: "flip", slug: "store" },
    },
    {
      when: "the new hosts are not even published after long",
      facts: facts({
        edgesCurrent: 1,
        now: after(edgesWaitMs),
        hosts: [aHost("shop"), aHost("store", { published: null })],
      }),
      does: { do: "wait" },
    },
    {
      when: "no edge at all serves the new hosts, however long",
      facts: facts({ edgesCurrent: 0, now: after(10 * edgesWaitMs) }),
      does: { do: "wait", isLong: true },
    },
    {
      when: "there is no edge",
      facts: facts({ edgesCurrent: 0, edgesInRotation: 0, now: after(10 * edgesWaitMs) }),
      does: { do: "wait" },
    },
    {
      when: "an earlier rename's hosts redirect",
      facts: facts({
        hosts: [aHost("shop"), aHost("store"), aHost("first", { redirectTo: "shop", published: "redirect" })],
      }),
      does: { do: "flip", slug: "store" },
    },
    {
      when: "it was taken back",
      facts: facts({ nextSlug: "shop" }),
      does: { do: "flip", slug: "shop" },
    },
    {
      when: "another slug took over from one that serves already",
      facts: facts({ nextSlug: "third", hosts: [aHost("shop"), aHost("store"), aHost("third")] }),
      does: { do: "flip", slug: "third" },
    },
    { when: "the project is gone", facts: facts({ projectGone: true }), does: { do: "end" } },
  ])("when $when", ({ facts, does }) => {
    expect(nextRenameStep(facts)).toMatchObject(does);
  });
});

describe("once the slug is the new one", () => {
  test.each<{ when: string; facts: RenameFacts; does: object }>([
    {
      when: "every edge serves the new hosts",
      facts: renamed({ hosts: [aHost("shop"), aHost("store"), aHost("preview-shop--7"), aHost("preview-store--7")] }),
      does: {
        do: "redirect",
        slug: "store",
        hosts: [
          { host: "shop", to: "store" },
          { host: "preview-shop--7", to: "preview-store--7" },
        ],
      },
    },
    {
      when: "hosts of two slugs are left over",
      facts: renamed({ slug: "third", hosts: [aHost("shop"), aHost("store", { published: null }), aHost("third")] }),
      does: {
        do: "redirect",
        slug: "third",
        hosts: [
          { host: "shop", to: "third" },
          { host: "store", to: "third" },
        ],
      },
    },
    {
      when: "an edge has not followed, however long: its visitors would be sent to a host that it does not know",
      facts: renamed({ edgesCurrent: 1, now: after(100 * edgesWaitMs) }),
      does: { do: "wait", isLong: true },
    },
    {
      when: "an old host has no new one to send to",
      facts: renamed({ hosts: [aHost("shop"), aHost("store"), aHost("preview-shop--7")] }),
      does: { do: "claim", slug: "store", addresses: [{ channel: "preview", prNumber: 7 }] },
    },
    {
      when: "the old hosts redirect",
      facts: renamed({ hosts: [aHost("shop", { redirectTo: "store" }), aHost("store")] }),
      does: { do: "end" },
    },
  ])("when $when", ({ facts, does }) => {
    expect(nextRenameStep(facts)).toMatchObject(does);
  });
});
