import { describe, expect, test } from "vitest";
import { assertionRefusal, deletionRefusal, downloadRefusal, maxDumpBytes, newBackupRefusal } from "./rules.ts";

describe("a new backup", () => {
  test.each([
    { when: "there is none", facts: {}, code: undefined },
    { when: "one place is left", facts: { complete: 2 }, code: undefined },
    { when: "the plan's are there, of whatever channels", facts: { complete: 3 }, code: "QUOTA_EXCEEDED" },
    { when: "more are there than a smaller plan has", facts: { complete: 9 }, code: "QUOTA_EXCEEDED" },
    { when: "the plan has none", facts: { maxBackups: 0 }, code: "QUOTA_EXCEEDED" },
    { when: "one is under way", facts: { underWay: "preview" as const }, code: "BACKUP_IN_PROGRESS" },
  ])("when $when: $code", ({ facts, code }) => {
    expect(newBackupRefusal({ maxBackups: 3, complete: 0, underWay: null, ...facts })?.code).toBe(code);
  });

  test("says which channel has the only place", () => {
    expect(newBackupRefusal({ maxBackups: 3, complete: 0, underWay: "preview" })?.message).toMatch(/\bpreview\b/);
  });
});

test.each([
  ["pending", "BACKUP_IN_PROGRESS", "BACKUP_NOT_READY"],
  ["running", "BACKUP_IN_PROGRESS", "BACKUP_NOT_READY"],
  ["failed", undefined, "BACKUP_NOT_READY"],
  ["complete", undefined, undefined],
] as const)("one that is %s: deleting %s, downloading %s", (status, deleting, downloading) => {
  expect(deletionRefusal(status, "production")?.code).toBe(deleting);
  expect(downloadRefusal(status)?.code).toBe(downloading);
});

test("a channel only says what is expected", () => {
  expect(assertionRefusal(undefined, "dev")).toBeNull();
  expect(assertionRefusal("dev", "dev")).toBeNull();
  expect(assertionRefusal("production", "dev")).toMatchObject({ code: "VALIDATION" });
});

test("a full database of the smallest plan may be written out", () => {
  expect(maxDumpBytes({ db_size_mb: 1 })).toBe(256 * 1024 * 1024);
  expect(maxDumpBytes({ db_size_mb: 1024 })).toBe(4096 * 1024 * 1024);
});
