import { expect, test } from "vitest";
import { type CheckFacts, checkSteps } from "./steps.ts";

const mebibyte = 1024 * 1024;
const facts: CheckFacts = {
  ...{ sizeBytes: 10 * mebibyte, sizeLimitMb: 10, readOnly: false, isServerReadOnly: false, isNightly: true },
  ...{ standsBy: true, knownBytes: 10 * mebibyte, verifier: "right", expected: "right" },
};
const nothing = { sample: true, readOnly: null, hold: null, restorePassword: null };
const over = { sizeBytes: 10 * mebibyte + 1 };
const held = { ...over, readOnly: true, isServerReadOnly: true, knownBytes: 10 * mebibyte + 1 };

test.each<{ when: string; are: Partial<CheckFacts>; does: object }>([
  { when: "it is as large as it may be", are: {}, does: nothing },
  { when: "it is larger", are: over, does: { ...nothing, readOnly: true } },
  { when: "it is still larger", are: held, does: { ...nothing, hold: { hasGrown: false } } },
  {
    when: "it is still larger by day",
    are: { ...held, isNightly: false },
    does: { ...nothing, sample: false, hold: { hasGrown: false } },
  },
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
  { when: "it is no longer larger", are: { readOnly: true }, does: { ...nothing, readOnly: false } },
  { when: "it is larger by day", are: { ...over, isNightly: false }, does: { ...nothing, sample: false } },
  { when: "it knows another password", are: { verifier: "other" }, does: { ...nothing, restorePassword: "now" } },
  {
    when: "it knows another password, and takes none while it is read-only",
    are: { ...held, verifier: "other" },
    does: { ...nothing, hold: { hasGrown: false }, restorePassword: "later" },
  },
  {
    when: "it knows another password, and takes one although it is read-only",
    are: { ...held, standsBy: false, verifier: "other" },
    does: { ...nothing, hold: { hasGrown: false }, restorePassword: "now" },
  },
  { when: "it does not know the role", are: { verifier: null }, does: nothing },
  { when: "its password is being replaced", are: { verifier: "other", expected: null }, does: nothing },
])("when $when", ({ are, does }) => {
  expect(checkSteps({ ...facts, ...are })).toEqual(does);
});
