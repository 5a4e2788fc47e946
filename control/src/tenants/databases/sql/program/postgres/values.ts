// @pure
import type { SqlValue } from "../../requests.ts";

/** Types by their numbers, which are the same on every server. */
const boolean = 16;
/** int2, int4, float4, float8: what a number of JSON holds exactly. */
const numbers = new Set([21, 23, 700, 701]);

/**
 * How values of a type are read from the engine's text. What JSON holds exactly becomes that; all else, 64-bit numbers, numeric,
 * dates, JSON and `NaN` among it, stays text, since whatever else it became would be another value.
 */
export function valueReader(typeId: number): (text: string) => SqlValue {
  if (typeId === boolean) return (text) => text === "t";
  if (!numbers.has(typeId)) return (text) => text;
  return (text) => {
    const number = Number(text);
    return Number.isFinite(number) ? number : text;
  };
}
