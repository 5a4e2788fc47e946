import { z } from "zod";
import { editDistance } from "./edit-distance.ts";

/** What to say of `key`, which nobody knows, at `dotted`: the nearest known key, or all of them when none is near. */
export function unknownKey(dotted: string, key: string, known: readonly string[]): string {
  const nearest = known.map((each) => ({ each, distance: editDistance(key.toLowerCase(), each.toLowerCase()) }));
  const [best] = nearest.sort((a, b) => a.distance - b.distance || (a.each < b.each ? -1 : 1));
  if (best !== undefined && best.distance <= Math.max(2, Math.floor(key.length / 3)))
    return `${dotted} is not a known key; did you mean ${best.each}?`;
  return known.length === 0
    ? `${dotted} is not a known key`
    : `${dotted} is not a known key; known are ${known.join(", ")}`;
}

/** The keys that `schema` knows in the object at `path`; none where it has no object. */
export function knownKeys(schema: unknown, path: readonly PropertyKey[]): string[] {
  let at = unwrapped(schema);
  for (const part of path) at = unwrapped(at instanceof z.ZodArray ? at.element : shapeOf(at)?.[String(part)]);
  return Object.keys(shapeOf(at) ?? {});
}

const shapeOf = (schema: unknown): Record<string, unknown> | undefined =>
  schema instanceof z.ZodObject ? schema.shape : undefined;

/** The schema below defaults, optionals and transforms; of a text that is parsed, what it is parsed to. */
function unwrapped(schema: unknown): unknown {
  if (schema instanceof z.ZodPipe) {
    const before = unwrapped(schema.in);
    return before instanceof z.ZodObject || before instanceof z.ZodArray ? before : unwrapped(schema.out);
  }
  if (
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault ||
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodExactOptional
  )
    return unwrapped(schema.unwrap());
  return schema;
}
