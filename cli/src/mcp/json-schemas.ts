import { z } from "zod";
import { inputOf } from "./input.ts";
import type { Tool } from "./tool.ts";
import { tools } from "./tools/index.ts";

/** A JSON schema as clients are told it. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** What a client is told that a tool takes, of one project and of any, and gives. */
export interface ToolSchemas {
  input: JsonSchema;
  inputOfAny: JsonSchema;
  output: JsonSchema;
}

/** By the names of tools. */
export type JsonSchemas = Readonly<Record<string, ToolSchemas>>;

const schemasOf = (tool: Tool): ToolSchemas => ({
  input: lean(z.toJSONSchema(inputOf(tool, { allProjects: false }), { io: "input" })),
  inputOfAny: lean(z.toJSONSchema(inputOf(tool, { allProjects: true }), { io: "input" })),
  output: lean(z.toJSONSchema(tool.output, { io: "output" })),
});

/** Those of all tools. To make them takes longer than all else before the first answer: the build writes them down instead. */
export const jsonSchemas = async (): Promise<JsonSchemas> =>
  Object.fromEntries(tools.map((tool) => [tool.name, schemasOf(tool)]));

const lean = (schema: object): JsonSchema => withoutExcess(schema) as JsonSchema;

/**
 * Without what says nothing more to clients: the pattern of a date beside its format takes 300 characters, in every field that has one.
 */
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
