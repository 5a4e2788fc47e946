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

/** A variable of a dotenv file; `line` counts from 1. */
export interface DotenvVariable {
  name: string;
  value: string;
  line: number;
}

const assignment = /^\s*(?:export\s+)?([\w.-]+)(?:\s*=|:(?=\s))[^\S\n]*/;
const blankOrComment = /^\s*(?:#.*)?$/;

/**
 * The variables of a dotenv file in their order, read as the `dotenv` package reads them: `NAME=value` with an
 * optional `export`, values bare (up to a "#"), or in single or double quotes or backticks over any number of lines,
 * `\n` and `\r` as escapes within double quotes only, nothing substituted. What that package passes over in silence
 * is told here: the lines that are no assignment, and those where a quote is not closed or something follows it.
 * Takes time in proportion to the text, whatever is in it.
 */
export function parseDotenv(text: string): { variables: DotenvVariable[] } | { badLines: number[] } {
  const lines = text.replace(/^\ufeff/, "").split(/\r\n|\r|\n/);
  const variables: DotenvVariable[] = [];
  const badLines: number[] = [];
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? "";
    if (blankOrComment.test(line)) continue;
    const [head, name] = assignment.exec(line) ?? [];
    const found = head === undefined ? null : readValue(lines, at, head.length);
    if (name === undefined || found === null) {
      badLines.push(at + 1);
      continue;
    }
    variables.push({ name, value: found.value, line: at + 1 });
    at = found.last;
  }
  return badLines.length > 0 ? { badLines } : { variables };
}

/** The value that begins in `lines[first]` at `column`, and the line in which it ends; null when it does not. */
function readValue(lines: readonly string[], first: number, column: number): { value: string; last: number } | null {
  const start = lines[first] ?? "";
  const quote = start[column] ?? "";
  if (quote === "" || !"'\"`".includes(quote))
    return { value: (start.slice(column).split("#")[0] ?? "").trim(), last: first };
  const held: string[] = [];
  for (let at = first; at < lines.length; at++) {
    const line = lines[at] ?? "";
    const from = at === first ? column + 1 : 0;
    const end = closingQuote(line, quote, from);
    held.push(line.slice(from, end ?? undefined));
    if (end === null) continue;
    if (!blankOrComment.test(line.slice(end + 1))) return null;
    const raw = held.join("\n");
    return { value: quote === '"' ? raw.replaceAll("\\n", "\n").replaceAll("\\r", "\r") : raw, last: at };
  }
  return null;
}

/** Where the quote is closed; a backslash before one keeps it open. */
function closingQuote(line: string, quote: string, from: number): number | null {
  for (let at = line.indexOf(quote, from); at !== -1; at = line.indexOf(quote, at + 1))
    if (at === from || line[at - 1] !== "\\") return at;
  return null;
}

/**
 * A dotenv file in which `name` is `value` wherever it stands, or once more at the end where it stands nowhere. All else
 * stays as it is, to the byte: other lines, comments, how lines end, what is no assignment. Null for a value that the
 * format cannot hold.
 */
export function withDotenvVariable(text: string, name: string, value: string): string | null {
  const written = dotenvValue(value);
  if (written === null) return null;
  const mark = text.startsWith("\ufeff") ? "\ufeff" : "";
  // Lines and their ends in turns.
  const parts = text.slice(mark.length).split(/(\r\n|\r|\n)/);
  const lines = parts.filter((_, at) => at % 2 === 0);
  const ends = parts.filter((_, at) => at % 2 === 1);
  let made = mark;
  let isThere = false;
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? "";
    const [head, found] = blankOrComment.test(line) ? [] : (assignment.exec(line) ?? []);
    const read = head === undefined ? null : readValue(lines, at, head.length);
    const last = read?.last ?? at;
    if (found === name) {
      isThere = true;
      made += `${/^\s*(?:export\s+)?/.exec(line)?.[0] ?? ""}${name}=${written}`;
    } else
      made +=
        lines.slice(at, last).reduce((all, each, offset) => `${all}${each}${ends[at + offset]}`, "") +
        (lines[last] ?? "");
    made += ends[last] ?? "";
    at = last;
  }
  if (isThere) return made;
  const end = ends[0] ?? "\n";
  return `${made}${made === mark || /[\r\n]$/.test(made) ? "" : end}${name}=${written}${end}`;
}
