import { describe, expect, test } from "vitest";
import { graceMs, isStreamless, nodeLink, seenStream, streamState } from "./node-links.ts";

const session = { serverId: "s1", reconciled: true, suspect: false, detached: false };
const now = new Date("2026-01-01T12:00:00Z");
const ago = (ms: number) => new Date(now.getTime() - ms);

describe("a node's link", () => {
  test.each([
    { when: "its stream is open", session, alive: true, link: "connected" },
    { when: "it was not compared yet", session: { ...session, reconciled: false }, alive: true, link: "reconciling" },
    { when: "it is silent", session: { ...session, suspect: true }, alive: true, link: "suspect" },
    {
      when: "its stream has ended and its lease has not",
      session: { ...session, detached: true },
      alive: true,
      link: "suspect",
    },
    { when: "its lease is over", session: null, alive: false, link: "unreachable" },
    { when: "the control replica with its stream is gone", session, alive: false, link: "unknown" },
    { when: "both are gone", session: { ...session, detached: true }, alive: false, link: "unknown" },
  ])("when $when", ({ session: value, alive, link }) => {
    expect(nodeLink(streamState(value, alive), ago(1_000), now)).toEqual({ link, since: ago(1_000) });
  });

  test("is given a whole lease anew when nobody has counted, and no more", () => {
    expect(nodeLink("orphaned", ago(graceMs - 1), now).link).toBe("unknown");
    expect(nodeLink("orphaned", ago(graceMs + 5_000), now)).toEqual({ link: "unreachable", since: ago(5_000) });
  });
});

describe("since when a stream is as it is", () => {
  test.each([
    { when: "it is seen for the first time", before: undefined, state: "open", since: now },
    { when: "it is as before", before: "open", state: "open", since: ago(5_000) },
    { when: "it has changed", before: "open", state: "absent", since: now },
    { when: "a key that was left behind is cleared", before: "orphaned", state: "absent", since: ago(5_000) },
    { when: "another replica of control has taken it over", before: "orphaned", state: "open", since: now },
  ] as const)("when $when", ({ before, state, since }) => {
    const known = before && { state: before, since: ago(5_000) };
    expect(seenStream(known, state, now)).toEqual({ state, since });
  });
});

test("nothing can be asked of a node without a stream", () => {
  const states = ["open", "reconciling", "silent", "detached", "orphaned", "absent"] as const;
  expect(states.filter(isStreamless)).toEqual(["detached", "orphaned", "absent"]);
});
