import { randomBytes } from "node:crypto";
import { createRegistry } from "@svc/registry";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startDockerRegistry } from "../../../../../registry/src/testing/docker-registry.ts";
import type { Endpoint } from "../../../http/endpoint.ts";
import { testApi } from "../../../http/testing.ts";
import { apiEndpoints } from "../../../server.ts";
import { createBucket } from "../../../stores/s3/bucket.ts";
import { startPostgres } from "../../databases/testing/postgres.ts";
import { testRunner } from "../../databases/testing/server.ts";
import { studioWithTable } from "../../databases/testing/studio.ts";
import { type Call, changes, type World, wholeAudit } from "./testing/changes.ts";

// Walks what is registered, so a new endpoint that changes something has to be told of here, and to leave its line.

const stack = new AsyncDisposableStack();
const secrets = new Set<string>();
let world: World;
beforeAll(async () => {
  const registryProcess = stack.use(await startDockerRegistry());
  const server = stack.use(await startPostgres());
  const studio = await studioWithTable(server, stack.use(testRunner()));
  // Nobody asks it for anything here.
  const bucket = createBucket(
    { clock: systemClock, random: systemRandom },
    {
      ...{ endpoint: "https://s3.test", bucket: "svc", region: "us-east-1", prefix: "" },
      ...{ accessKeyId: "key", secretAccessKey: "secret" },
    },
  );
  const api = stack.use(
    await testApi({ registryUrl: registryProcess.url, resolve: async () => ["93.184.215.14"], studio, bucket }),
  );
  const registry = stack.use(createRegistry(systemClock, { url: registryProcess.url }));
  const secret = () => {
    const text = `canary-${randomBytes(12).toString("hex")}`;
    secrets.add(text);
    return text;
  };
  world = { api, registry, actor: await api.newUser({ admin: true }), secret };
});
afterAll(() => stack.disposeAsync());

const nameOf = ({ method, path }: { method: string; path: string }) => `${method} ${path}`;
const changing = apiEndpoints.filter(({ method }) => method !== "GET");

/** By what somebody can have done it; "nothing" where nobody does it who is known. */
function waysTo({ path, access }: Endpoint): ("session" | "key" | "nothing")[] {
  if (access === "none") return ["nothing"];
  if (access === "session") return ["session"];
  return path.endsWith("/self") ? ["key"] : ["session", "key"];
}

test("every endpoint that changes something is told of, and no other", () => {
  expect(Object.keys(changes).toSorted()).toEqual(changing.map(nameOf).toSorted());
});

describe.each(changing.map((spec) => ({ route: nameOf(spec), spec })))("$route", ({ route, spec }) => {
  test.each(waysTo(spec))(
    "leaves one line that names who did it by a %s, what, to what, and from where",
    async (credential) => {
      const { api, actor } = world;
      const change = changes[route];
      if (change === undefined) throw new Error(`${route} is not in the table of changes`);
      const call = await change.arrange(world);
      const by = call.by ?? actor;
      const key = credential === "key" ? (call.key ?? (await api.newKey(by))) : null;
      secrets.add(by.session);
      if (key !== null) secrets.add(key.key);

      const { id: last } = await newestLine();
      const { status, body, text } = await api.call(spec.method, call.path, {
        ...(credential === "session" && { session: by.session }),
        ...(key !== null && { key: key.key }),
        ...(call.body !== undefined && { body: call.body }),
        ...(call.headers !== undefined && { headers: call.headers }),
      });
      expect([status, text]).toEqual([spec.status, expect.stringContaining('"ok":true')]);
      if (call.shown !== undefined) secrets.add(call.shown(body));

      const lines = await api.db.selectFrom("audit").selectAll().where("id", ">", last).execute();
      expect(lines).toEqual([
        {
          id: expect.any(Number),
          at: expect.any(Date),
          ...(credential === "nothing"
            ? { user_id: null, user_email: null, credential: null, token_id: null }
            : { user_id: by.id, user_email: by.email, credential, token_id: key?.id ?? null }),
          ...{ action: change.action, target: targetOf(call, body), address: "127.0.0.1" },
          request_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
          detail: expect.any(Object),
        },
      ]);
      const all = await wholeAudit(api);
      expect([...secrets].filter((secret) => all.includes(secret))).toEqual([]);
    },
  );
});

const targetOf = ({ target }: Call, reply: unknown): string => (typeof target === "string" ? target : target(reply));

async function newestLine(): Promise<{ id: number }> {
  const row = await world.api.db.selectFrom("audit").select("id").orderBy("id", "desc").limit(1).executeTakeFirst();
  return row ?? { id: 0 };
}

test("requests that are answered at once each have their own line", async () => {
  const { api, actor } = world;
  const calls = await Promise.all(
    Array.from({ length: 20 }, () => api.call("POST", "/tokens", { session: actor.session, body: { name: "x" } })),
  );
  const ids = calls.map(({ body }) => body.token.id as string);
  const lines = await api.db.selectFrom("audit").select(["target", "request_id"]).where("target", "in", ids).execute();
  expect(lines).toHaveLength(20);
  expect(new Set(lines.map(({ request_id }) => request_id)).size).toBe(20);
});

test("a change that is refused, or rolled back, leaves no line", async () => {
  const { api, actor } = world;
  const project = await api.newProject(actor);
  const { id: last } = await newestLine();
  const attempts = [
    await api.call("DELETE", `/admin/users/${actor.id}`, { session: actor.session }),
    await api.call("PUT", `/projects/${project.id}`, { session: actor.session, body: { slug: project.slug } }),
    await api.call("POST", `/projects/${project.id}/stop`, { session: actor.session }),
    await api.call("POST", "/admin/plans", { session: actor.session, body: { slug: "standard", name: "Again" } }),
  ];
  expect(attempts.map(({ status }) => status)).toEqual([400, 422, 409, 409]);
  expect((await newestLine()).id).toBe(last);
});
