import { errorCatalogue } from "@svc/proto";
import { describe, expect, test } from "vitest";
import { CliError, exitCodes, fromDeployError, fromServerError, toCliError } from "./errors.ts";

const answer = (status: number, code: string | null, retryAfterSeconds: number | null = null) => ({
  status,
  code,
  message: "Said by the server.",
  retryAfterSeconds,
});

describe("an answer of the API becomes", () => {
  test.each([
    [403, "QUOTA_EXCEEDED", "CLOUD_REQUEST_FAILED"],
    [422, "QUOTA_EXCEEDED", "CLOUD_REQUEST_FAILED"],
    [400, "ROLLBACK_UNAVAILABLE", "CLOUD_REQUEST_FAILED"],
    [409, "ROLLBACK_UNAVAILABLE", "CLOUD_REQUEST_FAILED"],
    [409, "SLUG_CONFLICT", "CLOUD_REQUEST_FAILED"],
    [409, "BACKUP_IN_PROGRESS", "CLOUD_REQUEST_FAILED"],
    [409, "BACKUP_NOT_READY", "CLOUD_REQUEST_FAILED"],
    [409, "STOP_UNAVAILABLE", "CLOUD_REQUEST_FAILED"],
    [409, "DATABASE_NOT_READY", "DATABASE_NOT_READY"],
    [409, "DATABASE_PROVISIONING", "DATABASE_NOT_READY"],
    [403, "SUSPENDED", "CLOUD_REQUEST_FAILED"],
    [403, "EMAIL_NOT_VERIFIED", "CLOUD_REQUEST_FAILED"],
    [403, "FORBIDDEN_SCOPE", "CLOUD_FORBIDDEN_SCOPE"],
    [401, "UNAUTHORIZED", "CLOUD_UNAUTHORIZED"],
    [403, "FORBIDDEN", "CLOUD_UNAUTHORIZED"],
    [403, "SESSION_REQUIRED", "CLOUD_UNAUTHORIZED"],
    [403, "PLAN_FEATURE_UNAVAILABLE", "CLOUD_UNAUTHORIZED"],
    [404, "NOT_FOUND", "CLOUD_NOT_FOUND"],
    [404, "TABLE_NOT_FOUND", "CLOUD_NOT_FOUND"],
    [404, null, "CLOUD_NOT_FOUND"],
    [500, "INTERNAL", "CLOUD_UNAVAILABLE"],
    [502, null, "CLOUD_UNAVAILABLE"],
    [503, "DATABASE_ENGINE_UNAVAILABLE", "CLOUD_UNAVAILABLE"],
    [400, "QUERY_ERROR", "CLOUD_REQUEST_FAILED"],
    [422, "VALIDATION", "CLOUD_REQUEST_FAILED"],
    [429, "RATE_LIMITED", "CLOUD_REQUEST_FAILED"],
    [302, null, "CLOUD_REQUEST_FAILED"],
  ])("%i %s: %s", (status, code, expected) => {
    expect(fromServerError(answer(status, code)).code).toBe(expected);
  });

  test("an error whose message keeps the server's code, where the client's stands for many", () => {
    expect(fromServerError(answer(409, "SLUG_CONFLICT")).message).toBe("SLUG_CONFLICT: Said by the server.");
    expect(fromServerError(answer(404, "NOT_FOUND")).message).toBe("Said by the server.");
  });

  test("a hint to wait as long as the server asked for", () => {
    expect(fromServerError(answer(429, "RATE_LIMITED", 40)).hint).toBe("Wait 40 s, then run the command again");
  });

  test("advice where it is a proxy that finds a request too large", () => {
    expect(fromServerError(answer(413, null)).hint).toContain("such as a proxy");
  });

  test.each(["SUSPENDED", "EMAIL_NOT_VERIFIED", "UNAUTHORIZED", "FORBIDDEN_SCOPE"])("a way out of %s", (code) => {
    expect(fromServerError(answer(403, code)).hint).toMatch(/\w/);
  });

  test("some error of ours, whatever the catalogue holds", () => {
    for (const [code, { status }] of Object.entries(errorCatalogue))
      expect(Object.keys(exitCodes)).toContain(fromServerError(answer(status, code)).code);
  });
});

describe("a refused deployment becomes", () => {
  test.each([
    [413, "UPLOAD_TOO_LARGE", "DEPLOY_TRIGGER_FAILED"],
    [422, "VALIDATION", "DEPLOY_TRIGGER_FAILED"],
    [422, "OCI_REFERENCE_INVALID", "DEPLOY_TRIGGER_FAILED"],
    [429, "RATE_LIMITED", "DEPLOY_TRIGGER_FAILED"],
    [400, null, "DEPLOY_TRIGGER_FAILED"],
    [413, null, "DEPLOY_TRIGGER_FAILED"],
    [403, "SUSPENDED", "CLOUD_REQUEST_FAILED"],
    [403, "EMAIL_NOT_VERIFIED", "CLOUD_REQUEST_FAILED"],
    [403, "QUOTA_EXCEEDED", "CLOUD_REQUEST_FAILED"],
    [403, "PLAN_FEATURE_UNAVAILABLE", "CLOUD_UNAUTHORIZED"],
    [403, "FORBIDDEN_SCOPE", "CLOUD_FORBIDDEN_SCOPE"],
    [401, "UNAUTHORIZED", "CLOUD_UNAUTHORIZED"],
    [404, "NOT_FOUND", "CLOUD_NOT_FOUND"],
    [409, "DATABASE_NOT_READY", "DATABASE_NOT_READY"],
    [503, "UNAVAILABLE", "CLOUD_UNAVAILABLE"],
  ])("%i %s: %s", (status, code, expected) => {
    expect(fromDeployError(answer(status, code)).code).toBe(expected);
  });
});

test("every code has one of the exit statuses in use", () => {
  const byStatus = Object.groupBy(Object.entries(exitCodes), ([, status]) => String(status));
  expect(Object.keys(byStatus).sort()).toEqual(["1", "2", "4", "5", "6"]);
  const codes = (status: string) => (byStatus[status] ?? []).map(([code]) => code).sort();
  expect(codes("4")).toEqual(["DEPLOY_FAILED", "DEPLOY_TIMEOUT", "DEPLOY_TRIGGER_FAILED"]);
  expect(codes("5")).toEqual(["VERIFY_FAILED"]);
  expect(codes("6")).toEqual(["DESTRUCTIVE_CONFIRMATION_REQUIRED"]);
  expect(codes("2")).toEqual([
    "CLI_INVALID_USAGE",
    "CLOUD_NOT_LOGGED_IN",
    "CONFIG_INVALID",
    "ENV_FILE_NOT_FOUND",
    "MANIFEST_INVALID",
    "MANIFEST_NOT_FOUND",
    "TOKEN_MISSING",
    "TOKEN_REF_INVALID",
  ]);
});

test("what nobody foresaw is UNEXPECTED and keeps its cause", () => {
  const cause = new TypeError("x is not a function");
  expect(toCliError(cause)).toMatchObject({ code: "UNEXPECTED", message: "x is not a function", cause });
  expect(toCliError("just a text")).toMatchObject({ code: "UNEXPECTED", message: "just a text" });
  const known = new CliError("VERIFY_FAILED", "no");
  expect(toCliError(known)).toBe(known);
});
