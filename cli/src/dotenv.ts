/** Values that need no quotes in a dotenv file. */
const bare = /^[A-Za-z0-9_./:@%+,=^~-]*$/;

/**
 * `value` as a dotenv file writes it, so that the dotenv parser reads back the very same text; null for
 * the few texts that its format cannot hold (a carriage return beside a double quote, or all three kinds
 * of quotes at once).
 */
export function dotenvValue(value: string): string | null {
  if (bare.test(value)) return value;
  // Inside single quotes and backticks everything stands for itself, but the parser makes line feeds of
  // carriage returns first, and takes a backslash before the closing quote for an escape.
  const literal = (quote: string) => !value.includes(quote) && !value.endsWith("\\") && !value.includes("\r");
  if (literal("'")) return `'${value}'`;
  if (literal("`")) return `\`${value}\``;
  // Inside double quotes \n and \r are escapes, and nothing else is.
  if (value.includes('"') || value.endsWith("\\") || /\\[nr]/.test(value)) return null;
  return `"${value.replaceAll("\r", "\\r").replaceAll("\n", "\\n")}"`;
}

/** A dotenv file with `vars`, sorted by name, or the names of those whose values it cannot hold. */
export function dotenvText(vars: Readonly<Record<string, string>>): { text: string } | { unfit: string[] } {
  const lines = Object.keys(vars)
    .sort()
    .map((name) => ({ name, value: dotenvValue(vars[name] ?? "") }));
  const unfit = lines.filter(({ value }) => value === null).map(({ name }) => name);
  return unfit.length > 0 ? { unfit } : { text: lines.map(({ name, value }) => `${name}=${value}\n`).join("") };
}
