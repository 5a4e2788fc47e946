import { expect, test } from "vitest";
import { behindHostsMax } from "../cluster/keys.ts";
import { edgesFollowing, isCurrent } from "./progress.ts";

const hosts = ["shop.svc.localhost", "preview-shop.svc.localhost"];

test.each([
  { when: "it never reported", applied: null, is: false },
  { when: "it has an older table", applied: { generation: 4, behindHosts: [] }, is: false },
  { when: "it has the table", applied: { generation: 5, behindHosts: [] }, is: true },
  { when: "it has a newer one", applied: { generation: 6, behindHosts: [] }, is: true },
  { when: "it is behind with another host", applied: { generation: 5, behindHosts: ["b.svc.localhost"] }, is: true },
  {
    when: "it could not serve the host yet",
    applied: { generation: 5, behindHosts: ["shop.svc.localhost"] },
    is: false,
  },
  {
    when: "it is behind with more hosts than it may name",
    applied: { generation: 5, behindHosts: Array.from({ length: behindHostsMax }, (_, i) => `h${i}.svc.localhost`) },
    is: false,
  },
])("an edge is current for a deployment only if it serves it: $when", ({ applied, is }) => {
  expect(isCurrent(applied, 5, hosts)).toBe(is);
});

test("while no table is published no edge follows it, whatever it says to serve", () => {
  const applied = { generation: 0, digest: "", count: 0, behindHosts: [], appliedAt: "2026-01-01T00:00:00.000Z" };
  const following = (generation: number) =>
    edgesFollowing({ routesMeta: () => ({ generation }), edgeApplied: () => applied }, ["e1"], hosts);
  expect([following(0), following(1)]).toEqual([0, 0]);
  expect(
    edgesFollowing(
      { routesMeta: () => ({ generation: 1 }), edgeApplied: () => ({ ...applied, generation: 1 }) },
      ["e1", "e2"],
      hosts,
    ),
  ).toBe(2);
});
