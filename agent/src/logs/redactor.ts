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
 * Values and text are a stranger's, and everybody waits for them: no character is looked at more than a few times for each value.
 */
export function createRedactor(values: readonly string[]): Redactor {
  const secrets = [...new Set(values)].filter((value) => value.length >= redactedLengthMin).map(finderOf);
  if (secrets.length === 0) return { push: (text) => text, end: () => "" };
  let rest = "";
  /** How long the longest secret is that begins at each place of `rest`; 0: none does. */
  let lengths = new Int32Array();

  const begunFrom = (from: number): number => Math.min(...secrets.map((secret) => secret.begunFrom(from, rest.length)));

  /** Takes text off `rest`: all of it at the end, otherwise up to where a secret may have begun. */
  const take = (isEnd: boolean): string => {
    let out = "";
    let at = 0;
    let keep = isEnd ? rest.length : begunFrom(0);
    for (;;) {
      let next = at;
      while (next < keep && lengths[next] === 0) next += 1;
      out += rest.slice(at, next);
      at = next;
      // A match that may still grow into a longer secret waits, like everything behind it.
      if (next >= keep) break;
      out += redacted;
      at += lengths[next] ?? 0;
      if (at > keep) keep = begunFrom(at);
    }
    rest = rest.slice(at);
    lengths = lengths.subarray(at);
    return out;
  };

  return {
    push(text) {
      const grown = new Int32Array(rest.length + text.length);
      grown.set(lengths);
      lengths = grown;
      for (const secret of secrets) secret.look(text, rest.length, lengths);
      rest += text;
      return take(false);
    },
    end: () => take(true),
  };
}

/** The same for text that is whole. */
export function redact(text: string, values: readonly string[]): string {
  const redactor = createRedactor(values);
  return redactor.push(text) + redactor.end();
}

/** Knows how much of one secret the text ends with, by Knuth, Morris and Pratt. */
interface Finder {
  /** Notes where it is in the text that comes next, which is at `textAt`. What began before the first place is none any more. */
  look(text: string, textAt: number, lengths: Int32Array): void;
  /** Where it may have begun, at `from` or behind, whose end is not there yet; `endAt` when it has not. `from` never goes back. */
  begunFrom(from: number, endAt: number): number;
}

function finderOf(secret: string): Finder {
  const shorter = shorterBeginnings(secret);
  const head = secret.slice(0, redactedLengthMin);
  /** How many of its characters the text ends with, and how many of those it may have begun with. */
  let matched = 0;
  let begun = 0;
  return {
    look(text, textAt, lengths) {
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
        const place = textAt + at + 1 - matched;
        if (place >= 0) lengths[place] = Math.max(lengths[place] ?? 0, matched);
        matched = shorter[matched - 1] ?? 0;
      }
      begun = matched;
    },
    begunFrom(from, endAt) {
      while (begun > 0 && endAt - begun < from) begun = shorter[begun - 1] ?? 0;
      return endAt - begun;
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
