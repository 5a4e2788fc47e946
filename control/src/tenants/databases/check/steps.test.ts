import { expect, test } from "vitest";
import { type CheckFacts, checkSteps } from "./steps.ts";

const mebibyte = 1024 * 1024;
const facts: CheckFacts = {
  ...{ engine: "postgres", sizeBytes: 10 * mebibyte, sizeLimitMb: 10, readOnly: false, isNightly: true },
  ...{ verifier: "right", expected: "right" },
};
const nothing = { sample: true, readOnly: null, restorePassword: false };
const over = { sizeBytes: 10 * mebibyte + 1 };

test.each<{ when: string; are: Partial<CheckFacts>; does: object }>([
  { when: "it is as large as it may be", are: {}, does: nothing },
  { when: "it is larger", are: over, does: { ...nothing, readOnly: true } },
  { when: "it is still larger", are: { ...over, readOnly: true }, does: nothing },
  {
    when: "it is still larger, and may have forgotten it",
    are: { ...over, readOnly: true, engine: "mariadb" },
    does: { ...nothing, readOnly: true },
  },
  { when: "it is no longer larger", are: { readOnly: true }, does: { ...nothing, readOnly: false } },
  { when: "it is larger by day", are: { ...over, isNightly: false }, does: { ...nothing, sample: false } },
  { when: "it knows another password", are: { verifier: "other" }, does: { ...nothing, restorePassword: true } },
  { when: "it does not know the role", are: { verifier: null }, does: nothing },
  { when: "its password is being replaced", are: { verifier: "other", expected: null }, does: nothing },
])("when $when", ({ are, does }) => {
  expect(checkSteps({ ...facts, ...are })).toEqual(does);
});
