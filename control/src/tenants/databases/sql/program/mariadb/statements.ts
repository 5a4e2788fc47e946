// @pure
/**
 * What a text is made of, as far as it takes to find what ends its statements: remarks, semicolons, quoted texts and names, and all
 * else. What is not closed goes to the end, so no character is looked at for each one before it.
 */
const pieces = new RegExp(
  [
    String.raw`(?<remark>\s+|--(?=\s|$)[^\n]*|#[^\n]*|/\*(?![!M])[\s\S]*?\*/)`,
    "(?<end>;)",
    String.raw`/\*(?![!M])[\s\S]*`,
    String.raw`'(?:[^'\\]|\\[\s\S])*'?|"(?:[^"\\]|\\[\s\S])*"?`,
    "`[^`]*`?",
    "[^\\s'\"`#/;-]+",
    String.raw`[\s\S]`,
  ].join("|"),
  "g",
);

/** Whether a text is one statement that runs a procedure. */
export function isOneCall(sql: string): boolean {
  const [first, ...rest] = [...sql.matchAll(pieces)].filter(({ groups }) => groups?.["remark"] === undefined);
  const isEnd = ({ groups }: RegExpExecArray) => groups?.["end"] !== undefined;
  const end = rest.findIndex(isEnd);
  return first?.[0].toLowerCase() === "call" && (end === -1 || rest.slice(end).every(isEnd));
}

/**
 * A text without the remarks after its last statement: the server takes them for one more, which gives nothing. What it reads
 * as SQL although it looks like a remark stays.
 */
export function withoutLastRemarks(sql: string): string {
  let end: number | null = null;
  for (const { index, groups } of sql.matchAll(pieces)) {
    if (groups?.["end"] !== undefined) end ??= index + 1;
    else if (groups?.["remark"] === undefined) end = null;
  }
  return end === null ? sql : sql.slice(0, end);
}
