import { randomUUID } from "node:crypto";
import { limits } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../../http/testing.ts";
import { CannotOpen } from "../../stores/secrets.ts";
import { createPlacementLoader, findLogBytesMax, PlacementUnreadable } from "./assignment.ts";
import { envAad } from "./environment.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api?.[Symbol.asyncDispose]());

const spec = {
  ...{ kind: "serve", repository: "svc/shop/app", digest: `sha256:${"0".repeat(64)}`, registryHost: null },
  ...{ command: [], port: 8080, health: { path: "/", timeoutSeconds: 60 }, maxImageMb: 100 },
};

/** A container whose deployment has the variable NAME, sealed for the deployment `sealedFor` (its own by default). */
async function aTask(name: string, sealedFor?: string): Promise<string> {
  const { db, secrets } = api.context;
  const project = await api.newProject(await api.newUser(), { type: "ociimage" });
  const deployment = await api.newDeployment(project, { status: "running" });
  const env = secrets.seal(Buffer.from(JSON.stringify({ NAME: name })), envAad(sealedFor ?? deployment.id));
  await db.updateTable("deployment").set({ env }).where("id", "=", deployment.id).execute();
  const task = await api.newTask(deployment);
  await db
    .updateTable("task")
    .set({ spec: JSON.stringify(spec) })
    .where("id", "=", task.id)
    .execute();
  return task.id;
}

test("each of many that are asked for at once gets its own; what is wrong with one is not the others'", async () => {
  const { db, secrets } = api.context;
  const load = createPlacementLoader(systemClock, {
    ...{
      db,
      secrets,
      registryHost: "registry.test",
      baseImage: "node:24-slim",
      builderImage: "node:24",
      buildCaBundle: "",
      gatePass: () => "",
    },
  });
  const names = ["one", "two", "three"];
  const ids = await Promise.all(names.map((name) => aTask(name)));
  const unreadable = await aTask("four", randomUUID());
  const [broken, gone, noId, ...found] = await Promise.allSettled([
    load(unreadable),
    load(randomUUID()),
    load("no id"),
    ...ids.map(load),
  ]);
  expect(found).toMatchObject(
    names.map((name, index) => ({
      value: {
        placementId: ids[index],
        ownerKind: "deployment",
        ownerId: expect.any(String),
        spec: { case: "serve", value: { env: { NAME: name }, redact: [name] } },
      },
    })),
  );
  expect(broken).toMatchObject({ status: "rejected", reason: { cause: expect.any(CannotOpen) } });
  expect(broken).toHaveProperty("reason", expect.any(PlacementUnreadable));
  expect([gone, noId]).toEqual([
    { status: "fulfilled", value: null },
    { status: "fulfilled", value: null },
  ]);
});

test("a node writes the logs of its own work, each under one name, and of a run no more than is shown", async () => {
  const { db } = api.context;
  const [nodeId, other] = [randomUUID(), randomUUID()];
  const task = await aTask("one");
  await db.updateTable("task").set({ node_id: nodeId }).where("id", "=", task).execute();
  const deployment = await api.newDeployment(await api.newProject(await api.newUser()));
  await api.newRun(deployment, { number: 1, node_id: randomUUID() });
  const { id: run } = await api.newRun(deployment, { number: 2, node_id: nodeId });
  const mine = [task, run];
  const strays = [
    ...["", "no id", "-".repeat(36), randomUUID(), task.toUpperCase(), `${task}.1`, `${task}.`, ` ${task}`],
    ...["", ".1", ".2"].map((end) => `${deployment.id}${end}`),
    ...[run.toUpperCase(), `${run} `, `${run}.1`],
  ];
  const owned = async (id: string) => {
    const found: [string, number][] = [];
    for (const stream of [...mine, ...strays]) {
      const bytesMax = await findLogBytesMax(db, id, stream);
      if (bytesMax !== null) found.push([stream, bytesMax]);
    }
    return found;
  };
  expect(await owned(nodeId)).toEqual([
    [task, limits.buildLogBytesMax],
    [run, limits.jobLogBytesMax],
  ]);
  expect(await owned(other)).toEqual([]);
});
