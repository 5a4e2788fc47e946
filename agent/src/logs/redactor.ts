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
 */
export function createRedactor(values: readonly string[]): Redactor {
  const secrets = [...new Set(values)].filter((value) => value.length >= redactedLengthMin);
  if (secrets.length === 0) return { push: (text) => text, end: () => "" };
  const pattern = new RegExp(
    [...secrets]
      .sort((a, b) => b.length - a.length)
      .map(escapePattern)
      .join("|"),
    "g",
  );
  const heads = groupByHead(secrets);
  const longest = Math.max(...secrets.map((secret) => secret.length));
  let rest = "";

  /** Takes text off `rest`: all of it at the end, otherwise up to where a secret may have begun. */
  const take = (isEnd: boolean): string => {
    let out = "";
    for (;;) {
      const keep = isEnd ? rest.length : unfinishedFrom(rest, heads, longest);
      pattern.lastIndex = 0;
      const match = pattern.exec(rest);
      // A match that may still grow into a longer secret waits, like everything behind it.
      if (match === null || match.index >= keep) {
        out += rest.slice(0, keep);
        rest = rest.slice(keep);
        return out;
      }
      out += rest.slice(0, match.index) + redacted;
      rest = rest.slice(match.index + match[0].length);
    }
  };

  return {
    push(text) {
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

/** Where the first secret begins whose end is not in `text` yet; its length when there is none. */
function unfinishedFrom(text: string, heads: ReadonlyMap<string, readonly string[]>, longest: number): number {
  for (let at = Math.max(0, text.length - longest + 1); at < text.length; at += 1) {
    if (heads.get(text[at] ?? "")?.some((secret) => isBegun(secret, text, at)) === true) return at;
  }
  return text.length;
}

/** Whether `text` ends in the middle of a `secret` that begins at `at`. */
function isBegun(secret: string, text: string, at: number): boolean {
  const length = text.length - at;
  if (secret.length <= length) return false;
  for (let index = 1; index < length; index += 1) if (secret[index] !== text[at + index]) return false;
  return true;
}

function groupByHead(secrets: readonly string[]): Map<string, string[]> {
  const heads = new Map<string, string[]>();
  for (const secret of secrets) {
    const head = secret[0] ?? "";
    heads.set(head, [...(heads.get(head) ?? []), secret]);
  }
  return heads;
}

const escapePattern = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
