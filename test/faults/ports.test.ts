import { afterAll, beforeAll, expect, test } from "vitest";
import { waitFor } from "../support/wait-for.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { recordFault } from "./support/results.ts";
import { act, becomes, containersOf, deploySite, edgeOf, publishedAt, settled, visit } from "./support/sites.ts";
import { healMs } from "./support/times.ts";

// A node with two ports: what is given up is soon asked for again.

/** Two deploys on a busy machine take minutes. */
const hangsMs = 1_200_000;

let fleet: Fleet;
beforeAll(async () => {
  fleet = await startFleet({ machines: 1, agent: { SVC_AGENT_PORTS: "23000-23001" } });
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

test("an agent that was killed does not hand out a port that a frozen edge still names for another site", {
  timeout: hangsMs,
}, async () => {
  const [node] = fleet.nodes;
  if (node === undefined) throw new Error("there is no node");
  const gone = await deploySite(fleet, 1, "gone");
  const [held] = await settled(fleet, gone, healMs);
  if (held === undefined) throw new Error("the site runs nowhere");
  const former = await publishedAt(held);

  await using prober = await visit(gone, 20);
  fleet.program("router").kill("SIGSTOP");
  const deleted = await fleet.api("DELETE", `/projects/${gone.projectId}`);
  expect(deleted.status, JSON.stringify(deleted.body)).toBeLessThan(300);
  const restart = async () => {
    node.agent?.kill("SIGKILL");
    await node.agent?.ended;
    await node.startAgent();
    await becomes(fleet, node, ["ready"], healMs);
  };
  await restart();
  // Nothing of it goes while the edge may send visitors there, and they reach what they asked for.
  expect((await containersOf(fleet, gone)).map(({ id }) => id)).toEqual([held.id]);
  expect(prober.report().failures).toEqual([]);

  // Its operator says that the edge is off, which is not so: it names that port for as long as it hangs.
  const edge = await edgeOf(fleet);
  await becomes(fleet, edge, ["unreachable"], healMs);
  await act(fleet, edge, "force-fence", { reason: "it hangs", confirm: true });
  await waitFor("the container to be gone", healMs, async () => (await containersOf(fleet, gone)).length === 0);
  const goneAt = prober.now();
  await restart();
  // Without an edge it does not serve; that its container runs is enough. What the command says when it fails is told.
  const coming = deploySite(fleet, 1, "coming");
  const started = waitFor("a container of the next site", hangsMs, async () => {
    const all = (await node.containers()).filter(({ kind, state }) => kind === "serve" && state === "running");
    return all.find(({ project }) => project !== gone.projectId);
  });
  const next = await Promise.race([started, coming.then(() => started)]);
  const latter = await publishedAt({ ...next, node });
  const strayed = (by: ReadonlySet<string>) => [...by].filter((each) => each === next.hostname);
  const sinceMs = prober.now();
  await waitFor("visits after that", healMs, () => prober.now() - sinceMs > 5_000);
  expect(strayed(prober.answering(prober.now()))).toEqual([]);
  expect(latter.port).not.toBe(former.port);

  const visits = await prober.stop();
  await recordFault({
    fault: "router stopped (SIGSTOP) and fenced while a site goes, the agent is killed and another site comes",
    observed:
      "the site stays until the edge is fenced; from then on its visitors reach nobody, and never the other one",
    timesMs: { "the container was gone after": goneAt },
    visits: { "the site that went": { ...visits, failures: [] } },
  });
});
