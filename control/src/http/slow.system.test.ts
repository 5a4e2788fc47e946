import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestApi, type TestUser, testApi } from "./testing.ts";
import { type RawConnection, rawConnection, rawRequest, statusesOf } from "./testing-raw.ts";

const timing = {
  headersMs: 400,
  bodyMs: 400,
  requestMs: 10_000,
  lingerMs: 400,
  keepAliveMs: 400,
  checkMs: 50,
  connectionsMax: 4,
};
let api: TestApi;
let user: TestUser;
let host: string;
/** With the usual times: for what has to be done before they are over, on a slow machine too. */
let patient: TestApi;
beforeAll(async () => {
  api = await testApi({ timing });
  patient = await testApi({ timing: { connectionsMax: timing.connectionsMax } });
  user = await api.newUser();
  host = `Host: ${new URL(api.url).host}`;
});
afterAll(async () => {
  await patient?.[Symbol.asyncDispose]();
  await api?.[Symbol.asyncDispose]();
});

const json = "Content-Type: application/json";
const bearer = ({ session } = user) => `Authorization: Bearer ${session}`;
const open = (to = api) => rawConnection(to.url);
const answered = (connection: RawConnection, statuses: number[]) =>
  expect.poll(() => statusesOf(connection.answer())).toEqual(statuses);

test("how long a client may take, unless a test says otherwise", async () => {
  const { usualTiming } = await import("./timing.ts");
  expect(usualTiming).toEqual({
    headersMs: 15_000,
    bodyMs: 30_000,
    requestMs: 900_000,
    idleMs: 120_000,
    keepAliveMs: 65_000,
    lingerMs: 5_000,
    checkMs: 2_000,
    connectionsMax: 10_000,
  });
});

describe("a head that does not arrive", () => {
  test("is waited for so long", async () => {
    using connection = await open();
    connection.write("GET /api/v1/me HTTP/1.1\r\nHost: x\r\n");
    await connection.closed();
    expect(connection.answer()).toMatch(/^HTTP\/1\.1 408 [\s\S]*x-frame-options: DENY[\s\S]*"code":"BAD_REQUEST"/);
  });

  test("is not waited for any longer when it drips", async () => {
    using connection = await open();
    connection.write("GET /api/v1/me HTTP/1.1\r\nHost: x\r\nX-Slow: ");
    const dripping = setInterval(() => connection.write("a"), 20);
    await connection.closed().finally(() => clearInterval(dripping));
    expect(statusesOf(connection.answer())).toEqual([408]);
  });

  test("is not waited for at all when nothing begins", async () => {
    using connection = await open();
    await connection.closed();
    expect(statusesOf(connection.answer())).toEqual([408]);
  });
});

describe("a body that does not arrive", () => {
  const projectBody = JSON.stringify({ name: "Slow", type: "ssr" });
  const head = (path: string, headers: string[]) =>
    rawRequest(`POST ${path} HTTP/1.1`, [host, `Content-Length: ${projectBody.length}`, ...headers]);
  const projects = (of = api) => of.db.selectFrom("project").select("id").where("name", "=", "Slow").execute();

  test("is waited for so long; what comes later does nothing", async () => {
    using connection = await open();
    connection.write(head("/api/v1/projects", [json, bearer()]));
    connection.write(projectBody.slice(0, 5));
    await answered(connection, [408]);
    expect(connection.answer()).toMatch(/x-request-id: [\s\S]*"code":"BAD_REQUEST"[\s\S]*too long/);
    connection.write(projectBody.slice(5));
    await connection.closed();
    expect(statusesOf(connection.answer())).toEqual([408]);
    expect(await projects()).toEqual([]);
  });

  test("is not waited for any longer when it drips", async () => {
    using connection = await open();
    connection.write(
      head("/api/v1/projects", [json, bearer()]).replace(/Content-Length: \d+/, "Content-Length: 100000"),
    );
    const dripping = setInterval(() => connection.write(" "), 20);
    await connection.closed().finally(() => clearInterval(dripping));
    expect(statusesOf(connection.answer())).toEqual([408]);
  });

  test("arrives in time when it is merely slow", async () => {
    using connection = await open(patient);
    connection.write(head("/api/v1/projects", [json, bearer(await patient.newUser()), "Connection: close"]));
    const parts = [...projectBody];
    const dripping = setInterval(() => connection.write(parts.splice(0, 8).join("")), 20);
    await connection.closed().finally(() => clearInterval(dripping));
    expect(statusesOf(connection.answer())).toEqual([201]);
    expect(await projects(patient)).toHaveLength(1);
  });

  test.each([
    { to: "the identity service", path: "/api/auth/sign-in/email", headers: [json] },
    { to: "a form", path: "/sign-in", headers: ["Content-Type: application/x-www-form-urlencoded"] },
  ])("is not waited for longer when it is for $to", async ({ path, headers }) => {
    using connection = await open();
    connection.write(head(path, headers));
    await connection.closed();
    expect(statusesOf(connection.answer())).toEqual([408]);
  });

  test.each([
    { for: "nobody may send it", line: "POST /api/v1/projects HTTP/1.1", status: 401 },
    { for: "there is nothing to send it to", line: "POST /api/v1/nothing HTTP/1.1", status: 404 },
    { for: "reading takes none", line: "GET /healthz HTTP/1.1", status: 200 },
  ])("holds no connection when $for", async ({ line, status }) => {
    using connection = await open();
    connection.write(rawRequest(line, [host, json, "Content-Length: 1000"]));
    await answered(connection, [status]);
    const dripping = setInterval(() => connection.write(" "), 50);
    await connection.closed().finally(() => clearInterval(dripping));
    expect(statusesOf(connection.answer())).toEqual([status]);
  });

  test("of a refused call may still come, and the connection serves on", async () => {
    using connection = await open(patient);
    connection.write(rawRequest("GET /healthz HTTP/1.1", [host, "Content-Length: 2"]));
    await answered(connection, [200]);
    connection.write("{}");
    connection.write(rawRequest("GET /healthz HTTP/1.1", [host]));
    await answered(connection, [200, 200]);
  });
});

test("a connection without requests is closed", async () => {
  using connection = await open();
  connection.write(rawRequest("GET /healthz HTTP/1.1", [host]));
  await answered(connection, [200]);
  expect(await connection.closed()).toBe("ended");
});

test("one connection more than may be open is closed unread, and the others serve on", async () => {
  const connections = await Promise.all(Array.from({ length: timing.connectionsMax }, () => open(patient)));
  const get = rawRequest("GET /healthz HTTP/1.1", [host]);
  try {
    using more = await open(patient);
    more.write(get);
    await more.closed();
    expect(more.answer()).toBe("");
    for (const connection of connections) connection.write(get);
    for (const connection of connections) await answered(connection, [200]);
  } finally {
    for (const connection of connections) connection[Symbol.dispose]();
  }
  const one = async () => {
    using again = await open(patient);
    again.write(rawRequest("GET /healthz HTTP/1.1", [host, "Connection: close"]));
    await again.closed();
    return statusesOf(again.answer());
  };
  await expect.poll(one).toEqual([200]);
});
