import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestApi, type TestUser, testApi } from "./testing.ts";
import { rawConnection, rawRequest, sendRaw, statusesOf } from "./testing-raw.ts";

let api: TestApi;
let user: TestUser;
let host: string;
beforeAll(async () => {
  api = await testApi();
  user = await api.newUser();
  host = `Host: ${new URL(api.url).host}`;
});
afterAll(() => api?.[Symbol.asyncDispose]());

const raw = (bytes: string | Uint8Array) => sendRaw(api.url, bytes);
const close = "Connection: close";
const bodyOf = (answer: string) => JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4));

/** One answer, in the envelope, with the headers of every reply, and the connection is over. */
function expectRefused(answer: string, status: number): void {
  expect(statusesOf(answer)).toEqual([status]);
  expect(bodyOf(answer)).toEqual({ ok: false, error: { code: "BAD_REQUEST", message: expect.stringMatching(/\.$/) } });
  expect(answer).toMatch(/^connection: close\r$/im);
  expect(answer).toMatch(/^x-content-type-options: nosniff\r$/im);
  expect(answer).toMatch(/^content-security-policy: default-src 'none'; frame-ancestors 'none'\r$/im);
  expect(answer).not.toMatch(/^access-control-/im);
}

describe("a request whose end two readers could see in two places is refused, and nothing after it is read", () => {
  const smuggled = (): string => rawRequest("GET /api/v1/me HTTP/1.1", [host, `Authorization: Bearer ${user.session}`]);
  test.each([
    { what: "a length and chunks", headers: ["Content-Length: 4", "Transfer-Encoding: chunked"], body: "0\r\n\r\n" },
    { what: "chunks and a length", headers: ["Transfer-Encoding: chunked", "Content-Length: 5"], body: "0\r\n\r\n" },
    { what: "two lengths", headers: ["Content-Length: 0", "Content-Length: 5"], body: "" },
    { what: "a list of lengths", headers: ["Content-Length: 0, 5"], body: "" },
    { what: "a length with a sign", headers: ["Content-Length: +0"], body: "" },
    { what: "a length in hexadecimal", headers: ["Content-Length: 0x0"], body: "" },
    { what: "a negative length", headers: ["Content-Length: -1"], body: "" },
    { what: "an unknown coding", headers: ["Transfer-Encoding: xchunked"], body: "0\r\n\r\n" },
    { what: "chunks that are not last", headers: ["Transfer-Encoding: chunked, identity"], body: "0\r\n\r\n" },
    { what: "a folded coding", headers: ["Transfer-Encoding:", " chunked"], body: "0\r\n\r\n" },
    { what: "a folded header", headers: ["X-A: 1", " folded"], body: "" },
    { what: "a space before the colon", headers: ["Transfer-Encoding : chunked"], body: "0\r\n\r\n" },
    { what: "a tab in a header's name", headers: ["Content\tLength: 0"], body: "" },
    { what: "a line that is no header", headers: ["X-A"], body: "" },
    { what: "a bare line feed", headers: ["X-A: 1\nTransfer-Encoding: chunked"], body: "0\r\n\r\n" },
    { what: "a bare carriage return", headers: ["X-A: 1\rX-B: 2"], body: "" },
    { what: "a NUL", headers: ["X-A: 1\u0000"], body: "" },
    { what: "a chunk of no size", headers: ["Transfer-Encoding: chunked"], body: "\r\n\r\n" },
    { what: "a chunk of a negative size", headers: ["Transfer-Encoding: chunked"], body: "-1\r\n\r\n" },
    {
      what: "a chunk longer than any number",
      headers: ["Transfer-Encoding: chunked"],
      body: `${"f".repeat(40)}\r\n\r\n`,
    },
    { what: "a chunk without its end", headers: ["Transfer-Encoding: chunked"], body: "2\r\n{}0\r\n\r\n" },
  ])("with $what", async ({ headers, body }) => {
    const first = rawRequest(
      "POST /api/v1/projects HTTP/1.1",
      [host, `Authorization: Bearer ${user.session}`, "Content-Type: application/json", ...headers],
      body,
    );
    expectRefused(await raw(first + smuggled()), 400);
  });
});

describe("what is no request of HTTP/1 is refused", () => {
  test.each([
    { what: "another protocol", bytes: "HELLO\r\n\r\n" },
    { what: "the beginning of HTTP/2", bytes: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" },
    { what: "the beginning of TLS", bytes: Buffer.from("16030100a5010000a10303", "hex") },
    { what: "an unknown method", bytes: "BREW / HTTP/1.1\r\nHost: x\r\n\r\n" },
    { what: "a method in small letters", bytes: "get / HTTP/1.1\r\nHost: x\r\n\r\n" },
    { what: "an unknown version", bytes: "GET / HTTP/1.7\r\nHost: x\r\n\r\n" },
    { what: "a target with a space", bytes: "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n" },
    { what: "a target with a control character", bytes: "GET /a\u0007b HTTP/1.1\r\nHost: x\r\n\r\n" },
  ])("$what", async ({ bytes }) => {
    expectRefused(await raw(bytes), 400);
  });
});

describe("the head of a request", () => {
  const get = (headers: readonly string[], line = "GET /api/v1/me HTTP/1.1") =>
    raw(rawRequest(line, [...headers, close]));

  test.each([
    { what: "no host", headers: () => [] },
    { what: "two hosts", headers: () => [host, "Host: evil.test"] },
    { what: "a host that is none", headers: () => ["Host: svc.test/evil"] },
    {
      what: "two credentials",
      headers: () => [host, "Authorization: Bearer a", `Authorization: Bearer ${user.session}`],
    },
  ])("with $what is refused", async ({ headers }) => {
    expectRefused(await get(headers()), 400);
  });

  test.each(["GET http://evil.test/api/v1/me HTTP/1.1", "OPTIONS * HTTP/1.1", "GET api/v1/me HTTP/1.1"])(
    "%s is refused: the target is no path",
    async (line) => {
      expectRefused(await get([host], line), 400);
    },
  );

  test("may have a hundred headers, and not one more", async () => {
    const filler = (count: number) => Array.from({ length: count }, (_, at) => `X-${at}: 1`);
    expect(statusesOf(await get([host, ...filler(98)]))).toEqual([401]);
    expectRefused(await get([host, ...filler(99)]), 431);
    // The parser by itself would drop what is beyond some number, credentials and origins included.
    expectRefused(await get([host, ...filler(2_500)]), 431);
  });

  test("may have 16 KiB in all", async () => {
    expect(statusesOf(await get([host, `X-Large: ${"a".repeat(15_000)}`]))).toEqual([401]);
    expectRefused(await get([host, `X-Large: ${"a".repeat(17_000)}`]), 431);
    expectRefused(await raw(rawRequest(`GET /${"a".repeat(17_000)} HTTP/1.1`, [host])), 431);
  });

  test("may expect 100-continue, and nothing else", async () => {
    using connection = await rawConnection(api.url);
    const body = JSON.stringify({ name: "Shop", type: "ssr" });
    const headers = [host, `Authorization: Bearer ${user.session}`, "Content-Type: application/json", close];
    connection.write(
      rawRequest("POST /api/v1/projects HTTP/1.1", [
        ...headers,
        `Content-Length: ${body.length}`,
        "Expect: 100-continue",
      ]),
    );
    await expect.poll(connection.answer).toContain("HTTP/1.1 100 Continue");
    connection.write(body);
    await connection.closed();
    expect(statusesOf(connection.answer())).toEqual([100, 201]);
    expectRefused(await get([host, "Expect: a-miracle"]), 417);
  });

  test("that asks for another protocol gets an ordinary answer", async () => {
    const answer = await raw(
      rawRequest("GET /healthz HTTP/1.1", [host, "Connection: Upgrade, close", "Upgrade: websocket"]),
    );
    expect(statusesOf(answer)).toEqual([200]);
    expect(await raw(rawRequest("CONNECT evil.test:443 HTTP/1.1", [host]))).toBe("");
  });

  test("of an old client needs no host to ask whether the process is well", async () => {
    expect(statusesOf(await raw("GET /healthz HTTP/1.0\r\n\r\n"))).toEqual([200]);
  });
});

describe("several requests on one connection", () => {
  const get = (path: string) => rawRequest(`GET ${path} HTTP/1.1`, [host]);

  test("are answered in order, also when they come at once", async () => {
    using connection = await rawConnection(api.url);
    connection.write(`${get("/api/v1/me")}${get("/healthz")}${get("/nothing")}`);
    await expect.poll(() => statusesOf(connection.answer())).toEqual([401, 200, 404]);
    connection.write("BROKEN\r\n\r\n");
    await connection.closed();
    expect(statusesOf(connection.answer())).toEqual([401, 200, 404, 400]);
  });

  test("end without an answer that could be taken for that of an earlier one", async () => {
    expect(statusesOf(await raw(`${get("/api/v1/me")}BROKEN\r\n\r\n${get("/healthz")}`))).toEqual([]);
  });
});

test("a refused request leaves no trace: the process serves on", async () => {
  expect((await api.call("GET", "/me", { session: user.session })).status).toBe(200);
});
