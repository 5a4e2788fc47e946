/** Takes secret values out of text that arrives in pieces, wherever the pieces are cut. */
export interface Redactor {
  /** The text that may be shown so far. An end that could be the beginning of a secret is kept back. */
  push(text: string): string;
  /** What was kept back. */
  end(): string;
}

/** In place of a secret. */
export const redacted = "[redacted]";
/** Shorter values are words and numbers that any text holds. */
export const redactedLengthMin = 6;

/**
 * Finds exact values, of several that begin at one place the longest. The whole result does not depend on how
 * the text was cut. Values shorter than six characters are let through.
 *
 * Values and text are a stranger's, and everybody waits for them: each character is looked at once for each value.
 */
export function createRedactor(values: readonly string[]): Redactor {
  const secrets = [...new Set(values)].filter((value) => value.length >= redactedLengthMin).map(finderOf);
  if (secrets.length === 0) return { push: (text) => text, end: () => "" };
  let rest = "";
  /** Places are counted from the first text on. */
  let restAt = 0;
  /** What was found and is not shown yet. */
  let found: Place[] = [];

  /** Takes text off `rest`: all of it at the end, otherwise up to where a secret may have begun. */
  const take = (isEnd: boolean): string => {
    const endAt = restAt + rest.length;
    const begun = isEnd ? [] : secrets.flatMap((secret) => secret.begunAt(endAt)).sort((a, b) => a - b);
    found.sort((a, b) => a.at - b.at || b.length - a.length);
    let out = "";
    let at = restAt;
    let nextBegun = 0;
    let nextFound = 0;
    for (;;) {
      while ((begun[nextBegun] ?? endAt) < at) nextBegun += 1;
      while ((found[nextFound]?.at ?? endAt) < at) nextFound += 1;
      const keep = Math.max(begun[nextBegun] ?? endAt, at);
      const match = found[nextFound];
      const until = match === undefined || match.at >= keep ? keep : match.at;
      out += rest.slice(at - restAt, until - restAt);
      at = until;
      // A match that may still grow into a longer secret waits, like everything behind it.
      if (match === undefined || match.at >= keep) break;
      out += redacted;
      at += match.length;
    }
    rest = rest.slice(at - restAt);
    restAt = at;
    found = found.filter((place) => place.at >= at);
    return out;
  };

  return {
    push(text) {
      const textAt = restAt + rest.length;
      for (const secret of secrets) secret.look(text, textAt, found);
      rest += text;
      return take(false);
    },
    end() {
      for (const secret of secrets) secret.forget();
      return take(true);
    },
  };
}

/** The same for text that is whole. */
export function redact(text: string, values: readonly string[]): string {
  const redactor = createRedactor(values);
  return redactor.push(text) + redactor.end();
}

interface Place {
  at: number;
  length: number;
}

/** Knows how much of one secret the text ends with, by Knuth, Morris and Pratt. */
interface Finder {
  /** Adds where it is in the text that comes next, at `textAt`. */
  look(text: string, textAt: number, found: Place[]): void;
  /** Where it may have begun whose end is not there yet, if the text ends at `endAt`. */
  begunAt(endAt: number): number[];
  forget(): void;
}

function finderOf(secret: string): Finder {
  const shorter = shorterBeginnings(secret);
  const head = secret.slice(0, redactedLengthMin);
  /** How many of its characters the text ends with. */
  let matched = 0;
  return {
    look(text, textAt, found) {
      // What cannot hold its whole head any more has to be looked at character by character.
      const headsUntil = text.length - head.length;
      let isHeadLeft = true;
      for (let at = 0; at < text.length; at += 1) {
        if (matched === 0 && isHeadLeft) {
          const next = at > headsUntil ? -1 : text.indexOf(head, at);
          isHeadLeft = next >= 0;
          at = isHeadLeft ? next : Math.max(at, headsUntil + 1);
        }
        while (matched > 0 && text[at] !== secret[matched]) matched = shorter[matched - 1] ?? 0;
        if (text[at] === secret[matched]) matched += 1;
        if (matched < secret.length) continue;
        found.push({ at: textAt + at + 1 - matched, length: matched });
        matched = shorter[matched - 1] ?? 0;
      }
    },
    begunAt(endAt) {
      const places: number[] = [];
      for (let length = matched; length > 0; length = shorter[length - 1] ?? 0) places.push(endAt - length);
      return places;
    },
    forget() {
      matched = 0;
    },
  };
}

/** For each beginning of the text how long the longest shorter one is that it ends with. */
function shorterBeginnings(text: string): Int32Array {
  const lengths = new Int32Array(text.length);
  let length = 0;
  for (let at = 1; at < text.length; at += 1) {
    while (length > 0 && text[at] !== text[length]) length = lengths[length - 1] ?? 0;
    if (text[at] === text[length]) length += 1;
    lengths[at] = length;
  }
  return lengths;
}
