import { expect, test } from "vitest";
import { removeRefusal } from "./rules.ts";

test.each([
  { what: "a running preview", channel: "preview", status: "running", may: true },
  { what: "a running dev deployment", channel: "dev", status: "running", may: true },
  { what: "a superseded preview", channel: "preview", status: "superseded", may: true },
  { what: "a failed preview", channel: "preview", status: "failed", may: true },
  { what: "a superseded production deployment", channel: "production", status: "superseded", may: true },
  { what: "a failed production deployment", channel: "production", status: "failed", may: true },
  { what: "a canceled production deployment", channel: "production", status: "canceled", may: true },
  { what: "what production runs", channel: "production", status: "running", may: false },
  { what: "what production would start again", channel: "production", status: "stopped", may: false },
  { what: "a queued preview", channel: "preview", status: "queued", may: false },
  { what: "a preview that is being built", channel: "preview", status: "building", may: false },
  { what: "a dev deployment on its way", channel: "dev", status: "deploying", may: false },
  { what: "a production deployment on its way", channel: "production", status: "deploying", may: false },
] as const)("$what may be removed: $may", ({ channel, status, may }) => {
  expect(removeRefusal({ channel, status })?.code ?? null).toBe(may ? null : "DELETE_UNAVAILABLE");
});

test("what is on its way has to be canceled first", () => {
  expect(removeRefusal({ channel: "preview", status: "building" })?.message).toContain("Cancel it first");
});
