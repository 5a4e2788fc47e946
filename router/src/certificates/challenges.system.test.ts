import { create } from "@bufbuild/protobuf";
import { ChallengeSchema } from "@svc/proto/edge";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestEdge, type TestEdge } from "../testing/edge.ts";
import { ask } from "../testing/http.ts";
import { aPage, aProxy, aRedirect } from "../testing/routes.ts";
import { startUpstream, type Upstream } from "../testing/upstream.ts";

let edge: TestEdge;
let app: Upstream;
const token = "token-of-16-letters";
const answer = `${token}.${"t".repeat(43)}`;
const path = `/.well-known/acme-challenge/${token}`;
const hosts = ["app.example", "gated.example", "stopped.example", "old.example", "nowhere.example"];
const aChallenge = (host: string, changes: { token?: string; answer?: string } = {}) =>
  create(ChallengeSchema, { host, token, answer, ...changes });

beforeAll(async () => {
  edge = await startTestEdge({ env: { SVC_EDGE_TLS: "acme" } });
  app = await startUpstream("app");
  await edge.serve({
    upserts: [
      // It answers every path.
      aProxy("app.example", app.address),
      { ...aProxy("gated.example", app.address), gate: "AAAAAAAAAAA" },
      aPage("stopped.example", "SUSPENDED"),
      aRedirect("old.example", "app.example"),
    ],
  });
});
afterAll(async () => {
  await edge?.[Symbol.asyncDispose]();
  await app?.[Symbol.asyncDispose]();
});

const learn = (...challenges: ReturnType<typeof aChallenge>[]) => edge.edge().challenges.learn(challenges);

test.each(hosts)("whatever %s is, a CA gets the answer", async (host) => {
  expect(await learn(aChallenge(host))).toEqual([token]);
  const got = await ask(edge.http, host, path);
  expect(got).toMatchObject({ status: 200, body: answer });
  expect(got.headers["content-type"]).toMatch(/^text\/plain/);
});

test("an answer is for one host and token, and gone when control says so", async () => {
  await learn(aChallenge("app.example"));
  expect((await ask(edge.http, "nowhere.example", path)).status).toBe(404);
  expect((await ask(edge.http, "app.example", `${path}x`)).body).not.toContain(answer);
  expect((await ask(edge.http, "app.example", "/.well-known/acme-challenge/*")).body).not.toContain(answer);
  expect((await ask(edge.http, "app.example", "/.well-known/acme-challenge/../acme-challenge/x")).body).not.toContain(
    answer,
  );
  expect(await learn()).toEqual([]);
  expect((await ask(edge.http, "app.example", path)).body).not.toContain(answer);
});

test("an app that gets certificates by itself still sees what is not ours", async () => {
  await learn();
  expect((await ask(edge.http, "app.example", path)).body).toContain("app");
});

test("an answer that Caddy does not give is not said to be given", async () => {
  await edge.caddy.kill();
  expect(await learn(aChallenge("app.example"))).toEqual([]);
  await edge.caddy.restart();
  expect(await learn(aChallenge("app.example"))).toEqual([token]);
});

test.each([
  { token: "../../../etc/passwd", answer },
  { token: "short", answer: `short.${"t".repeat(43)}` },
  { token, answer: "another answer" },
])("what is no challenge is left out: %j", async (changes) => {
  expect(await learn(aChallenge("app.example", changes), aChallenge("../x"))).toEqual([]);
});
