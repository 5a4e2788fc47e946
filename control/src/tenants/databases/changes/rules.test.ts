import { expect, test } from "vitest";
import {
  cancelRefusal,
  heldRefusal,
  type MoveFacts,
  moveRefusal,
  type ReopenFacts,
  type RestoreFacts,
  reopenRefusal,
  restoreRefusal,
} from "./rules.ts";

const at = (minute: number) => new Date(Date.UTC(2030, 0, 1, 12, minute));
const restore: RestoreFacts = {
  ...{ status: "ready", wasReady: true, suspended: false, changing: null, at: null, confirmed: true },
  copy: { id: "c", nodeId: "n2", coveredAt: at(30) },
  range: { from: at(0), to: at(30) },
};
const other = { id: "n2", name: "node-2", isActive: true, isLeaving: false };
const move: MoveFacts = {
  ...{ status: "ready", suspended: false, changing: null, nodeId: "n1", standsBy: false, hasOther: true },
  to: { id: "n2", name: "node-2", isActive: true, isLeaving: false },
};

test.each<{ when: string; change: Partial<RestoreFacts>; code: string | null; says?: RegExp }>([
  { when: "all is well", change: {}, code: null },
  { when: "its machine is lost", change: { status: "error" }, code: null },
  { when: "it is being dropped", change: { status: "dropping" }, code: "DATABASE_NOT_READY" },
  { when: "it never was ready", change: { status: "error", wasReady: false }, code: "DATABASE_NOT_READY" },
  { when: "it is being moved", change: { changing: "move" }, code: "CONFLICT", says: /under a move/ },
  { when: "its project is suspended", change: { suspended: true }, code: "CONFLICT" },
  { when: "there is no copy", change: { copy: null, range: null }, code: "CONFLICT", says: /no copy/ },
  {
    when: "no copy goes back as far",
    change: { copy: null, at: new Date(Date.UTC(2029, 0, 1)) },
    code: "CONFLICT",
    says: /covers 2029-01-01T00:00:00.000Z. Copies go from 2030-01-01T12:00:00.000Z to 2030-01-01T12:30:00.000Z/,
  },
  {
    when: "nobody said that they know what is lost",
    change: { confirmed: false },
    code: "DESTRUCTIVE_CONFIRMATION_REQUIRED",
    says: /after 2030-01-01T12:30:00.000Z is lost/,
  },
  {
    when: "nobody said so of a moment before",
    change: { confirmed: false, at: at(10) },
    code: "DESTRUCTIVE_CONFIRMATION_REQUIRED",
    says: /after 2030-01-01T12:10:00.000Z is lost/,
  },
])("a restore when $when: $code", ({ change, code, says = /^/ }) => {
  const refusal = restoreRefusal({ ...restore, ...change });
  expect(refusal?.code ?? null).toBe(code);
  expect(refusal?.message ?? "").toMatch(says);
});

test("a moment that is not covered although others around it are is told apart", () => {
  const refusal = restoreRefusal({ ...restore, copy: null, at: at(10) });
  expect(refusal?.message).toMatch(/Changes are missing in between/);
});

const kept = { isOwn: false, isThere: true, isLeaving: false };
const reopen: ReopenFacts = {
  ...{ status: "error", wasReady: true, suspended: false, changing: null, confirmed: true },
  volume: kept,
};
test.each<{ when: string; change: Partial<ReopenFacts>; code: string | null }>([
  { when: "all is well", change: {}, code: null },
  { when: "it is in use", change: { status: "ready" }, code: null },
  { when: "it is being dropped", change: { status: "dropping" }, code: "DATABASE_NOT_READY" },
  { when: "it never was ready", change: { wasReady: false }, code: "DATABASE_NOT_READY" },
  { when: "it is being moved", change: { changing: "move" }, code: "CONFLICT" },
  { when: "its project is suspended", change: { suspended: true }, code: "CONFLICT" },
  { when: "the volume is another's", change: { volume: null }, code: "CONFLICT" },
  { when: "it has that volume", change: { volume: { ...kept, isOwn: true } }, code: "CONFLICT" },
  { when: "the volume is gone", change: { volume: { ...kept, isThere: false } }, code: "CONFLICT" },
  { when: "its machine is cordoned", change: { volume: { ...kept, isLeaving: true } }, code: "CONFLICT" },
  { when: "nobody said that they know", change: { confirmed: false }, code: "DESTRUCTIVE_CONFIRMATION_REQUIRED" },
])("going back to a volume when $when: $code", ({ change, code }) => {
  expect(reopenRefusal({ ...reopen, ...change })?.code ?? null).toBe(code);
});

test.each<{ when: string; change: Partial<MoveFacts>; code: string | null }>([
  { when: "all is well", change: {}, code: null },
  { when: "any machine will do", change: { to: null }, code: null },
  { when: "there is no other machine", change: { to: null, hasOther: false }, code: "CONFLICT" },
  { when: "it is there already", change: { nodeId: "n2" }, code: "CONFLICT" },
  { when: "that machine is lost", change: { to: { ...other, isActive: false } }, code: "CONFLICT" },
  { when: "that machine is being emptied", change: { to: { ...other, isLeaving: true } }, code: "CONFLICT" },
  { when: "it is lost", change: { status: "error" }, code: "DATABASE_NOT_READY" },
  { when: "nobody may write to it", change: { standsBy: true }, code: "DATABASE_NOT_READY" },
  { when: "it never had a server", change: { nodeId: null }, code: "DATABASE_NOT_READY" },
  { when: "it is being restored", change: { changing: "restore" }, code: "CONFLICT" },
])("a move when $when: $code", ({ change, code }) => {
  expect(moveRefusal({ ...move, ...change })?.code ?? null).toBe(code);
});

test.each([
  { state: null, code: "CONFLICT" },
  { state: "copying", code: null },
  { state: "freezing", code: null },
  { state: "draining", code: null },
  { state: "stopping", code: null },
  { state: "restoring", code: "CONFLICT" },
] as const)("a change that is $state is cancelled unless it is too late: $code", ({ state, code }) => {
  expect(cancelRefusal(state, { name: "node-1", takesWork: true })?.code ?? null).toBe(code);
});

test.each([
  { state: "draining", home: { name: "node-1", takesWork: false }, says: null },
  { state: "stopping", home: { name: "node-1", takesWork: false }, says: /node-1 takes no other one/ },
  { state: "stopping", home: null, says: null },
] as const)("one that is $state is not cancelled where its server could not come up again: $says", (each) => {
  const refusal = cancelRefusal(each.state, each.home);
  if (each.says === null) expect(refusal).toBeNull();
  else expect(refusal?.message).toMatch(each.says);
});

test.each([
  { change: null, says: null },
  { change: { kind: "move", state: "copying" }, says: null },
  { change: { kind: "move", state: "freezing" }, says: /moved to another machine/ },
  { change: { kind: "restore", state: "restoring" }, says: /restored/ },
  { change: { kind: "upgrade", state: "stopping" }, says: /newer engine/ },
] as const)("a branch under $change cannot be used, with the reason $says", ({ change, says }) => {
  const refusal = heldRefusal(change);
  expect(refusal?.code ?? null).toBe(says === null ? null : "DATABASE_NOT_READY");
  if (says !== null) expect(refusal?.message).toMatch(says);
});
