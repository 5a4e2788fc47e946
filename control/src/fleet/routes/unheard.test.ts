import { expect, test } from "vitest";
import { type HostFacts, isUnheard } from "./table.ts";

const aHost = (change: Partial<HostFacts> = {}): HostFacts => ({
  host: "shop.svc.localhost",
  projectId: "p1",
  channel: "production",
  redirectTo: null,
  gate: null,
  hsts: null,
  suspended: false,
  stopped: false,
  active: anImage([]),
  ...change,
});
const anImage = (upstreams: string[], isOver = false) =>
  ({ deploymentId: "d1", kind: "image", upstreams, entrances: [], isOver }) as const;

test.each<{ when: string; facts: HostFacts; unheard: boolean }>([
  { when: "nothing was heard of its containers", facts: aHost(), unheard: true },
  { when: "one answers", facts: aHost({ active: anImage(["127.0.1.1:40000"]) }), unheard: false },
  { when: "all have ended for good", facts: aHost({ active: anImage([], true) }), unheard: false },
  { when: "it is stopped anyway", facts: aHost({ stopped: true }), unheard: false },
  { when: "it is suspended anyway", facts: aHost({ suspended: true }), unheard: false },
  { when: "it leads elsewhere", facts: aHost({ redirectTo: "b.svc.localhost" }), unheard: false },
  { when: "nothing was deployed", facts: aHost({ active: null }), unheard: false },
])("whether a host is unheard of when $when: $unheard", ({ facts, unheard }) => {
  expect(isUnheard(facts)).toBe(unheard);
});
