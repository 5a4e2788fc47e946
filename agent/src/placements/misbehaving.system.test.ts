import { Desired, HealthState, LogState, Observed, type PlacementStatus } from "@svc/proto/node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Agent, start } from "../start.ts";
import { createTestNode, type TestNode } from "../testing/agent.ts";
import { pushApp } from "../testing/apps.ts";
import { createTestControl, type TestControl } from "../testing/control.ts";
import { type EngineCall, type EngineProxy, startEngineProxy } from "../testing/engine-proxy.ts";
import { startRegistry } from "../testing/registry.ts";
import { waitFor } from "../testing/wait.ts";
import { containerName } from "./names.ts";

/** Does what DO says, which is never what an app should do. */
const app = `
const http = require("node:http");
const net = require("node:net");
const ready = () => console.log("this is me");
const listen = (server, port = 3000, host = "0.0.0.0") => server.listen(port, host, ready);
const answer = (status) => listen(http.createServer((_, reply) => { reply.statusCode = status; reply.end(); }));
const raw = (onSocket) => listen(net.createServer((socket) => { socket.on("error", () => {}); onSocket(socket); }));
const deeds = {
  fail: () => { console.error("cannot find my settings"); process.exit(3); },
  leave: () => console.log("all done"),
  swallow: () => { for (const kept = []; ; ) kept.push(Buffer.alloc(1e6, 1)); },
  fall: () => process.kill(process.pid, "SIGSEGV"),
  elsewhere: () => listen(http.createServer(), 3001),
  home: () => listen(http.createServer(), 3000, "127.0.0.1"),
  idle: () => { setInterval(() => {}, 1000); ready(); },
  lost: () => answer(404),
  sick: () => answer(500),
  hang: () => listen(http.createServer(() => {})),
  drip: () => raw((socket) => { socket.write("HTTP/1.1 200 OK\\r\\nx: "); setInterval(() => socket.write("x"), 100); }),
  chat: () => raw((socket) => socket.end("hello there\\r\\n\\r\\n")),
  tell: () => {
    console.log("\\x1b[31mmy key is " + process.env.KEY + "\\x1b[0m");
    console.log(process.env.PEM);
    process.exit(1);
  },
  crash: () => http.createServer((request, reply) => {
    if (request.url === "/crash") { console.log("goodbye, " + process.env.KEY); process.exit(7); }
    if (request.url === "/fall") process.kill(process.pid, "SIGSEGV");
    reply.end("ok");
  }).listen(3000),
};
console.log("I am going to " + process.env.DO);
deeds[process.env.DO]();
`;
const pem = `-----BEGIN KEY-----\nMIIEvgIBADANBgkqhkiG9w0BAQEFAASC\nshort\n-----END KEY-----`;
const env = { KEY: "s3cret-value", PEM: pem };

let registry: Awaited<ReturnType<typeof startRegistry>>;
let node: TestNode;
let control: TestControl;
let proxy: EngineProxy;
let agent: Agent;
let image = "";
const newAgent = () => start({ ...node.config, dockerSocket: proxy.socketPath }, { openLink: control.openLink });
beforeAll(async () => {
  registry = await startRegistry();
  node = await createTestNode({ SVC_AGENT_ADDRESS: "127.0.9.3" });
  control = createTestControl({ registryHost: registry.host });
  proxy = await startEngineProxy(node.config.dockerSocket);
  agent = await newAgent();
  await agent.ready;
  image = await pushApp(node.engine, registry.host, app);
}, 120_000);
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  await proxy?.[Symbol.asyncDispose]();
  await node?.[Symbol.asyncDispose]();
  await registry?.[Symbol.asyncDispose]();
});

interface Case {
  deed?: string;
  command?: string[];
  timeoutSeconds?: number;
}

const aPlacement = (placementId: string, desired: Desired, { deed, command, timeoutSeconds }: Case) => ({
  placementId,
  epoch: 1n,
  desired,
  specHash: "h",
  projectId: "p1",
  channel: "production",
  resources: { memoryMb: 64, cpuMillicores: 1_000, pidsLimit: 64 },
  spec: {
    case: "serve" as const,
    value: {
      image: { reference: image, maxSizeMb: 1_000 },
      command: command ?? [],
      env: { PORT: "3000", DO: deed ?? "", ...env },
      redact: Object.values(env),
      port: 3000,
      // Of what answers or ends the time is never up.
      health: { path: "/", timeoutSeconds: timeoutSeconds ?? 600 },
      stopGraceSeconds: 1,
    },
  },
});

/** A placement that was never seen before, until it is up or over. */
async function serve(placementId: string, what: Case): Promise<PlacementStatus> {
  await control.assign({ upserts: [aPlacement(placementId, Desired.RUNNING, what)] });
  return control.status(
    placementId,
    ({ observed, health }) => observed >= Observed.COMPLETED || health === HealthState.HEALTHY,
    60_000,
  );
}

async function remove(placementId: string, what: Case): Promise<void> {
  await control.assign({ upserts: [aPlacement(placementId, Desired.REMOVED, what)] });
  await control.status(placementId, ({ observed }) => observed === Observed.REMOVED);
}

let asked = 0;
async function readLog(placementId: string) {
  asked += 1;
  const requestId = `q${asked}`;
  control.send({ message: { case: "logQuery", value: { requestId, placementId, lines: 100 } } });
  return waitFor("the log", () => control.deliveries.find((delivery) => delivery.requestId === requestId));
}

const endings: (Case & { when: string; code: string; exitCode: number; says: string[] })[] = [
  {
    when: "fails at once",
    deed: "fail",
    code: "START_FAILED",
    exitCode: 3,
    says: ["exited with code 3 before it answered", "Last lines:\n", "cannot find my settings"],
  },
  { when: "is done", deed: "leave", code: "START_FAILED", exitCode: 0, says: ["has to go on running", "all done"] },
  { when: "needs too much", deed: "swallow", code: "OUT_OF_MEMORY", exitCode: 137, says: ["64 MB", "plan with more"] },
  { when: "is ended by a signal", deed: "fall", code: "START_FAILED", exitCode: 139, says: ["SIGSEGV"] },
  {
    when: "has no such command",
    command: ["nosuch"],
    code: "START_FAILED",
    exitCode: 127,
    says: ["not found", "nosuch"],
  },
  { when: "may not run it", command: ["/etc/passwd"], code: "START_FAILED", exitCode: 126, says: ["chmod +x"] },
];

/** For a look that waits as long as any does. */
const patienceSeconds = 5;
const sicknesses: { when: string; deed: string; says: string[] }[] = [
  {
    when: "listens on another port",
    deed: "elsewhere",
    says: [`within ${patienceSeconds} s`, "listens on port 3001 instead of 3000, which the PORT variable names"],
  },
  {
    when: "listens on 127.0.0.1",
    deed: "home",
    says: ["listens on 127.0.0.1:3000", "Make it listen on 0.0.0.0:3000"],
  },
  {
    when: "does not listen",
    deed: "idle",
    says: ["nothing accepted a connection", "Nothing listens on port 3000"],
  },
  { when: "does not know its health path", deed: "lost", says: ["it answered / with 404", "Set health.path"] },
  { when: "answers with an error", deed: "sick", says: ["it answered / with 500", "its log may say why"] },
  { when: "never answers", deed: "hang", says: ["it did not answer / within", "The connection was open"] },
  { when: "never ends its answer", deed: "drip", says: ["it did not answer / within"] },
  { when: "speaks no HTTP", deed: "chat", says: ["is not HTTP"] },
];

const idOf = (when: string): string => `bad-${when.replaceAll(/\W/g, "-")}`;
const lookedAt = new Set(sicknesses.map(({ when }) => containerName(idOf(when))));

/** Lets the agent look at them only once they have got where they go wrong, however long that takes. */
async function startFirst({ path }: EngineCall): Promise<"pass"> {
  const name = /^\/containers\/(.+)\/start$/.exec(path)?.[1] ?? "";
  if (!lookedAt.has(name)) return "pass";
  await node.engine.startContainer(name);
  await waitFor("an app that is ready", async () => (await node.engine.readLog(name, 10)).includes("this is me"));
  return "pass";
}

describe("an app that", () => {
  beforeAll(() => proxy.play(startFirst));

  const fail = async (placementId: string, what: Case, says: readonly string[]) => {
    const { failure, observed } = await serve(placementId, what);
    expect(observed).toBe(Observed.FAILED);
    for (const text of says) expect(failure?.message).toContain(text);
    await remove(placementId, what);
    return failure;
  };

  test.concurrent.each(endings)("$when is told so", async ({ when, code, exitCode, says, ...what }) => {
    const failure = await fail(idOf(when), what, says);
    expect(failure).toMatchObject({ code, exitCode, oomKilled: code === "OUT_OF_MEMORY" });
  });

  test.concurrent.each(sicknesses)("$when is told so", async ({ when, deed, says }) => {
    const failure = await fail(idOf(when), { deed, timeoutSeconds: patienceSeconds }, says);
    expect(failure).toMatchObject({ code: "HEALTH_CHECK_FAILED", oomKilled: false });
    expect(failure?.exitCode).toBeUndefined();
  });

  test("prints its secrets is not quoted with them", async () => {
    const { failure } = await serve("bad-tell", { deed: "tell" });
    expect(failure?.message).toContain("my key is [redacted]");
    for (const text of ["s3cret", "MIIEvg", "\u001b", "[31m"]) expect(failure?.message).not.toContain(text);
    await remove("bad-tell", { deed: "tell" });
  });
});

describe("the last words", () => {
  /** What goes down now stays there until it was heard. */
  const staysDown = () => {
    const heard = Promise.withResolvers<"pass">();
    proxy.play(({ path }) => (path.endsWith("/start") ? heard.promise : "pass"));
    return heard;
  };

  test("of an app that failed outlive its container and the agent", async () => {
    await serve("gone-1", { deed: "fail" });
    await remove("gone-1", { deed: "fail" });
    await agent[Symbol.asyncDispose]();
    agent = await newAgent();
    await agent.ready;
    const { text, lines, state, exit } = await readLog("gone-1");
    // It is the tenant's own log, as it was written.
    for (const line of ["I am going to fail", "cannot find my settings"]) {
      expect(text).toMatch(new RegExp(`^\\S+Z ${line}$`, "m"));
    }
    expect({ lines, state }).toEqual({ lines: 2, state: LogState.EXITED });
    expect(exit).toMatchObject({ code: 3, oomKilled: false, reason: "The app exited with code 3 before it answered." });
    expect(Date.parse(exit?.at ?? "")).not.toBeNaN();
  });

  test("of an app that crashes are there until it is back, and go with a container that was told to", async () => {
    const crash = { deed: "crash" };
    const { upstream } = await serve("crash-1", crash);
    expect(await readLog("crash-1")).toMatchObject({ state: LogState.RUNNING });
    const heard = staysDown();
    // It goes down with the request.
    await fetch(`http://${upstream}/crash`).catch(() => {});
    const { failure } = await control.status(
      "crash-1",
      (status) => status.health === HealthState.BACKOFF && status.failure?.message.includes("Last lines") === true,
    );
    expect(failure).toMatchObject({ code: "CRASH_LOOP", exitCode: 7 });
    expect(failure?.message).toMatch(
      /^The app exited with code 7 and is started again\. [\s\S]*goodbye, \[redacted\]$/,
    );
    const ended = await readLog("crash-1");
    expect(ended).toMatchObject({ state: LogState.EXITED, exit: { code: 7 } });
    expect(ended.text).toContain(`goodbye, ${env.KEY}`);
    heard.resolve("pass");
    await control.status("crash-1", ({ health, restartSeq }) => health === HealthState.HEALTHY && restartSeq === 1);
    const again = await readLog("crash-1");
    expect(again.state).toBe(LogState.RUNNING);
    expect(again.exit).toBeUndefined();

    await remove("crash-1", crash);
    expect(await readLog("crash-1")).toMatchObject({ state: LogState.ABSENT, text: "" });
  });

  test("of an app that crashes again are those of that time", async () => {
    const crash = { deed: "crash" };
    const { upstream } = await serve("crash-2", crash);
    await fetch(`http://${upstream}/crash`).catch(() => {});
    await control.status("crash-2", ({ health, restartSeq }) => health === HealthState.HEALTHY && restartSeq === 1);
    const heard = staysDown();
    await fetch(`http://${upstream}/fall`).catch(() => {});
    const { failure } = await control.status(
      "crash-2",
      (status) => status.crashing?.count === 2 && status.failure?.message.includes("Last lines") === true,
    );
    expect(failure?.message).toMatch(/SIGSEGV[^\n]*Last lines:\n(?:I am going to crash|this is me)/);
    expect(failure?.message).not.toContain("goodbye");
    heard.resolve("pass");
    await remove("crash-2", crash);
  });
});
