import { create } from "@bufbuild/protobuf";
import { CertificatesSchema, ChallengeSchema } from "@svc/proto/edge";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { digestOfBundle, filesBundle } from "../testing/bundle.ts";
import { aCertificate } from "../testing/certificate.ts";
import { startTestEdge, type TestEdge } from "../testing/edge.ts";
import { ask, askTls } from "../testing/http.ts";
import { aPage, aProxy, aRedirect, aStatic } from "../testing/routes.ts";
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
  const bundle = await filesBundle({
    "index.html": "BUNDLE",
    _redirects: "/.well-known/acme-challenge/* /index.html 200!",
  });
  const digest = digestOfBundle(bundle);
  edge.archives.set(digest, bundle);
  await edge.serve({
    upserts: [
      // It answers every path.
      aProxy("app.example", app.address),
      { ...aProxy("gated.example", app.address), gate: "AAAAAAAAAAA" },
      aPage("stopped.example", "SUSPENDED"),
      aRedirect("old.example", "app.example"),
      aProxy("late.example", app.address),
      aProxy("app.svc.localhost", app.address),
      aStatic("spa.svc.localhost", digest, true),
      aStatic("rules.example", digest, false),
    ],
  });
});
afterAll(async () => {
  await edge?.[Symbol.asyncDispose]();
  await app?.[Symbol.asyncDispose]();
});

/** These can be asked over TLS, and others cannot. */
const takeCertificates = (
  names = ["*.svc.localhost", "app.example", "gated.example", "rules.example", "old.example"],
) => {
  const upserts = names.map((name) => aCertificate(name));
  return edge.edge().certificates.learn(create(CertificatesSchema, { number: 1n, first: true, upserts }));
};
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

describe.each([
  "app.svc.localhost",
  "app.example",
  "gated.example",
  "spa.svc.localhost",
  "rules.example",
  "old.example",
])("no site gets a certificate for %s: the edge answers for it", (host) => {
  const refusal = { status: 404, body: expect.not.stringContaining("BUNDLE") };
  test.each([
    { method: "GET", asked: path },
    { method: "HEAD", asked: path },
    { method: "POST", asked: path },
    { method: "GET", asked: "/.well-known/acme-challenge/" },
    { method: "GET", asked: "/.well-known/acme-challenge/a/b" },
    { method: "GET", asked: "//.well-known/./acme%2Dchallenge/x" },
  ])("$method $asked", async ({ method, asked }) => {
    await learn();
    await takeCertificates();
    const before = app.requests();
    expect(await askTls(edge.https, host, asked, { method })).toMatchObject(refusal);
    await takeCertificates([]);
    expect(await ask(edge.http, host, asked, { method })).toMatchObject(refusal);
    expect(app.requests()).toBe(before);
  });
});

test("what only begins like it is the site's", async () => {
  expect((await ask(edge.http, "late.example", "/.well-known/acme-challenges")).body).toContain("app");
  expect((await ask(edge.http, "late.example", "/.well-known/security.txt")).body).toContain("app");
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
