import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { RuntimeLog } from "../../fleet/agents/runtime-log.ts";
import { type Answer, type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import type { Deployment, Project } from "../../stores/db/tables.ts";

const running: RuntimeLog = { text: "one\ntwo\n", lines: 2, state: "running", exit: null };
const exit = { code: 7, oomKilled: false, reason: "The app exited with code 7.", at: "2030-01-01T00:00:00.000Z" };
const exited: RuntimeLog = { text: "goodbye\n", lines: 1, state: "exited", exit };
const absent: RuntimeLog = { text: "", lines: 0, state: "absent", exit: null };

const asked: [string, string, number][] = [];
/** What the node says of a container; `running` unless set. */
const answers = new Map<string, RuntimeLog>();
let connected = true;
/** Whose node does not answer. */
const silent = new Set<string>();
let api: TestApi;
let owner: TestUser;
let project: Project;
beforeAll(async () => {
  api = await testApi({
    fleet: { isConnected: () => connected },
    queryLog: async (nodeId, taskId, lines) => {
      asked.push([nodeId, taskId, lines]);
      if (silent.has(taskId)) throw new Error("no answer from 10.0.0.1");
      return answers.get(taskId) ?? running;
    },
  });
  owner = await api.newUser();
});
afterAll(() => api[Symbol.asyncDispose]());
beforeEach(async () => {
  asked.length = 0;
  answers.clear();
  silent.clear();
  project = await api.newProject(owner);
});

/** A deployment with one container, on a node of its own. */
async function newContainer(
  values: Partial<Deployment> = {},
  desired: "running" | "removed" = "running",
): Promise<{ deploymentId: string; nodeId: string; taskId: string }> {
  const deployment = await api.newDeployment(project, { status: "running", ...values });
  const nodeId = randomUUID();
  const { id: taskId } = await api.db
    .insertInto("task")
    .values({
      ...{
        project_id: project.id,
        owner_kind: "deployment",
        owner_id: deployment.id,
        kind: "serve",
        channel: deployment.channel,
      },
      ...{ spec: "{}", spec_hash: "x", memory_mb: 1, cpu_millicores: 1, pids_limit: 1, node_id: nodeId, desired },
    })
    .returning("id")
    .executeTakeFirstOrThrow();
  return { deploymentId: deployment.id, nodeId, taskId };
}

/** One that its channel serves, or would after a start. */
async function newServing({ stopped = false, ...values }: Partial<Deployment> & { stopped?: boolean } = {}) {
  const container = await newContainer(values, stopped ? "removed" : "running");
  await api.db
    .insertInto("channel_state")
    .values({
      project_id: project.id,
      channel: values.channel ?? "production",
      pr_number: values.pr_number ?? 0,
      deployment_id: container.deploymentId,
      stopped,
    })
    .execute();
  return container;
}

const read = (query = "") =>
  api.call("GET", `/projects/${project.id}/runtime-logs${query}`, { session: owner.session });
const refusal = ({ status, body }: Answer) => [status, body.error?.code];
const unavailable = [409, "RUNTIME_LOGS_UNAVAILABLE"];

test("come from the container that production serves", async () => {
  await newContainer({ status: "superseded" }, "removed");
  const { nodeId, taskId } = await newServing();
  expect((await read()).body).toEqual({ ok: true, log: "one\ntwo\n", lines: 2, state: "running", exit: null });
  expect(asked).toEqual([[nodeId, taskId, 200]]);
});

test.each([
  ["?lines=0", 1],
  ["?lines=-5", 1],
  ["?lines=50", 50],
  ["?lines=99999", 2000],
  ["", 200],
  ["?lines=7&lines=7", 7],
])("%s asks for %s lines", async (query, lines) => {
  await newServing();
  await read(query);
  expect(asked[0]?.[2]).toBe(lines);
});

test.each([
  { query: "?lines=abc", says: "lines: is not a whole number" },
  { query: "?lines=1e3", says: "lines: is not a whole number" },
  { query: "?lines=", says: "lines: is not a whole number" },
  { query: "?lines=5&lines=6", says: "lines: is there more than once" },
  { query: "?channel=dev&channel=preview", says: "channel: is there more than once" },
])("$query is refused with a plain sentence", async ({ query, says }) => {
  const { status, body } = await read(query);
  expect([status, body.error.code, body.error.message]).toEqual([422, "VALIDATION", says]);
});

test("of a suspended project end with that", async () => {
  const { taskId } = await newServing();
  answers.set(taskId, exited);
  const suspended = { suspended_at: new Date(), suspend_reason: "quota" } as const;
  await api.db.updateTable("project").set(suspended).where("id", "=", project.id).execute();
  // What runs until every edge shows the page still writes.
  answers.set(taskId, running);
  expect((await read()).status).toBe(200);
  await api.db.updateTable("task").set({ desired: "removed" }).where("id", "=", taskId).execute();
  answers.set(taskId, absent);
  for (const query of ["", "?exited=true"]) {
    const { status, body } = await read(query);
    expect([status, body.error.code]).toEqual([409, "RUNTIME_LOGS_UNAVAILABLE"]);
    expect(body.error.message).toContain("The project is suspended: this month's quota is used up");
  }
});

test("come from no other channel than the one that was named", async () => {
  const dev = await newServing({ channel: "dev" });
  expect(refusal(await read())).toEqual(unavailable);
  expect(refusal(await read("?channel=preview&exited=true"))).toEqual(unavailable);
  expect(asked).toEqual([]);
  expect((await read("?channel=dev")).status).toBe(200);
  expect(asked[0]?.[1]).toBe(dev.taskId);
  expect((await read("?channel=staging")).status).toBe(422);
});

test("come from the preview of one pull request", async () => {
  const first = await newServing({ channel: "preview", pr_number: 1 });
  const second = await newServing({ channel: "preview", pr_number: 2 });
  await read(`?deployment=${first.deploymentId}`);
  await read(`?channel=preview&deployment=${second.deploymentId}`);
  // Without one it is the newest.
  await read("?channel=preview");
  expect(asked.map(([, taskId]) => taskId)).toEqual([first.taskId, second.taskId, second.taskId]);
  expect((await read(`?channel=dev&deployment=${first.deploymentId}`)).status).toBe(404);
  expect((await read(`?deployment=${randomUUID()}`)).status).toBe(404);
  project = await api.newProject(owner);
  expect((await read(`?deployment=${first.deploymentId}`)).status).toBe(404);
});

test("are not to be had of a static site, which is told so", async () => {
  project = await api.newProject(owner, { type: "static" });
  await api.newDeployment(project, { status: "running" });
  const { status, body } = await read();
  expect([status, body.error.code]).toEqual([409, "RUNTIME_LOGS_UNAVAILABLE"]);
  expect(body.error.message).toContain("static site has no container");
});

test("are not there when nothing ever ran, or it was told to stop", async () => {
  for (const query of ["", "?exited=true"]) expect(refusal(await read(query))).toEqual(unavailable);
  const { taskId } = await newServing({ status: "stopped", stopped: true });
  answers.set(taskId, absent);
  for (const query of ["", "?exited=true"]) expect(refusal(await read(query))).toEqual(unavailable);
  answers.set(taskId, { ...exited, exit: null });
  expect(refusal(await read("?exited=true"))).toEqual(unavailable);
});

test("of a container that crashed are refused with its reason, and shown when asked for", async () => {
  const { taskId } = await newServing();
  answers.set(taskId, exited);
  const refused = await read();
  expect(refusal(refused)).toEqual(unavailable);
  expect(refused.body.error.message).toContain("The app exited with code 7. Ask again with exited=true");
  expect((await read("?exited=true")).body).toEqual({ ok: true, log: "goodbye\n", lines: 1, state: "exited", exit });
});

/** A second container of a deployment, on a node of its own. */
async function newReplica(deploymentId: string): Promise<string> {
  const of = { project_id: project.id, owner_kind: "deployment", owner_id: deploymentId, kind: "serve" } as const;
  const limits = { memory_mb: 1, cpu_millicores: 1, pids_limit: 1 };
  const row = { ...of, ...limits, channel: "production" as const, replica: 1, spec: "{}", spec_hash: "x" };
  const { id } = await api.db
    .insertInto("task")
    .values({ ...row, node_id: randomUUID() })
    .returning("id")
    .executeTakeFirstOrThrow();
  return id;
}

test.each(["first", "second"])(
  "of several replicas come from one that answers, when the node of the %s does not",
  async (which) => {
    const { deploymentId, taskId } = await newServing();
    const other = await newReplica(deploymentId);
    silent.add(which === "first" ? taskId : other);
    expect((await read()).body).toMatchObject({ log: running.text, state: "running" });
    silent.add(taskId).add(other);
    expect(refusal(await read())).toEqual([502, "RUNTIME_LOGS_UNAVAILABLE"]);
  },
);

test("of several replicas come from one that runs", async () => {
  const { deploymentId, taskId } = await newServing();
  answers.set(taskId, exited);
  const id = await newReplica(deploymentId);
  expect((await read("?exited=true")).body.state).toBe("running");
  answers.set(id, absent);
  expect((await read()).body.error.message).not.toContain("exited");
});

test("of a deployment that failed are shown when asked for, also while the one before it serves", async () => {
  const failed = await newContainer(
    { status: "failed", error: "The app exited with code 7. Last lines:\nboom" },
    "removed",
  );
  answers.set(failed.taskId, exited);
  const refused = await read();
  expect(refusal(refused)).toEqual(unavailable);
  expect(refused.body.error.message).toContain("did not come up: The app exited with code 7. Ask again");
  expect(refused.body.error.message).not.toContain("boom");
  expect((await read("?exited=true")).body).toMatchObject({ state: "exited", exit });

  await newServing();
  expect((await read("?exited=true")).body.state).toBe("running");
  const query = `?deployment=${failed.deploymentId}`;
  expect(refusal(await read(query))).toEqual(unavailable);
  expect((await read(`${query}&exited=true`)).body.state).toBe("exited");
});

test("are not there when the node does not answer, which says nothing about the node", async () => {
  const { taskId } = await newServing();
  silent.add(taskId);
  const answer = await read();
  expect(refusal(answer)).toEqual([502, "RUNTIME_LOGS_UNAVAILABLE"]);
  expect(answer.text).not.toContain("10.0.0.1");
  asked.length = 0;
  connected = false;
  expect(refusal(await read())).toEqual([502, "RUNTIME_LOGS_UNAVAILABLE"]);
  connected = true;
  expect(asked).toEqual([]);
});
