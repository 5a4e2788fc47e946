/**
 * Puts variables into a word of a Dockerfile and takes its quotes off, as the engine does in front of the first
 * stage. Null when the word holds anything but `$NAME`, `${NAME}` and their defaults: `${NAME:-word}`,
 * `${NAME-word}`, `${NAME:+word}`, `${NAME+word}`.
 */
export function expandWord(word: string, values: ReadonlyMap<string, string>, escapeMark: string): string | null {
  let out = "";
  let quote = "";
  for (let at = 0; at < word.length; at += 1) {
    const character = word[at] ?? "";
    if (character === escapeMark && quote !== "'") {
      at += 1;
      out += word[at] ?? "";
    } else if ((character === '"' || character === "'") && quote === "") quote = character;
    else if (character === quote) quote = "";
    else if (character === "$" && quote !== "'") {
      const found = readVariable(word.slice(at), values, escapeMark);
      if (found === null) return null;
      out += found.text;
      at += found.length - 1;
    } else out += character;
  }
  return quote === "" ? out : null;
}

function readVariable(
  text: string,
  values: ReadonlyMap<string, string>,
  escapeMark: string,
): { text: string; length: number } | null {
  const plain = /^\$([A-Za-z_][A-Za-z0-9_]*)/.exec(text) ?? /^\$\{([A-Za-z_][A-Za-z0-9_]*)\}/.exec(text);
  if (plain !== null) return { text: values.get(plain[1] ?? "") ?? "", length: plain[0].length };
  // A default holds no variable of its own that would need its end to be looked for.
  const match = /^\$\{([A-Za-z_][A-Za-z0-9_]*)(:?)([-+])([^${}]*)\}/.exec(text);
  if (match === null) return null;
  const [whole, name = "", colon, kind, other = ""] = match;
  const value = values.get(name);
  const isSet = value !== undefined && (colon === "" || value !== "");
  if (kind === "+") return { text: isSet ? (expandWord(other, values, escapeMark) ?? "") : "", length: whole.length };
  const fallback = expandWord(other, values, escapeMark);
  return fallback === null ? null : { text: isSet ? value : fallback, length: whole.length };
}
