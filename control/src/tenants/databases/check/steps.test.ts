import { expect, test } from "vitest";
import { type CheckFacts, checkSteps, readOnlyTonight } from "./steps.ts";

const mebibyte = 1024 * 1024;
const facts: CheckFacts = {
  ...{ sizeBytes: 10 * mebibyte, readOnly: false, isServerReadOnly: false },
  ...{ standsBy: true, knownBytes: 10 * mebibyte, verifier: "right", expected: "right" },
};
const nothing = { hold: null, restorePassword: null };
const held = { readOnly: true, isServerReadOnly: true };

test.each<{ when: string; are: Partial<CheckFacts>; does: object }>([
  { when: "it may be written to", are: {}, does: nothing },
  { when: "it is read-only", are: held, does: { ...nothing, hold: { hasGrown: false } } },
  {
    when: "it has grown although it is read-only",
    are: { ...held, knownBytes: 1 },
    does: { ...nothing, hold: { hasGrown: true } },
  },
  {
    when: "nobody had measured it",
    are: { ...held, knownBytes: null },
    does: { ...nothing, hold: { hasGrown: false } },
  },
  { when: "its server of before still writes", are: { ...held, isServerReadOnly: false }, does: nothing },
  { when: "it knows another password", are: { verifier: "other" }, does: { ...nothing, restorePassword: "now" } },
  {
    when: "it knows another password, and takes none while it is read-only",
    are: { ...held, verifier: "other" },
    does: { hold: { hasGrown: false }, restorePassword: "later" },
  },
  {
    when: "it knows another password, and takes one although it is read-only",
    are: { ...held, standsBy: false, verifier: "other" },
    does: { hold: { hasGrown: false }, restorePassword: "now" },
  },
  { when: "it does not know the role", are: { verifier: null }, does: nothing },
  { when: "its password is being replaced", are: { verifier: "other", expected: null }, does: nothing },
])("when $when", ({ are, does }) => {
  expect(checkSteps({ ...facts, ...are })).toEqual(does);
});

test.each([
  { sizeBytes: 10 * mebibyte, readOnly: false, tonight: null },
  { sizeBytes: 10 * mebibyte, readOnly: true, tonight: false },
  { sizeBytes: 10 * mebibyte + 1, readOnly: false, tonight: true },
  { sizeBytes: 10 * mebibyte + 1, readOnly: true, tonight: null },
])("a branch of $sizeBytes bytes that is read-only ($readOnly) and may have 10 MB", ({ tonight, ...branch }) => {
  expect(readOnlyTonight({ ...branch, sizeLimitMb: 10 })).toBe(tonight);
});
