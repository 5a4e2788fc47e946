import { describe, expect, test } from "vitest";
import { type EgressFacts, parseEgressTarget, renderEgress } from "./egress.ts";

const facts: EgressFacts = {
  family: 4,
  mode: "closed",
  allow: [],
  nameservers: [],
  bridges: ["svc+"],
  key: "me",
  minute: 1_000,
  present: [],
};
const rules = (changes: Partial<EgressFacts> = {}): string[] =>
  renderEgress({ ...facts, ...changes })
    .split("\n")
    .filter((line) => line.startsWith("-A SVC-OUTPUT "))
    .map((line) => line.slice("-A SVC-OUTPUT ".length));

/** What becomes of a new connection over an interface: the first rule that fits it says. Good enough for whole ranges. */
function verdict(lines: readonly string[], to: { range: string; port?: number; over?: string }): "rejected" | "left" {
  const fits = (rule: string): boolean => {
    const [, over] = /-o (\S+)/.exec(rule) ?? [];
    const [, range] = /-d (\S+)/.exec(rule) ?? [];
    const [, port] = /--dport (\d+)/.exec(rule) ?? [];
    if (rule.includes("--ctstate") || /-p (?:udp|ipv6-icmp)/.test(rule)) return false;
    if (over !== undefined && over !== (to.over ?? "eth0")) return false;
    return (range === undefined || range === to.range) && (port === undefined || port === String(to.port ?? 80));
  };
  return lines.find(fits)?.includes("-j REJECT") === true ? "rejected" : "left";
}

const target = (text: string) => {
  const found = parseEgressTarget(text);
  if (found === null) throw new Error(text);
  return found;
};

describe("a connection that a program of the machine begins", () => {
  const metadata = { range: "169.254.0.0/16" };
  const inside = { range: "10.0.0.0/8" };
  test.each([
    { when: "the node is dedicated", changes: {}, to: inside, becomes: "rejected" },
    { when: "the node is dedicated", changes: {}, to: { range: "192.168.0.0/16" }, becomes: "rejected" },
    { when: "the node is dedicated", changes: {}, to: metadata, becomes: "rejected" },
    { when: "the node is dedicated", changes: {}, to: { range: "168.63.129.16/32" }, becomes: "rejected" },
    { when: "the node is dedicated", changes: {}, to: { range: "8.8.8.8/32" }, becomes: "left" },
    { when: "it goes to this machine", changes: {}, to: { ...inside, over: "lo" }, becomes: "left" },
    { when: "it goes to a container", changes: {}, to: { ...inside, over: "svc+" }, becomes: "left" },
    { when: "the machine is somebody's", changes: { mode: "metadata" }, to: inside, becomes: "left" },
    { when: "the machine is somebody's", changes: { mode: "metadata" }, to: metadata, becomes: "rejected" },
    { when: "nothing is closed", changes: { mode: "open" }, to: metadata, becomes: "left" },
    { when: "the network is of one link", changes: { family: 6 }, to: { range: "fe80::/10" }, becomes: "rejected" },
    {
      when: "the machine is somebody's",
      changes: { family: 6, mode: "metadata" },
      to: { range: "fe80::a9fe:a9fe/128" },
      becomes: "rejected",
    },
    { when: "it is named", changes: { allow: [target("10.0.0.0/8")] }, to: inside, becomes: "left" },
    {
      when: "its port is",
      changes: { allow: [target("10.0.0.0/8:5432")] },
      to: { ...inside, port: 5432 },
      becomes: "left",
    },
    { when: "another port is", changes: { allow: [target("10.0.0.0/8:5432")] }, to: inside, becomes: "rejected" },
    { when: "the operator names it", changes: { allow: [target("169.254.0.0/16:80")] }, to: metadata, becomes: "left" },
    { when: "IPv6 is private", changes: { family: 6 }, to: { range: "fc00::/7" }, becomes: "rejected" },
    {
      when: "IPv6 is named",
      changes: { family: 6, allow: [target("fc00::/7")] },
      to: { range: "fc00::/7" },
      becomes: "left",
    },
    {
      when: "it is metadata by IPv6",
      changes: { family: 6, mode: "metadata" },
      to: { range: "fd00:ec2::254/128" },
      becomes: "rejected",
    },
  ] as const)("to $to.range is $becomes when $when", ({ changes, to, becomes }) => {
    expect(verdict(rules(changes), to)).toBe(becomes);
  });

  test("to a resolver is left alone before anything is closed, wherever it is", () => {
    const lines = rules({ nameservers: ["169.254.169.253"] });
    const resolving = lines.findIndex((line) => line.startsWith("-d 169.254.169.253/32 -p udp"));
    expect(resolving).toBeGreaterThan(0);
    expect(resolving).toBeLessThan(lines.findIndex((line) => line.includes("REJECT")));
  });

  test("is never accepted: the operator's own rules come after", () => {
    const all = rules({ mode: "open", allow: [target("10.0.0.1")], nameservers: ["10.0.0.2"] });
    expect(all.every((line) => /-j (?:RETURN|REJECT)\b/.test(line))).toBe(true);
  });
});

describe("agents of one machine", () => {
  /** The chain after each agent has written it in turn. */
  const written = (...turns: Partial<EgressFacts>[]): string[] =>
    turns.reduce<string[]>(
      (present, changes) => rules({ ...changes, present: present.map((rule) => `-A SVC-OUTPUT ${rule}`) }),
      [],
    );
  const inside = { range: "10.0.0.0/8" };

  test("leave one another's needs alone", () => {
    const one = { key: "one", allow: [target("10.0.0.0/8:1")] };
    const two = { key: "two", allow: [target("10.0.0.0/8:2")] };
    const lines = written(one, two, one, one);
    expect(verdict(lines, { ...inside, port: 1 })).toBe("left");
    expect(verdict(lines, { ...inside, port: 2 })).toBe("left");
    expect(verdict(lines, { ...inside, port: 3 })).toBe("rejected");
    expect(lines.filter((line) => line.includes("--dport 1 "))).toHaveLength(1);
  });

  test("that disagree have what the one needs that needs most", () => {
    const closed = { key: "one" };
    expect(verdict(written(closed, { key: "two", mode: "metadata" }, closed), inside)).toBe("left");
    expect(verdict(written(closed, { key: "two", mode: "open" }, closed), { range: "169.254.0.0/16" })).toBe("left");
    expect(verdict(written(closed, { key: "two", mode: "metadata" }, closed), { range: "169.254.0.0/16" })).toBe(
      "rejected",
    );
  });

  test("change their own mind, and are forgotten after an hour", () => {
    expect(verdict(written({ mode: "metadata" }, {}), inside)).toBe("rejected");
    const other = { key: "two", mode: "metadata" as const };
    expect(verdict(written(other, { minute: 1_059 }), inside)).toBe("left");
    expect(verdict(written(other, { minute: 1_060 }), inside)).toBe("rejected");
  });

  test("take over nothing that no agent wrote", () => {
    const present = ["-A SVC-OUTPUT -j ACCEPT", '-A SVC-OUTPUT -m comment --comment "svc-allow:x:1000" -j ACCEPT'];
    expect(rules({ present })).toEqual(rules());
    // As the tables are printed.
    const quoted = ['-A SVC-OUTPUT -d 10.0.0.9/32 -m comment --comment "svc-allow:x:1000" -j RETURN'];
    expect(rules({ present: quoted })).toHaveLength(rules().length + 1);
  });
});

test.each([
  { text: "10.0.0.5", target: { network: "10.0.0.5/32", family: 4, port: null } },
  { text: "10.0.0.0/8", target: { network: "10.0.0.0/8", family: 4, port: null } },
  { text: "10.0.0.5:5432", target: { network: "10.0.0.5/32", family: 4, port: 5432 } },
  { text: "10.0.0.0/24:5432", target: { network: "10.0.0.0/24", family: 4, port: 5432 } },
  { text: "fd00::5", target: { network: "fd00::5/128", family: 6, port: null } },
  { text: "fd00::/8", target: { network: "fd00::/8", family: 6, port: null } },
  { text: "[fd00::5]:5432", target: { network: "fd00::5/128", family: 6, port: 5432 } },
  { text: "[fd00::]/64:5432", target: { network: "fd00::/64", family: 6, port: 5432 } },
  ...[
    "",
    "x.test",
    "10.0.0",
    "10.0.0.0/33",
    "10.0.0.1:0",
    "10.0.0.1:70000",
    "[10.0.0.1]:1",
    "fd00::/129",
    "0x7f.1",
    "::g",
  ].map((text) => ({ text, target: null })),
])("'$text' names $target", ({ text, target: expected }) => {
  expect(parseEgressTarget(text)).toEqual(expected);
});
