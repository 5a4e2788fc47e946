// @pure
import { CsvProblem, tooLong } from "./csv.ts";

const [newline, quote] = [0x0a, 0x22];
/** Alone on a line, with or without the carriage return, Postgres takes it for the end of all rows and drops what follows. */
const endOfRows = Buffer.from("\\.\r");

export interface RecordBounds {
  push(chunk: Buffer): void;
  /** Of a last record that has no end. */
  end(): void;
}

/**
 * Looks at the bytes of a CSV, in any portions, on their way to Postgres, which reads it by itself and keeps all of a record: throws
 * `CsvProblem` at one that is longer than `recordBytesMax`, and at one that is `\.` without quotes.
 */
export function createRecordBounds(recordBytesMax: number): RecordBounds {
  let line = 1;
  let recordLine = 1;
  let bytes = 0;
  let isLikeEnd = true;
  // One within quotes is doubled, and ends them and begins them again.
  let isInQuotes = false;
  const endRecord = (): void => {
    if (isLikeEnd && bytes >= endOfRows.length - 1) {
      throw new CsvProblem(
        recordLine,
        "It is a backslash and a dot, which would end the file here: put quotes around it.",
      );
    }
    bytes = 0;
    isLikeEnd = true;
    recordLine = line;
  };
  return {
    push(chunk) {
      for (const byte of chunk) {
        if (byte === quote) isInQuotes = !isInQuotes;
        if (byte === newline) line += 1;
        if (byte === newline && !isInQuotes) {
          endRecord();
          continue;
        }
        isLikeEnd &&= byte === endOfRows[bytes];
        bytes += 1;
        if (bytes > recordBytesMax) throw new CsvProblem(recordLine, tooLong);
      }
    },
    end: endRecord,
  };
}
