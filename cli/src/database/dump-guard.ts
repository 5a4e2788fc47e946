// @pure

/**
 * Reads a dump as psql does, line by line, and finds what is no SQL: psql obeys commands that begin with a backslash
 * wherever they stand outside of quotes, and one of them runs programs on this machine. A dump that has any is refused
 * before anything is run. pg_dump itself writes three kinds: `\.` ends the data of a COPY, and \restrict and \unrestrict
 * stand around the whole, which are left out here.
 *
 * In step with psql's own lexer (psqlscan.l), also where that is odd; where both could differ, the dump is refused. Lines are of
 * bytes, each as one character: but for a few encodings, which are refused, no byte of ASCII is a part of another character.
 */
export interface DumpGuard {
  /** What of this line goes to psql: all of it or nothing. `line` has no line feed. Throws `DumpRefusal`. */
  pass(line: string): boolean;
  /** To be called after the last line. Throws `DumpRefusal` where something was left open. */
  end(): void;
}

/** Why a dump is not run, as the end of a sentence. */
export class DumpRefusal extends Error {
  override readonly name = "DumpRefusal";
}

const restrict = /^\\(?:un)?restrict [A-Za-z0-9]+\r?$/;
const identifier = /[A-Za-z_\u0080-\u{10ffff}][A-Za-z_0-9$\u0080-\u{10ffff}]*/uy;
const dollarTag = /\$(?:[A-Za-z_\u0080-\u{10ffff}][A-Za-z_0-9\u0080-\u{10ffff}]*)?\$/uy;
/** What a dump says of its encoding, in a line of its own. */
const encodingLine = /^\s*set\s+(?:(?:session|local)\s+)?(?:client_encoding\s*(?:=|\sto\s)|names\s)\s*'?([\w-]*)/i;
/** Those that Postgres itself can be in, by their names without what stands between letters. */
const safeEncoding =
  /^(?:utf8|unicode|sqlascii|latin\d+|iso8859\d+|(?:win|windows)(?:866|874|125\d)|koi8[ru]?|euc(?:cn|jp|kr|tw|jis2004)|muleinternal)$/;
/** Enough words to know what a statement is. */
const firstWordsMax = 4;

type Mode =
  | { in: "sql" }
  | { in: "quote" | "escapes" | "name" }
  | { in: "dollar"; tag: string }
  | { in: "comment"; depth: number }
  | { in: "copy" };

export function createDumpGuard(): DumpGuard {
  let mode: Mode = { in: "sql" };
  let lineNumber = 0;
  let parentheses = 0;
  /** Of a body that begins with BEGIN ATOMIC, whose semicolons end no statement. */
  let blocks = 0;
  let firstWords: string[] = [];
  let previousWord = "";
  let readsStdin = false;
  /** A string with escapes has ended, and only blanks came since: another one would go on with it. */
  let mayContinueEscapes = false;

  const refuse = (why: string): never => {
    throw new DumpRefusal(`${why} (line ${lineNumber})`);
  };
  const endStatement = () => {
    firstWords = [];
    previousWord = "";
    readsStdin = false;
    blocks = 0;
  };
  const word = (text: string) => {
    const lower = text.toLowerCase();
    if (firstWords.length < firstWordsMax) firstWords.push(lower);
    if (makesRoutine(firstWords) && parentheses === 0) {
      if (lower === "begin") blocks += 1;
      else if (lower === "case" && blocks > 0) blocks += 1;
      else if (lower === "end" && blocks > 0) blocks -= 1;
    }
    if (firstWords[0] === "copy" && parentheses === 0 && previousWord === "from" && lower === "stdin")
      readsStdin = true;
    previousWord = lower;
  };

  /** Goes on in `line` at `at` by what is open; returns where that leads. */
  const inQuote = (line: string, at: number, escapes: boolean): number => {
    for (let index = at; index < line.length; index++) {
      if (escapes && line[index] === "\\") index++;
      else if (line[index] === "'") {
        if (line[index + 1] === "'") index++;
        else {
          mode = { in: "sql" };
          mayContinueEscapes = escapes;
          return index + 1;
        }
      }
    }
    return line.length;
  };
  const inComment = (line: string, at: number, depth: number): number => {
    let open = depth;
    for (let index = at; index < line.length - 1; index++) {
      const two = line.slice(index, index + 2);
      if (two === "/*") open++;
      else if (two === "*/") open--;
      else continue;
      index++;
      if (open === 0) {
        mode = { in: "sql" };
        return index + 1;
      }
    }
    mode = { in: "comment", depth: open };
    return line.length;
  };
  const until = (line: string, at: number, end: string): number => {
    const found = line.indexOf(end, at);
    if (found === -1) return line.length;
    mode = { in: "sql" };
    return found + end.length;
  };
  /** A semicolon that ends a statement. Data of a COPY begins with the next line, and psql would read the rest of this one after it. */
  const semicolon = (line: string, at: number): number => {
    if (parentheses > 0 || blocks > 0) return at + 1;
    if (readsStdin) {
      if (!/^[ \t\r\f\v]*$/.test(line.slice(at + 1))) refuse("has something behind a COPY in its line");
      mode = { in: "copy" };
    }
    endStatement();
    return mode.in === "copy" ? line.length : at + 1;
  };

  const inSql = (line: string, at: number): number => {
    const character = line[at] ?? "";
    const two = line.slice(at, at + 2);
    const continues = mayContinueEscapes;
    if (!/\s/.test(character) && two !== "--") mayContinueEscapes = false;
    if (character === "\\") return refuse(`has the command ${/^\\\S{0,20}/.exec(line.slice(at))?.[0] ?? ""}`);
    if (two === "--") {
      // psql ends such a comment also at a carriage return.
      const end = line.indexOf("\r", at);
      return end === -1 ? line.length : end;
    }
    if (two === "/*") {
      mode = { in: "comment", depth: 1 };
      return at + 2;
    }
    if (character === "'") {
      if (continues) refuse("has a string with escapes in several pieces");
      mode = { in: "quote" };
      return at + 1;
    }
    if (character === '"') {
      mode = { in: "name" };
      return at + 1;
    }
    if (character === "$") {
      dollarTag.lastIndex = at;
      const tag = dollarTag.exec(line)?.[0];
      if (tag === undefined) return at + 1;
      mode = { in: "dollar", tag };
      return at + tag.length;
    }
    identifier.lastIndex = at;
    const name = identifier.exec(line)?.[0];
    if (name !== undefined) {
      const next = at + name.length;
      if (line[next] === "'" && name.toLowerCase() === "e") {
        if (/[0-9]/.test(line[at - 1] ?? "")) refuse("has a string behind a number");
        mode = { in: "escapes" };
        return next + 1;
      }
      word(name);
      return next;
    }
    if (character === "(") parentheses++;
    if (character === ")" && parentheses > 0) parentheses--;
    if (character === ";") return semicolon(line, at);
    return at + 1;
  };

  const step = (line: string, at: number): number => {
    switch (mode.in) {
      case "sql":
        return inSql(line, at);
      case "quote":
        return inQuote(line, at, false);
      case "escapes":
        return inQuote(line, at, true);
      case "name":
        return until(line, at, '"');
      case "dollar":
        return until(line, at, mode.tag);
      case "comment":
        return inComment(line, at, mode.depth);
      case "copy":
        return line.length;
    }
  };

  return {
    pass(line) {
      lineNumber += 1;
      if (line.includes("\0")) refuse("has a byte of zero");
      if (mode.in === "copy") {
        if (line === "\\." || line === "\\.\r") mode = { in: "sql" };
        return true;
      }
      const [, encoding] = (mode.in === "sql" && encodingLine.exec(line)) || [];
      if (encoding !== undefined && !safeEncoding.test(encoding.toLowerCase().replaceAll(/[^a-z0-9]/g, "")))
        refuse(`is in ${encoding || "an encoding without a name"}, in which SQL cannot be told from text`);
      // Between statements only: psql takes it there for a command, and we leave it out.
      if (mode.in === "sql" && firstWords.length === 0 && parentheses === 0 && restrict.test(line)) return false;
      for (let at = 0; at < line.length; ) at = step(line, at);
      return true;
    },
    end() {
      if (mode.in !== "sql") throw new DumpRefusal("ends in the middle of something: it is not whole");
    },
  };
}

/** Whether a statement makes a function or procedure, whose body may be of statements. */
function makesRoutine(words: readonly string[]): boolean {
  if (words[0] !== "create") return false;
  const what = words[1] === "or" && words[2] === "replace" ? words[3] : words[1];
  return what === "function" || what === "procedure";
}
