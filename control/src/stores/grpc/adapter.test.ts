import { once } from "node:events";
import { credentials, Metadata, Server, ServerCredentials, status } from "@grpc/grpc-js";
import { KV, Lease, type LeaseKeepAliveResponse, Maintenance, type RangeResponse } from "@svc/proto/etcd";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { dial, metadata, type ServiceClient, serve, serviceDefinition, unary } from "./adapter.ts";

const none = new Metadata();
const bytes = (text: string) => Buffer.from(text);
const notHere = () => {
  throw new Error("not part of this test");
};

let server: Server;
let address: string;
let clients: {
  kv: ServiceClient<typeof KV>;
  lease: ServiceClient<typeof Lease>;
  maintenance: ServiceClient<typeof Maintenance>;
};

beforeAll(async () => {
  server = new Server();
  serve(server, KV, {
    range: ({ request, metadata: sent }, reply) => {
      const key = Buffer.from(request.key).toString();
      if (key === "missing") return reply({ code: status.NOT_FOUND, details: "no such key" });
      // A reply may be a plain object, with what is not given left at its default.
      if (key !== "never")
        reply(null, { count: request.limit, kvs: [{ key: request.key, value: bytes(String(sent.get("who"))) }] });
    },
    put: notHere,
    deleteRange: notHere,
    txn: notHere,
    compact: notHere,
  });
  serve(server, Lease, {
    leaseGrant: notHere,
    leaseRevoke: notHere,
    leaseTimeToLive: notHere,
    leaseLeases: notHere,
    leaseKeepAlive: (call) => {
      call.on("data", ({ ID }) => call.write({ ID, TTL: 7n }));
      call.on("end", () => call.end());
    },
  });
  server.addService(serviceDefinition(Maintenance), {
    snapshot: (call: { write(part: object): void; end(): void }) => {
      for (const part of ["a", "b"]) call.write({ blob: bytes(part) });
      call.end();
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  address = `127.0.0.1:${port}`;
  const trust = credentials.createInsecure();
  clients = {
    kv: dial(KV, address, trust),
    lease: dial(Lease, address, trust),
    maintenance: dial(Maintenance, address, trust),
  };
});
afterAll(() => {
  for (const client of Object.values(clients)) client.close();
  server.forceShutdown();
});

const range = (key: string, options: { deadline?: number } = {}, signal?: AbortSignal) =>
  unary<RangeResponse>(
    (reply) => clients.kv.range({ key: bytes(key), limit: 2n ** 62n }, metadata({ who: "me" }), options, reply),
    signal,
  );

describe("a unary call", () => {
  it("carries messages and metadata, 64-bit numbers exactly", async () => {
    const reply = await range("k");
    expect(reply).toMatchObject({ count: 2n ** 62n, more: false });
    expect(reply.kvs.map(({ key, value }) => [Buffer.from(key).toString(), Buffer.from(value).toString()])).toEqual([
      ["k", "me"],
    ]);
  });

  it("fails with the code that the handler gave", async () => {
    await expect(range("missing")).rejects.toMatchObject({ code: status.NOT_FOUND, details: "no such key" });
  });

  it("ends at its deadline", async () => {
    await expect(range("never", { deadline: Date.now() + 50 })).rejects.toMatchObject({
      code: status.DEADLINE_EXCEEDED,
    });
  });

  it("ends with its signal, also one that aborted before", async () => {
    const stop = new AbortController();
    const call = range("never", {}, stop.signal);
    stop.abort();
    await expect(call).rejects.toMatchObject({ code: status.CANCELLED });
    await expect(range("never", {}, stop.signal)).rejects.toMatchObject({ code: status.CANCELLED });
  });
});

describe("a streaming call", () => {
  it("receives what the server streams", async () => {
    const parts: string[] = [];
    for await (const part of clients.maintenance.snapshot({}, none)) parts.push(Buffer.from(part.blob).toString());
    expect(parts).toEqual(["a", "b"]);
  });

  it("sends and receives in both directions", async () => {
    const call = clients.lease.leaseKeepAlive();
    const answered: bigint[] = [];
    call.on("data", ({ ID, TTL }: LeaseKeepAliveResponse) => void answered.push(ID * TTL));
    call.write({ ID: 2n });
    call.write({ ID: 3n });
    call.end();
    await once(call, "end");
    expect(answered).toEqual([14n, 21n]);
  });
});
