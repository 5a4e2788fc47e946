import { describe, expect, test } from "vitest";
import { z } from "zod";
import { validationMessage } from "./api/envelope.ts";
import { auditQuery, createTokenInput, patchProjectInput, setPasswordInput, updatePlanInput } from "./index.ts";

/** What a caller is told who sends `value`. */
const told = (schema: z.ZodType, value: unknown): string =>
  validationMessage(schema.safeParse(value).error?.issues ?? [], schema);

const field = (schema: z.ZodType) => z.strictObject({ it: schema });

describe("what is wrong with a value is said in our words", () => {
  const cases: [schema: z.ZodType, value: unknown, message: string][] = [
    [setPasswordInput, { newPassword: "short" }, "newPassword: needs at least 8 characters"],
    [field(z.string().min(1)), { it: "" }, "it: is empty"],
    [createTokenInput, { name: "x".repeat(1000) }, "name: has more than 64 characters"],
    [createTokenInput, {}, "name: is missing"],
    [createTokenInput, { name: "x", projectIds: ["shop"] }, "projectIds.0: is not an id"],
    [createTokenInput, { name: "x", projectIds: [] }, "projectIds: is empty"],
    [createTokenInput, { name: "x", expiresIn: 1.5 }, "expiresIn: is not a whole number"],
    [createTokenInput, { name: "x", expiresIn: "5" }, "expiresIn: is not a number"],
    [createTokenInput, { name: "x", expiresIn: 2 ** 60 }, "expiresIn: must be at most 9007199254740991"],
    [field(z.coerce.number()), { it: "ten" }, "it: is not a number"],
    [field(z.coerce.number().int()), { it: "1.5" }, "it: is not a whole number"],
    [field(z.int().min(1)), { it: 0 }, "it: must be at least 1"],
    [field(z.int().max(365)), { it: 400 }, "it: must be at most 365"],
    [auditQuery, { since: "yesterday" }, "since: is not a timestamp; write it like 2030-01-31T12:00:00Z"],
    [auditQuery, { user: "ada" }, "user: is neither an id nor an email address"],
    [updatePlanInput, { isDefault: "yes" }, "isDefault: is not true or false"],
    [createTokenInput, [], "What was sent is not an object"],
    [createTokenInput, null, "What was sent is not an object"],
    [field(z.iso.date()), { it: "31.1.2030" }, "it: is not a date; write it like 2030-01-31"],
    [field(z.email()), { it: "ada" }, "it: is not an email address"],
    [field(z.url()), { it: "ada" }, "it: is not a URL"],
    [field(z.string().regex(/^a+$/)), { it: "b" }, "it: does not have the form that is needed"],
    [field(z.string()), { it: null }, "it: is not text"],
    [field(z.array(z.string())), { it: "b" }, "it: is not a list"],
    [field(z.record(z.string(), z.string())), { it: [] }, "it: is not an object"],
    [field(z.array(z.string()).min(2)), { it: [] }, "it: needs at least 2 entries"],
    [field(z.array(z.string()).max(1)), { it: ["a", "b"] }, "it: has more than 1 entry"],
    [field(z.string().length(2)), { it: "b" }, "it: needs exactly 2 characters"],
    [field(z.string().length(1)), { it: "bb" }, "it: needs exactly 1 character"],
    [field(z.number().positive()), { it: 0 }, "it: must be more than 0"],
    [field(z.number().lt(5)), { it: 5 }, "it: must be less than 5"],
    [field(z.int().multipleOf(5)), { it: 4 }, "it: must be a multiple of 5"],
    [field(z.enum(["a", "b"])), { it: "c" }, "it: must be one of a, b"],
    [field(z.enum(["a", "b"])), {}, "it: must be one of a, b"],
    [field(z.literal(true)), { it: false }, "it: must be true"],
    [field(z.union([z.int(), z.string()])), { it: {} }, "it: is neither a number nor text"],
    [field(z.union([z.int(), z.literal("all")])), { it: "x" }, "it: is not a number; must be all"],
    [field(z.union([z.int(), z.string()])), {}, "it: is missing"],
    [field(z.record(z.string().max(1), z.string())), { it: { ab: "" } }, "it.ab: is no name that it may have"],
    [z.discriminatedUnion("kind", [z.object({ kind: z.literal("a") })]), { kind: "b" }, "kind: must be a"],
  ];
  test.each(cases.map(([schema, value, message]) => ({ message, schema, value })))("$message", (each) => {
    expect(told(each.schema, each.value)).toBe(each.message);
  });

  test("a message of our own stays as it is", () => {
    expect(told(createTokenInput, { name: "a\nb" })).toBe("name: contains control characters");
    expect(told(auditQuery, { action: "A" })).toBe("action: is not the beginning of an action, as in project.delete");
    const own = z.enum(["a"], { error: "is flat: write a" });
    expect(told(field(own), { it: "b" })).toBe("it: is flat: write a");
  });
});

describe("a change without a field", () => {
  test("is told to send one", () => {
    expect(told(patchProjectInput, {})).toBe("Send at least one field.");
    expect(told(updatePlanInput, {})).toBe("Send at least one field.");
  });

  test("is told of the key that nobody knows, and of nothing else", () => {
    expect(told(patchProjectInput, { pasword: "x" })).toBe("pasword is not a known key; did you mean password?");
  });
});
