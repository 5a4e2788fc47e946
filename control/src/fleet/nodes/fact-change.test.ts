import { expect, test } from "vitest";
import { factChange, type TracedFacts } from "./fact-change.ts";

const capacity = { memoryMb: 4096, cpuMillicores: 4000, pids: 1000, diskMb: 10_000 };
const facts = (change: Partial<TracedFacts> = {}): TracedFacts => ({
  ...{ address: "10.0.0.7", labels: { zone: "a", disk: "fast" }, capacity },
  ...change,
});

test.each([
  { when: "nothing", before: {}, after: { labels: { disk: "fast", zone: "a" } }, text: null },
  {
    when: "everything, at its first hello",
    before: { address: null, labels: {}, capacity: null },
    after: {},
    text: null,
  },
  { when: "its address", before: {}, after: { address: "10.0.0.8" }, text: "says of itself: another address" },
  {
    when: "its size",
    before: {},
    after: { capacity: { ...capacity, memoryMb: 8192, pids: 2000 } },
    text: "says of itself: memory 8192 MiB (was 4096); process ids 2000 (was 1000)",
  },
  {
    when: "all of it",
    before: { capacity: null },
    after: { address: "node.test", labels: { zone: "b" }, capacity: { ...capacity, diskMb: 0, pids: 0 } },
    text: "says of itself: another address; memory 4096 MiB (was 0); processors 4000 millicores (was 0); labels: without disk, zone=b (was a)",
  },
])("a machine that says $when otherwise", ({ before, after, text }) => {
  expect(factChange(facts(before), facts(after))).toBe(text);
});

test("what is told has an end", () => {
  const labels = Object.fromEntries(Array.from({ length: 64 }, (_, n) => [`l${n}`, "x".repeat(253)]));
  expect((factChange(facts(), facts({ labels })) ?? "").length).toBeLessThanOrEqual(500);
});
