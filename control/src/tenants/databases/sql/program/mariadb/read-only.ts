// @pure
/** Blanks and comments, but for those that the server reads as SQL. */
const skipped = /^(?:\s|--[\s][^\n]*(?:\n|$)|#[^\n]*(?:\n|$)|\/\*(?![!M])[\s\S]*?\*\/|\()+/;
const readingWords = new Set(["select", "with", "values", "table", "show", "describe", "desc", "explain"]);

/**
 * Why a text is no query that may only read; null when it is one. It runs in a transaction that may not write and is the only
 * statement, so all to keep out is what ends that transaction: by its name (COMMIT, anything that changes a definition), or in a block
 * or a procedure. No function may.
 */
export function readOnlyProblem(sql: string): string | null {
  const [word = ""] = /^[a-z]*/i.exec(sql.replace(skipped, "")) ?? [];
  if (readingWords.has(word.toLowerCase())) return null;
  return "A read-only query begins with SELECT, WITH, VALUES, TABLE, SHOW, DESCRIBE or EXPLAIN.";
}
