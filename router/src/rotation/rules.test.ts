import { describe, expect, test } from "vitest";
import {
  type Health,
  lacking,
  nextPhase,
  type Phase,
  type Place,
  type Possessions,
  phaseAtWord,
  unreadyReason,
} from "./rules.ts";

const times = { waitMs: 90_000, closeMs: 11_000 };

test.each<{ from: Phase; elapsedMs: number | null; leave: boolean; to: Phase }>([
  { from: "serving", elapsedMs: 0, leave: false, to: "serving" },
  { from: "serving", elapsedMs: 0, leave: true, to: "leaving" },
  { from: "leaving", elapsedMs: 89_999, leave: true, to: "leaving" },
  { from: "leaving", elapsedMs: 90_000, leave: true, to: "closing" },
  // Caddy does not have the configuration that closes.
  { from: "closing", elapsedMs: null, leave: true, to: "closing" },
  { from: "closing", elapsedMs: 10_999, leave: true, to: "closing" },
  { from: "closing", elapsedMs: 11_000, leave: true, to: "drained" },
  { from: "drained", elapsedMs: 0, leave: true, to: "drained" },
  { from: "leaving", elapsedMs: 10, leave: false, to: "serving" },
  { from: "closing", elapsedMs: null, leave: false, to: "serving" },
  { from: "drained", elapsedMs: 0, leave: false, to: "serving" },
])("$from for $elapsedMs ms, asked to leave: $leave, becomes $to", ({ from, elapsedMs, leave, to }) => {
  expect(nextPhase({ phase: from, elapsedMs }, { leave }, times)).toBe(to);
});

const place: Place = { edgeId: "e1", generation: 2, leave: true, inRotation: false };
test.each<{ what: string; next: Partial<Place>; phase: Phase }>([
  { what: "the same drain again", next: {}, phase: "closing" },
  { what: "another drain", next: { generation: 3 }, phase: "serving" },
  { what: "a drain of another identity", next: { edgeId: "e2" }, phase: "serving" },
  { what: "the end of the drain", next: { generation: 3, leave: false }, phase: "closing" },
])("$what finds an edge that was closing in the phase $phase", ({ next, phase }) => {
  expect(phaseAtWord({ place, phase: "closing" }, { ...place, ...next })).toBe(phase);
});

describe("a new edge", () => {
  const has: Possessions = { behind: 0, coming: 0, tableForMs: 0, gates: 0, untold: [], certificateProblem: null };
  test.each<{ but: Partial<Possessions>; lacks: string }>([
    { but: {}, lacks: "" },
    { but: { behind: null }, lacks: "the route table" },
    { but: { behind: 3, coming: 2 }, lacks: "what 3 hosts serve" },
    { but: { behind: 3, tableForMs: 599_999 }, lacks: "what 3 hosts serve" },
    // Their files cannot be had, and nobody knows when.
    { but: { behind: 3, tableForMs: 600_000 }, lacks: "" },
    { but: { behind: 3, coming: 1, tableForMs: 600_000 }, lacks: "what 3 hosts serve" },
    { but: { untold: ["certificates", "salts"] }, lacks: "certificates, salts" },
    { but: { gates: 1 }, lacks: "the passwords of 1 sites" },
    { but: { certificateProblem: "a certificate is damaged" }, lacks: "a certificate is damaged" },
  ])("with $but lacks: $lacks", ({ but, lacks }) => {
    expect(lacking({ ...has, ...but })).toBe(lacks);
  });
});

describe("health", () => {
  const well: Health = {
    ...{ caddyConfigured: true, hasTable: true, certificateProblem: null },
    ...{ clockBehindMs: -5, phase: "serving", inRotation: true },
  };
  test.each<{ but: Partial<Health>; says: RegExp }>([
    { but: {}, says: /^$/ },
    { but: { caddyConfigured: false }, says: /Caddy/ },
    { but: { hasTable: false }, says: /no route table/ },
    { but: { certificateProblem: "a certificate is damaged" }, says: /damaged/ },
    { but: { clockBehindMs: 60_001 }, says: /clock/ },
    { but: { inRotation: false }, says: /not in rotation/ },
    { but: { phase: "leaving", inRotation: false }, says: /being drained/ },
    { but: { phase: "closing", inRotation: false }, says: /being drained/ },
    { but: { phase: "drained", inRotation: false, caddyConfigured: false }, says: /is drained/ },
  ])("with $but says $says", ({ but, says }) => {
    expect(unreadyReason({ ...well, ...but })).toMatch(says);
  });
});
