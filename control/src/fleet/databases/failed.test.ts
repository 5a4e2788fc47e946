import { expect, test } from "vitest";
import type { ObservationValue, PlacementValue } from "../cluster/keys.ts";
import { lookAtFailed } from "./failed.ts";

const databaseId = "7f9ad1a4-6f5b-4f2c-8f43-0d6f9c1f2b11";
const server = { placementId: "p1", kind: "database", ownerId: databaseId, desired: "running" };

test.each([
  { when: "its server serves", says: { observed: "running", health: "healthy" }, isAsked: false },
  { when: "its server is on its way up", says: { observed: "running", health: "starting" }, isAsked: false },
  { when: "nothing is known of its server", says: null, isAsked: false },
  { when: "its server has ended", says: { observed: "failed", health: null }, isAsked: true },
  { when: "its server falls over", says: { observed: "running", health: "backoff" }, isAsked: true },
  { when: "its server does not answer", says: { observed: "running", health: "unhealthy" }, isAsked: true },
  {
    when: "its server is to go",
    is: { desired: "removed" },
    says: { observed: "failed", health: null },
    isAsked: false,
  },
  { when: "it is a site's", is: { kind: "serve" }, says: { observed: "failed", health: null }, isAsked: false },
])("a database is looked at when $when: $isAsked", async ({ says, isAsked, is = {} }) => {
  const asked: string[] = [];
  const placement = { ...server, ...is } as unknown as PlacementValue;
  const fleet = {
    placements: () => [{ nodeId: "n1", placement, modRevision: 1n }],
    observation: () => says as ObservationValue | null,
  };
  await lookAtFailed({ rows: { lookAt: async (ids) => void asked.push(...ids) }, fleet })();
  expect(asked).toEqual(isAsked ? [databaseId] : []);
});
