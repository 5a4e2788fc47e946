/** One instruction of a Dockerfile on one line, its continuations joined. */
export interface Instruction {
  /** Line of the file that it begins on, counted from 1. */
  line: number;
  /** Upper case, such as `RUN`. */
  name: string;
  /** Options in front of the arguments, unquoted, without the two hyphens. */
  flags: readonly string[];
  /** Everything behind the options, as it was written. */
  rest: string;
  /** Lines of here-documents that belong to it, ends included. */
  documents: readonly string[];
}

export interface ParsedDockerfile {
  directives: ReadonlyMap<string, string>;
  /** What continues a line and takes the meaning off the next character. */
  escapeMark: string;
  instructions: readonly Instruction[];
}

/** Instructions that may be followed by here-documents. */
const withDocuments = new Set(["RUN", "COPY", "ADD"]);
/** Instructions whose options matter here. Those of others stay in `rest`. */
const withFlags = new Set(["RUN", "COPY", "ADD", "FROM"]);
/** White space that engines and this function do not agree on. */
const oddSpace = /^[^\S \t]|^\u0085/;

/**
 * Takes a Dockerfile apart as the engine does. Text that two engines, or an engine and this function, could
 * read differently is refused, so that nothing hides from whoever looks at the result.
 */
export function parseDockerfile(text: string): ParsedDockerfile | { refuse: string } {
  const source = text.replace(/^\ufeff/, "").split(/\r?\n/);
  const { directives, count } = readDirectives(source);
  const escapeMark = directives.get("escape") ?? "\\";
  if (escapeMark !== "\\" && escapeMark !== "`")
    return { refuse: `The escape directive of the Dockerfile must name \\ or \`.` };
  const instructions: Instruction[] = [];
  let at = count;
  while (at < source.length) {
    const line = at + 1;
    const joined = joinContinued(source, at, escapeMark);
    if ("refuse" in joined) return { refuse: `Line ${line} of the Dockerfile ${joined.refuse}` };
    at = joined.next;
    if (joined.text === "") continue;
    const [, word, args = ""] = /^([A-Za-z]+)(?:[ \t]+(.*))?$/s.exec(joined.text) ?? [];
    if (word === undefined) return { refuse: `Line ${line} of the Dockerfile begins with no instruction.` };
    const name = word.toUpperCase();
    const { flags, rest } = withFlags.has(name) ? splitFlags(args) : { flags: [], rest: args };
    if (oddSpace.test(rest) || (withFlags.has(name) && rest.startsWith("--"))) {
      return { refuse: `Line ${line} of the Dockerfile has unusual white space or a lone "--" before its arguments.` };
    }
    const names = withDocuments.has(name) ? documentNames(rest) : [];
    if ("refuse" in names) return { refuse: `Line ${line} of the Dockerfile ${names.refuse}` };
    const documents = readDocuments(source, at, names);
    if (documents === null) return { refuse: `Line ${line} of the Dockerfile begins a here-document that never ends.` };
    at += documents.length;
    instructions.push({ line, name, flags, rest, documents });
  }
  return { directives, escapeMark, instructions };
}

/** Parser directives: `# name=value` lines before anything else. */
function readDirectives(source: readonly string[]): { directives: Map<string, string>; count: number } {
  const directives = new Map<string, string>();
  let count = 0;
  for (const line of source) {
    const match = /^#\s*([a-zA-Z][a-zA-Z0-9]*)\s*=\s*(.+)$/.exec(line.trim());
    if (match === null) break;
    count += 1;
    directives.set((match[1] ?? "").toLowerCase(), match[2] ?? "");
  }
  return { directives, count };
}

/** By hand: an expression would look through the same blanks once for each of them. */
function withoutBlanksBehind(text: string): string {
  let end = text.length;
  while (text[end - 1] === " " || text[end - 1] === "\t") end -= 1;
  return text.slice(0, end);
}

const isComment = (line: string): boolean => /^\s*#/.test(line);

/** The line at `from` with what continues it; empty for blank lines and comments. */
function joinContinued(
  source: readonly string[],
  from: number,
  escapeMark: string,
): { text: string; next: number } | { refuse: string } {
  let text = "";
  let next = from;
  for (; next < source.length; next += 1) {
    const line = source[next] ?? "";
    const isFirst = next === from;
    // Between continued lines both are left out, without ending the instruction.
    if (isComment(line) || (line.trim() === "" && !isFirst)) {
      if (isFirst) return { text: "", next: next + 1 };
      continue;
    }
    const part = isFirst ? line.trimStart() : line;
    const body = withoutBlanksBehind(part);
    if (!body.endsWith(escapeMark)) return { text: (text + body).trimStart(), next: next + 1 };
    // Engines differ in whether two of them continue a line.
    if (body.endsWith(escapeMark + escapeMark))
      return { refuse: `ends with ${escapeMark}${escapeMark}, which engines read differently.` };
    text += body.slice(0, -1);
  }
  return { text: text.trim(), next };
}

/** Reads leading `--options` with the engine's own rules of quoting. */
export function splitFlags(args: string): { flags: string[]; rest: string } {
  const flags: string[] = [];
  let at = 0;
  for (;;) {
    while (args[at] === " " || args[at] === "\t") at += 1;
    if (!args.startsWith("--", at)) return { flags, rest: args.slice(at) };
    let word = "";
    let quote = "";
    for (; at < args.length && (quote !== "" || !/\s/.test(args[at] ?? "")); at += 1) {
      const character = args[at] ?? "";
      if (character === "\\") {
        at += 1;
        word += args[at] ?? "";
      } else if (quote === "" && (character === "'" || character === '"')) quote = character;
      else if (character === quote) quote = "";
      else word += character;
    }
    if (word === "--") return { flags, rest: args.slice(at).replace(/^[ \t]+/, "") };
    flags.push(word.slice(2));
  }
}

/** Names of the here-documents that an instruction begins. */
function documentNames(args: string): { name: string; tabs: boolean }[] | { refuse: string } {
  // The exec form has none, and engines take a list with something behind it for the exec form.
  if (parseJsonList(args) !== null) return [];
  if (/^\[\s*"/.test(args) && args.includes("<<")) return { refuse: "mixes the exec form with a here-document." };
  const names: { name: string; tabs: boolean }[] = [];
  for (const word of shellWords(args)) {
    if (!/^\d*<<(?!<)/.test(word)) continue;
    const match = /^\d*<<(-?)(["']?)([A-Za-z_][A-Za-z0-9_]*)\2$/.exec(word);
    if (match === null) return { refuse: "begins a here-document whose name is not a plain word." };
    names.push({ name: match[3] ?? "", tabs: match[1] === "-" });
  }
  return names;
}

function readDocuments(
  source: readonly string[],
  from: number,
  names: readonly { name: string; tabs: boolean }[],
): string[] | null {
  const lines: string[] = [];
  for (const { name, tabs } of names) {
    for (;;) {
      const line = source[from + lines.length];
      if (line === undefined) return null;
      lines.push(line);
      if ((tabs ? line.replace(/^\t+/, "") : line) === name) break;
    }
  }
  return lines;
}

/** Words as a shell would see them, quotes kept. */
export function shellWords(text: string): string[] {
  return text.match(/(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*'|["'\\])+/gs) ?? [];
}

/** The exec form of an instruction; null when it is not that. */
export function parseJsonList(text: string): string[] | null {
  if (!text.trimStart().startsWith("[")) return null;
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) && list.every((item) => typeof item === "string") ? list : null;
  } catch {
    return null;
  }
}
