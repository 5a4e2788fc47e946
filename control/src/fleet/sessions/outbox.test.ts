import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { aDesired } from "../agents/builders.ts";
import {
  answered,
  type Change,
  type DesiredPlacement,
  emptyOutbox,
  isMassStop,
  type Outbox,
  pendingChanges,
  tell,
  verdict,
} from "./outbox.ts";

const desiredMap = (...items: DesiredPlacement[]) => new Map(items.map((item) => [item.value.placementId, item]));
const idsOf = (changes: readonly Change[]) =>
  changes.map((change) => ("upsert" in change ? change.upsert.value.placementId : `-${change.remove.placementId}`));

/** Tells everything that is pending, as the agent that answers at once would see it. */
function tellAll(outbox: Outbox, desired: ReadonlyMap<string, DesiredPlacement>, revision: bigint): Outbox {
  const { outbox: next, head } = tell(outbox, pendingChanges(outbox, desired), { revision, last: true });
  return answered(next, { resultsIn: head.resultsIn, resync: false });
}

describe("the chain", () => {
  test("begins with a complete message at the revision of the snapshot", () => {
    const desired = desiredMap(aDesired("a", { modRevision: 5n }), aDesired("b", { modRevision: 3n }));
    const changes = pendingChanges(emptyOutbox, desired);
    expect(idsOf(changes)).toEqual(["b", "a"]);
    const { head, outbox } = tell(emptyOutbox, changes, { revision: 9n, last: true });
    expect(head).toEqual({ kind: "complete", appliesTo: "", resultsIn: "9" });
    expect(pendingChanges(outbox, desired)).toEqual([]);
  });

  test("says complete also for an empty node", () => {
    const { head } = tell(emptyOutbox, [], { revision: 4n, last: true });
    expect(head).toEqual({ kind: "complete", appliesTo: "", resultsIn: "4" });
  });

  test("holds changes back until the last message is answered", () => {
    const first = tell(emptyOutbox, [], { revision: 4n, last: true }).outbox;
    const desired = desiredMap(aDesired("a", { modRevision: 6n }));
    expect(pendingChanges(first, desired)).toEqual([]);
    expect(pendingChanges(answered(first, { resultsIn: "3", resync: false }), desired)).toEqual([]);
    const ready = answered(first, { resultsIn: "4", resync: false });
    const { head } = tell(ready, pendingChanges(ready, desired), { revision: 6n, last: true });
    expect(head).toEqual({ kind: "delta", appliesTo: "4", resultsIn: "6" });
  });

  test("begins again when the agent asks, even out of turn", () => {
    const told = tellAll(emptyOutbox, desiredMap(aDesired("a", { modRevision: 3n })), 4n);
    const again = answered(told, { resultsIn: "whatever", resync: true });
    expect(tell(again, [], { revision: 8n, last: true }).head.kind).toBe("complete");
  });

  test("continues a large complete message with deltas that never go back", () => {
    const desired = desiredMap(aDesired("a", { modRevision: 3n }), aDesired("b", { modRevision: 5n }));
    const [first, second] = pendingChanges(emptyOutbox, desired);
    if (first === undefined || second === undefined) throw new Error("expected two changes");
    const part = tell(emptyOutbox, [first], { revision: 9n, last: false });
    expect(part.head).toEqual({ kind: "complete", appliesTo: "", resultsIn: "9" });
    const ready = answered(part.outbox, { resultsIn: "9", resync: false });
    expect(idsOf(pendingChanges(ready, desired))).toEqual(["b"]);
    expect(tell(ready, [second], { revision: 9n, last: true }).head).toEqual({
      kind: "delta",
      appliesTo: "9",
      resultsIn: "9",
    });
  });

  test("coalesces: only the newest of several changes is told", () => {
    const outbox = tellAll(emptyOutbox, desiredMap(aDesired("a", { modRevision: 3n })), 4n);
    const desired = desiredMap(aDesired("a", { modRevision: 12n, desired: "removed" }));
    const changes = pendingChanges(outbox, desired);
    expect(changes).toEqual([{ upsert: desired.get("a") }]);
  });
});

describe("a key that vanished", () => {
  test("is passed on when its placement was to be removed", () => {
    const outbox = tellAll(
      emptyOutbox,
      desiredMap(aDesired("a", { modRevision: 3n, desired: "removed", epoch: 7 })),
      4n,
    );
    expect(pendingChanges(outbox, new Map())).toEqual([{ remove: { placementId: "a", epoch: 7 } }]);
  });

  test.each(["running", "stopped"] as const)("is no order when its placement was to be %s", (desired) => {
    const outbox = tellAll(emptyOutbox, desiredMap(aDesired("a", { modRevision: 3n, desired })), 4n);
    expect(pendingChanges(outbox, new Map())).toEqual([]);
  });
});

describe("mass stop", () => {
  const ids = (count: number) => Array.from({ length: count }, (_, index) => `p${index}`);
  const stopOf = (id: string): Change => ({ upsert: aDesired(id, { modRevision: 9n, desired: "stopped" }) });
  const startOf = (id: string): Change => ({ upsert: aDesired(id, { modRevision: 9n }) });
  test.each([
    { when: "3 of 3 stop", changes: ids(3).map(stopOf), of: 3, is: false },
    { when: "4 of 4 stop", changes: ids(4).map(stopOf), of: 4, is: true },
    { when: "4 of 10 stop", changes: ids(4).map(stopOf), of: 10, is: true },
    { when: "6 of 20 stop", changes: ids(6).map(stopOf), of: 20, is: false },
    { when: "7 of 20 stop", changes: ids(7).map(stopOf), of: 20, is: true },
    { when: "20 start", changes: ids(20).map(startOf), of: 20, is: false },
  ])("is $is when $when", ({ changes, of, is }) => {
    const told = tellAll(emptyOutbox, desiredMap(...ids(of).map((id) => aDesired(id, { modRevision: 1n }))), 2n);
    expect(isMassStop(told, changes, { active: new Set(ids(of)), running: new Set(ids(of)) })).toBe(is);
  });

  test("measures by what runs, and not by what is still on its way up", () => {
    const told = tellAll(emptyOutbox, desiredMap(...ids(20).map((id) => aDesired(id, { modRevision: 1n }))), 2n);
    const reported = { active: new Set(ids(20)), running: new Set(ids(10)) };
    expect(isMassStop(told, ids(4).map(stopOf), reported)).toBe(true);
  });

  test("does not count what ended already or was told before", () => {
    const changes = ids(10).map(stopOf);
    expect(isMassStop(emptyOutbox, changes, { active: new Set(), running: new Set() })).toBe(false);
    const told = tellAll(
      emptyOutbox,
      desiredMap(...ids(10).map((id) => aDesired(id, { modRevision: 1n, desired: "stopped" }))),
      2n,
    );
    const removals = ids(10).map((id) => ({ upsert: aDesired(id, { modRevision: 9n, desired: "removed" as const }) }));
    expect(isMassStop(told, removals, { active: new Set(ids(10)), running: new Set(ids(10)) })).toBe(false);
  });
});

test.each([
  { record: "gone", is: "kill" },
  { record: "wanted", is: "adopt" },
  { record: "unknown", is: "adopt" },
] as const)("the verdict on an orphan whose record is $record is $is", ({ record, is }) => {
  expect(verdict(record)).toBe(is);
});

test("whatever the order of writes and answers, the agent ends up knowing what is desired", () => {
  const ids = ["a", "b", "c", "d"];
  const write = fc.record({
    id: fc.constantFrom(...ids),
    desired: fc.constantFrom("running" as const, "stopped" as const, "removed" as const),
  });
  const event = fc.oneof(
    fc.record({ do: fc.constant("write" as const), write }),
    fc.record({ do: fc.constant("send" as const), parts: fc.integer({ min: 1, max: 3 }) }),
    fc.record({ do: fc.constant("answer" as const) }),
    fc.record({ do: fc.constant("resync" as const) }),
  );
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60 }), (events) => {
      let revision = 1n;
      let outbox = emptyOutbox;
      const desired = new Map<string, DesiredPlacement>();
      const agent = new Map<string, string>();
      let agentAt: string | null = null;
      const send = (limit: number) => {
        if (outbox.waitsFor !== null) return;
        const all = pendingChanges(outbox, desired);
        if (all.length === 0 && outbox.position !== null) return;
        const changes = all.slice(0, limit);
        const { outbox: next, head } = tell(outbox, changes, { revision, last: changes.length === all.length });
        if (head.kind === "delta") expect(head.appliesTo).toBe(agentAt);
        if (agentAt !== null) expect(BigInt(head.resultsIn)).toBeGreaterThanOrEqual(BigInt(agentAt));
        agentAt = head.resultsIn;
        for (const change of changes) {
          if ("upsert" in change) agent.set(change.upsert.value.placementId, change.upsert.value.desired);
          else agent.delete(change.remove.placementId);
        }
        outbox = next;
      };
      const answer = (resync: boolean) => {
        outbox = answered(outbox, { resultsIn: agentAt ?? "", resync });
      };
      for (const each of events) {
        if (each.do === "write") {
          revision += 1n;
          desired.set(each.write.id, aDesired(each.write.id, { modRevision: revision, desired: each.write.desired }));
        } else if (each.do === "send") send(each.parts);
        else answer(each.do === "resync");
      }
      for (let i = 0; i < 10; i += 1) {
        answer(false);
        send(10);
      }
      expect(Object.fromEntries(agent)).toEqual(
        Object.fromEntries([...desired].map(([id, { value }]) => [id, value.desired])),
      );
    }),
  );
});
