import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createResolver, type Resolver } from "./resolver.ts";
import { startDns, type TestDns } from "./testing.ts";
import { askZone } from "./zone.ts";

const zone = "shop.example";
const name = `_svc.www.${zone}`;
let recursors: TestDns[];
let own: TestDns[];
let resolver: Resolver;
beforeAll(async () => {
  recursors = [await startDns(), await startDns("127.0.0.2")];
  own = [await startDns("127.0.0.3"), await startDns("127.0.0.4")];
  resolver = createResolver({ clock: systemClock, servers: recursors.map(({ server }) => server), timeoutMs: 3_000 });
});
afterAll(async () => {
  for (const dns of [...(recursors ?? []), ...(own ?? [])]) await dns[Symbol.asyncDispose]();
});
beforeEach(() => {
  for (const dns of [...recursors, ...own]) {
    dns.behave("answering");
    dns.remove(name);
  }
  for (const dns of recursors) {
    dns.set(zone, { NS: ["ns1.servers.example", "ns2.servers.example"] });
    dns.set("ns1.servers.example", { A: ["127.0.0.3"] });
    dns.set("ns2.servers.example", { A: ["127.0.0.4"] });
  }
});

const serverAt = (address: string) => own.find(({ server }) => server.startsWith(`${address}:`))?.server ?? null;
const asked = (options: { serverAt?: typeof serverAt } = { serverAt }) =>
  askZone({ resolver, ...options }, name, zone, (server) => server.txt(name));

test("the zone's own servers say what recursors do not know yet", async () => {
  for (const dns of own) dns.set(name, { TXT: ["proof"] });
  expect(await resolver.txt(name)).toEqual({ kind: "absent" });
  expect(await asked()).toEqual({ kind: "found", values: ["proof"] });
});

test("two of them have to say the same", async () => {
  own[0]?.set(name, { TXT: ["proof"] });
  expect((await asked()).kind).toBe("unknown");
  own[1]?.behave("failing");
  expect((await asked()).kind).toBe("unknown");
});

test("who they are is what recursors agree on", async () => {
  for (const dns of own) dns.set(name, { TXT: ["proof"] });
  recursors[0]?.set(zone, { NS: ["ns1.servers.example"] });
  expect((await asked()).kind).toBe("unknown");
});

test("none is asked that is not on the public internet", async () => {
  for (const dns of own) {
    dns.set(name, { TXT: ["proof"] });
    dns.asked.length = 0;
  }
  expect((await asked({})).kind).toBe("unknown");
  expect(own.flatMap((dns) => dns.asked)).toEqual([]);
});

test("names above the zone's highest are nobody's business", async () => {
  for (const dns of recursors) {
    dns.set(zone, {});
    dns.set("example", { NS: ["ns1.servers.example"] });
  }
  expect((await asked()).kind).toBe("unknown");
  expect(recursors.flatMap((dns) => dns.asked)).not.toContain("NS example");
});
