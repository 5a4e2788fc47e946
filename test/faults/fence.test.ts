import { access, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createBootstrapTokenReply } from "@svc/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { waitFor } from "../support/wait-for.ts";
import type { Fleet } from "./support/fleet.ts";
import { recordFault } from "./support/results.ts";
import { act, answered, becomes, nodeOf, nodesOf, type Site, settled, startSite, visit } from "./support/sites.ts";
import { detectMs, healMs } from "./support/times.ts";

let fleet: Fleet;
let site: Site;
beforeAll(async () => {
  ({ fleet, site } = await startSite({ machines: 2, replicas: 1 }));
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

test("a fenced machine that comes back stops everything, forgets who it was, and may join as a new one", async () => {
  const fenced = await nodeOf(fleet, site);
  await expect(act(fleet, fenced, "force-fence", { reason: "it burns", confirm: true })).rejects.toThrow(
    "NODE_ACTION_UNAVAILABLE",
  );
  await using prober = await visit(site);
  const old = prober.answering(1_000);
  await fenced.machine.plug(false);
  await becomes(fleet, fenced, ["unreachable"], detectMs + 10_000);
  const fencedAt = prober.now();
  await act(fleet, fenced, "force-fence", { reason: "it burns", confirm: true });
  await becomes(fleet, fenced, ["fenced"], 10_000);
  await answered(prober, "another container to answer", healMs, (by) => [...by].some((one) => !old.has(one)));
  const servedAt = prober.now();
  expect((await fenced.containers()).map(({ state }) => state)).toContain("running");

  const backAt = prober.now();
  await fenced.machine.plug(true);
  await waitFor("the agent to end", healMs, () => fenced.agent?.running === false);
  const endedAt = prober.now();
  await waitFor("its containers to be stopped", healMs, async () =>
    (await fenced.containers()).every(({ state }) => state !== "running"),
  );
  await expect(access(join(fenced.machine.disk, "agent", "identity.json"))).rejects.toThrow("ENOENT");
  await expect(fenced.startAgent()).rejects.toThrow();

  const { body } = await fleet.api("POST", "/admin/nodes/bootstrap-tokens", { role: "node" });
  const tokenFile = join(fenced.machine.disk, "token");
  await writeFile(tokenFile, createBootstrapTokenReply.parse(body).bootstrapToken.token, { mode: 0o600 });
  const joined = { ...fenced, name: "node-anew" };
  await fenced.startAgent({ SVC_BOOTSTRAP_TOKEN_FILE: tokenFile, SVC_AGENT_NAME: joined.name });
  await becomes(fleet, joined, ["ready"], healMs);
  await settled(fleet, site, healMs);
  const visits = await prober.stop();
  await recordFault({
    fault: "unreachable node fenced by force; the machine comes back",
    observed: "its agent stops every container, forgets its identity and ends; with a new token it joins as a new node",
    timesMs: {
      "served by another node after fencing": servedAt - fencedAt,
      "agent ended after the machine's return": endedAt - backAt,
    },
    visits: { "one container": visits },
  });
  expect(await nodesOf(fleet, site)).not.toContain(fenced);
  expect(prober.report(servedAt + 1_000).failures).toEqual([]);
});
