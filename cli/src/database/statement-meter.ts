// @pure

const [newline, carriageReturn, semicolon] = [0x0a, 0x0d, 0x3b];

/** How long the longest statement of a dump of MariaDB is, while it passes by in any portions. */
export interface StatementMeter {
  push(chunk: Buffer): void;
  longestBytes(): number;
}

/** By lines that end with a semicolon: in a dump a row is in one line, and a line feed within a value an escape. */
export function createStatementMeter(): StatementMeter {
  let longest = 0;
  /** Of the statement that is open. */
  let bytes = 0;
  /** The last two bytes, by which a line ends that began in what passed before. */
  let before = Buffer.alloc(0);
  return {
    push(chunk) {
      const byteAt = (index: number) => (index < 0 ? before.at(index) : chunk[index]);
      let from = 0;
      for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, at + 1)) {
        if (byteAt(byteAt(at - 1) === carriageReturn ? at - 2 : at - 1) !== semicolon) continue;
        longest = Math.max(longest, bytes + at + 1 - from);
        from = at + 1;
        bytes = 0;
      }
      bytes += chunk.length - from;
      before = Buffer.concat([before, chunk.subarray(-2)]).subarray(-2);
    },
    longestBytes: () => Math.max(longest, bytes),
  };
}
