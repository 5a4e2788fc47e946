import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { RealtimeEvent } from "./options.ts";
import { createPostgresAdapter, PostgresAdapterError, type PostgresAdapterOptions } from "./postgres.ts";
import { assembleRealtime } from "./realtime.ts";
import { createManualMachine } from "./testing/machine.ts";
import { type TestDatabase, testDatabase } from "./testing/postgres.ts";

let database: TestDatabase;
beforeEach(async () => {
  database = await testDatabase();
});
afterEach(() => database[Symbol.asyncDispose]());

/** An adapter with what it heard and what went wrong. */
function anAdapter(options: Partial<PostgresAdapterOptions> = {}) {
  const heard: RealtimeEvent[] = [];
  const faults: PostgresAdapterError[] = [];
  const adapter = createPostgresAdapter({
    sql: database.connect(),
    onError: (error) => void faults.push(error),
    ...options,
  });
  return { adapter, heard, faults, listen: () => adapter.subscribe((event) => void heard.push(event)) };
}

/** Bytes of an envelope without its data, which is a text. */
const envelopeBytes = JSON.stringify({ origin: "0".repeat(16), channel: "a", event: "message", data: "" }).length;

test("an event reaches the other instances with all that it has, and not the one that sent it", async () => {
  const [here, there] = [anAdapter(), anAdapter()];
  await here.listen();
  await there.listen();
  const event = { channel: "a'\n\u0000", event: "added", data: { title: "tea 🍵\u2028\\u0000" } };
  await here.adapter.publish(event);
  await here.adapter.publish({ channel: "b", data: undefined });
  await expect.poll(() => there.heard).toEqual([event, { channel: "b", event: "message", data: null }]);
  // What comes after its own shows that its own has passed.
  await there.adapter.publish({ channel: "c", data: 1 });
  await expect.poll(() => here.heard).toEqual([{ channel: "c", event: "message", data: 1 }]);
  expect([...here.faults, ...there.faults]).toEqual([]);
});

test("the envelope is what other makers would read", async () => {
  const payloads: string[] = [];
  await database.connect().listen("svc_realtime", (payload) => void payloads.push(payload));
  await anAdapter().adapter.publish({ channel: "a", event: "x", data: [1] });
  await expect.poll(() => payloads.length).toBe(1);
  expect(JSON.parse(payloads[0] ?? "")).toEqual({
    origin: expect.stringMatching(/^[0-9a-f]{16}$/),
    channel: "a",
    event: "x",
    data: [1],
  });
});

test("adapters of another notification channel hear nothing", async () => {
  const [here, there] = [anAdapter({ channel: 'other "one"' }), anAdapter()];
  await here.listen();
  await there.listen();
  const third = anAdapter({ channel: 'other "one"' });
  await third.listen();
  await here.adapter.publish({ channel: "a", data: 1 });
  await expect.poll(() => third.heard.length).toBe(1);
  expect(there.heard).toEqual([]);
});

test.each(["", "x".repeat(64), "ü".repeat(32)])("no adapter is made for the notification channel %j", (channel) => {
  expect(() => anAdapter({ channel })).toThrow(RangeError);
});

describe("an event of", () => {
  const there = async () => {
    const other = anAdapter();
    await other.listen();
    return other;
  };

  test.each([
    { when: "7,500 bytes", data: "x".repeat(7_500 - envelopeBytes) },
    { when: "as many in fewer characters", data: "ü".repeat((7_500 - envelopeBytes) / 2) },
  ])("$when is sent", async ({ data }) => {
    const [here, other] = [anAdapter(), await there()];
    await here.adapter.publish({ channel: "a", data });
    await expect.poll(() => other.heard.length).toBe(1);
    expect(here.faults).toEqual([]);
  });

  test.each([
    { when: "7,501 bytes", data: "x".repeat(7_501 - envelopeBytes) },
    { when: "as many in fewer characters", data: "ü".repeat((7_502 - envelopeBytes) / 2) },
  ])("$when is told and not sent", async ({ data }) => {
    const [here, other] = [anAdapter(), await there()];
    await here.adapter.publish({ channel: "a", data });
    await here.adapter.publish({ channel: "a", data: "next" });
    await expect.poll(() => other.heard.map((event) => event.data)).toEqual(["next"]);
    expect(here.faults.map(({ code }) => code)).toEqual(["payload_too_large"]);
  });
});

test("an event that is too large stays with the clients of its instance", async () => {
  const { machine } = createManualMachine();
  const faults: unknown[] = [];
  const options = { onAdapterError: (error: unknown) => void faults.push((error as PostgresAdapterError).code) };
  const realtime = assembleRealtime(
    { adapter: createPostgresAdapter({ sql: database.connect() }), ...options },
    machine,
  );
  const reader = (
    (await realtime.handler(new Request("http://app.test/"))).body as ReadableStream<Uint8Array>
  ).getReader();
  expect(realtime.publish("a", { data: "x".repeat(8_000) })).toEqual({ delivered: true });
  expect((await reader.read()).value?.byteLength).toBeGreaterThan(8_000);
  // Without onError it is an adapter's error like any other.
  await expect.poll(() => faults).toEqual(["payload_too_large"]);
  await realtime.close();
});

test.each(["", "nonsense", "null", "7", "[]", '{"origin":"x"}', '{"origin":1,"channel":"a","event":"e","data":1}'])(
  "the notification %j is told as malformed, and the next is heard",
  async (payload) => {
    const here = anAdapter();
    await here.listen();
    await database.admin.notify("svc_realtime", payload);
    await anAdapter().adapter.publish({ channel: "a", data: "next" });
    await expect.poll(() => here.heard.map(({ data }) => data)).toEqual(["next"]);
    expect(here.faults.map(({ code }) => code)).toEqual(["malformed_message"]);
  },
);

test("a subscription that ended hears nothing more", async () => {
  const here = anAdapter();
  const end = await here.listen();
  await end();
  const [still, sender] = [anAdapter(), anAdapter()];
  await still.listen();
  await sender.adapter.publish({ channel: "a", data: 1 });
  await expect.poll(() => still.heard.length).toBe(1);
  expect(here.heard).toEqual([]);
});

test("a listener whose connection was killed hears what is sent once it is back", async () => {
  const here = anAdapter();
  await here.listen();
  const [killed] = await database.admin<{ ok: boolean }[]>`select pg_terminate_backend(pid) as ok from pg_stat_activity
    where datname = current_database() and query ilike 'listen%'`;
  expect(killed?.ok).toBe(true);
  const sender = anAdapter();
  await expect
    .poll(async () => {
      await sender.adapter.publish({ channel: "a", data: "again" });
      return here.heard.length;
    })
    .toBeGreaterThan(0);
});

test("statements that fail are told by their codes, and to whoever waits", async () => {
  const sql = database.connect();
  const here = anAdapter({ sql });
  const end = await here.listen();
  await sql.end();
  await expect(here.adapter.publish({ channel: "a", data: 1 })).rejects.toMatchObject({ code: "notify_failed" });
  await expect(end()).rejects.toMatchObject({ code: "unlisten_failed" });
  expect(here.faults.map(({ code }) => code)).toEqual(["notify_failed", "unlisten_failed"]);
  expect(here.faults[0]).toBeInstanceOf(PostgresAdapterError);
  expect(here.faults[0]?.cause).toMatchObject({ code: "CONNECTION_ENDED" });
});

test("an instance that began before its database hears events once that is there", async () => {
  const sockets = new Set<Socket>();
  const front = createServer((client) => {
    const backend = connect(database.socket);
    for (const socket of [client, backend]) sockets.add(socket.on("error", () => {}));
    client.pipe(backend).pipe(client);
  });
  await once(front.listen(0, "127.0.0.1"), "listening");
  const { port } = front.address() as AddressInfo;
  await new Promise((resolve) => void front.close(resolve));

  const { machine } = createManualMachine();
  const faults: string[] = [];
  const early = anAdapter({ sql: database.connect({ host: "127.0.0.1", port }) });
  const realtime = assembleRealtime(
    {
      replay: false,
      adapter: early.adapter,
      onAdapterError: (error, { op }) => void faults.push(`${op} ${(error as PostgresAdapterError).code}`),
    },
    machine,
  );
  await expect.poll(() => faults).toEqual(["subscribe listen_failed"]);
  expect(early.faults.map(({ code }) => code)).toEqual(["listen_failed"]);
  const reader = (
    (await realtime.handler(new Request("http://app.test/"))).body as ReadableStream<Uint8Array>
  ).getReader();
  await once(front.listen(port, "127.0.0.1"), "listening");
  const sender = anAdapter();
  let text: string | null = null;
  void reader.read().then(({ value }) => {
    text = new TextDecoder().decode(value);
  });
  await expect
    .poll(async () => {
      await sender.adapter.publish({ channel: "a", data: 1 });
      return text;
    })
    .toBe('event: message\ndata: {"channel":"a","data":1}\n\n');
  await realtime.close();
  for (const socket of sockets) socket.destroy();
  front.close();
});
