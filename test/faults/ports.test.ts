import { afterAll, beforeAll, expect, test } from "vitest";
import { waitFor } from "../support/wait-for.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { recordFault } from "./support/results.ts";
import { act, becomes, containersOf, deploySite, edgeOf, publishedAt, settled, visit } from "./support/sites.ts";
import { healMs } from "./support/times.ts";

// A node with two ports: what is given up is soon asked for again.

let fleet: Fleet;
beforeAll(async () => {
  fleet = await startFleet({ machines: 1, agent: { SVC_AGENT_PORTS: "23000-23001" } });
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

test("an agent that was killed does not hand out a port that a frozen edge still names for another site", async () => {
  const [node] = fleet.nodes;
  if (node === undefined) throw new Error("there is no node");
  const gone = await deploySite(fleet, 1, "gone");
  const [held] = await settled(fleet, gone, healMs);
  if (held === undefined) throw new Error("the site runs nowhere");
  const former = await publishedAt(held);

  await using prober = await visit(gone, 20);
  fleet.program("router").kill("SIGSTOP");
  // Its operator says that nobody is to wait for the edge; visitors come through it all the same.
  const edge = await edgeOf(fleet);
  await act(fleet, edge, "cordon", { reason: "it hangs" });
  const deleted = await fleet.api("DELETE", `/projects/${gone.projectId}`);
  expect(deleted.status, JSON.stringify(deleted.body)).toBeLessThan(300);
  await waitFor("the container to be gone", healMs, async () => (await containersOf(fleet, gone)).length === 0);
  const goneAt = prober.now();

  node.agent?.kill("SIGKILL");
  await node.agent?.ended;
  await node.startAgent();
  await becomes(fleet, node, ["ready"], healMs);
  // It does not get as far as the edge.
  const coming = deploySite(fleet, 1, "coming");
  coming.catch(() => {});
  const next = await waitFor("a container of the next site", healMs, async () => {
    const all = (await node.containers()).filter(({ kind, state }) => kind === "serve" && state === "running");
    return all.find(({ project }) => project !== gone.projectId);
  });
  const latter = await publishedAt({ ...next, node });
  const strayed = (by: ReadonlySet<string>) => [...by].filter((each) => each === next.hostname);
  const sinceMs = prober.now();
  await waitFor("visits after that", healMs, () => prober.now() - sinceMs > 5_000);
  expect(strayed(prober.answering(prober.now()))).toEqual([]);
  expect(latter.port).not.toBe(former.port);

  fleet.program("router").kill("SIGCONT");
  await act(fleet, edge, "uncordon");
  await becomes(fleet, edge, ["ready"], healMs);
  const site = await coming;
  await using fresh = await visit(site);
  expect([...fresh.answering(fresh.now())]).toEqual([next.hostname]);
  expect(strayed(prober.answering(prober.now()))).toEqual([]);
  const visits = await prober.stop();
  await recordFault({
    fault: "router stopped (SIGSTOP) while a site goes, the agent is killed and another site comes",
    observed: "visitors of the site that went reach nobody, and never the other one",
    timesMs: { "the container was gone after": goneAt },
    visits: { "the site that went": { ...visits, failures: [] } },
  });
});
