import { type AddressInfo, createServer } from "node:net";
import { systemClock } from "@svc/runtime/system";
import { expect, test } from "vitest";
import type { CliError } from "./errors.ts";
import { createHttp, lookup, networkError } from "./http.ts";
import { ok, startApi } from "./testing/api.ts";

const calm = { timeoutMs: 5000, maxBytes: 1024, signal: new AbortController().signal };

/** A client that is closed at the end of the block. */
function aClient(env: Record<string, string> = {}) {
  const http = createHttp(systemClock, env);
  return { send: http.send, [Symbol.asyncDispose]: http.close };
}

test.each(["localhost", "LOCALHOST", "shop.svc.localhost", "preview-a--1.svc.localhost."])(
  "%s is this machine, without asking anybody",
  async (name) => {
    const one = await new Promise((resolve) => lookup(name, {}, (_, address) => resolve(address)));
    const all = await new Promise((resolve) => lookup(name, { all: true }, (_, addresses) => resolve(addresses)));
    expect(one).toBe("127.0.0.1");
    expect(all).toEqual([{ address: "127.0.0.1", family: 4 }]);
  },
);

test("a site below localhost is reached, with its own name as host", async () => {
  await using api = await startApi({ "GET /": (seen) => ok({ host: seen.headers.host ?? "" }) });
  await using http = aClient();
  const url = api.url.replace("127.0.0.1", "shop.svc.localhost");
  const { status, body } = await http.send({ ...calm, method: "GET", url });
  expect({ status, body: JSON.parse(body) }).toEqual({ status: 200, body: { ok: true, host: new URL(url).host } });
});

test("a redirect is an answer, not a place to send the key to", async () => {
  await using api = await startApi({ "GET /": { status: 302, headers: { location: "/elsewhere" }, body: {} } });
  await using http = aClient();
  const { status, header } = await http.send({ ...calm, method: "GET", url: api.url });
  expect({ status, location: header("Location") }).toEqual({ status: 302, location: "/elsewhere" });
  expect(api.seen).toHaveLength(1);
});

test("a proxy of the environment is not asked about this machine", async () => {
  await using api = await startApi({ "GET /": ok({}) });
  await using http = aClient({ HTTP_PROXY: "http://127.0.0.1:9" });
  expect((await http.send({ ...calm, method: "GET", url: api.url })).status).toBe(200);
  await expect(http.send({ ...calm, method: "GET", url: "http://shop.example.test" })).rejects.toMatchObject({
    code: "CLOUD_UNAVAILABLE",
  });
});

test("a proxy that does not answer, or lets nothing through, is told as what may be wrong", async () => {
  const wrong = async (env: Record<string, string>, url: string) => {
    await using http = aClient(env);
    return await http.send({ ...calm, method: "GET", url }).catch(({ message, hint }: CliError) => ({ message, hint }));
  };
  const hint = expect.stringMatching(/HTTPS_PROXY.*NO_PROXY=shop\.example\.test/);
  expect(await wrong({ HTTP_PROXY: "http://me:secret@127.0.0.1:9" }, "http://shop.example.test")).toMatchObject({
    hint,
    message: "Cannot reach http://shop.example.test: nothing listens there",
  });
  const refusing = createServer((socket) => {
    socket.once("data", () => socket.end("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"));
  });
  await new Promise<void>((resolve) => refusing.listen(0, "127.0.0.1", resolve));
  const { port } = refusing.address() as AddressInfo;
  const refused = await wrong({ HTTPS_PROXY: `127.0.0.1:${port}` }, "https://shop.example.test");
  await new Promise((resolve) => refusing.close(resolve));
  expect(refused).toMatchObject({
    message: "Cannot reach https://shop.example.test: the proxy lets nothing through",
    hint,
  });
});

test("a proxy is named with or without a scheme, and what is none is told so", async () => {
  await using http = aClient({ http_proxy: "127.0.0.1:9" });
  await expect(http.send({ ...calm, method: "GET", url: "http://shop.example.test" })).rejects.toMatchObject({
    code: "CLOUD_UNAVAILABLE",
  });
  for (const none of ["ftp://proxy.test", "http://[x"])
    expect(() => createHttp(systemClock, { HTTPS_PROXY: none })).toThrow("HTTPS_PROXY is not the address of a proxy");
});

test("an answer that is too large is refused, and one that is not wanted is not read", async () => {
  await using api = await startApi({ "GET /": ok({ text: "x".repeat(5000) }) });
  await using http = aClient();
  await expect(http.send({ ...calm, method: "GET", url: api.url })).rejects.toMatchObject({
    code: "CLOUD_UNAVAILABLE",
    message: expect.stringContaining("larger"),
  });
  expect((await http.send({ ...calm, maxBytes: 0, method: "GET", url: api.url })).body).toBe("");
});

test("a server that says nothing is given up in time", async () => {
  const silent = createServer(() => {});
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const address = silent.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  await using http = aClient();
  const url = `http://127.0.0.1:${address.port}`;
  await expect(http.send({ ...calm, timeoutMs: 200, method: "GET", url })).rejects.toMatchObject({
    code: "CLOUD_UNAVAILABLE",
    message: `Cannot reach ${url}: it does not answer`,
  });
  silent.close();
});

test("an interrupted call ends with the interruption", async () => {
  const stop = new AbortController();
  await using api = await startApi({
    "GET /": () => {
      stop.abort("SIGINT");
      return ok({});
    },
  });
  await using http = aClient();
  await expect(http.send({ ...calm, signal: stop.signal, method: "GET", url: api.url })).rejects.not.toHaveProperty(
    "code",
    "CLOUD_UNAVAILABLE",
  );
});

const coded = (code: string) => Object.assign(new Error(code), { code });

test.each([
  [coded("ECONNREFUSED"), "nothing listens there"],
  [new AggregateError([coded("ECONNREFUSED")]), "nothing listens there"],
  [new TypeError("fetch failed", { cause: coded("ENOTFOUND") }), "the name cannot be resolved"],
  [coded("UND_ERR_CONNECT_TIMEOUT"), "it does not answer"],
  [new DOMException("late", "TimeoutError"), "it does not answer"],
  [coded("SELF_SIGNED_CERT_IN_CHAIN"), "SELF_SIGNED_CERT_IN_CHAIN"],
  [coded("ERR_SSL_WRONG_VERSION_NUMBER"), "ERR_SSL_WRONG_VERSION_NUMBER"],
  [coded("ENOSUCHTHING"), "ENOSUCHTHING"],
  [new Error("no code"), "the request failed"],
])("%s is told as: %s", (cause, words) => {
  const error = networkError("https://localhost:1/x", cause);
  expect(error.code).toBe("CLOUD_UNAVAILABLE");
  expect(error.message).toContain(words);
  expect(error.hint).toMatch(/\w/);
});
