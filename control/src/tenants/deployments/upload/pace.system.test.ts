import { connect, type Socket } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type RegistryProcess, startDockerRegistry } from "../../../../../registry/src/testing/docker-registry.ts";
import { type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import type { Project } from "../../../stores/db/tables.ts";
import { aSource, aSourceOf, codeOf, formOf, manifestOf, raw, storedSources } from "../testing/source.ts";

const pace = { bytesPerSecondMin: 10_000, windowMs: 500 };
let registry: RegistryProcess;
let api: TestApi;
let user: TestUser;

beforeAll(async () => {
  registry = await startDockerRegistry();
  api = await testApi({
    registryUrl: registry.url,
    uploads: { ...pace, inAllMax: 5 },
  });
  user = await api.newUser();
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await registry[Symbol.asyncDispose]();
});
afterEach(() => api.db.deleteFrom("deployment").execute());

/** A client that writes its own HTTP, so it can write badly. */
interface RawClient {
  socket: Socket;
  /** All that came back so far. */
  answer(): string;
  isClosed(): boolean;
}

const manifest = raw.text("manifest", JSON.stringify(manifestOf("ssr")));
const sourceHead = raw.file("source", "").subarray(0, -2);

const upload = (project: Pick<Project, "id">, owner: TestUser, ...parts: Uint8Array[]) =>
  uploadTo(api, project, owner, ...parts);

function uploadTo({ url }: TestApi, project: Pick<Project, "id">, owner: TestUser, ...parts: Uint8Array[]): RawClient {
  const { hostname, port } = new URL(url);
  const head = [
    `POST /api/v1/projects/${project.id}/deployments HTTP/1.1`,
    "Host: x",
    `Authorization: Bearer ${owner.session}`,
    `Content-Type: ${raw.type}`,
    "Content-Length: 1000000",
    "",
    "",
  ].join("\r\n");
  let answer = "";
  let closed = false;
  const socket = connect(Number(port), hostname);
  // Not once it is connected: what a test writes meanwhile would go before it.
  socket.write(Buffer.concat([Buffer.from(head), ...parts]));
  socket.on("data", (chunk) => {
    answer += String(chunk);
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    closed = true;
  });
  return { socket, answer: () => answer, isClosed: () => closed };
}

async function expectNothing(project: Pick<Project, "id">, { db }: Pick<TestApi, "db"> = api): Promise<void> {
  await expect.poll(() => storedSources(registry, project.id)).toEqual([]);
  expect(await db.selectFrom("deployment").select("id").where("project_id", "=", project.id).execute()).toEqual([]);
  // What was announced to be pushed is known to have come to nothing.
  const open = db
    .selectFrom("artifact")
    .select("id")
    .where("project_id", "=", project.id)
    .where("ended_at", "is", null);
  await expect.poll(() => open.execute()).toEqual([]);
}

describe("a slow upload is ended, and leaves nothing", () => {
  test.each([
    { when: "in the middle of the archive", parts: [manifest, sourceHead, aSource().subarray(0, 500)] },
    { when: "before its first part", parts: [] },
    { when: "between two parts", parts: [manifest] },
  ])("that stands still $when", async ({ parts }) => {
    const project = await api.newProject(user);
    const client = upload(project, user, ...parts);
    await expect
      .poll(client.answer, { timeout: 5_000 })
      .toMatch(/^HTTP\/1.1 408 [\s\S]*connection: close[\s\S]*bytes per second/);
    client.socket.end();
    await expect.poll(client.isClosed).toBe(true);
    await expectNothing(project);
  });

  test("that drips", async () => {
    const project = await api.newProject(user);
    const client = upload(project, user, manifest, sourceHead, aSource().subarray(0, 500));
    const dripping = setInterval(() => client.socket.write("x"), 50);
    await expect.poll(client.answer).toContain("bytes per second");
    clearInterval(dripping);
    client.socket.destroy();
    await expectNothing(project);
  });

  test("that is fast enough, and takes too long in all", async () => {
    // The others have no such end, which might come before what they wait for.
    await using brief = await testApi({ registryUrl: registry.url, uploads: { ...pace, totalMs: 2_500 } });
    const owner = await brief.newUser();
    const project = await brief.newProject(owner);
    const source = aSourceOf(500_000);
    const client = uploadTo(brief, project, owner, manifest, sourceHead);
    let sent = 0;
    const sending = setInterval(() => {
      client.socket.write(source.subarray(sent, sent + 600));
      sent += 600;
    }, 20);
    await expect.poll(client.answer).toMatch(/^HTTP\/1.1 408 [\s\S]*took longer than/);
    clearInterval(sending);
    client.socket.destroy();
    await expectNothing(project, brief);
  });
});

test("a client that goes away leaves nothing, wherever it was", async () => {
  const body = Buffer.concat([manifest, raw.file("source", aSource())]);
  for (const share of [0, 0.05, 0.2, 0.5, 0.99]) {
    const project = await api.newProject(user);
    const client = upload(project, user, body.subarray(0, body.length * share));
    await expect.poll(() => client.socket.bytesWritten).toBeGreaterThan(0);
    client.socket.destroy();
    await expectNothing(project);
  }
});

test("so many uploads may be under way of one user, and of everybody; a place is free again when its upload is over", async () => {
  // Patient with those that stand still, so that they keep their places while they are counted.
  await using patient = await testApi({ registryUrl: registry.url, uploads: { inAllMax: 5 } });
  const owner = await patient.newUser();
  const other = await patient.newUser();
  const third = await patient.newUser();
  const project = await patient.newProject(owner);
  const otherProject = await patient.newProject(other);
  const thirdProject = await patient.newProject(third);
  const standing = (to: Pick<Project, "id">, by: TestUser) => uploadTo(patient, to, by, manifest, sourceHead);
  const answersOf = (clients: readonly RawClient[]) =>
    clients.map((client) => client.answer()).filter((answer) => answer !== "");
  const clients = Array.from({ length: 4 }, () => standing(project, owner));
  await expect
    .poll(() => answersOf(clients), { timeout: 5_000 })
    .toEqual([expect.stringMatching(/^HTTP\/1.1 429 [\s\S]*RATE_LIMITED/)]);
  const more = Array.from({ length: 3 }, () => standing(otherProject, other));
  await expect
    .poll(() => answersOf(more), { timeout: 5_000 })
    .toEqual([expect.stringMatching(/^HTTP\/1.1 503 [\s\S]*UNAVAILABLE/)]);
  const attempt = async (user: TestUser, to: Project) =>
    codeOf(await patient.call("POST", `/projects/${to.id}/deployments`, { session: user.session, body: formOf() }));
  expect(await attempt(third, thirdProject)).toEqual([503, "UNAVAILABLE"]);
  for (const { socket } of [...clients, ...more]) socket.destroy();
  await expect.poll(() => attempt(owner, project)).toEqual([202, undefined]);
});
