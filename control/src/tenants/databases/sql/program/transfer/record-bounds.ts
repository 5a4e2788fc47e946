// @pure
import { CsvProblem, tooLong } from "./csv.ts";

const [newline, quote] = [0x0a, 0x22];

/**
 * Looks at the bytes of a CSV, in any portions, on their way to a server that reads it by itself and keeps all of a record: throws
 * `CsvProblem` at one that is longer than `recordBytesMax`.
 */
export function createRecordBounds(recordBytesMax: number): (chunk: Buffer) => void {
  let line = 1;
  let recordLine = 1;
  let bytes = 0;
  // One within quotes is doubled, and ends them and begins them again.
  let isInQuotes = false;
  return (chunk) => {
    for (const byte of chunk) {
      if (byte === quote) isInQuotes = !isInQuotes;
      if (byte === newline) line += 1;
      if (byte === newline && !isInQuotes) {
        bytes = 0;
        recordLine = line;
        continue;
      }
      bytes += 1;
      if (bytes > recordBytesMax) throw new CsvProblem(recordLine, tooLong);
    }
  };
}
