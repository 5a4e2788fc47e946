import { Observed } from "@svc/proto/node";
import { describe, expect, test } from "vitest";
import { freshMemory } from "../journal/records.ts";
import { type EntranceFacts, edgesReach, entrancesOf, goesBehindEntrance, isHidden, joined } from "./rules.ts";

const address = "10.0.0.7";

describe("a container that begins", () => {
  const all: EntranceFacts = { address, isOn: true, edgesKnow: true, proxyKnows: true };
  test.each([
    { when: "everybody knows entrances", facts: all, is: true },
    { when: "its node is on loopback", facts: { ...all, address: "127.0.1.1" }, is: false },
    { when: "an operator has switched them off", facts: { ...all, isOn: false }, is: false },
    { when: "an edge does not know them", facts: { ...all, edgesKnow: false }, is: false },
    { when: "the proxy of its node does not know them", facts: { ...all, proxyKnows: false }, is: false },
  ])("behind an entrance $is when $when", ({ facts, is }) => {
    expect(goesBehindEntrance(facts)).toBe(is);
  });
});

test.each([
  { upstream: "127.0.0.1:20000", at: address, is: true },
  { upstream: "10.0.0.7:20000", at: address, is: false },
  { upstream: "127.0.0.1:20000", at: "127.0.0.1", is: false },
  { upstream: null, at: address, is: false },
])("what is published at $upstream on a node at $at is hidden: $is", ({ upstream, at, is }) => {
  expect(isHidden(upstream, at)).toBe(is);
});

const record = (hostPort: number, behindEntrance: boolean, observed: Observed = Observed.RUNNING) => ({
  status: { observed } as Parameters<typeof edgesReach>[0]["status"],
  memory: { ...freshMemory, hostPort, behindEntrance },
});

test.each([
  { record: record(20_000, true), upstream: "127.0.0.1:20000", reach: "10.0.0.7:20000" },
  { record: record(20_000, false), upstream: "10.0.0.7:20000", reach: "10.0.0.7:20000" },
  { record: record(20_000, true), upstream: null, reach: null },
])("edges reach $upstream at $reach", ({ record, upstream, reach }) => {
  expect(edgesReach(record, upstream, address)).toBe(reach);
});

const at = (port: number) => ({ port, to: { host: "127.0.0.1", port } });

test("every placement that is behind one has its entrance until it is removed", () => {
  const records = [
    record(20_003, true),
    record(20_001, true, Observed.FAILED),
    record(20_002, true, Observed.REMOVED),
    record(20_004, false),
    record(0, true),
  ];
  expect(entrancesOf(records)).toEqual([at(20_001), at(20_003)]);
});

test("entrances that were found stay beside one's own, which count where both name a port", () => {
  const other = { port: 2, to: { host: "127.0.0.1", port: 9 } };
  expect(joined([at(2), at(4)], [at(1), other])).toEqual([at(1), at(2), at(4)]);
});
