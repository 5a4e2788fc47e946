import type { z } from "zod";

/**
 * The schema as clients are told of it, without what says nothing more to them: the pattern of a date beside its format takes 300
 * characters, in every field that has one. What it accepts is the same.
 */
export function leanSchema<T extends z.ZodType>(schema: T): T {
  return withLeanJson(schema, schema["~standard"].validate);
}

/** The same for what somebody else checks: whatever is given passes as it is. */
export function uncheckedSchema(schema: z.ZodType): z.ZodType<object> {
  return withLeanJson(schema as z.ZodType<object>, (value) => ({ value: value as object }));
}

function withLeanJson<T extends z.ZodType>(schema: T, validate: T["~standard"]["validate"]): T {
  const standard = schema["~standard"];
  const { jsonSchema } = standard;
  const lean: typeof jsonSchema = {
    input: (options) => withoutExcess(jsonSchema.input(options)) as Record<string, unknown>,
    output: (options) => withoutExcess(jsonSchema.output(options)) as Record<string, unknown>,
  };
  return { "~standard": { ...standard, validate, jsonSchema: lean } } as unknown as T;
}

function withoutExcess(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(withoutExcess);
  if (node === null || typeof node !== "object") return node;
  return Object.fromEntries(
    Object.entries(node)
      .filter(([name, value]) => !isExcess(node, name, value))
      .map(([name, value]) => [name, withoutExcess(value)]),
  );
}

const isExcess = (node: object, name: string, value: unknown): boolean =>
  (name === "pattern" && "format" in node) ||
  (Math.abs(Number(value)) === Number.MAX_SAFE_INTEGER && (name === "maximum" || name === "minimum")) ||
  (name === "additionalProperties" && typeof value === "object" && value !== null && Object.keys(value).length === 0);
