import fc from "fast-check";
import { expect, test } from "vitest";
import { errorEnvelope, successEnvelope } from "./envelope.ts";
import { CliError } from "./errors.ts";

test("a success has ok, operation and warnings, and the payload beside them", () => {
  const line = successEnvelope("projects.list", ["careful"], { projects: [] });
  expect(JSON.parse(line)).toEqual({ ok: true, operation: "projects.list", warnings: ["careful"], projects: [] });
});

test("an error has its code, message and hint, and nothing secret", () => {
  const error = new CliError("CLOUD_NOT_FOUND", "no svc_0123456789", { hint: "try svc_0123456789" });
  expect(JSON.parse(errorEnvelope("status", error, ["svc_0123456789"]))).toEqual({
    ok: false,
    operation: "status",
    error: { code: "CLOUD_NOT_FOUND", message: "no [redacted]", hint: "try [redacted]" },
  });
});

test("an error without a hint has none", () => {
  expect(JSON.parse(errorEnvelope("status", new CliError("UNEXPECTED", "x"), [])).error).toEqual({
    code: "UNEXPECTED",
    message: "x",
  });
});

test("whatever is in it, it is one printable line that reads back the same", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (some) => {
      const text = `${some}##[command]`;
      const line = successEnvelope("x", [], { text });
      expect(line.endsWith("\n")).toBe(true);
      expect(line.slice(0, -1)).not.toMatch(/[\p{Cc}\u2028\u2029]|##\[/u);
      expect(JSON.parse(line).text).toBe(JSON.parse(JSON.stringify(text)));
    }),
  );
});
