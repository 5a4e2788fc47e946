import { describe, expect, test } from "vitest";
import { errorCatalogue, errorCodes, errorMessage, errorStatus, isErrorCode } from "./errors.ts";
import {
  databaseFailures,
  deployFailures,
  failureMessage,
  isFailureCode,
  isOciFailureCode,
  ociFailures,
  portableFailures,
} from "./failures.ts";

describe("the error catalogue", () => {
  test.each(errorCodes)("%s has a status and a sentence", (code) => {
    expect(errorStatus(code)).toBeGreaterThanOrEqual(400);
    expect(errorStatus(code)).toBeLessThan(600);
    expect(errorMessage(code)).toMatch(/^[A-Z].*\.$/);
    expect(code).toMatch(/^[A-Z][A-Z0-9_]*$/);
  });

  test("a second status is used only where the catalogue has it", () => {
    expect(errorStatus("QUOTA_EXCEEDED")).toBe(403);
    expect(errorStatus("QUOTA_EXCEEDED", 422)).toBe(422);
    expect(errorStatus("RUNTIME_LOGS_UNAVAILABLE", 502)).toBe(502);
    expect(errorStatus("ROLLBACK_UNAVAILABLE", 400)).toBe(400);
    expect(errorStatus("NOT_FOUND", 200)).toBe(404);
  });

  // One line per code of the API document that clients branch on.
  test.each([
    ["UNAUTHORIZED", 401],
    ["FORBIDDEN_SCOPE", 403],
    ["SESSION_REQUIRED", 403],
    ["EMAIL_NOT_VERIFIED", 403],
    ["SUSPENDED", 403],
    ["PLAN_FEATURE_UNAVAILABLE", 403],
    ["VALIDATION", 422],
    ["BAD_REQUEST", 400],
    ["INVALID_BODY", 400],
    ["INVALID_EMAIL", 422],
    ["RATE_LIMITED", 429],
    ["UPLOAD_TOO_LARGE", 413],
    ["OCI_REFERENCE_INVALID", 422],
    ["SLUG_CONFLICT", 409],
    ["STOP_UNAVAILABLE", 409],
    ["DATABASE_ENGINE_UNAVAILABLE", 503],
    ["DRY_RUN_UNAVAILABLE", 400],
    ["TABLE_NOT_FOUND", 404],
    ["NO_PRIMARY_KEY", 400],
    ["UNKNOWN_PLAN", 422],
    ["SELF_ACTION", 400],
    ["NODE_ACTION_UNAVAILABLE", 409],
    ["INTERNAL", 500],
  ] as const)("%s is %i", (code, status) => {
    expect(errorStatus(code)).toBe(status);
  });

  test("names that every object has are no codes", () => {
    expect(["toString", "__proto__", "constructor", "", null, 3].some(isErrorCode)).toBe(false);
    expect(["toString", "__proto__"].some(isFailureCode)).toBe(false);
  });
});

describe("failure codes", () => {
  const tables = [ociFailures, portableFailures, deployFailures, databaseFailures];

  test("belong to one table each and end in a full stop", () => {
    const codes = tables.flatMap((table) => Object.keys(table));
    expect(new Set(codes).size).toBe(codes.length);
    for (const message of tables.flatMap((table) => Object.values<string>(table)))
      expect(message).toMatch(/^[A-Z].*\.$/);
  });

  test("share a name with an API error only where they mean the same", () => {
    const codes = tables.flatMap((table) => Object.keys(table)).filter((code) => Object.hasOwn(errorCatalogue, code));
    expect(codes).toEqual(["DATABASE_NOT_READY"]);
  });

  test("that are not ours read as a failed deployment", () => {
    expect(failureMessage("SOMETHING")).toBe(deployFailures.DEPLOY_FAILED);
    expect(failureMessage("OCI_PULL_TIMEOUT")).toBe(ociFailures.OCI_PULL_TIMEOUT);
    expect(isOciFailureCode("OCI_AUTH_FAILED")).toBe(true);
    expect(isOciFailureCode("BUILD_FAILED")).toBe(false);
  });
});
