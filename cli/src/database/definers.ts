// @pure

/** Enough of a line to know what it begins, in bytes: names of users are short. */
const headBytesMax = 4096;
const newline = 0x0a;

const word = "(?:`(?:[^`]|``)*`|'(?:[^']|'')*'|[A-Za-z0-9_$]+)";
const account = `${word}(?:@${word})?`;
/** As programs of MariaDB and MySQL write them, each at the beginning of a line: of a view, of a trigger, an event or a routine. */
const lines: readonly RegExp[] = [
  new RegExp(`^(/\\*!50013 )DEFINER=${account} (?=SQL SECURITY )`),
  new RegExp(
    `^(/\\*!\\d{5,6} CREATE ?\\*/ )/\\*!\\d{5,6} DEFINER=${account} ?\\*/ (?=/\\*!\\d{5,6} (?:TRIGGER|EVENT|PROCEDURE|FUNCTION) )`,
  ),
  new RegExp(`^(CREATE )DEFINER=${account} (?=(?:AGGREGATE )?(?:PROCEDURE|FUNCTION|PACKAGE|TRIGGER|EVENT) )`),
];

/**
 * Leaves out of a dump of MariaDB, in any portions, whose rights views, triggers and routines run with. They are those of the account
 * that made them on another server, and nobody but that one may say so; without a word they are those of who restores. Rows
 * of tables are no such lines: a line feed within a value is written as an escape. All other bytes stay as they are.
 */
export function createDefinerFilter(): { push(chunk: Buffer): Buffer; end(): Buffer } {
  /** The beginning of a line; null: it was looked at. */
  let head: Buffer | null = Buffer.alloc(0);
  return {
    push(chunk) {
      const parts: Buffer[] = [];
      for (let at = 0; at < chunk.length; ) {
        const found = chunk.indexOf(newline, at);
        const isEnd = found !== -1;
        const part = chunk.subarray(at, isEnd ? found + 1 : chunk.length);
        at += part.length;
        if (head === null) parts.push(part);
        else {
          head = Buffer.concat([head, part]);
          if (!isEnd && head.length < headBytesMax) continue;
          parts.push(withoutDefiner(head));
        }
        head = isEnd ? Buffer.alloc(0) : null;
      }
      return Buffer.concat(parts);
    },
    end: () => withoutDefiner(head ?? Buffer.alloc(0)),
  };
}

function withoutDefiner(line: Buffer): Buffer {
  // Each byte a character, and back: names and texts are of any encoding.
  const text = line.toString("latin1");
  const found = lines.find((each) => each.test(text));
  return found === undefined ? line : Buffer.from(text.replace(found, "$1"), "latin1");
}
