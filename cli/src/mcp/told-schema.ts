import type { z } from "zod";
import type { JsonSchema } from "./json-schemas.ts";

/** A schema that clients are told as `json`, and that checks as it did. */
export const toldSchema = <T extends z.ZodType>(schema: T, json: JsonSchema): T =>
  told(schema, json, schema["~standard"].validate);

/** The same for what somebody else checks: whatever is given passes as it is. */
export const uncheckedSchema = (schema: z.ZodType, json: JsonSchema): z.ZodType<object> =>
  told(schema as z.ZodType<object>, json, (value) => ({ value: value as object }));

function told<T extends z.ZodType>(schema: T, json: JsonSchema, validate: T["~standard"]["validate"]): T {
  const jsonSchema = { input: () => ({ ...json }), output: () => ({ ...json }) };
  return { "~standard": { ...schema["~standard"], validate, jsonSchema } } as unknown as T;
}
