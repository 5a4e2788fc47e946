import type { PlacementValue } from "../cluster/keys.ts";
import type { DesiredPlacement } from "../sessions/outbox.ts";

/** Test builder: the value of a placement key. */
export const aPlacementValue = (placementId: string, overrides: Partial<PlacementValue> = {}): PlacementValue => ({
  placementId,
  epoch: 1,
  desired: "running",
  kind: "serve",
  specHash: "h1",
  projectId: "5a1d0c37-0000-4000-8000-000000000001",
  ownerKind: "deployment",
  ownerId: "5a1d0c37-0000-4000-8000-000000000002",
  channel: "production",
  memoryMb: 64,
  cpuMillicores: 100,
  pidsLimit: 64,
  storageMb: 512,
  limitsGeneration: 0,
  drainSeconds: 0,
  ...overrides,
});

/** Test builder: a placement as a session holds it. */
export const aDesired = (
  placementId: string,
  { modRevision = 1n, ...overrides }: Partial<PlacementValue> & { modRevision?: bigint } = {},
): DesiredPlacement => ({ value: aPlacementValue(placementId, overrides), modRevision, createRevision: 1n });
