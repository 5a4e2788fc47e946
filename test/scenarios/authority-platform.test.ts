import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../cluster.ts";
import { waitFor } from "../support/wait-for.ts";

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ agents: 2 });
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

test("an operator replaces the authority: agents and the router move by themselves and stay connected", async () => {
  const caOf = async () => (await cluster.api("GET", "/admin/ca")).body["ca"] as { sha256: string; rotation: unknown };
  const statuses = async () => {
    const { nodes } = (await cluster.api("GET", "/admin/nodes")).body as { nodes: { name: string; status: string }[] };
    return nodes.map(({ status }) => status);
  };
  const before = await caOf();
  await waitFor("every machine to be ready", 30_000, async () =>
    (await statuses()).every((status) => status === "ready"),
  );
  const { exitCode, stdout } = await cluster.cli(["admin", "ca", "rotate", "--yes"]);
  expect([exitCode, stdout]).toEqual([0, expect.stringContaining("Replacing the authority")]);
  const seen = new Set<string>();
  const after = await waitFor("the replacement to come to its end", 90_000, async () => {
    for (const status of await statuses()) seen.add(status);
    const ca = await caOf();
    return ca.rotation === null && ca;
  });
  expect(after.sha256).not.toBe(before.sha256);
  // Another session is reconciled before its node gets anything new, which takes a moment; nobody is lost.
  expect([...seen].filter((status) => status !== "ready" && status !== "suspect")).toEqual([]);
  // Once more, so that they forget the authority before.
  await waitFor("every machine to be ready again", 30_000, async () =>
    (await statuses()).every((status) => status === "ready"),
  );
  const { stdout: told } = await cluster.cli(["admin", "ca", "show"]);
  expect(told).toContain("It replaced another one");
});
