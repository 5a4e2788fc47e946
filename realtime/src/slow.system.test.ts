import { once } from "node:events";
import { connect } from "node:net";
import { expect, test } from "vitest";
import type { RealtimeOptions } from "./options.ts";
import { assembleRealtime } from "./realtime.ts";
import { createManualMachine } from "./testing/machine.ts";
import { carriers, serve } from "./testing/server.ts";
import { open } from "./testing/stream.ts";

const mebibyte = 1024 * 1024;
const chunk = "x".repeat(64 * 1024);
const turn = () => new Promise((resolve) => setImmediate(resolve));

const aRealtime = (options: RealtimeOptions = {}) => {
  const { machine } = createManualMachine();
  return assembleRealtime({ throttle: false, ...options }, machine);
};

test.each(["node", "handler"] as const)(
  "by %s a client that does not read is cut off, and costs no more than it may",
  async (carrier) => {
    const realtime = aRealtime({ replay: false });
    await using server = await serve(carriers[carrier](realtime));
    const stalled = connect(server.port, "127.0.0.1");
    await once(stalled, "connect");
    stalled.pause();
    stalled.write("GET / HTTP/1.1\r\nhost: app.test\r\n\r\n");
    using reading = await open(server.url);
    await expect.poll(() => realtime.clientCount()).toBe(2);
    // The kernel takes some megabytes for it first.
    let sent = 0;
    while (realtime.clientCount() === 2 && sent < 64 * mebibyte) {
      realtime.publish("a", { data: chunk });
      sent += chunk.length;
      await turn();
    }
    expect(realtime.clientCount()).toBe(1);
    realtime.publish("a", { data: "last" });
    await expect.poll(() => reading.text.includes('"last"')).toBe(true);
    // What it had not read is thrown away and the connection gone.
    stalled.resume();
    await once(stalled, "close");
  },
);

test("a burst within one turn cuts nobody off who reads", async () => {
  const realtime = aRealtime({ replay: false });
  await using server = await serve(carriers.node(realtime));
  using reading = await open(server.url);
  for (let at = 0; at < 18; at += 1) realtime.publish("a", { data: chunk });
  realtime.publish("a", { data: "last" });
  await expect.poll(() => reading.text.includes('"last"')).toBe(true);
  expect(realtime.clientCount()).toBe(1);
});

test.each(["node", "handler"] as const)("by %s a replay of many megabytes comes whole", async (carrier) => {
  const realtime = aRealtime();
  await using server = await serve(carriers[carrier](realtime));
  using first = await open(server.url);
  realtime.publish("a", { data: "first" });
  await expect.poll(() => first.text.includes('"first"')).toBe(true);
  const [, last = ""] = /^id: (.*)$/m.exec(first.text) ?? [];
  for (let at = 0; at < 99; at += 1) {
    realtime.publish("a", { data: chunk });
    await turn();
  }
  using again = await open(server.url, { "last-event-id": last });
  realtime.publish("a", { data: "last" });
  await expect.poll(() => again.text.includes('"last"')).toBe(true);
  expect(again.text.match(/^id: /gm)).toHaveLength(100);
});
