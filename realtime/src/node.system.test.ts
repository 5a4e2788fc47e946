import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect as connectHttp2, createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { run } from "@svc/runtime/command";
import { thisNode } from "@svc/runtime/programs";
import { expect, test } from "vitest";
import { assembleRealtime } from "./realtime.ts";
import { createManualMachine } from "./testing/machine.ts";
import { serve } from "./testing/server.ts";
import { open } from "./testing/stream.ts";

test("over HTTP/2 a stream has no header of a connection, and ends with its client", async () => {
  const { machine } = createManualMachine();
  const realtime = assembleRealtime({ replay: false }, machine);
  const warnings: string[] = [];
  const note = ({ name }: Error) => void warnings.push(name);
  process.on("warning", note);
  const server = createServer((request, response) =>
    realtime.node(request as unknown as IncomingMessage, response as unknown as ServerResponse),
  );
  await once(server.listen(0, "127.0.0.1"), "listening");
  const session = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  try {
    const stream = session.request({ ":path": "/?channels=a" }).setEncoding("utf8");
    const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
    expect(headers).toMatchObject({ ":status": 200, "content-type": "text/event-stream", "cache-control": "no-cache" });
    expect(headers).not.toHaveProperty("connection");
    realtime.publish("a", { data: 1 });
    expect(await once(stream, "data")).toEqual(['event: message\ndata: {"channel":"a","data":1}\n\n']);
    expect(realtime.clientCount()).toBe(1);
    stream.close();
    await expect.poll(() => realtime.clientCount()).toBe(0);
    expect(warnings).toEqual([]);
  } finally {
    process.off("warning", note);
    session.close();
    server.close();
  }
});

test("a request that somebody else answered while the application was asked is left alone", async () => {
  const { machine } = createManualMachine();
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const realtime = assembleRealtime({ maxClients: 1, authorize: () => promise }, machine);
  await using server = await serve((request, response) => {
    realtime.node(request, response);
    if (request.url?.includes("late")) response.writeHead(504).end("took too long");
  });
  using late = await open(`${server.url}/late?channels=a`);
  await late.ended;
  resolve(true);
  using next = await open(`${server.url}/?channels=a`);
  expect([late.status, late.text, next.status]).toEqual([504, "took too long", 200]);
});

test("a stream that the application ends itself is a client that left", async () => {
  const { machine } = createManualMachine();
  const realtime = assembleRealtime({}, machine);
  let end = (): void => {};
  await using server = await serve((request, response) => {
    realtime.node(request, response);
    end = () => void response.end();
  });
  using client = await open(server.url);
  end();
  realtime.publish("a", { data: 1 });
  await client.ended;
  await expect.poll(() => realtime.clientCount()).toBe(0);
});

test("nothing of it keeps a process alive that has something to end for", async () => {
  const script = `
    const { createRealtime } = await import(${JSON.stringify(new URL("./index.ts", import.meta.url).href)});
    const realtime = createRealtime({ adapter: { publish: () => {}, subscribe: async () => () => {} } });
    realtime.handler(new Request("http://app.test/"));
    console.log(realtime.clientCount(), realtime.publish("a", { data: 1 }).delivered);
  `;
  const { stdout } = await run([thisNode, "--input-type=module", "--eval", script]);
  expect(stdout).toBe("1 true\n");
});
