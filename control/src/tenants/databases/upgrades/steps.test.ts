import { expect, test } from "vitest";
import { nextUpgrades, type UpgradableServer } from "./steps.ts";

const old = (databaseId: string, change: Partial<UpgradableServer> = {}): UpgradableServer => ({
  ...{ databaseId, isCurrent: false, isMeant: true, isServing: true, isReplaceable: true },
  ...{ isChanging: false, isUpgrading: false, upgraded: null },
  ...change,
});
const many = (count: number) => Array.from({ length: count }, (_, at) => old(`d${at}`));
const current = { isCurrent: true };
const upgraded = { ...current, upgraded: "done" } as const;
const failed = { ...current, upgraded: "failed" } as const;
const underWay = { isServing: false, isChanging: true, isUpgrading: true };

test.each<{ when: string; servers: readonly UpgradableServer[]; begin: number; haltedBy?: string }>([
  { when: "there are none", servers: [], begin: 0 },
  { when: "all have the image", servers: [old("a", current)], begin: 0 },
  { when: "none has it yet", servers: many(100), begin: 1 },
  { when: "only new ones have it", servers: [old("a", current), ...many(99)], begin: 1 },
  { when: "the first one ends", servers: [old("a", underWay), ...many(99)], begin: 0 },
  { when: "the first one begins anew", servers: [old("a", { ...underWay, ...current }), ...many(99)], begin: 0 },
  { when: "the first one serves", servers: [old("a", upgraded), ...many(99)], begin: 5 },
  { when: "few are there", servers: [old("a", upgraded), ...many(3)], begin: 1 },
  { when: "a wave is under way", servers: [old("a", upgraded), old("b", underWay), ...many(98)], begin: 0 },
  {
    when: "the first one did not come up",
    servers: [old("a", { ...failed, isServing: false }), ...many(99)],
    ...{ begin: 0, haltedBy: "a" },
  },
  {
    when: "the first one's project was suspended",
    servers: [old("a", { upgraded: "failed", isMeant: false, isServing: false }), ...many(99)],
    begin: 1,
  },
  { when: "it came up later", servers: [old("a", failed), ...many(99)], begin: 1 },
  { when: "one's machine takes none", servers: [old("a", { isReplaceable: false }), old("b")], begin: 1 },
  { when: "no machine takes any", servers: [old("a", { isReplaceable: false })], begin: 0 },
  { when: "one moves", servers: [old("a", upgraded), old("b", { isChanging: true })], begin: 0 },
  { when: "the only old one is away", servers: [old("a", upgraded), old("b", { isServing: false })], begin: 0 },
])("when $when: $begin servers are replaced", ({ servers, begin, haltedBy = null }) => {
  const round = nextUpgrades(servers);
  expect([round.begin.length, round.haltedBy]).toEqual([begin, haltedBy]);
});
