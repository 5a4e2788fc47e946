import { expect, test } from "vitest";
import { type CertificateOutbox, emptyOutbox, nextChange, untold } from "./outbox.ts";

const some = (count: number, version = "1") =>
  new Map(Array.from({ length: count }, (_, index) => [`shop-${index}.test`, version] as const));
const whole = (told: ReadonlyMap<string, string>): CertificateOutbox => ({ told, isWhole: true, hasBegun: true });
const sent = (next: ReturnType<typeof nextChange>) => next && { ...next.change, upserts: next.change.upserts.length };

test("all are told in parts, and then there is no news", () => {
  const current = some(250);
  const first = nextChange(emptyOutbox, current);
  expect(sent(first)).toEqual({ first: true, more: true, upserts: 100, removed: [] });
  const second = nextChange(first?.outbox ?? emptyOutbox, current);
  expect(sent(second)).toEqual({ first: false, more: true, upserts: 100, removed: [] });
  const third = nextChange(second?.outbox ?? emptyOutbox, current);
  expect(sent(third)).toEqual({ first: false, more: false, upserts: 50, removed: [] });
  expect(nextChange(third?.outbox ?? emptyOutbox, current)).toBeNull();
});

test("that there is none is told, too", () => {
  expect(nextChange(emptyOutbox, new Map())?.change).toEqual({ first: true, more: false, upserts: [], removed: [] });
});

test.each([
  { when: "one is new", told: some(1), current: some(2), upserts: ["shop-1.test"], removed: [] },
  { when: "one was renewed", told: some(1), current: some(1, "2"), upserts: ["shop-0.test"], removed: [] },
  { when: "one is gone", told: some(2), current: some(1), upserts: [], removed: ["shop-1.test"] },
])("when $when only that is told", ({ told, current, upserts, removed }) => {
  expect(nextChange(whole(told), current)?.change).toEqual({ first: false, more: false, upserts, removed });
});

test("what goes while all are being told is told as well", () => {
  const first = nextChange(emptyOutbox, some(150));
  const next = nextChange(first?.outbox ?? emptyOutbox, new Map([["shop-0.test", "1"]]));
  expect(sent(next)).toMatchObject({ more: false, upserts: 0 });
  expect(next?.change.removed).toHaveLength(99);
});

test("what the router did not take is told again, taken away when the name goes, and holds up nothing else", () => {
  const names = ["shop-0.test"];
  const outbox = untold(whole(some(2)), names);
  expect(nextChange(outbox, some(2))?.change).toMatchObject({ upserts: names });
  expect(nextChange(outbox, new Map([["shop-1.test", "1"]]))?.change).toMatchObject({ removed: names });
  const later = (name: string) => !names.includes(name);
  expect(nextChange(outbox, some(2), later)).toBeNull();
  expect(nextChange(outbox, some(3), later)?.change).toMatchObject({ upserts: ["shop-2.test"], removed: [] });
});
