import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { duplexPair } from "node:stream";
import { text } from "node:stream/consumers";
import { systemClock } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { splice } from "./splice.ts";

/** A client and a server with a splice between them; `end` is what it says of its end. */
async function spliced() {
  const listening = new WebSocketServer({ host: "127.0.0.1", port: 0, maxPayload: 1024 });
  await once(listening, "listening");
  const client = new WebSocket(`ws://127.0.0.1:${(listening.address() as AddressInfo).port}`);
  client.on("error", () => {});
  const [[webSocket]] = await Promise.all([once(listening, "connection"), once(client, "open")]);
  const [line, server] = duplexPair();
  line.on("error", () => {});
  const end = splice(webSocket as WebSocket, line, { clock: systemClock, messageBytesMax: 1024, idleMs: 60_000 });
  const closed = once(client, "close").then(([code, reason]) => ({ code, reason: String(reason) }));
  return {
    ...{ client, webSocket: webSocket as WebSocket, line, server, end, closed },
    [Symbol.asyncDispose]: async () => {
      client.terminate();
      await new Promise((resolve) => listening.close(resolve));
    },
  };
}

test("what either side says reaches the other, and the end is told as one", async () => {
  await using both = await spliced();
  both.client.send(Buffer.from("asked"));
  expect(String((await once(both.server, "data"))[0])).toBe("asked");
  const told = once(both.client, "message");
  both.server.end("answered");
  expect(String((await told)[0])).toBe("answered");
  expect(await both.closed).toEqual({ code: 1000, reason: "the server ended it" });
  expect(await both.end).toEqual({ bytesIn: 5, bytesOut: 8, why: "the server ended it" });
});

test("why the way broke is told as whoever broke it said, in as many bytes as fit", async () => {
  const why = "Control no longer listens to the database's node.";
  await using both = await spliced();
  both.line.destroy(new Error(why));
  expect(await both.closed).toEqual({ code: 1011, reason: `the way to the database broke: ${why}` });
  await using other = await spliced();
  other.line.destroy(new Error("é".repeat(200)));
  expect((await other.closed).reason).toMatch(/^the way to the database broke: é+…$/);
});

test("a way that broke before anybody listened, and without a word, is told so", async () => {
  await using both = await spliced();
  both.line.destroy();
  expect(await both.closed).toEqual({ code: 1011, reason: "the way to the database broke" });
});

test.each([
  { who: "a client that is done", does: (client: WebSocket) => client.close(), why: "the client ended it" },
  { who: "a client that is gone", does: (client: WebSocket) => client.terminate(), why: "the client is gone" },
  {
    who: "a client that sends too much at once",
    does: (client: WebSocket) => client.send(Buffer.alloc(2048)),
    why: "the client sent what is not taken: Max payload size exceeded",
  },
  {
    who: "a client that sends text",
    does: (client: WebSocket) => client.send("select 1"),
    why: "only binary messages are taken",
  },
])("of $who it is said that $why", async ({ does, why }) => {
  await using both = await spliced();
  does(both.client);
  expect((await both.end).why).toBe(why);
  expect(await text(both.server)).toBe("");
});

test("of a replica that stops it is not said that the client ended it", async () => {
  await using both = await spliced();
  both.webSocket.close(1001, "control stops");
  expect((await both.end).why).toBe("control stops");
  expect(await both.closed).toEqual({ code: 1001, reason: "control stops" });
});
