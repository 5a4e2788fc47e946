import { fromJson, toJson } from "@bufbuild/protobuf";
import { RouteSchema, RouteTable_Kind } from "@svc/proto/edge";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Decision, decide, emptyTable, routeLine, type Table, tableText } from "./table.ts";
import { aComplete, aDelta, aPage, aProxy, aStatic } from "./testing/routes.ts";

const hosts = (count: number) => Array.from({ length: count }, (_, n) => `h${n}.test`);
const proxies = (...names: string[]) => names.map((host) => aProxy(host, "10.0.0.1:80"));
const tableOf = (generation: bigint, names: string[], clusterEpoch = 1n): Table => ({
  clusterEpoch,
  generation,
  routes: new Map(proxies(...names).map((route) => [route.host, route])),
});
const accepted = (decision: Decision): Table => {
  if ("refuse" in decision) throw new Error(decision.refuse);
  return decision.accept;
};

describe("decide accepts", () => {
  test.each([
    { when: "the first table", known: emptyTable, message: aComplete(5, proxies("a.test")), gives: ["a.test"] },
    {
      when: "a newer complete table",
      known: tableOf(5n, ["a.test"]),
      message: aComplete(7, proxies("a.test", "b.test")),
      gives: ["a.test", "b.test"],
    },
    {
      when: "the same generation again",
      known: tableOf(5n, ["a.test"]),
      message: aComplete(5, proxies("a.test")),
      gives: ["a.test"],
    },
    {
      when: "a change on top of ours",
      known: tableOf(5n, ["a.test", "b.test"]),
      message: aDelta(5, 9, { upserts: proxies("c.test"), removed: ["a.test"] }),
      gives: ["b.test", "c.test"],
    },
    {
      when: "a change that was applied already",
      known: tableOf(9n, ["a.test"]),
      message: aDelta(5, 9, { removed: ["a.test"] }),
      gives: ["a.test"],
    },
    {
      when: "an older generation of a newer epoch",
      known: tableOf(9n, ["a.test"]),
      message: aComplete(1, proxies("b.test"), { epoch: 2n }),
      gives: ["b.test"],
    },
    { when: "removal of a few hosts", known: tableOf(5n, hosts(10)), message: aComplete(6, []), gives: [] },
    {
      when: "removal of half the hosts",
      known: tableOf(5n, hosts(40)),
      message: aComplete(6, proxies(...hosts(20))),
      gives: hosts(20),
    },
    {
      when: "removal of all hosts, vouched for",
      known: tableOf(5n, hosts(40)),
      message: aComplete(6, [], { bulk: "yes" }),
      gives: [],
    },
  ])("$when", ({ known, message, gives }) => {
    const table = accepted(decide(known, true, message));
    expect([...table.routes.keys()].sort()).toEqual([...gives].sort());
    expect(table).toMatchObject({ generation: message.generation, clusterEpoch: message.clusterEpoch });
  });
});

describe("decide refuses", () => {
  test.each([
    { when: "an older generation", known: tableOf(5n, []), message: aComplete(4, []), resync: false },
    {
      when: "an older epoch, however new the generation",
      known: tableOf(5n, [], 2n),
      message: aComplete(99, []),
      resync: false,
    },
    {
      when: "a change on top of a generation that is not here",
      known: tableOf(5n, []),
      message: aDelta(6, 7, {}),
      resync: true,
    },
    { when: "a change on top of an older generation", known: tableOf(5n, []), message: aDelta(4, 6, {}), resync: true },
    { when: "a change of another epoch", known: tableOf(5n, []), message: aDelta(5, 6, { epoch: 2n }), resync: true },
    {
      when: "a table that loses more than half",
      known: tableOf(5n, hosts(40)),
      message: aComplete(6, proxies(...hosts(19))),
      resync: false,
    },
    {
      when: "a table that loses more than half and gains others",
      known: tableOf(5n, hosts(40)),
      message: aComplete(6, proxies("a.test", "b.test")),
      resync: false,
    },
    {
      when: "a change that removes more than half",
      known: tableOf(5n, hosts(40)),
      message: aDelta(5, 6, { removed: hosts(21) }),
      resync: false,
    },
    {
      when: "a message of no kind",
      known: emptyTable,
      message: { ...aComplete(1, []), kind: RouteTable_Kind.UNSPECIFIED },
      resync: true,
    },
  ])("$when", ({ known, message, resync }) => {
    expect(decide(known, true, message)).toEqual({ refuse: expect.any(String), resync });
  });

  test("a change while our table is not known as a whole", () => {
    expect(decide(tableOf(5n, ["a.test"]), false, aDelta(5, 6, {}))).toMatchObject({ resync: true });
    expect(decide(tableOf(5n, ["a.test"]), false, aComplete(5, proxies("a.test")))).toHaveProperty("accept");
    expect(decide(tableOf(5n, hosts(40)), false, aComplete(6, []))).toHaveProperty("refuse");
  });
});

test("a chain of changes gives what the complete table gives", () => {
  const names = fc.constantFrom(...hosts(6));
  const change = fc.record({
    upserts: fc.array(fc.tuple(names, fc.constantFrom("10.0.0.1:80", "10.0.0.2:80"))),
    removed: fc.array(names),
  });
  fc.assert(
    fc.property(fc.array(change, { maxLength: 12 }), (changes) => {
      let table = accepted(decide(emptyTable, true, aComplete(1, [])));
      const expected = new Map<string, string>();
      changes.forEach(({ upserts, removed }, n) => {
        for (const host of removed) expected.delete(host);
        for (const [host, upstream] of upserts) expected.set(host, upstream);
        const routes = upserts.map(([host, upstream]) => aProxy(host, upstream));
        table = accepted(decide(table, true, aDelta(n + 1, n + 2, { upserts: routes, removed, bulk: "yes" })));
      });
      const complete = [...expected].map(([host, upstream]) => aProxy(host, upstream));
      const whole = accepted(decide(emptyTable, true, aComplete(99, complete)));
      expect(tableText(table.routes)).toBe(tableText(whole.routes));
    }),
  );
});

test("routes that stayed the same stay the same objects, so only the others count as changed", () => {
  const first = accepted(decide(emptyTable, true, aComplete(1, proxies("a.test", "b.test", "c.test"))));
  const next = [aProxy("a.test", "10.0.0.1:80"), aPage("b.test", "STOPPED"), aProxy("d.test", "10.0.0.1:80")];
  for (const message of [aComplete(2, next), aDelta(1, 2, { upserts: next, removed: ["c.test", "e.test"] })]) {
    const decision = decide(first, true, message);
    if ("refuse" in decision) throw new Error(decision.refuse);
    expect(decision.accept.routes.get("a.test")).toBe(first.routes.get("a.test"));
    expect(decision.changed.sort()).toEqual(["b.test", "c.test", "d.test"]);
  }
});

test("the text of a table depends on neither the order of hosts nor that of fields", () => {
  const a = aStatic("a.test", `sha256:${"0".repeat(64)}`, true);
  const b = aProxy("b.test", "10.0.0.2:80", "10.0.0.1:80");
  const shuffled = fromJson(RouteSchema, Object.fromEntries(Object.entries(toJson(RouteSchema, a) ?? {}).reverse()));
  const text = tableText(
    new Map([
      ["a.test", a],
      ["b.test", b],
    ]),
  );
  expect(
    tableText(
      new Map([
        ["b.test", b],
        ["a.test", shuffled],
      ]),
    ),
  ).toBe(text);
  expect(text).toBe(`${routeLine(a)}\n${routeLine(b)}`);
  expect(routeLine(b)).toBe(
    '{"channel":"production","deploymentId":"d1","host":"b.test","projectId":"p1","proxy":{"upstreams":["10.0.0.2:80","10.0.0.1:80"]}}',
  );
});
