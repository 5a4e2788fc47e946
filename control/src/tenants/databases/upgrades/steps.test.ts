import { expect, test } from "vitest";
import { nextUpgrades, type UpgradableServer } from "./steps.ts";

const old = (databaseId: string, change: Partial<UpgradableServer> = {}): UpgradableServer => ({
  ...{ databaseId, isCurrent: false, isServing: true, isChanging: false, hasFailed: false },
  ...change,
});
const many = (count: number) => Array.from({ length: count }, (_, at) => old(`d${at}`));
const current = { isCurrent: true };

test.each<{ when: string; servers: readonly UpgradableServer[]; begin: number; haltedBy?: string }>([
  { when: "there are none", servers: [], begin: 0 },
  { when: "all have the image", servers: [old("a", current)], begin: 0 },
  { when: "none has it yet", servers: many(100), begin: 1 },
  {
    when: "the first one is on its way",
    servers: [old("a", { isChanging: true, isServing: false }), ...many(99)],
    begin: 0,
  },
  { when: "the first one serves", servers: [old("a", current), ...many(99)], begin: 5 },
  { when: "few are there", servers: [old("a", current), ...many(3)], begin: 1 },
  { when: "a wave is under way", servers: [old("a", current), old("b", { isChanging: true }), ...many(98)], begin: 0 },
  {
    when: "the first one did not come up",
    servers: [old("a", { ...current, isServing: false, hasFailed: true }), ...many(99)],
    ...{ begin: 0, haltedBy: "a" },
  },
  {
    when: "it came up later",
    servers: [old("a", { ...current, hasFailed: true }), ...many(99)],
    begin: 5,
  },
  {
    when: "a new one begins with the image",
    servers: [old("a", { ...current, isServing: false }), ...many(9)],
    begin: 1,
  },
  { when: "the only old one is away", servers: [old("a", current), old("b", { isServing: false })], begin: 0 },
])("when $when: $begin servers are replaced", ({ servers, begin, haltedBy = null }) => {
  const round = nextUpgrades(servers);
  expect([round.begin.length, round.haltedBy]).toEqual([begin, haltedBy]);
});
