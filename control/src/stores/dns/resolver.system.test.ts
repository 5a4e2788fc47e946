import { systemClock } from "@svc/runtime/system";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { agreed, createResolver, type Resolver } from "./resolver.ts";
import { startDns, type TestDns } from "./testing.ts";

let one: TestDns;
let other: TestDns;
let resolver: Resolver;
beforeAll(async () => {
  one = await startDns();
  other = await startDns("127.0.0.2");
  resolver = createResolver({ clock: systemClock, servers: [one.server, other.server], timeoutMs: 3_000 });
});
afterEach(() => {
  one.behave("answering");
  other.behave("answering");
});
afterAll(async () => {
  await one?.[Symbol.asyncDispose]();
  await other?.[Symbol.asyncDispose]();
});

const both = (name: string, records: Parameters<TestDns["set"]>[1]): void => {
  one.set(name, records);
  other.set(name, records);
};

describe("TXT", () => {
  test("has the strings of each record put together", async () => {
    one.set("long.example", { TXT: ["x".repeat(400), "svc-verify=a"] });
    expect(await resolver.txt("long.example")).toEqual({ kind: "found", values: ["x".repeat(400), "svc-verify=a"] });
  });

  test("of more than a datagram comes over TCP", async () => {
    const values = Array.from({ length: 61 }, (_, index) => `record ${index} ${"x".repeat(80)}`);
    one.set("many.example", { TXT: values });
    const answer = await resolver.txt("many.example");
    expect(answer.kind === "found" ? answer.values.toSorted() : answer).toEqual(values.toSorted());
  });
});

describe("addresses", () => {
  test("are those of both kinds", async () => {
    one.set("both.example", { A: ["192.0.2.1"], AAAA: ["2001:db8::1"] });
    expect(await resolver.addresses("both.example")).toEqual({ kind: "found", values: ["192.0.2.1", "2001:db8::1"] });
  });

  test("are at the end of CNAMEs", async () => {
    one.set("a.example", { CNAME: "b.example" });
    one.set("b.example", { CNAME: "c.example" });
    one.set("c.example", { A: ["192.0.2.7"] });
    expect(await resolver.addresses("a.example")).toEqual({ kind: "found", values: ["192.0.2.7"] });
  });

  test("are not there where a CNAME leads nowhere", async () => {
    one.set("dangling.example", { CNAME: "gone.example" });
    expect(await resolver.addresses("dangling.example")).toEqual({ kind: "absent" });
  });

  test("are unknown where CNAMEs lead in a circle", async () => {
    one.set("round.example", { CNAME: "trip.example" });
    one.set("trip.example", { CNAME: "round.example" });
    other.behave("failing");
    expect((await resolver.addresses("round.example")).kind).toBe("unknown");
  });
});

test("CAA has tags and values", async () => {
  one.set("caa.example", {
    CAA: [
      { tag: "issue", value: "ca.example" },
      { flags: 128, tag: "iodef", value: "mailto:a@b.example" },
    ],
  });
  expect(await resolver.caa("caa.example")).toEqual({
    kind: "found",
    values: [
      { critical: false, tag: "issue", value: "ca.example" },
      { critical: true, tag: "iodef", value: "mailto:a@b.example" },
    ],
  });
});

describe("nothing is told from not knowing", () => {
  test("no such name, and nothing of the kind, are absent", async () => {
    one.set("only-a.example", { A: ["192.0.2.1"] });
    expect(await resolver.txt("no-such.example")).toEqual({ kind: "absent" });
    expect(await resolver.txt("only-a.example")).toEqual({ kind: "absent" });
    expect(await resolver.caa("only-a.example")).toEqual({ kind: "absent" });
  });

  test("a server that fails is passed over, and all of them failing is unknown", async () => {
    other.set("spare.example", { TXT: ["here"] });
    one.behave("failing");
    expect(await resolver.txt("spare.example")).toEqual({ kind: "found", values: ["here"] });
    other.behave("failing");
    expect(await resolver.txt("spare.example")).toEqual({
      kind: "unknown",
      reason: `${one.server} answers with ESERVFAIL; ${other.server} answers with ESERVFAIL`,
    });
  });

  test("silence is unknown", async () => {
    one.behave("silent");
    const impatient = createResolver({ clock: systemClock, servers: [one.server], timeoutMs: 300 });
    expect((await impatient.txt("silent.example")).kind).toBe("unknown");
  });
});

describe("two servers agree", () => {
  const token = "svc-verify=token";
  const proof = () =>
    agreed(resolver, async (server) => {
      const answer = await server.txt("_svc.proof.example");
      if (answer.kind !== "found") return answer;
      return answer.values.includes(token) ? { kind: "found", values: [token] } : { kind: "absent" };
    });

  test("on what matters, whatever else they say", async () => {
    one.set("_svc.proof.example", { TXT: [token, "other"] });
    other.set("_svc.proof.example", { TXT: [token] });
    expect(await proof()).toEqual({ kind: "found", values: [token] });
  });

  test("or nothing is known", async () => {
    one.set("_svc.proof.example", { TXT: [token] });
    other.remove("_svc.proof.example");
    expect((await proof()).kind).toBe("unknown");
    other.behave("failing");
    expect((await proof()).kind).toBe("unknown");
  });
});

test("a thousand questions at once are all answered", async () => {
  for (let index = 0; index < 1_000; index += 1) both(`host-${index}.example`, { TXT: [`text ${index}`] });
  const answers = await Promise.all(Array.from({ length: 1_000 }, (_, index) => resolver.txt(`host-${index}.example`)));
  expect(answers.map((answer) => (answer.kind === "found" ? answer.values[0] : answer.kind))).toEqual(
    Array.from({ length: 1_000 }, (_, index) => `text ${index}`),
  );
});
