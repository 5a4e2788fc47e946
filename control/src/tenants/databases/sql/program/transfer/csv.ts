// @pure
/** A row of a CSV: where it begins, counted from 1, and its fields; null is what has nothing between its commas, not even quotes. */
export interface CsvRecord {
  line: number;
  fields: (string | null)[];
}

/** The text is no CSV. */
export class CsvProblem extends Error {
  override readonly name = "CsvProblem";
  readonly line: number;
  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}

export interface CsvReader {
  /** The records that are whole now. */
  push(text: string): CsvRecord[];
  /** What is left; also a last line without its end. */
  end(): CsvRecord[];
}

/**
 * Reads CSV in any portions, as Postgres does: fields between commas, lines that end in LF or CRLF, and quotes around what has either in
 * it, doubled where they are meant. A text that is cut within quotes is a problem, and so is a record longer than `recordLengthMax`.
 */
export function createCsvReader(recordLengthMax: number): CsvReader {
  let line = 1;
  let record: CsvRecord = { line, fields: [] };
  let field = "";
  let length = 0;
  let isBegun = false;
  let isQuoted = false;
  let isInQuotes = false;
  /** After a quote within quotes: it ends them, unless another one follows. */
  let isQuoteOpen = false;
  let isAfterReturn = false;

  const endField = (): void => {
    record.fields.push(field === "" && !isQuoted ? null : field);
    field = "";
    isQuoted = false;
  };
  const endRecord = (): CsvRecord => {
    endField();
    const ended = record;
    length = 0;
    isBegun = false;
    return ended;
  };
  function take(character: string): void {
    if (!isBegun) {
      isBegun = true;
      record = { line, fields: [] };
    }
    length += 1;
    if (length > recordLengthMax) throw new CsvProblem(record.line, "It is longer than a row may be.");
    if (isAfterReturn) throw new CsvProblem(line, "A carriage return stands outside of quotes.");
    if (isInQuotes) {
      if (character === '"') {
        isInQuotes = false;
        isQuoteOpen = true;
      } else field += character;
      if (character === "\n") line += 1;
      return;
    }
    if (character === '"') {
      if (isQuoteOpen) field += '"';
      isQuoted = true;
      isInQuotes = true;
    } else if (character === ",") endField();
    else if (character === "\r") isAfterReturn = true;
    else field += character;
    isQuoteOpen = false;
  }

  return {
    push(text) {
      const records: CsvRecord[] = [];
      for (const character of text) {
        if (character !== "\n" || isInQuotes) {
          take(character);
          continue;
        }
        if (!isBegun) record = { line, fields: [] };
        isAfterReturn = false;
        isQuoteOpen = false;
        records.push(endRecord());
        line += 1;
      }
      return records;
    },
    end() {
      if (isInQuotes) throw new CsvProblem(record.line, "The file ends within quotes.");
      return isBegun ? [endRecord()] : [];
    },
  };
}
