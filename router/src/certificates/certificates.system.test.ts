import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { CertificatesSchema } from "@svc/proto/edge";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { aCertificate } from "../testing/certificate.ts";
import { startTestEdge, type TestEdge } from "../testing/edge.ts";
import { print, shown as shownAt } from "../testing/handshake.ts";
import { ask } from "../testing/http.ts";
import { aProxy, aRedirect } from "../testing/routes.ts";
import { startUpstream, type Upstream } from "../testing/upstream.ts";

/** What is shown for a name, or the alert instead of it. */
const shown = (edge: TestEdge, name: string | null) => shownAt(edge.https, name);

let number = 0n;
const tell = (edge: TestEdge, message: Omit<MessageInitShape<typeof CertificatesSchema>, "$typeName">) => {
  number += 1n;
  return edge.edge().certificates.learn(create(CertificatesSchema, { number, ...message }));
};

describe.each(["acme", "internal"] as const)("with certificates of control (%s)", (tls) => {
  let edge: TestEdge;
  let app: Upstream;
  const shop = aCertificate("shop.example");
  beforeAll(async () => {
    edge = await startTestEdge({ env: { SVC_EDGE_TLS: tls } });
    app = await startUpstream("app");
    await edge.serve({
      upserts: [
        aProxy("shop.example", app.address),
        aProxy("late.example", app.address),
        aProxy("a.svc.localhost", app.address),
        aRedirect("old.example", "shop.example"),
      ],
    });
    expect(await tell(edge, { first: true, upserts: [shop] })).toBe("");
  });
  afterAll(async () => {
    await edge?.[Symbol.asyncDispose]();
    await app?.[Symbol.asyncDispose]();
  });

  test("a name is served from the moment that its file is there until it goes", async () => {
    expect(await shown(edge, "shop.example")).toBe(print(shop, "shop.example"));
    expect(await shown(edge, "late.example")).toBe("alert");
    const late = aCertificate("late.example");
    await tell(edge, { upserts: [late] });
    expect(await shown(edge, "late.example")).toBe(print(late, "late.example"));
    const renewed = aCertificate("late.example");
    await tell(edge, { upserts: [renewed] });
    expect(await shown(edge, "late.example")).toBe(print(renewed, "late.example"));
    await tell(edge, { removedNames: ["late.example"] });
    expect(await shown(edge, "late.example")).toBe("alert");
    expect(await shown(edge, "shop.example")).toBe(print(shop, "shop.example"));
  });

  test.each(["unknown.example", "x.shop.example", "SHOP.example", null])("nobody gets one for %s", async (name) => {
    expect(await shown(edge, name)).toBe("alert");
  });

  test(`a content host ${tls === "acme" ? "has none before there is a wildcard" : "has one of Caddy's own"}`, async () => {
    if (tls === "acme") expect(await shown(edge, "a.svc.localhost")).toBe("alert");
    else expect(await shown(edge, "a.svc.localhost")).toMatch(/^DNS:a\.svc\.localhost /);
    const wildcard = aCertificate("*.svc.localhost");
    await tell(edge, { upserts: [wildcard] });
    // What Caddy made itself it keeps in memory.
    if (tls === "acme") {
      expect(await shown(edge, "a.svc.localhost")).toBe(print(wildcard, "*.svc.localhost"));
      expect(await shown(edge, "a.b.svc.localhost")).toBe("alert");
      const own = aCertificate("a.svc.localhost");
      await tell(edge, { upserts: [own] });
      expect(await shown(edge, "a.svc.localhost")).toBe(print(own, "a.svc.localhost"));
    }
    await tell(edge, { removedNames: ["*.svc.localhost", "a.svc.localhost"] });
  });

  test("neither a dead router nor a restarted Caddy changes anything", async () => {
    await edge.stopRouter();
    expect(await shown(edge, "shop.example")).toBe(print(shop, "shop.example"));
    await edge.caddy.kill();
    await edge.caddy.restart();
    expect(await shown(edge, "shop.example")).toBe(print(shop, "shop.example"));
    await edge.startRouter();
    expect(await shown(edge, "shop.example")).toBe(print(shop, "shop.example"));
  });

  test("after a start with nothing in memory what is on disk is served, and nothing else", async () => {
    const { certificatesDir, dir } = edge.config;
    await edge.stopRouter();
    await writeFile(
      join(certificatesDir, "planted.example.pem"),
      await readFile(join(certificatesDir, "shop.example.pem")),
    );
    await writeFile(join(dir, "certificates", "damaged.example.pem"), "nothing");
    await edge.startRouter();
    expect(await readdir(certificatesDir)).toEqual(["shop.example.pem"]);
    expect(edge.edge().certificates.ends()).toHaveLength(1);
    expect((await stat(join(dir, "certificates", "shop.example.pem"))).mode & 0o777).toBe(0o600);
    expect((await stat(join(certificatesDir, "shop.example.pem"))).mode & 0o007).toBe(0);
    expect((await stat(certificatesDir)).mode & 0o007).toBe(0);
  });

  test("of what was damaged the newest three files stay", async () => {
    const kept = join(edge.config.dir, "certificates");
    for (const round of [1, 2, 3]) {
      await edge.stopRouter();
      for (const nth of [1, 2]) await writeFile(join(kept, `damaged-${round}-${nth}.example.pem`), "nothing");
      await edge.startRouter();
    }
    const damaged = (await readdir(kept)).filter((file) => file.endsWith(".damaged")).sort();
    expect(damaged).toHaveLength(3);
    expect(damaged.slice(-2)).toEqual(["damaged-3-1.example.pem.damaged", "damaged-3-2.example.pem.damaged"]);
  });

  test("a whole set in parts takes what is in none of them away, at its end", async () => {
    const [one, two] = [aCertificate("one.example"), aCertificate("two.example")];
    await tell(edge, { first: true, more: true, upserts: [one] });
    expect(edge.edge().certificates.ends()).toHaveLength(2);
    await tell(edge, { more: false, upserts: [two] });
    expect(await shown(edge, "shop.example")).toBe("alert");
    expect(await shown(edge, "two.example")).toBe(print(two, "two.example"));
    await tell(edge, { first: true, upserts: [shop] });
    expect(edge.edge().certificates.ends()).toHaveLength(1);
  });

  test("a name that control cannot tell the certificate of keeps the one that is there", async () => {
    expect(await tell(edge, { first: true, upserts: [{ name: "shop.example" }] })).toContain("shop.example");
    expect(await shown(edge, "shop.example")).toBe(print(shop, "shop.example"));
  });

  test("what makes no sense is refused, and the rest is taken", async () => {
    const good = aCertificate("good.example");
    const swapped = { ...aCertificate("swapped.example"), privateKey: good.privateKey };
    const foreign = { ...aCertificate("foreign.example"), name: "other.example" };
    const said = await tell(edge, { upserts: [swapped, foreign, { ...good, name: "../../etc/x" }, good] });
    expect(said).toMatch(/swapped\.example: .*other\.example: /);
    expect(await shown(edge, "good.example")).toBe(print(good, "good.example"));
    expect(await shown(edge, "other.example")).toBe("alert");
    await tell(edge, { removedNames: ["good.example"] });
  });

  test("nobody who does not know the path gets a key", async () => {
    const { certificatesListen } = edge.config;
    const path = `/${edge.edge().certificates.path}`;
    const got = async (url: string) => (await ask(certificatesListen, "localhost", url)).status;
    expect(await got(`${path}?server_name=shop.example`)).toBe(200);
    for (const url of ["/", "/shop.example.pem", `${path}?server_name=..%2Fx`, `${path}?server_name=*.example`, path])
      expect(await got(url)).toBe(404);
    expect(await got(`/${"x".repeat(43)}?server_name=shop.example`)).toBe(404);
  });
});

describe("visitors who come without TLS", () => {
  let edge: TestEdge;
  let app: Upstream;
  beforeAll(async () => {
    edge = await startTestEdge({ env: { SVC_EDGE_TLS: "acme" } });
    app = await startUpstream("app");
    await edge.serve({ upserts: [aProxy("shop.example", app.address), aProxy("late.example", app.address)] });
    await tell(edge, { first: true, upserts: [aCertificate("shop.example")] });
  });
  afterAll(async () => {
    await edge?.[Symbol.asyncDispose]();
    await app?.[Symbol.asyncDispose]();
  });

  test("are sent to it where there is a certificate, and served where there is none yet", async () => {
    const sent = await ask(edge.http, "shop.example", "/a?b=c");
    expect(sent.status).toBe(308);
    expect(sent.headers["location"]).toBe(`https://shop.example:${edge.https.split(":")[1]}/a?b=c`);
    expect((await ask(edge.http, "late.example", "/")).body).toContain("app");
    expect((await ask(edge.http, "unknown.example", "/")).status).toBe(404);
  });
});
