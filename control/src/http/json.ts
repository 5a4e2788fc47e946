import { clip } from "@svc/proto";

const depthMax = 32;
const decoder = new TextDecoder("utf-8", { fatal: true });

/** What is wrong with a body that is JSON by its media type; the sentence is for the caller. */
export interface JsonProblem {
  problem: string;
}

/**
 * The value of a request body: undefined when it is empty. Refuses what JSON allows and nothing behind us
 * stores or survives: invalid UTF-8, more than 32 levels, numbers beyond a double, NUL, unpaired
 * surrogates, and the keys that reach an object's prototype.
 */
export function readJson(body: Uint8Array): { value: unknown } | JsonProblem {
  if (body.length === 0) return { value: undefined };
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(body));
  } catch {
    return { problem: "The body is not valid JSON." };
  }
  const problem = jsonProblem(value);
  return problem === null ? { value } : { problem };
}

/** Why `root`, a parsed JSON value, is refused; null when it is not. */
function jsonProblem(root: unknown): string | null {
  const open: { value: unknown; depth: number }[] = [{ value: root, depth: 1 }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, depth } = next;
    if (typeof value === "string") {
      const problem = textProblem(value);
      if (problem !== null) return problem;
    } else if (typeof value === "number") {
      if (!Number.isFinite(value)) return "The body holds a number that is too large.";
    } else if (typeof value === "object" && value !== null) {
      if (depth > depthMax) return `The body is nested more than ${depthMax} levels deep.`;
      for (const [key, item] of Object.entries(value)) {
        const problem = keyProblem(key, item);
        if (problem !== null) return problem;
        open.push({ value: item, depth: depth + 1 });
      }
    }
  }
  return null;
}

function keyProblem(key: string, value: unknown): string | null {
  const reachesPrototype =
    key === "__proto__" ||
    (key === "constructor" && typeof value === "object" && value !== null && "prototype" in value);
  return reachesPrototype ? "The body holds a key that is not allowed." : textProblem(key);
}

/** Postgres stores neither. `place` is where the text came from. */
function textProblem(text: string, place = "body"): string | null {
  if (text.includes("\u0000")) return `The ${place} holds a NUL character.`;
  return text.isWellFormed() ? null : `The ${place} holds an incomplete Unicode character.`;
}

/** Why a part of the address, whose texts are `values`, is refused; null when it is not. */
export function addressProblem(values: unknown): string | null {
  for (const text of Object.values(values ?? {}).flat()) {
    const problem = typeof text === "string" ? textProblem(text, "address") : null;
    if (problem !== null) return problem;
  }
  return null;
}

/** A parameter may be any text. */
const shownNameBytes = 60;

/** A query in which what says the same several times says it once. */
export const withoutRepeats = (query: unknown): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(query ?? {}).map(([name, given]): [string, unknown] => {
      const [first, ...more] = Array.isArray(given) ? given : [given];
      return [name, more.every((each) => each === first) ? first : given];
    }),
  );

/** Says which parameter of a query is there with several values; null when none is: nothing here is a list. */
export function repeatedProblem(query: unknown): string | null {
  const [name] = Object.entries(query ?? {}).find(([, given]) => Array.isArray(given)) ?? [];
  return name === undefined ? null : `${clip(name, shownNameBytes)}: is there more than once`;
}
