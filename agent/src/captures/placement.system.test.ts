import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { defaultCaptureImage } from "@svc/proto";
import { Desired, Observed } from "@svc/proto/node";
import { createRegistry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type Agent, start } from "../start.ts";
import { createTestNode, type TestNode } from "../testing/agent.ts";
import { newCertificate } from "../testing/certificate.ts";
import { createTestControl, type TestControl } from "../testing/control.ts";
import { lookAtPng } from "../testing/png.ts";
import { startRegistry, type TestRegistry } from "../testing/registry.ts";
import { waitFor } from "../testing/wait.ts";

const repository = "svc/p1/screenshot";
const host = "shop.svc.localhost";
let registry: TestRegistry;
let node: TestNode;
let control: TestControl;
let agent: Agent;
const newAgent = () => start(node.config, { openLink: control.openLink });

beforeAll(async () => {
  registry = await startRegistry();
  node = await createTestNode({ SVC_AGENT_ADDRESS: "127.0.9.23" });
  control = createTestControl({ registryHost: registry.host });
  agent = await newAgent();
});
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  for (const { name } of (await node?.engine.listContainers()) ?? []) await node.engine.removeContainer(name);
  await node?.[Symbol.asyncDispose]();
  await registry?.[Symbol.asyncDispose]();
});

const servers: ReturnType<typeof createServer>[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

/** What stands for an edge; remembers what it was asked. */
async function anEdge(
  answer: RequestListener,
  tls?: { key: string; cert: string },
): Promise<{ port: number; asked: IncomingMessage[] }> {
  const asked: IncomingMessage[] = [];
  const listener: RequestListener = (request, response) => {
    asked.push(request);
    answer(request, response);
  };
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: (server.address() as AddressInfo).port, asked };
}

const html =
  (body: string, status = 200): RequestListener =>
  (_, response) =>
    void response.writeHead(status, { "Content-Type": "text/html; charset=utf-8" }).end(body);

const placement = (
  placementId: string,
  port: number,
  {
    desired = Desired.RUNNING,
    ...of
  }: { desired?: Desired; pass?: string; timeoutSeconds?: number; url?: string } = {},
) => ({
  ...{ placementId, epoch: 1n, desired, specHash: placementId, projectId: "p1", channel: "production" },
  ...{ ownerKind: "screenshot", ownerId: placementId },
  resources: { memoryMb: 512, cpuMillicores: 1_000, pidsLimit: 256, generation: 1n, reservedMemoryMb: 64 },
  spec: {
    case: "capture" as const,
    value: {
      ...{ image: { reference: defaultCaptureImage }, url: `http://${host}:${port}/`, edge: `127.0.0.1:${port}` },
      ...{ targetRepository: repository, timeoutSeconds: 20, width: 1280, height: 800, maxBytes: 1_048_576n, pass: "" },
      ...of,
    },
  },
});

/** What became of a capture that came to its end. */
const ended = (placementId: string) =>
  control.status(placementId, ({ observed }) => observed === Observed.COMPLETED || observed === Observed.FAILED);

/** The picture that was pushed: its size, and the pixel in its upper left. */
async function pictureOf(placementId: string) {
  const { capture, failure } = await ended(placementId);
  expect(failure).toBeUndefined();
  await using client = createRegistry(systemClock, { url: `http://${registry.host}` });
  const parts: Buffer[] = [];
  const stream = await client.pullArtifact(repository, capture?.digest ?? "", { maxSizeBytes: 1_048_576 });
  for await (const part of stream) parts.push(part as Buffer);
  const png = Buffer.concat(parts);
  expect(png.byteLength).toBe(Number(capture?.sizeBytes));
  return lookAtPng(png);
}

const browser = (placementId: string) => node.engine.findContainer(`svc-c-${placementId}`);

test("the page is shown, with the pass of its gate, and the picture is pushed", async () => {
  const edge = await anEdge(html('<body style="background: #12ab34">'));
  await control.assign({ upserts: [placement("c1", edge.port, { pass: "word" })] });
  expect(await pictureOf("c1")).toEqual({ width: 1280, height: 800, corner: [0x12, 0xab, 0x34] });
  expect(edge.asked[0]?.headers).toMatchObject({ host: `${host}:${edge.port}`, cookie: "__Host-svc_site_auth=word" });
  // By which analytics know that it is nobody.
  expect(edge.asked[0]?.headers["user-agent"]).toContain(" HeadlessChrome/");
  const asked = control.tokensAsked.filter(({ workId }) => workId === "c1");
  expect(new Set(asked.map((wish) => wish.repository))).toEqual(new Set([repository]));
  expect(await browser("c1")).toBeNull();
});

test("nothing but the site is reached, whatever its page asks for", async () => {
  const elsewhere = await anEdge(html("nothing"));
  const tries = [
    ...["http://169.254.169.254/latest/meta-data/", "file:///etc/passwd", `http://127.0.0.1:${elsewhere.port}/`],
    ...[`http://other.svc.localhost:${elsewhere.port}/`, "http://127.0.0.1:3128/", `http://${host}:${elsewhere.port}/`],
  ];
  const script = `
    const reached = [];
    const tries = ${JSON.stringify(tries)}.map((url) => fetch(url, { mode: "no-cors" }).then(() => reached.push(url), () => {}));
    tries.push(new Promise((done) => {
      const socket = new WebSocket("ws://10.0.0.1/");
      socket.onopen = () => { reached.push("ws"); done(); };
      socket.onerror = done;
    }));
    Promise.all(tries).then(() => {
      document.body.style.background = reached.length === 0 ? "#00ff00" : "#ff0000";
      fetch("/done?" + encodeURIComponent(reached.join(" ")));
    });`;
  const frames = tries.map((url) => `<img src="${url}"><iframe src="${url}"></iframe>`).join("");
  // The same port at another name is an edge's as well: nothing leads there.
  const foreign = () => `<img src="http://other.svc.localhost:${edge.port}/">`;
  const edge = await anEdge((request, response) =>
    html(`<body>${foreign()}${frames}<script>${script}</script>`)(request, response),
  );
  await control.assign({ upserts: [placement("c2", edge.port)] });
  expect((await pictureOf("c2")).corner).toEqual([0, 255, 0]);
  expect(edge.asked.map(({ url }) => url)).toContain("/done?");
  expect(new Set(edge.asked.map(({ headers }) => headers.host))).toEqual(new Set([`${host}:${edge.port}`]));
  expect(elsewhere.asked).toEqual([]);
});

test("over TLS a site is shown under any certificate, and its gate's pass goes to nobody but the site", async () => {
  const edge = await anEdge(html('<body style="background: #a0b0c0">'), newCertificate(host));
  const url = `https://${host}:${edge.port}/`;
  await control.assign({ upserts: [placement("t1", edge.port, { url })] });
  expect((await pictureOf("t1")).corner).toEqual([0xa0, 0xb0, 0xc0]);
  const before = edge.asked.length;
  await control.assign({ upserts: [placement("t2", edge.port, { url, pass: "word" })] });
  const { failure } = await ended("t2");
  expect(failure).toMatchObject({ code: "CAPTURE_SITE_FAILED", message: expect.stringContaining("ERR_CERT_") });
  expect(edge.asked).toHaveLength(before);
});

test.each([
  { id: "e1", when: "fails", answer: html("no", 503), why: "status 503" },
  {
    id: "e2",
    when: "sends its visitors elsewhere",
    answer: ((_, response) =>
      void response.writeHead(302, { Location: "http://other.test/" }).end()) as RequestListener,
    why: "ERR_NAME_NOT_RESOLVED",
  },
  {
    id: "e3",
    when: "sends its visitors elsewhere by its page",
    answer: html('<script>location = "http://other.test/"</script>'),
    why: "elsewhere",
  },
])("a site that $when has no picture", async ({ id, answer, why }) => {
  const edge = await anEdge(answer);
  await control.assign({ upserts: [placement(id, edge.port)] });
  const { failure, capture } = await ended(id);
  expect(failure).toMatchObject({ code: "CAPTURE_SITE_FAILED", message: expect.stringContaining(why) });
  expect(capture).toBeUndefined();
  expect(await browser(id)).toBeNull();
});

test("a page that never lets go of its processor is ended", async () => {
  const edge = await anEdge(html("<script>for (;;);</script>"));
  await control.assign({ upserts: [placement("c3", edge.port, { timeoutSeconds: 1 })] });
  expect((await ended("c3")).failure?.code).toBe("CAPTURE_TIMEOUT");
  expect(await browser("c3")).toBeNull();
});

test("dialogs are closed, and a picture that would be too large is a smaller one", async () => {
  const noise = `
    alert("hello");
    const { data } = (context = document.querySelector("canvas").getContext("2d")).createImageData(1280, 800);
    const image = new ImageData(Uint8ClampedArray.from(data, () => Math.random() * 256), 1280, 800);
    context.putImageData(image, 0, 0);`;
  const edge = await anEdge(
    html(`<body style="margin: 0"><canvas width="1280" height="800"></canvas><script>let context;${noise}</script>`),
  );
  await control.assign({ upserts: [placement("c4", edge.port)] });
  const { width, height } = await pictureOf("c4");
  expect(width).toBeLessThan(1280);
  expect(width / height).toBeCloseTo(1.6, 1);
});

test("a restarted agent begins it anew, and one that is called off leaves nothing", async () => {
  const held: (() => void)[] = [];
  let holds = true;
  const edge = await anEdge((request, response) => {
    const answer = () => html('<body style="background: #0000ff">')(request, response);
    if (holds) held.push(answer);
    else answer();
  });
  await control.assign({ upserts: [placement("c5", edge.port), placement("c6", edge.port)] });
  await waitFor("the site to be asked", async () => edge.asked.length > 0);
  await agent[Symbol.asyncDispose]();
  agent = await newAgent();
  await waitFor("it to be asked again", async () => edge.asked.length > 1);
  const [running, other] = (await browser("c5"))?.state === "running" ? ["c5", "c6"] : ["c6", "c5"];
  await control.assign({ upserts: [placement(running ?? "", edge.port, { desired: Desired.REMOVED })] });
  const { capture } = await control.status(running ?? "", ({ observed }) => observed === Observed.REMOVED);
  expect(capture).toBeUndefined();
  expect(await browser(running ?? "")).toBeNull();
  holds = false;
  expect((await pictureOf(other ?? "")).corner).toEqual([0, 0, 255]);
});
