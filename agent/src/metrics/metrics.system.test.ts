import { afterAll, beforeAll, expect, test } from "vitest";
import { type Agent, start } from "../start.ts";
import { createTestNode, type TestNode } from "../testing/agent.ts";
import { createTestControl, type TestControl } from "../testing/control.ts";

let node: TestNode;
let control: TestControl;
let agent: Agent;
beforeAll(async () => {
  node = await createTestNode({ SVC_METRICS_LISTEN: "127.0.0.1:0" });
  control = createTestControl({ registryHost: "registry.test" });
  agent = await start(node.config, { openLink: control.openLink });
  await agent.ready;
});
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  await node?.[Symbol.asyncDispose]();
});

const ask = (path: string) => fetch(`http://127.0.0.1:${agent.metricsPort}${path}`);
const seriesOf = async (series: string): Promise<number | null> => {
  const line = (await (await ask("/metrics")).text()).split("\n").find((each) => each.startsWith(`${series} `));
  return line === undefined ? null : Number(line.slice(series.length + 1));
};

test("an agent tells of its session, its engine, its journal and its disks", async () => {
  expect(await seriesOf("svc_agent_connected")).toBe(1);
  expect(await seriesOf("svc_agent_sessions_total")).toBe(1);
  expect(await seriesOf('svc_agent_engine_call_seconds_count{call="describe"}')).toBeGreaterThan(0);
  expect(await seriesOf('svc_agent_disk_free_bytes{disk="state"}')).toBeGreaterThan(0);
  expect(await seriesOf('svc_agent_journal_rows{table="placement"}')).toBe(0);
  expect(await seriesOf("svc_agent_reporter_backlog")).toBe(0);
  expect((await ask("/readyz")).status).toBe(200);
  expect((await ask("/healthz")).status).toBe(200);
  expect((await ask("/anything")).status).toBe(404);
});

test("renewals tell control this machine's clock, and the agent how long the answer took", async () => {
  await expect.poll(() => seriesOf("svc_agent_renew_seconds_count")).toBeGreaterThan(0);
  const [renewal] = control.renewals;
  expect(Math.abs(Number(renewal?.wallMs) - Date.now())).toBeLessThan(15_000);
});

test("a session that is lost and found is one more, and in between the agent lives and is not ready", async () => {
  control.hangUp();
  await expect.poll(() => seriesOf("svc_agent_sessions_total"), { interval: 20 }).toBe(2);
  expect(await seriesOf("svc_agent_connected")).toBe(1);
});
